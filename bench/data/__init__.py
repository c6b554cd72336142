"""Data sets: every byte is checked by SHA-256 before use, and only an explicit `fetch` uses the network.

Sources, in this order: the folder that a user gives (`data_dir`), the repository's `datasets` (or $BNN_BENCH_DATA),
and, through `fetch`, torchvision's mirrors, a public address or a local copy. `splits` gives the rows, `inventory` says
what is there, `fetching` gets what is not.
"""
