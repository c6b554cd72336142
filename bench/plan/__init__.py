"""Plans a run: lists approaches, recipes and trained runs, groups these into seed batches, estimates times.

In: manifests and a user's selection of approaches and seeds. Out: trained runs, seed batches, estimates. It trains
nothing and measures nothing.
"""
