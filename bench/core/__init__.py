"""Files, clocks and random numbers: every other package builds on this one.

In: bytes, paths, seeds, environment variables. Out: records and tensors in files that are whole even after a kill,
named random streams, clocks, errors. `metric_table` has what a metric declares at its function, because reading checks
numbers against these bounds; no metric is computed here. It knows no data set and no command.
"""
