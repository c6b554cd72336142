"""Many small dropout networks trained and predicted with in one computation, as the code of Gal 2018 trains one.

Each has a hidden layer of ReLU units, dropout of one rate before both weight layers, Glorot's uniform initial weights
and zero biases. Training: mean squared error on standardised targets, plus `decay` times the squares of the weights
that are no biases; Adam with rate .001, .9, .999 and epsilon 1e-7, as PyTorch applies it (Keras of 2018 adds epsilon to
the uncorrected root, which differs in the first steps only); batches of 128, shuffled each epoch. `dropout_loops` has
the computation; what is random in a network depends on its own streams alone.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from bench.core.files import is_there, read_file, write_atomically
from bench.core.streams import generator, stream_seed, uniforms
from bench.uci import dropout_loops as loops
from bench.uci.data import Floats, Regression, Split, standardise

Array = npt.NDArray[np.float32]
RATE = 0.001
LENGTH_SCALE = 0.01  # l of the decay l^2 (1 - p) / (2 N tau)
LARGEST = 1 << 28  # bytes of a stored state
AT_ONCE = 2  # networks of a thread's piece of work


class Network(NamedTuple):
    """A network of a batch."""

    part: int  # index of its training rows
    stream: tuple[int, ...]  # of its random numbers, for the run's seed
    rate: float  # of dropout; used as a multiple of 2^-16
    decay: float


class Parts(NamedTuple):
    """Rows of S parts, standardised, float32: features x [S, n, d], targets y [S, n]."""

    x: Array
    y: Array

    @staticmethod
    def of(rows: Sequence[tuple[Floats, Floats]]) -> Parts:
        """Return parts of equal size from pairs of x [n, d] and y [n]."""
        return Parts(*(np.ascontiguousarray(np.stack(each), dtype=np.float32) for each in zip(*rows, strict=True)))


class Prepared(NamedTuple):
    """Standardised rows of every split, and the target's mean and standard deviation in each."""

    train: Parts
    test: Parts
    targets: Floats  # of the test rows, in the target's unit [S, n]
    mean: Floats
    sd: Floats


class Passes(NamedTuple):
    """What many passes of E networks for n points give, in standardised units."""

    mean: Floats  # [E, n]
    variance: Floats  # [E, n], divisor the number of passes
    first: Floats  # [E, n]
    log_density: Floats  # [E, n, K]: of the equal mixture of Gaussians around the passes, nats
    draws: Array  # float32 [E, passes, n], or [E, 0, n]


def prepare(data: Regression, splits: Sequence[Split]) -> Prepared:
    """Standardise each split by its training rows."""
    x = [standardise(data.x[split.train], data.x[split.test]) for split in splits]
    y = [standardise(data.y[split.train], data.y[split.test]) for split in splits]
    return Prepared(
        Parts.of([(a.train, b.train) for a, b in zip(x, y, strict=True)]),
        Parts.of([(a.test, b.test) for a, b in zip(x, y, strict=True)]),
        np.stack([data.y[split.test] for split in splits]),
        np.array([float(one.mean) for one in y]),
        np.array([float(one.sd) for one in y]),
    )


def keras_decay(rate: float, tau: float, rows: int, length_scale: float = LENGTH_SCALE) -> float:
    """Return the coefficient of Gal's regulariser; tau in the inverse square of the target's unit."""
    return length_scale**2 * (1 - rate) / (2 * rows * tau)


class Batch:
    """E networks and the state of their training."""

    def __init__(self, networks: Sequence[Network], parts: Parts, hidden: int, seed: int) -> None:
        """Draw the initial weights."""
        self.networks, self.parts, self.seed = list(networks), parts, seed
        self.step = 0
        d = parts.x.shape[2]
        self.parameters = np.zeros((len(self.networks), hidden * (d + 2) + 1), np.float32)
        self.first, self.second = np.zeros_like(self.parameters), np.zeros_like(self.parameters)
        for weights, network in zip(self.parameters, self.networks, strict=True):
            source = generator(seed, "initial weights", *network.stream)
            for start, count, fans in ((0, hidden * d, d + hidden), (hidden * (d + 1), hidden, hidden + 1)):
                weights[start : start + count] = uniforms(count, math.sqrt(6 / fans), source, torch.float32).numpy()
        self._part = np.array([network.part for network in self.networks], np.int64)
        self._dropped = np.array([round(network.rate * 2**16) for network in self.networks], np.uint16)
        self._decay = np.array([network.decay for network in self.networks], np.float32)
        self._keys = np.stack([self._streams("dropout masks"), self._streams("shuffles")], axis=1)

    @property
    def arrays(self) -> dict[str, Array]:
        """Return the parameters, and Adam's first and second moments."""
        return {"parameters": self.parameters, "first": self.first, "second": self.second}

    @property
    def steps_an_epoch(self) -> int:
        """Return the number of batches of an epoch."""
        return math.ceil(self.parts.x.shape[1] / loops.ROWS)

    def train(self, steps: int, threads: int = 1) -> None:
        """Take steps."""
        stop = self.step + steps
        data = (self.parts.x, self.parts.y, self._part, self._keys, self._dropped, self._decay)
        state = (self.parameters, self.first, self.second)
        count = len(self.networks)
        in_pieces(lambda a, b: loops.train(*state, *data, self.step, stop, RATE, a, b), count, threads)
        self.step = stop

    def predict(
        self,
        points: Parts,
        precision: Floats,
        passes: int,
        *,
        threads: int = 1,
        keep: bool = False,
        dropout: bool = True,
        only: Sequence[int] | None = None,
    ) -> Passes:
        """Make passes for each network's part of `points`; a fresh mask for each pass of each point.

        Args:
            points: as many parts as in training.
            precision: of the noise, [E, K], in standardised units.
            passes: their number.
            threads: at work at once.
            keep: return all draws; else none is stored.
            dropout: False: nothing is dropped.
            only: the networks that predict (default: all); `precision` has their rows.
        """
        chosen = list(range(len(self.networks)) if only is None else only)
        parameters = self.parameters[chosen]
        e, n, k = len(parameters), points.x.shape[1], precision.shape[1]
        dropped = self._dropped[chosen] if dropout else np.zeros(e, np.uint16)
        sums, logs = np.empty((e, n, 3)), np.empty((e, n, k))
        draws = np.empty((e, passes if keep else 0, n), np.float32)
        given = (
            self._part[chosen],
            self._streams("passes")[chosen],
            dropped,
            np.asarray(precision, np.float64),
            passes,
        )
        in_pieces(lambda a, b: loops.predict(parameters, *points, *given, sums, logs, draws, a, b), e, threads)
        logs += 0.5 * np.log(precision / (2 * math.pi))[:, None, :]
        return Passes(sums[:, :, 0], sums[:, :, 1], sums[:, :, 2], logs, draws)

    def _streams(self, name: str) -> npt.NDArray[np.int64]:
        return np.array([stream_seed(self.seed, name, *network.stream) for network in self.networks], np.int64)


def in_pieces(work: Callable[[int, int], None], count: int, threads: int) -> None:
    """Call work(begin, end) for pieces of `count` networks, side by side; Ctrl-C waits for the pieces at work alone."""
    pieces = [(begin, min(begin + AT_ONCE, count)) for begin in range(0, count, AT_ONCE)]
    if threads == 1:
        for piece in pieces:
            work(*piece)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for done in [pool.submit(work, *piece) for piece in pieces]:
                done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Training(Protocol):
    """Networks that `State` stores and `train.train` trains; it reads and changes no other attributes."""

    parts: Parts
    seed: int
    step: int

    @property
    def networks(self) -> Sequence[tuple[object, ...]]:
        """Return what each is."""

    @property
    def arrays(self) -> dict[str, Array]:
        """Return parameters and moments, which training changes in place."""

    @property
    def steps_an_epoch(self) -> int:
        """Return the number of batches of an epoch."""

    def train(self, steps: int, threads: int = 1) -> None:
        """Take steps."""


class State:
    """The file with the state of a training, and what its networks chose. Its hash covers what the state belongs to."""

    def __init__(self, path: Path, of: str, batch: Training, say: Callable[[str], None]) -> None:
        """Take the definition of the run, its networks before their first step, and who is told of a bad file."""
        self._path, self._batch, self._say = path, batch, say
        self.chosen = np.full(len(batch.parts.x), -1)  # the index of each part's choice; -1: it has none yet
        parts = [np.ascontiguousarray(one).tobytes() for one in (*batch.parts, *batch.arrays.values())]
        self._of = hashlib.sha256(b"".join([repr((of, batch.networks, batch.seed)).encode(), *parts])).digest()

    def save(self) -> None:
        """Write the state; an older one stays until the new one is whole."""
        buffer = io.BytesIO()
        np.savez(buffer, step=self._batch.step, chosen=self.chosen, **self._batch.arrays)
        body = buffer.getvalue()
        write_atomically(self._path, hashlib.sha256(self._of + body).digest() + body)

    def restore(self) -> None:
        """Go on from the stored state, if there is one and it is whole and of this run."""
        if not is_there(self._path):
            return
        content = read_file(self._path, LARGEST)
        if hashlib.sha256(self._of + content[32:]).digest() != content[:32]:
            self._say(f"{self._path} is damaged or of other networks; training starts anew")
            return
        with np.load(io.BytesIO(content[32:]), allow_pickle=False) as stored:
            for name, array in self._batch.arrays.items():
                array[:] = stored[name]
            self._batch.step, self.chosen = int(stored["step"]), stored["chosen"]
