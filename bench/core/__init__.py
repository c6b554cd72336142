"""Files, clocks and random numbers: every other room builds on this one.

In: bytes, paths, seeds, environment variables. Out: records and tensors in files that are whole even after a kill,
named random streams, clocks, errors. It names the metrics with their units and bounds, because reading checks them,
but computes none. It knows no data set and no command.
"""
