"""How often do the audit's intervals hold the truth? Simulated on random models that sample their KL.

    python -m benchmarks.elbo_intervals --models 500   # six minutes; prints Markdown

Each model is a network of two layers, whose sizes, means, sigmas, N, prior and weight of the KL are drawn from the
seed of its number. The loss counts log q - log p of its own draws, so that the KL is noisy, and its true weight and
prior are known. `measure` gives the 95 % intervals from Student's t that the audit uses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from bench.cli.main import Parser, guarded
from bench.cli.options import count
from bench.core import environment
from bench.core.streams import stream_seed
from bench.core.text import WHOLE, Digits
from bench.judge.results import origin_of
from bench.show.table import Number, Table
from bench.show.tables.render import render
from elbo_audit.kl_weight import KlWeight
from elbo_audit.least_squares import MeanOfDraws
from elbo_audit.likelihood import data_weight
from elbo_audit.names import gaussians
from elbo_audit.objective import Batch, Case
from elbo_audit.torch_objective import TorchObjective
from elbo_audit.weighing import measure

DRAWS = 8  # as the audit's default
SIZES = (12, 40)  # numbers of weights that separate small, middle and large tensors in the table
TENTH = Digits(decimals=1)
COLUMNS = ("of", "intervals", "KL's weight, %", "prior, %")
CAPTION = (
    "{:,} random models, each of four tensors, sample their KL; its true weight and prior are known. Percent of the "
    "audit's 95 % intervals that hold the true weight of the KL, and the true precision of the prior. Intervals of one "
    "model are not independent."
)


class SampledModel:
    """A network of two layers in double precision, whose true KL weight and prior are known."""

    def __init__(self, number: int) -> None:
        """Draw sizes, N, prior and the KL's weight from the stream of this number."""
        self._number = number
        self._source = torch.Generator().manual_seed(stream_seed(number, "elbo-intervals"))
        n_in, hidden, n_out = self._whole(2, 10), self._whole(3, 16), self._whole(3, 8)
        self._shapes = {
            "in_weight": (n_in, hidden),
            "in_bias": (hidden,),
            "out_weight": (hidden, n_out),
            "out_bias": (n_out,),
        }
        self.rows = self._whole(8, 64)
        self.n_train = self.rows * self._whole(5, 400)
        self.prior_std = self._log_uniform(0.2, 5.0)
        self.kl_per_epoch = self._log_uniform(0.1, 10.0)
        self._passes = self._whole(1, 3)
        self._is_mean = bool(self._whole(0, 1))
        raw = math.log(math.expm1(self._log_uniform(0.01, 0.5)))
        self.parameters: dict[str, Tensor] = {}
        for name, shape in self._shapes.items():
            mean = 0.5 * self._normal(*shape)
            starts_at_zero = len(shape) == 1 and bool(self._whole(0, 1))  # as the biases of many libraries
            self.parameters[f"{name}_mu"] = (0.0 * mean if starts_at_zero else mean).requires_grad_()
            self.parameters[f"{name}_rho"] = (raw + 0.3 * self._normal(*shape)).requires_grad_()
        labels = [torch.randint(n_out, (self.rows,), generator=self._source) for _ in range(3)]
        self.batches: list[Batch] = [(self._normal(self.rows, n_in), label) for label in labels]

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of a training step."""
        nll, kl = self._terms(x, y)
        total = nll + kl * self.kl_per_epoch * self.rows / self.n_train
        return total / self.rows if self._is_mean else total

    def nll(self, x: Tensor, y: Tensor) -> Tensor:
        """Return -log p(y | x, w), summed over the batch."""
        return self._terms(x, y)[0]

    def _terms(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the NLL and log q - log p, both averaged over the passes of a step."""
        # The audit gives torch's generator the same seeds for every model; independent models need noise of their own.
        noise = torch.Generator().manual_seed(stream_seed(torch.initial_seed(), "elbo-intervals/noise", self._number))
        passes = [self._one_pass(x, y, noise) for _ in range(self._passes)]
        return torch.stack([nll for nll, _ in passes]).mean(), torch.stack([kl for _, kl in passes]).mean()

    def _one_pass(self, x: Tensor, y: Tensor, noise: torch.Generator) -> tuple[Tensor, Tensor]:
        kl, weights = torch.zeros((), dtype=torch.float64), {}
        for name, shape in self._shapes.items():
            mean, std = self.parameters[f"{name}_mu"], functional.softplus(self.parameters[f"{name}_rho"])
            normals = torch.randn(shape, generator=noise, dtype=torch.float64)
            weights[name] = mean + std * normals
            # log q - log p of these weights, but for a constant
            kl = kl + ((weights[name] / self.prior_std).square() / 2 - std.log() - normals.square() / 2).sum()
        hidden = torch.tanh(x @ weights["in_weight"] + weights["in_bias"])
        logits = hidden @ weights["out_weight"] + weights["out_bias"]
        return functional.cross_entropy(logits, y, reduction="sum"), kl

    def _whole(self, least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (), generator=self._source))

    def _log_uniform(self, least: float, most: float) -> float:
        return float(least * (most / least) ** float(torch.rand((), generator=self._source)))

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._source, dtype=torch.float64)


def measured(model: SampledModel, draws: int = DRAWS) -> KlWeight:
    """Return what the audit measures of a model."""
    objective = TorchObjective(model.loss, model.parameters.items(), model.batches, model.nll)
    groups = [objective.group(pair) for pair in gaussians(objective.parameters, objective.shapes)]
    case = Case(objective, groups, model.n_train, model.prior_std, draws)
    return measure(case, data_weight(objective, draws))


def covered(number: int) -> Iterator[tuple[str, bool, bool]]:
    """Yield, for each tensor of a model and for all together, whether the intervals hold the KL's weight and the prior.

    The first value is the name of the table's row.
    """
    model = SampledModel(number)
    found = measured(model)
    rows = [("all tensors of a model together", found.per_epoch, found.precision)]
    rows += [(_size_class(tensor.n), tensor.per_epoch, tensor.precision) for tensor in found.tensors]
    for name, weight, precision in rows:
        assert precision is not None
        yield name, _holds(weight, model.kl_per_epoch), _holds(precision, model.prior_std**-2)


def _size_class(n: int) -> str:
    few, some = SIZES
    return (
        f"up to {few} weights" if n <= few else f"{few + 1} to {some} weights" if n <= some else f"over {some} weights"
    )


def _holds(found: MeanOfDraws, true: float) -> bool:
    return abs(found.value - true) <= found.half_width()


def main(words: Sequence[str] | None = None) -> int:
    """Print how often the intervals hold the truth."""
    parser = Parser(
        prog="python -m benchmarks.elbo_intervals",
        description="how often the audit's intervals hold",
        allow_abbrev=False,
    )
    parser.add_argument("--models", type=count, default=500, help="random models (default: 500)")
    return guarded(lambda: _made(parser.parse_args(words).models))


def _made(models: int) -> int:
    torch.set_num_threads(1)  # the tensors are small
    found: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for number in range(models):
        for name, weight, prior in covered(number):
            found[name].append((weight, prior))
            if not name.startswith("all"):
                found["single tensors"].append((weight, prior))
    rows = [
        [
            name,
            Number(float(len(hits)), WHOLE),
            *(Number(100 * sum(held) / len(hits), TENTH) for held in zip(*hits, strict=True)),
        ]
        for name, hits in sorted(found.items())
    ]
    title, origin = "Do the audit's intervals hold the truth?", origin_of([environment.describe(1)])
    table = Table("elbo_intervals", title, CAPTION.format(models), COLUMNS, rows, origin=origin)
    print(render(table, "md"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
