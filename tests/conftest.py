"""Shared settings: hypothesis without deadlines and reproducible; one thread, because all matrices are small.

What commands print is as wide as in a pipe, whatever the terminal is that runs the tests. Files are not synced: no test
reads them after a power cut, and the tests of syncing put a function of their own in the place of `os.fsync`.
"""

import os

import torch
from hypothesis import settings

settings.register_profile("bench", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("bench")
torch.set_num_threads(1)
os.environ.pop("COLUMNS", None)
os.fsync = lambda handle: None
