"""The commands. A command reads its options, calls the packages below and prints what they return.

In: the words of a command line. Out: text or JSON, and an exit code. It has no rule, no statistic and no file format.
"""

FAILED = 1  # a check failed
USAGE = 2  # the command line cannot be used
INCOMPLETE = 3  # something planned is missing, failed or skipped
INTERRUPTED = 130
