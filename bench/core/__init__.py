"""Files and randomness: every other room builds on this one.

In: bytes, paths, seeds, environment variables. Out: records and tensors in files that a kill cannot leave half
written, named random streams, clocks, errors. It also has the compiled loops that several approaches share (Adam,
priors). It knows the names, units and bounds of metrics, because a record is checked when it is read. It computes no
metric, and knows no data set and no command.
"""
