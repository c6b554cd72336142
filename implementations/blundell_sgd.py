"""Plain SGD, the first row of the paper's Table 1: 784-n-n-10 with ReLU and no noise in its weights.

Implements Blundell, Cornebise, Kavukcuoglu and Wierstra 2015, "Weight Uncertainty in Neural Networks", arXiv
1505.05424, as far as its set-up is known; blundell_sgd.toml names every choice that the paper leaves open.

Objective (nats, one batch): the sum over its rows of -log p(y | x, w). A step subtracts the learning rate times the
gradient of this sum: 1e-3 on a sum over 128 rows is .128 on their mean.
Target
    weights of largest likelihood.

Cost: 0.29 GFLOP of matrix products a step at n = 400, and one pass over the weights.  Memory: 2 P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bench.interface import Context, Noise, Split, Task
from implementations import _blundell


@dataclass(frozen=True)
class BlundellSgd(_blundell.PaperNetwork):
    """Training of the plain network."""

    noise: ClassVar[Noise] = "none"

    def seeds(self, train: Split, task: Task, ctx: Context) -> _blundell.PlainSeed:
        """See `_blundell.PaperNetwork.seeds`."""
        return _blundell.PlainSeed(self, train, task, ctx)
