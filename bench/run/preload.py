"""The imports that all child processes need. Only the fork server imports this module, before its first child process.

The imports take seconds. Python's own fork server would notice the end of its run only after them.
"""

import os

from bench.run.orphans import import_for

# The server imports torch, so that its children start fast. It never computes with torch, so that they start clean.
# torch.optim imports torch._dynamo at its first use, which takes as long as the rest of torch.
import_for(os.getppid(), ("bench.run.process", "bench.core.noise_loops", "torch._dynamo"))
