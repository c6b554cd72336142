"""What would run: approaches, recipes and cells with their keys, which of them share a computation, and what they cost.

In: manifests and a user's selection. Out: cells, batches of cells, estimates. It trains nothing and measures nothing.
"""
