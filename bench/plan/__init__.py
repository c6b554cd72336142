"""Plans a run: approaches, recipes, cells and their keys, which cells share a computation, and how long they take.

In: manifests and a user's selection. Out: cells, batches of cells, estimates. It trains nothing and measures nothing.
"""
