"""For approaches of one's own: an ordinary `nn.Module` and its training loop as an approach, and the parts of that.

`ModuleApproach` does what an ordinary script leaves out: it seeds PyTorch's global generator, orders the rows, resumes
a fit, and draws dropout masks that belong to a row. No approach of this suite uses it.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset

from bench.core.canonical import stream_seed
from bench.core.errors import ConfigError, Diverged
from bench.core.streams import own_noise, row_bits
from bench.interface import Approach, Categorical, Context, Posterior, Split, Task

Tell = Callable[[int, Mapping[str, float]], object]
"""Called after each epoch with its number, from 1, and the numbers that the approach reports."""

Batches = DataLoader[tuple[Tensor, ...]]  # of x [B, n_inputs] and y int64 [B]
CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)  # drop whole channels; nn.Dropout drops single numbers
UNMASKED = (nn.AlphaDropout, nn.FeatureAlphaDropout, nn.MultiheadAttention, nn.RNNBase)  # may drop, but not by row


@dataclass(frozen=True)
class ModuleApproach(Approach):
    """A classifier that is an `nn.Module`, trained by an optimiser of PyTorch.

    `network` and `train_epoch` may draw from PyTorch's global generator, which starts at streams of the run's seed.
    """

    batch_size: int  # rows of a step

    @abstractmethod
    def network(self, task: Task) -> nn.Module:
        """Return the network with its first weights; it maps images [B, 784] to logits [B, K]."""

    @abstractmethod
    def optimizer(self, net: nn.Module) -> Optimizer:
        """Return the optimiser of the network's weights."""

    @abstractmethod
    def train_epoch(self, net: nn.Module, batches: Batches, optimizer: Optimizer, epoch: int) -> float:
        """Train for one epoch, counted from 1, and return its loss."""

    def posterior(self, net: nn.Module, seed: int) -> Posterior:
        """Return what predicts: Monte Carlo dropout if `noise` is "row", else the network."""
        return NetworkPosterior(net, seed if self.noise == "row" else None)

    def fit(self, train: Split, task: Task, ctx: Context) -> Posterior:
        """Train; the trace is the loss of `train_epoch`."""
        with seeded(ctx.stream("init")):
            net = self.network(task).to(ctx.device, ctx.dtype)
        optimizer, first = self.optimizer(net), 1
        if (found := ctx.restore()) is not None:
            first = found[0] + 1
            load_state(found[1], net, optimizer)
        for epoch in range(first, self.epochs + 1):
            net.train()
            with seeded(ctx.stream("noise", epoch)):
                loss = self.train_epoch(net, loader(train, self.batch_size, ctx, epoch), optimizer, epoch)
            trace = {f"mnist/{train.name}/train_loss": _number(loss)}
            ctx.epoch_end(epoch, trace, partial(self.posterior, net, ctx.seed), partial(state_of, net, optimizer))
        return self.posterior(net, ctx.seed)

    def rebuild(self, arrays: Mapping[str, Tensor], task: Task, seed: int) -> Posterior:
        """Return the posterior of a stored network."""
        with seeded(0):  # for the first weights, which the stored ones replace
            net = self.network(task)
        net.load_state_dict(arrays, assign=True)
        return self.posterior(net, seed)


def _number(loss: float | Tensor) -> float:
    try:
        return float(loss.detach() if isinstance(loss, Tensor) else loss)  # a user's code may return anything
    except (TypeError, ValueError, RuntimeError) as error:  # PyTorch's error for a tensor of several numbers
        what = f"train_epoch returns {type(loss).__name__}, which is no single number"
        raise ConfigError(f"{what}; let it return the loss of the epoch") from error


class NetworkPosterior(Posterior):
    """A copy of a network; its draws drop units by row (Gal and Ghahramani 2016, arXiv 1506.02142) if it has a seed."""

    def __init__(self, net: nn.Module, seed: int | None = None) -> None:
        """Copy the network; without a seed, dropout is off and there is one draw."""
        self._net, self._seed = copy.deepcopy(net).eval().requires_grad_(requires_grad=False), seed
        self.noise, self.n_draws = ("none", 1) if seed is None else ("row", None)

    @torch.no_grad()
    def predict(self, x: Tensor, draws: range, rows: Tensor) -> Categorical:
        """See `Posterior`; raises ConfigError if the network returns probabilities."""
        net, passes = self._net.to(x.device), []
        for draw in draws:
            with nullcontext() if self._seed is None else row_dropout(net, self._seed, draw, rows):
                passes.append(net(x))
        logits = torch.stack(passes)
        rounding = logits.shape[2] * torch.finfo(logits.dtype).eps  # of K probabilities and their sum
        if bool((logits >= 0).all() and ((logits.sum(2) - 1).abs() <= rounding).all()):
            raise ConfigError("the network returns probabilities; let it return logits, without softmax")
        return Categorical(torch.log_softmax(logits, 2))

    def arrays(self) -> Mapping[str, Tensor]:
        """Return weights and buffers."""
        return {name: value.to("cpu", copy=True) for name, value in self._net.state_dict().items()}


@contextmanager
def seeded(stream: int) -> Iterator[None]:
    """Let PyTorch's global generator start at `stream`, such as ctx.stream("noise", epoch); restore it at the end."""
    with own_noise():
        torch.manual_seed(stream)
        yield


def loader(train: Split, batch_size: int, ctx: Context, epoch: int) -> Batches:
    """Return a loader of the epoch's batches (x, y) in its own order; `ctx.steps_per_epoch` cuts it."""
    source = ctx.generator("shuffle", epoch)
    order = torch.split(torch.randperm(len(train), generator=source), batch_size)[: ctx.steps_per_epoch]
    rows = TensorDataset(train.x.to(ctx.device), train.y.to(ctx.device))
    return DataLoader(rows, sampler=order, batch_size=None, generator=source)


def state_of(net: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return all that a resumed fit needs, copied to the CPU: weights, buffers, the optimiser's state and its rates.

    Raises:
        ConfigError: the optimiser keeps something else than tensors, or rates that are neither tensors nor numbers.
    """
    kept, found = optimizer.state_dict(), {f"net/{name}": value for name, value in net.state_dict().items()}
    for place, values in kept["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                found[f"state/{place}/{name}"] = value
            elif value is not None:
                what = f"{type(optimizer).__name__} keeps {name} as {type(value).__name__}, which cannot be stored"
                raise ConfigError(f"{what}; take one whose state is tensors, such as Adam")
    for place, group in enumerate(kept["param_groups"]):
        rates = {name: value for name, value in group.items() if name != "params"}
        found |= {f"group/{place}/{name}": _stored(name, value) for name, value in rates.items()}
    return {name: value.detach().to("cpu", copy=True) for name, value in found.items()}


def load_state(state: Mapping[str, Tensor], net: nn.Module, optimizer: Optimizer) -> None:
    """Put what `state_of` returned into a network and an optimiser that were made as those were."""
    net.load_state_dict({name.removeprefix("net/"): state[name] for name in state if name.startswith("net/")})
    kept = {**optimizer.state_dict(), "state": {}}
    for path, value in state.items():
        kind, place, name = (*path.split("/", 2), "")[:3]  # a weight's name may end after its first part
        if kind == "state":
            kept["state"].setdefault(int(place), {})[name] = value.clone()
        elif kind == "group":
            group = kept["param_groups"][int(place)]
            rate = json.loads(bytes(value.tolist())) if value.dtype == torch.uint8 else value
            group[name] = tuple(rate) if isinstance(group.get(name), tuple) else rate
    optimizer.load_state_dict(kept)  # copies the rates


def _stored(name: str, rate: object) -> Tensor:
    """Return a rate as a tensor: unless it is one, the bytes of its JSON, which keeps every number and its kind."""
    try:
        return rate if isinstance(rate, Tensor) else torch.tensor(list(json.dumps(rate).encode()), dtype=torch.uint8)
    except TypeError as error:
        raise ConfigError(f"the optimiser's {name} cannot be stored ({error}); give a tensor, or numbers") from error


@contextmanager
def row_dropout(net: nn.Module, seed: int, draw: int, rows: Tensor) -> Iterator[None]:
    """Let a network in `eval` mode drop with masks that depend on seed, draw, row (int64 [B]) and module only.

    Raises:
        ConfigError: the network has no `nn.Dropout`, also drops in other ways, or drops a tensor of other rows.
    """
    for each in net.modules():
        if isinstance(each, UNMASKED) and (vars(each).get("p") or vars(each).get("dropout")):
            what = f"the network has an nn.{type(each).__name__} that drops, which cannot draw its masks by row"
            raise ConfigError(f'{what}; set its dropout to 0 and use nn.Dropout, or set noise = "none"')
    dropping = [each for each in net.modules() if isinstance(each, (nn.Dropout, *CHANNELS))]
    if not dropping:
        raise ConfigError('the network has no nn.Dropout (F.dropout is not seen): give it one, or set noise = "none"')
    places = itertools.count()  # of calls; every pass makes them in the same order

    def drop(module: nn.Dropout, _: tuple[Tensor, ...], x: Tensor) -> Tensor:
        if len(x) != len(rows):
            raise ConfigError(
                f"a dropout gets {len(x)} rows in a block of {len(rows)}; let rows be the first dimension"
            )
        shape = x.shape[1:2] + (1,) * (x.dim() - 2) if isinstance(module, CHANNELS) else x.shape[1:]
        n_words = -(-shape.numel() // 4)  # 16 bits a unit
        words = row_bits(stream_seed(seed, "dropout", next(places)), draw, rows.to(x.device), n_words)
        below = words.view(torch.int16)[:, : shape.numel()].to(torch.int32) + 2**15 < round(module.p * 2**16)
        return x.masked_fill(below.view(-1, *shape), 0) / (1 - module.p or 1)

    with ExitStack() as hooks:
        for each in dropping:
            hooks.enter_context(each.register_forward_hook(drop))
        yield


class FitAlone(Context):
    """A context for a fit in this process: without checkpoints, without measurements, and it stores nothing."""

    def __init__(self, seed: int, device: torch.device, steps_per_epoch: int | None, tell: Tell | None) -> None:
        """Take the run seed, the device, the largest number of steps in an epoch (None: no limit), and `tell`."""
        self.seed, self.device, self.steps_per_epoch, self._tell = seed, device, steps_per_epoch, tell

    def epoch_end(
        self,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """See `Context.epoch_end`."""
        del posterior, state
        for name, value in trace.items():
            if not math.isfinite(value):
                raise Diverged(f"{name} is {value} in epoch {epoch}; a smaller learning rate may help")
        if self._tell is not None:
            self._tell(epoch, trace)

    def restore(self) -> None:
        """See `Context.restore`."""
