"""Full-batch Hamiltonian Monte Carlo with a Metropolis step (Duane et al. 1987; Neal 2011), all chains in one batch.

The mass is the identity in whitened space. A chain starts at a draw from the prior; because the energy there is many
times steeper than where the chain will stay, Adam leads it down first. Then dual averaging finds one step for all
chains (Hoffman & Gelman 2014, section 3.2). A trajectory takes a fixed time, which needs no adaptation that could go
wrong, jittered by half because directions have different periods. Izmailov et al. 2021 ("What are Bayesian neural
network posteriors really like?") take pi/2, after which directions about which the data say nothing forget where they
were. Classes forget sooner: on scikit-learn's digits (64-50-10, 1,000 rows, four chains), pi/2, pi/4 and pi/8 gave 31,
65 and 94 effective draws per 1,000 gradients of the median probability, and 7.5, 16 and 15 of the worst in a thousand.
So classification takes pi/4. A regression that learns its noise keeps pi/2: with 15 rows, a half of it mixed worse.

Every iteration draws from streams of its own number, so a run that goes on gives the same bits as one that was not
ended.

Shapes: C chains, P parameters, n kept draws, w iterations of warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bench.core import streams
from bench.core.canonical import digest
from bench.posterior.gradient import Target, one_thread
from bench.posterior.states import States

TIMES = {"classification": math.pi / 4, "regression": math.pi / 2}  # of a trajectory, before jitter
LONGEST = 1000  # leapfrogs of a trajectory, however small the step
ACCEPTANCE = 0.8
DIVERGED = 1000.0  # nats by which the energy rises
DESCENT, DESCENT_RATE = 200, 0.03  # Adam's steps

Keep = Callable[[Tensor], Tensor]
"""Parameters z [C, P] of one draw -> what is kept of them, [C, ...]; a tensor of its own."""


@dataclass(frozen=True)
class Chains:
    """What was drawn, and how."""

    draws: Tensor  # what `keep` returned, [C, n, ...]
    warmup: int  # w
    trace: Tensor  # what `Walk.trace` has of each iteration, also of the warm-up, float64 [3 C + 2, w + n]

    @property
    def energies(self) -> Tensor:
        """Return the energies of the draws, nats, float64 [C, n]."""
        return self._kept(0)

    @property
    def acceptance(self) -> Tensor:
        """Return each chain's mean acceptance probability after the warm-up, [C]."""
        return self._kept(1).mean(1)

    @property
    def divergences(self) -> Tensor:
        """Return how many proposals of each chain diverged after the warm-up, int64 [C]."""
        return (self._kept(2) > 0).sum(1)

    def _kept(self, number: int) -> Tensor:
        return self.trace[:-2].view(3, len(self.draws), -1)[number, :, self.warmup :]

    @property
    def step(self) -> float:
        """Return the step after the warm-up."""
        return self.trace[-2, -1].item()

    @property
    def leapfrogs(self) -> int:
        """Return the gradients of one chain, warm-up and descent included, but not those that look for a first step."""
        return int(self.trace[-1].sum()) + DESCENT + 1


@one_thread()
def sample(
    target: Target,
    *,
    chains: int,
    draws: int,
    warmup: int,
    seed: int,
    keep: Keep = torch.clone,
    kept: str = "parameters",
    folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    save_s: float = 30.0,
) -> Chains:
    """Draw from the posterior.

    Args:
        target: the posterior.
        chains: C.
        draws: n, of each chain.
        warmup: w, iterations that find the step and are not kept.
        seed: of all random numbers.
        keep: makes of each draw what is kept.
        kept: a name of what `keep` makes. A folder's draws can be continued only under the same name.
        folder: where the state is written every `save_s` seconds; a later call with the same arguments, or with more
            draws, goes on from there. None: nothing is written.
        progress: is told (iterations done, all iterations).
        save_s: seconds.

    Raises:
        StoreError: the folder cannot be written, or holds another sampling.
    """
    described = [target.fingerprint(), chains, warmup, seed, kept, TIMES[target.network.kind]]
    described += [ACCEPTANCE, LONGEST, DESCENT, DESCENT_RATE]
    states = None if folder is None else States(folder, digest(described), save_s)
    found = states.read() if states else None
    walk = Walk(target, chains, seed) if found is None else Walk.again(target, seed, found.tensors)
    whole = [] if found is None else found.draws
    fresh: list[Tensor] = []
    for iteration in range(len(walk.trace), warmup + draws):
        walk.iterate(iteration, warmup)
        if iteration >= warmup:
            fresh.append(keep(walk.z))
        if states and states.is_due(is_last=iteration + 1 == warmup + draws):
            whole += _stacked(fresh)
            states.write(walk.tensors(), whole[-1] if fresh else None)
            fresh = []
        if progress:
            progress(iteration + 1, warmup + draws)
    drawn = torch.cat(whole + _stacked(fresh), 1)[:, :draws]
    return Chains(drawn, warmup, torch.stack(walk.trace[: warmup + draws], 1))


def _stacked(draws: list[Tensor]) -> list[Tensor]:
    return [torch.stack(draws, 1)] if draws else []


class Walk:
    """The chains' positions, what adapts the step, and the numbers of all iterations."""

    def __init__(self, target: Target, chains: int, seed: int) -> None:
        """Lead so many chains down from draws from the prior."""
        self.target, self.seed = target, seed
        start = streams.normals_(torch.empty(chains, target.n_parameters), seed, "start")
        self.z = _descended(target, start)
        self.energy, self.gradient = target.energy_and_gradient(self.z)
        self.averaging = DualAveraging.start(self._first_step())
        self.trace: list[Tensor] = []  # of each iteration: what `iterate` appends, float64 [3 C + 2]

    @classmethod
    def again(cls, target: Target, seed: int, tensors: dict[str, Tensor]) -> Walk:
        """Return the walk whose `tensors` were written."""
        walk = cls.__new__(cls)
        walk.target, walk.seed = target, seed
        walk.z, walk.energy, walk.gradient = tensors["z"], tensors["energy"], tensors["gradient"]
        walk.averaging = DualAveraging(*tensors["averaging"].tolist())
        walk.trace = list(tensors["trace"])
        return walk

    def tensors(self) -> dict[str, Tensor]:
        """Return all from which the walk can go on."""
        averaging = torch.tensor(self.averaging.values(), dtype=torch.float64)
        found = {"z": self.z, "energy": self.energy, "gradient": self.gradient, "averaging": averaging}
        return {**found, "trace": torch.stack(self.trace)}

    def iterate(self, iteration: int, warmup: int) -> None:
        """Move all chains by one trajectory, and adapt the step during the warm-up."""
        step = self.averaging.step if iteration < warmup else self.averaging.mean_step
        jitter = 0.5 + torch.rand((), generator=streams.generator(self.seed, "time", iteration)).item()
        n_steps = min(max(1, round(jitter * TIMES[self.target.network.kind] / step)), LONGEST)
        rise = self.propose(iteration, step, n_steps)
        probability = _probability(rise)
        if iteration < warmup:
            self.averaging.learn(probability.mean().item())
        is_divergent = ~(rise < DIVERGED)
        numbers = [self.energy, probability, is_divergent, torch.tensor([step, n_steps])]
        self.trace.append(torch.cat([each.double() for each in numbers]))

    def propose(self, iteration: int, step: float, n_steps: int) -> Tensor:
        """Move each chain to the end of a trajectory or leave it; return by how much its energies rise, [C]."""
        momentum = streams.normals_(torch.empty_like(self.z), self.seed, "momentum", iteration)
        rise, z, energy, gradient = self._tried(momentum, step, n_steps)
        moves = accepts(rise, self.seed, iteration)
        self.z = torch.where(moves[:, None], z, self.z)
        self.gradient = torch.where(moves[:, None], gradient, self.gradient)
        self.energy = torch.where(moves, energy, self.energy)
        return rise

    def _tried(self, momentum: Tensor, step: float, n_steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return by how much a trajectory's end raises the total energies; and its z, energy and gradient."""
        z, end, energy, gradient = self.target.leapfrogs(self.z, momentum, self.gradient, step, n_steps)
        return energy + _kinetic(end) - self.energy - _kinetic(momentum), z, energy, gradient

    def _first_step(self) -> float:
        """Return a power of two at which one leapfrog is accepted by about half (Hoffman & Gelman 2014, heuristic)."""
        momentum = streams.normals_(torch.empty_like(self.z), self.seed, "momentum of the first step")

        def is_small(step: float) -> bool:
            return _probability(self._tried(momentum, step, 1)[0]).mean().item() > 0.5

        step = 0.125
        if is_small(step):
            while step < 1 and is_small(2 * step):
                step *= 2
            return step
        while step > 1e-6 and not is_small(step):
            step /= 2
        return step


def accepts(rise: Tensor, seed: int, iteration: int) -> Tensor:
    """Return which proposals, whose total energy rises by `rise` float64 [C], are accepted; none that is not finite."""
    uniform = torch.rand(len(rise), dtype=torch.float64, generator=streams.generator(seed, "accept", iteration))
    return uniform.log() < -rise


def _probability(rise: Tensor) -> Tensor:
    """Return the probability with which each proposal is accepted."""
    return rise.neg().exp().clamp(max=1).nan_to_num(0)


def _kinetic(momentum: Tensor) -> Tensor:
    """Return the kinetic energy of momentum [C, P], float64 [C]."""
    return momentum.double().square().sum(-1) / 2


def _descended(target: Target, z: Tensor) -> Tensor:
    """Return where Adam (Kingma & Ba 2015) leads z [C, P]."""
    first, second = torch.zeros_like(z), torch.zeros_like(z)
    for number in range(1, DESCENT + 1):
        _, gradient = target.energy_and_gradient(z)
        first.lerp_(gradient, 0.1)
        second.lerp_(gradient.square(), 0.001)
        size = (second / (1 - 0.999**number)).sqrt_().add_(1e-8)
        z = torch.addcdiv(z, first, size, value=-DESCENT_RATE / (1 - 0.9**number))
    return z


@dataclass
class DualAveraging:
    """Nesterov's dual averaging of log step (Hoffman & Gelman 2014, algorithm 5, with its constants)."""

    centre: float  # of log step
    log_step: float
    mean_log_step: float = 0.0
    excess: float = 0.0  # averaged difference between the wanted and the found acceptance
    count: float = 0.0

    @classmethod
    def start(cls, step: float) -> DualAveraging:
        """Start at a step; the centre is ten times as large, so that large steps are tried."""
        return cls(math.log(10 * step), math.log(step))

    @property
    def step(self) -> float:
        """Return the step to try next."""
        return math.exp(self.log_step)

    @property
    def mean_step(self) -> float:
        """Return the averaged step, to be used after the warm-up; without any, the first step."""
        return math.exp(self.mean_log_step) if self.count else self.step

    def values(self) -> list[float]:
        """Return the fields in their order."""
        return [self.centre, self.log_step, self.mean_log_step, self.excess, self.count]

    def learn(self, acceptance: float) -> None:
        """Adapt to the acceptance at the last step."""
        self.count += 1
        weight = 1 / (self.count + 10)
        self.excess += weight * (ACCEPTANCE - acceptance - self.excess)
        self.log_step = self.centre - math.sqrt(self.count) / 0.05 * self.excess
        decay = self.count**-0.75
        self.mean_log_step += decay * (self.log_step - self.mean_log_step)
