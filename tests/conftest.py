"""Shared settings: hypothesis without deadlines (the machine may be busy) and reproducible; two threads at most."""

import torch
from hypothesis import settings

settings.register_profile("bench", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("bench")
torch.set_num_threads(min(2, torch.get_num_threads()))
