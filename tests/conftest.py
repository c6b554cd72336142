"""Shared settings: hypothesis without deadlines and reproducible; one thread, because all matrices are small."""

import torch
from hypothesis import settings

settings.register_profile("bench", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("bench")
torch.set_num_threads(1)
