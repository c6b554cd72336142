"""The fork server imports this module before its first child process, for what all of them need; nothing else does.

The imports take seconds. Python's fork server notices only after them that its run is gone.
"""

import os

from bench.run.orphans import import_for

# The server imports torch but never computes with it, so that its children start fast and clean. torch.optim imports
# torch._dynamo at its first use, which takes as long as the rest of torch.
import_for(os.getppid(), ("bench.run.process", "bench.core.compiled", "torch._dynamo"))
