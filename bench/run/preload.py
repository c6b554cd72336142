"""Imports that all child processes need. Only the fork server imports this module, before its first child process.

The imports take seconds. Python's fork server itself would notice only after them that its run is gone.
"""

import os

from bench.run.orphans import import_for

# The server imports torch but never computes with it, so that its children start fast and clean. torch.optim imports
# torch._dynamo at its first use, which takes as long as the rest of torch.
import_for(os.getppid(), ("bench.run.process", "bench.core.compiled", "torch._dynamo"))
