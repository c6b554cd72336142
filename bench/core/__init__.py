"""Files and randomness: every other room builds on this one.

In: bytes, paths, seeds, environment variables. Out: records and tensors in files that a kill cannot leave half
written, named random streams, clocks, errors. It knows the names, units and bounds of metrics, because reading checks
them, but computes none. The compiled passes that several approaches share (Adam, priors) lie here. It knows no data set
and no command.
"""
