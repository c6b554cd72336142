"""Data sets: every byte is checked by SHA-256 before use, and only an explicit `fetch` uses the network.

Sources, in this order: the folder that a user gives (`data_dir`), the repository's `datasets` (or $BNN_BENCH_DATA),
and, through `fetch`, torchvision's mirrors, a public address or a local copy.
"""

from bench.data.fetching import fetch
from bench.data.inventory import Check, DatasetRow, list_datasets, verify
from bench.data.manifest import DATASET_NAMES, OOD_NAMES, data_hashes
from bench.data.splits import SPLIT_NAMES, load_ood, load_shared, load_split, toy_split

__all__ = [
    "DATASET_NAMES",
    "OOD_NAMES",
    "SPLIT_NAMES",
    "Check",
    "DatasetRow",
    "data_hashes",
    "fetch",
    "list_datasets",
    "load_ood",
    "load_shared",
    "load_split",
    "toy_split",
    "verify",
]
