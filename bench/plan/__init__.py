"""Plans a run: lists approaches, recipes and cells with their keys, groups cells into computations, estimates times.

In: manifests and a user's selection of approaches and seeds. Out: cells, batches of cells, estimates. It trains nothing
and measures nothing.
"""
