"""Bayes by Backprop in MXNet: independent Gaussian weights, learnt from one sample of them a step.

Implements rabanser2017, "Bayes by Backprop from scratch (NN, classification)", zackchase/mxnet-the-straight-dope,
commit 249cb44.

Objective (sum over a batch of B rows, nats; M = number of batches, ceil(N / 128))
    w = mu + sigma eps,  sigma = log(1 + e^rho),  eps ~ N(0, 1)
    loss = (log q(w) - log p(w)) / M - sum_b log softmax(f(x_b; w))[y_b]
Target
    the mean-field posterior at temperature 1 under the prior N(0, 1) (or a scale mixture of two Gaussians) on all
    weights and biases. As published it is not reached: plain SGD hardly moves rho, so that sigma stays where it starts,
    and the forward pass leaves out the middle one of three layers, which is sampled and has its share of the KL term.
Departures from the document are the corrections listed in mxnet_bbb.toml. MXNet runs every operation of a step and
derives the network's gradient; what remains (w's own dependence on mu and rho, and the densities) is written out. The
noise comes from the suite's named streams, so that MXNet's global generator is never used. The density of the scale
mixture is summed as logarithms (softplus of their difference), where the document adds densities that can underflow.

Cost: 2 passes of the network and some 15 operations on 8 vectors of P = 478,410 numbers a step, in order, without
waiting for any result.  Fails when: rho is below -8: oneDNN's softplus is good to 1e-6, sigma is then less than 4e-4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from bench.errors import ContractViolation, Unsupported, unknown_name
from bench.interface import Approach, Categorical, Context, Marginal, Noise, Posterior, Split, Task
from bench.streams import generator
from implementations._kernels.layout import Layout, normal_
from implementations._mxnet import Prior, TrainingStep, mx, to_ndarray

PRIORS = ("gaussian", "scale_mixture")


@dataclass(frozen=True)
class MxnetBbb(Approach):
    """Gaussian weights on 784-400-(400)-10, plain SGD."""

    noise: ClassVar[Noise] = "weights"

    epochs: int = 10  # training epochs
    batch_size: int = 128  # images; the last batch of an epoch is what remains
    learning_rate: float = 0.001  # of plain SGD on mu and rho
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
        if self.prior not in PRIORS:
            raise unknown_name("prior", self.prior, PRIORS)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace is the moving average of the batch losses, "mnist/<split>/train_loss_ema", over all epochs.

        Raises:
            Unsupported: a device other than the CPU.
        """
        if ctx.device.type != "cpu":
            raise Unsupported(f"mxnet_bbb trains on the CPU only and was given {ctx.device}: use --device cpu")
        network, density = self._network(task), self._prior()
        done, state = ctx.restore() or (0, self._start(network, ctx))
        n_batches = math.ceil(task.n_train / self.batch_size)
        step = TrainingStep(
            network.layout, network.used, density, n_batches, self.learning_rate, state["mu"], state["rho"]
        )
        average = state["average"].item() if "average" in state else None
        pixels, labels = to_ndarray(train.x.contiguous()), to_ndarray(train.y.contiguous())
        noise = torch.empty(network.layout.n_weights)

        def current_state() -> dict[str, Tensor]:
            return {**step.parameters(), "average": torch.tensor([average], dtype=torch.float64)}

        def posterior() -> Posterior:
            parameters = step.parameters()
            sigma = functional.softplus(parameters["rho"])
            return GaussianWeights(network, density, ctx.seed, parameters["mu"], sigma)

        for epoch in range(done + 1, self.epochs + 1):
            source = ctx.generator("noise", epoch)
            order = torch.randperm(len(train), generator=ctx.generator("shuffle", epoch))
            for batch in torch.split(order, self.batch_size)[: ctx.steps_per_epoch]:
                rows = to_ndarray(batch)
                # MXNet is still at work on the step before while PyTorch draws this one's noise
                noise.normal_(generator=source)
                step(mx.nd.take(pixels, rows) * self.pixel_scale, mx.nd.take(labels, rows), noise)
            average = moving_average(average, step.losses(), self.smoothing)
            trace = {f"mnist/{train.name}/train_loss_ema": average}
            ctx.epoch_end(epoch, trace, posterior, current_state)
        return posterior()

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of stored means and standard deviations."""
        return GaussianWeights(self._network(task), self._prior(), seed, arrays["mu"], arrays.get("sigma"))

    def _network(self, task: Task) -> Network:
        layout = Layout((task.n_inputs, self.hidden_units, self.hidden_units, task.n_outputs))
        return Network(layout, (True, self.use_second_hidden, True), self.pixel_scale)

    def _prior(self) -> Prior:
        if self.prior == "gaussian":
            return Prior(self.prior_std)
        return Prior(self.mixture_wide_std, self.mixture_narrow_std, self.mixture_share)

    def _start(self, network: Network, ctx: Context) -> dict[str, Tensor]:
        mu = torch.empty(network.layout.n_weights).normal_(0.0, self.mu_start_std, generator=ctx.generator("init"))
        return {"mu": mu, "rho": torch.full_like(mu, self.rho_start)}


def moving_average(average: float | None, losses: Sequence[float], smoothing: float) -> float:
    """Return the average after more losses (at least one); without an average it starts at the first of them."""
    value = losses[0] if average is None else average
    for loss in losses[1:] if average is None else losses:
        value = (1 - smoothing) * value + smoothing * loss
    return value


@dataclass(frozen=True)
class Network:
    """Where the weights lie and which layers the forward pass uses; ReLU after each but the last."""

    layout: Layout
    used: tuple[bool, ...]  # of each layer
    pixel_scale: float  # factor of the pixels

    def select(self, layers: Iterable[Any]) -> list[Any]:
        """Return those of the given layers that are used."""
        return list(compress(layers, self.used))

    def forward(self, images: Tensor, weights: Tensor, activations: Sequence[Tensor]) -> None:
        """Run scaled images [B, in] through the used layers; fills their buffers [B, width], the last with logits."""
        layers = self.select(self.layout.layers(weights))
        for depth, ((matrix, bias), out) in enumerate(zip(layers, activations, strict=True)):
            torch.addmm(bias, images, matrix.t(), out=out)
            if depth < len(activations) - 1:
                out.relu_()
            images = out

    def noise(self, seed: int, draw: int, out: Tensor, only_used: bool) -> Tensor:
        """Fill `out` [P] with draw `draw`'s standard normals; `only_used` leaves out what no prediction needs."""
        source = generator(seed, "draw", draw)
        layers = self.layout.layers(out)
        # the used layers come first, so that the others' noise need not be drawn to know theirs
        rest = [] if only_used else compress(layers, [not used for used in self.used])
        for matrix, bias in [*self.select(layers), *rest]:
            normal_(matrix, source)
            normal_(bias, source)
        return out


class GaussianWeights(Posterior):
    """Means and standard deviations of all weights; without the latter one deterministic network."""

    def __init__(self, network: Network, prior: Prior, seed: int, mu: Tensor, sigma: Tensor | None) -> None:
        """Keep mu and sigma, float32 [P] each, on the CPU; they must not change any more."""
        self._network, self._prior, self._seed = network, prior, seed
        self._mu, self._sigma = mu, sigma
        self.n_draws: int | None = 1 if sigma is None else None
        self.noise: Noise = "none" if sigma is None else "weights"

    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """Predict pixels x [B, in] with each drawn network, in PyTorch, on the device of x."""
        del rows  # a draw is the same network for every row
        network, images = self._network, x * self._network.pixel_scale
        mu = self._mu.to(x.device)
        outputs = x.new_empty(len(draws), len(x), network.layout.sizes[-1])
        hidden = network.select(network.layout.activations(len(x), mu))[:-1]
        if self._sigma is None:
            network.forward(images, mu, [*hidden, outputs[0]])
            outputs = outputs[:1].expand_as(outputs)
        else:
            sigma = self._sigma.to(x.device)
            weights = torch.zeros_like(mu)
            for draw, out in zip(draws, outputs, strict=True):
                network.noise(self._seed, draw, weights, only_used=True)
                torch.addcmul(mu, sigma, weights, out=weights)
                network.forward(images, weights, [*hidden, out])
        return Categorical(torch.log_softmax(outputs, dim=2))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return mu and, unless deterministic, sigma, [P] each."""
        arrays = {"mu": self._mu} if self._sigma is None else {"mu": self._mu, "sigma": self._sigma}
        return {name: value.clone() for name, value in arrays.items()}

    def weights(self) -> Mapping[str, Marginal]:
        """Return the marginals of every matrix and bias; those of the layer left out are marked as not used."""
        named = self._network.layout.named
        used = torch.zeros_like(self._mu, dtype=torch.bool)
        for matrix, bias in self._network.select(self._network.layout.layers(used)):
            matrix.fill_(True)
            bias.fill_(True)
        stds = {} if self._sigma is None else named(self._sigma)
        uses = named(used)
        return {name: Marginal(mean, stds.get(name), uses[name]) for name, mean in named(self._mu).items()}

    def masked(self, keep: Mapping[str, Tensor]) -> GaussianWeights:
        """Return the posterior with mu = sigma = 0 where keep is False; tensors not named are kept whole.

        Raises:
            ConfigError: a name that is not a parameter tensor.
            ContractViolation: a mask of another shape than its tensor.
        """
        kept = torch.ones_like(self._mu, dtype=torch.bool)
        views = self._network.layout.named(kept)
        for name, mask in keep.items():
            if name not in views:
                raise unknown_name("parameter tensor", name, views)
            if mask.shape != views[name].shape:
                raise ContractViolation(
                    f"mask of '{name}' has shape {list(mask.shape)}; the tensor has {list(views[name].shape)}"
                )
            views[name].copy_(mask)
        return self._with(self._mu * kept, None if self._sigma is None else self._sigma * kept)

    def mean_network(self) -> GaussianWeights:
        """Return the network of the means."""
        return self._with(self._mu, None)

    def _with(self, mu: Tensor, sigma: Tensor | None) -> GaussianWeights:
        return GaussianWeights(self._network, self._prior, self._seed, mu, sigma)

    def log_density_ratio(self, draws: range) -> Tensor:
        """Return log q(w) - log p(w) of each draw, nats, float64 [S]; the layer left out has its part in it.

        Raises:
            Unsupported: a weight has no density, because it was pruned or because this is a mean network.
        """
        if self._sigma is None or not bool(self._sigma.all()):
            raise Unsupported("log q(w) - log p(w) is infinite: some weights have no noise (mean network or pruned)")
        mu, sigma = self._mu.double(), self._sigma.double()
        ratios = torch.empty(len(draws), dtype=torch.float64)
        for position, draw in enumerate(draws):
            noise = self._network.noise(self._seed, draw, torch.empty_like(self._mu), only_used=False).double()
            log_q = -(sigma.log() + noise**2 / 2).sum()
            ratios[position] = log_q - self._prior.log_density(mu + sigma * noise)
        return ratios
