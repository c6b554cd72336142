"""Files and randomness: what every other room stands on.

In: bytes, paths, seeds, environment variables. Out: records and tensors that survive a kill, named random streams,
clocks, errors. It knows no approach, no data set, no metric and no command.
"""
