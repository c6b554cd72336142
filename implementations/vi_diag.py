"""Mean-field variational inference by posteriors: a Gaussian for every weight, one draw of the weights a batch.

`posteriors.vi.diag` with Adam of torchopt and the library's estimator of Roeder et al. 2017 (arXiv 1703.09194), whose
gradient is that of log p - log q along the draw. The library is given the log posterior divided by N and the
temperature 1/N, as its documentation says.

Learning rate (0.001 or 0.003) and prior (0.1, 0.3 or 1) are those with the least NLL of held-out training images.

Objective (mean per training row, nats): -log p(y | x, w) + (log q(w) - log p(w)) / N.  Target: the mean-field posterior
under N(0, prior_std^2).  Cost: a draw of P normals and its gradient a step.  Fails when: sigma has no time to grow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import optree
from torch import Tensor

from bench.interface import Context, Posterior, Split, Task
from implementations import _dense, _methods
from implementations._posteriors import library, log_posterior, torchopt


@dataclass(frozen=True)
class ViDiag(_methods.GaussianMethod):
    """Training by the library's transform."""

    learning_rate: float = 3e-3  # of Adam, in the first epoch
    sigma_start: float = 0.02  # of every weight

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace holds the mean of the batches' objectives."""
        _dense.check_task("vi_diag", task, "classification")
        return _methods.learn(Transformed(self, task, ctx), self, train, ctx)


class Transformed(_methods.Learner):
    """Means and log sigmas in training."""

    def __init__(self, recipe: ViDiag, task: Task, ctx: Context) -> None:
        """Draw the first means."""
        self._recipe, self._task, self._seed = recipe, task, ctx.seed
        self._log_posterior = log_posterior(_methods.layout_of(task), recipe.prior_std, task.n_train)
        log_sigma = math.log(recipe.sigma_start)
        self._state = self._transform(1).init(_methods.initial(task, ctx), init_log_sds=log_sigma)

    def _transform(self, epoch: int) -> library.types.Transform:
        """Return the library's transform with the learning rate of an epoch; its state is the same in all epochs."""
        adam = torchopt.adam(lr=self._recipe.rate(epoch))
        return library.vi.diag.build(self._log_posterior, adam, temperature=1 / self._task.n_train)

    def begin(self, epoch: int, n_steps: int) -> None:
        """See `_methods.Learner`."""
        del n_steps
        self._update = self._transform(epoch).update

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """See `_methods.Learner`."""
        self._state, _ = self._update(self._state, (x, y), inplace=False)
        nelbo: Tensor = self._state.nelbo
        return nelbo

    def posterior(self) -> Posterior:
        """See `_methods.Learner`."""
        mu, log_sigma = (_methods.flat_of([part]) for part in (self._state.params, self._state.log_sd_diag))
        return _methods.gaussian(self._task, self._recipe.prior_std, self._seed, mu, log_sigma.exp())

    def tensors(self) -> Mapping[str, Tensor]:
        """See `_methods.Learner`."""
        moments = optree.tree_leaves(self._state.opt_state)
        named = {f"adam/{index}": value for index, value in enumerate(moments)}
        return {"params": self._state.params, "log_sd_diag": self._state.log_sd_diag, **named}
