"""Plans a run: lists approaches, recipes and runs with their keys, groups runs into seed batches, estimates times.

In: manifests and a user's selection of approaches and seeds. Out: trained runs, batches of trained runs, estimates. It
    trains nothing
"""
