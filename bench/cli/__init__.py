"""The door: one file a command, which reads options, calls one room below and prints.

In: the words of a command line. Out: text or JSON, and an exit code. No rule, statistic or file format lives here.
"""

FAILED = 1  # a check failed
USAGE = 2  # the command line cannot be used
INCOMPLETE = 3  # something planned is missing, failed or skipped
INTERRUPTED = 130
