"""Bayes by Backprop in MXNet: independent Gaussian weights, learnt from one sample of them a step.

Implements rabanser2017, "Bayes by Backprop from scratch (NN, classification)", zackchase/mxnet-the-straight-dope,
commit 249cb44.

Objective (sum over a batch of B rows, nats; M = number of batches, ceil(N / 128))
    w = mu + sigma eps,  sigma = log(1 + e^rho),  eps ~ N(0, 1)
    loss = (log q(w) - log p(w)) / M - sum_b log softmax(f(x_b; w))[y_b]
Target
    the mean-field posterior at temperature 1 under the prior N(0, 1) (or a scale mixture of two Gaussians) on all
    weights and biases. As published it is not reached: plain SGD hardly moves rho, so that sigma stays where it starts,
    and the forward pass skips the middle one of three layers. That layer is sampled and counts in the KL term.
Departures from the document are the corrections listed in mxnet_bbb.toml. MXNet runs every operation of a step and
derives the network's gradient; what remains (w's own dependence on mu and rho, and the densities) is written out. The
noise comes from the suite's named streams, so that MXNet's global generator is never used. The density of the scale
mixture is summed as logarithms (softplus of their difference), where the document adds densities that can underflow.

Cost: 2 passes of the network and some 15 operations on 8 vectors of P = 478,410 numbers a step, in order, without
waiting for any result.  Fails when: rho is below -8: oneDNN's softplus is good to 1.1e-6, sigma is then less than 4e-4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from bench.core.errors import Unsupported, check_known
from bench.core.streams import normals
from bench.interface import Approach, Context, Noise, Posterior, Split, Task
from implementations._kernels.gaussian_posterior import Family, GaussianPosterior, log_probabilities
from implementations._kernels.layout import Layout
from implementations._mxnet import Prior, TrainingStep, mx, to_ndarray

PRIORS = ("gaussian", "scale_mixture")


@dataclass(frozen=True)
class MxnetBbb(Approach):
    """Gaussian weights on 784-400-(400)-10, plain SGD."""

    noise: ClassVar[Noise] = "weights"

    epochs: int = 10  # training epochs
    batch_size: int = 128  # images; the last batch of an epoch is what remains
    learning_rate: float = 0.001  # of plain SGD on mu
    rho_rate_factor: float = 1.0  # learning rate of rho over that of mu
    hidden_units: int = 400  # of each of two hidden layers
    use_second_hidden: bool = False  # the forward pass uses the layer between the two hidden layers
    pixel_scale: float = 255 / 126  # of pixels in [0, 1]: the document divides bytes by 126
    mu_start_std: float = 0.1  # means start as N(0, 0.1^2), biases too
    rho_start: float = -3.0  # sigma starts at log(1 + e^rho) = 0.0486
    prior: Literal["gaussian", "scale_mixture"] = "gaussian"
    prior_std: float = 1.0  # of the Gaussian prior
    mixture_share: float = 0.25  # of the mixture's wide component (the document's pi)
    mixture_wide_std: float = 0.75  # sigma_p1
    mixture_narrow_std: float = 0.1  # sigma_p2
    smoothing: float = 0.01  # weight of a new batch in the printed moving average of the loss

    def __post_init__(self) -> None:
        check_known("prior", PRIORS, self.prior)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace is the moving average of the batch losses, "mnist/<split>/train_loss_ema", over all epochs.

        Raises:
            Unsupported: a device other than the CPU.
        """
        if ctx.device.type != "cpu":
            raise Unsupported(f"mxnet_bbb trains on the CPU only and was given {ctx.device}: use --device cpu")
        family, prior = self._family(task, ctx.seed), self._prior()
        done, state = ctx.restore() or (0, self._start(family.layout, ctx))
        n_batches = math.ceil(task.n_train / self.batch_size)
        step = TrainingStep(
            family.layout,
            family.used,
            prior,
            n_batches,
            self.learning_rate,
            state["mu"],
            state["rho"],
            self.rho_rate_factor,
        )
        average = state["average"].item() if "average" in state else None
        pixels, labels = to_ndarray(train.x.contiguous()), to_ndarray(train.y.contiguous())

        def current_state() -> dict[str, Tensor]:
            return {**step.parameters(), "average": torch.tensor([average], dtype=torch.float64)}

        def posterior() -> Posterior:
            parameters = step.parameters()
            return GaussianPosterior(family, parameters["mu"], functional.softplus(parameters["rho"]))

        for epoch in range(done + 1, self.epochs + 1):
            source = ctx.generator("noise", epoch)
            order = torch.randperm(len(train), generator=ctx.generator("shuffle", epoch))
            for batch in torch.split(order, self.batch_size)[: ctx.steps_per_epoch]:
                rows = to_ndarray(batch)
                # MXNet still works on the previous step while PyTorch draws the noise of this one
                noise = normals(family.layout.n_weights, source, ctx.dtype)
                step(mx.nd.take(pixels, rows) * self.pixel_scale, mx.nd.take(labels, rows), noise)
            average = moving_average(average, step.losses(), self.smoothing)
            trace = {f"mnist/{train.name}/train_loss_ema": average}
            ctx.epoch_end(epoch, trace, posterior, current_state)
        return posterior()

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored means and standard deviations."""
        return GaussianPosterior(self._family(task, seed), arrays["mu"], arrays.get("sigma"))

    def _family(self, task: Task, seed: int) -> Family:
        return Family(
            Layout((task.n_inputs, self.hidden_units, self.hidden_units, task.n_outputs)),
            torch.relu_,
            self._prior().log_density,
            log_probabilities,
            seed,
            self.pixel_scale,
            (True, self.use_second_hidden, True),
        )

    def _prior(self) -> Prior:
        if self.prior == "gaussian":
            return Prior(self.prior_std)
        return Prior(self.mixture_wide_std, self.mixture_narrow_std, self.mixture_share)

    def _start(self, layout: Layout, ctx: Context) -> dict[str, Tensor]:
        mu = self.mu_start_std * normals(layout.n_weights, ctx.generator("init"), ctx.dtype)
        return {"mu": mu, "rho": torch.full_like(mu, self.rho_start)}


def moving_average(average: float | None, losses: Sequence[float], smoothing: float) -> float:
    """Return the moving average after more losses (at least one); None starts it at the first loss."""
    value = losses[0] if average is None else average
    for loss in losses[1:] if average is None else losses:
        value = (1 - smoothing) * value + smoothing * loss
    return value
