"""Files and randomness: every other room builds on this one.

In: bytes, paths, seeds, environment variables. Out: records and tensors in files that a kill cannot leave half
written, named random streams, clocks, errors. It knows no approach, no data set, no metric and no command.
"""
