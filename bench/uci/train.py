"""The methods of the UCI table, each for all splits of a set at once; resumable; results as the rows of `scores.tidy`.

- mc_dropout_2018: the grid of drop rates and taus on the last fifth of each split's training part, by the mixture's
  log-likelihood (the first of equal ones); then a new network on the whole part, as the author's code of 2018 does
- mc_dropout_2016: the drop rate, tau and length scale of 2016, but batches of 128 as in 2018 (the paper's have 32)
- network: no dropout and no decay; the noise is the error on the last fifth of a network trained on the rest; then a
  new network on the whole part
- last_layer_laplace: the same final network, with a Gaussian over its last layer as `bench.uci.closed` has it; no row
  is held out, since the noise and the prior are those of the largest marginal likelihood
- deep_ensemble: see `bench.uci.ensembles`; its learning rate is chosen on the last fifth
- bayes_by_backprop, ivon: see `bench.uci.mean_field` and `ivon`; rate and prior are chosen on the last fifth
- linear: least squares in closed form; variance s^2 (1 + x' (X'X)^-1 x), s^2 by the degrees of freedom

Files, in ROOT/uci: NAME.csv when all splits are done; before, the state of the networks, about once a minute, and after
each split's choice. A table of another `definition` than today's is trained again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import numpy as np

from bench.core import noise_loops
from bench.core.canonical import digest
from bench.core.environment import source_hash, usable_threads
from bench.core.errors import ConfigError, Diverged, check_known
from bench.core.files import is_there, read_file, remove, write_atomically
from bench.core.text import duration
from bench.uci import closed, dropout, dropout_loops, ensembles, ivon, mean_field
from bench.uci.closed import last_layer_laplace, linear
from bench.uci.data import PASSES, Regression, SetFacts, facts_of, load, validation
from bench.uci.dropout import (
    LARGEST,
    LENGTH_SCALE,
    Batch,
    Network,
    Parts,
    Prepared,
    State,
    Training,
    keras_decay,
    prepare,
)
from bench.uci.ensembles import Ensembles, best_rates
from bench.uci.ivon import Ivon
from bench.uci.mean_field import BayesByBackprop, best_settings
from bench.uci.scores import METHODS, METRICS, Fit, read_table, scores, tidy

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # raise it where a change of this file, of the scores or of the random streams changes numbers
SAY_EVERY_S = 15.0
CHUNK_S = 1.0  # least time of a call of the compiled loop, once it is known
T = TypeVar("T", bound=Training)
C = TypeVar("C", float, tuple[float, float])  # a choice
E = TypeVar("E", bound=Ensembles)


class How(NamedTuple):
    """How to run; the defaults are those of the full table."""

    root: Path  # results folder
    data_dir: Path | None = None
    threads: int = usable_threads()
    passes: int = PASSES
    splits: int | None = None  # the first ones only
    save_every_s: float = 60.0
    say: Callable[[str], None] = print


class Setting(NamedTuple):
    """Hyper-parameters of a dropout network."""

    rate: float
    tau: float
    length_scale: float = LENGTH_SCALE


NETWORK = Setting(0.0, math.inf, 0.0)  # a plain one, whose noise is found afterwards


def run_set(name: str, method: str, epochs: int, seed: int, how: How) -> pd.DataFrame:
    """Train and score a method on every split of a set; what is stored already is read.

    Args:
        name: of the set.
        method: one of `METHODS`.
        epochs: of training; `linear` has none.
        seed: of all random streams.
        how: places, threads, number of passes and splits.

    Raises:
        ConfigError: unknown name or method, or epochs below 1.
        DataMissing: see `data.load`.
        DataCorrupt: as there, or the stored table is damaged.
        Diverged: a number is not finite.
    """
    check_known("method of the UCI table", METHODS, method)
    if epochs < 1 and method != "linear":
        raise ConfigError(f"{epochs} epochs given; a network needs at least 1")
    epochs = 0 if method == "linear" else epochs
    data = load(name, how.data_dir)
    data = data._replace(splits=data.splits[: how.splits])
    passes = _passes(method, how)
    recipe = "" if passes == PASSES else f"{passes} passes"
    fits = [Fit(name, method, recipe, epochs, split, seed) for split in range(len(data.splits))]
    path = place(name, method, epochs, seed, how)
    of = definition(name, method, epochs, seed, how)
    if is_there(path):
        table = read_table(path, fits, METHODS[method])
        if set(table["definition"]) == {of}:
            return table
        how.say(f"{path} is of other data, settings or code; it is trained again")
    run = _Run(data, facts_of(name), method, epochs, seed, how, path, of)
    table = tidy(zip(fits, run.found(), strict=True)).assign(definition=of)
    if not np.isfinite(table["value"]).all():
        raise Diverged(f"{path.stem}: a score is not finite; another seed may do")
    write_atomically(path, table.to_csv(index=False).encode())
    for stage in ("tuning", "final"):
        state = path.with_suffix(f".{stage}.state")
        if is_there(state):
            remove(state, how.root)
    return table


def place(name: str, method: str, epochs: int, seed: int, how: How) -> Path:
    """Return the file of a table, which has all splits."""
    passes = [f"{how.passes}p"] if _passes(method, how) != PASSES else []
    splits = [f"{how.splits}s"] if how.splits else []
    return how.root / "uci" / ("-".join([name, method, str(epochs), str(seed), *passes, *splits]) + ".csv")


def is_made(name: str, method: str, epochs: int, seed: int, how: How) -> bool:
    """Return whether a table is there, and of today's definition."""
    path, of = place(name, method, epochs, seed, how), definition(name, method, epochs, seed, how)
    return is_there(path) and read_file(path, LARGEST).endswith(f",{of}\n".encode())


def definition(name: str, method: str, epochs: int, seed: int, how: How) -> str:
    """Return the hash of what a table's numbers come from: data, settings and training code."""
    ignored, all_facts = {"title", "note", "package", "sha256_package"}, facts_of(name)
    known = {key: value for key, value in msgspec.structs.asdict(all_facts).items() if key not in ignored}
    networks = [dropout, dropout_loops, noise_loops]
    others = {"linear": [closed], "last_layer_laplace": [*networks, closed], "deep_ensemble": [dropout, ensembles]}
    gaussian = [dropout, noise_loops, ensembles, mean_field]
    others |= {"bayes_by_backprop": gaussian, "ivon": [*gaussian, ivon]}
    code = others.get(method, networks)
    numbers = [epochs, seed, _passes(method, how), how.splits or all_facts.splits]
    return digest([VERSION, known, method, numbers, source_hash([Path(str(one.__file__)) for one in code])])[:16]


def _passes(method: str, how: How) -> int:
    return how.passes if method.startswith("mc_dropout") else PASSES


class _Run(NamedTuple):
    """What a method finds on all splits of a set."""

    data: Regression
    known: SetFacts
    method: str
    epochs: int
    seed: int
    how: How
    path: Path  # of the table
    of: str  # its definition

    def found(self) -> list[dict[str, float]]:
        """Choose the settings, train the final networks and return the scores of each split."""
        splits, known = self.data.splits, self.known
        if self.method == "linear":
            return [linear(self.data, split) for split in splits]
        if self.method == "deep_ensemble":
            return self._batched(Ensembles, ensembles.RATES, best_rates)
        if self.method == "bayes_by_backprop":
            return self._batched(BayesByBackprop, mean_field.GRID, best_settings)
        if self.method == "ivon":
            return self._batched(Ivon, ivon.GRID, best_settings)
        if self.method == "last_layer_laplace":
            rows = prepare(self.data, splits)
            batch, _ = self._networks("final", rows, [[NETWORK]] * len(splits))
            return [last_layer_laplace(weights, rows, split) for split, weights in enumerate(batch.parameters)]
        if self.method == "mc_dropout_2016":
            settings = [Setting(known.drop_rate_2016, known.tau_2016, known.length_scale_2016)] * len(splits)
        else:
            settings = self._chosen()
        rows = prepare(self.data, splits)
        batch, _ = self._networks("final", rows, [[one] for one in settings])
        with ThreadPoolExecutor(self.how.threads) as pool:
            return list(pool.map(lambda s: self._scores(batch, rows, s, settings[s]), range(len(splits))))

    def _validation(self) -> Prepared:
        return prepare(self.data, [validation(split.train) for split in self.data.splits])

    def _chosen(self) -> list[Setting]:
        """Return the setting of each split that is best on its validation rows."""
        rows = self._validation()
        n_parts = len(rows.sd)
        if self.method == "network":
            batch, _ = self._networks("tuning", rows, [[NETWORK]] * n_parts)
            off = batch.predict(rows.test, np.ones((n_parts, 1)), 1, threads=self.how.threads, dropout=False)
            noise = np.mean((off.mean - rows.test.y) ** 2, axis=1) * rows.sd**2
            return [Setting(0.0, float(1 / one), 0.0) for one in noise]
        grid = [Setting(rate, tau) for rate in self.known.drop_rates for tau in self.known.taus]
        batch, state = self._networks("tuning", rows, [grid] * n_parts)
        said = time.monotonic()
        for split in np.flatnonzero(state.chosen < 0):
            own = range(split * len(grid), (split + 1) * len(grid))
            precision = np.array([[one.tau * rows.sd[split] ** 2] for one in grid])
            passes = batch.predict(rows.test, precision, self.how.passes, threads=self.how.threads, only=own)
            likelihood = passes.log_density.mean(axis=(1, 2))  # log(sd) above that in the target's unit, for all alike
            state.chosen[split] = likelihood.argmax()
            state.save()
            if time.monotonic() - said >= SAY_EVERY_S:
                said = time.monotonic()
                self.how.say(f"{self.path.stem}: {split + 1}/{n_parts} splits validated")
        return [grid[k] for k in state.chosen]

    def _batched(
        self,
        make: Callable[[Parts, int, int, Sequence[Sequence[C]]], E],
        grid: Sequence[C],
        best: Callable[[E, Parts], list[C]],
    ) -> list[dict[str, float]]:
        n_parts, hidden, seed = len(self.data.splits), self.known.hidden, self.seed
        rows = self._validation()
        tried, _ = self._trained("tuning", make(rows.train, hidden, seed, [grid] * n_parts))
        settings = best(tried, rows.test)
        rows = prepare(self.data, self.data.splits)
        networks, _ = self._trained("final", make(rows.train, hidden, seed, [[one] for one in settings]))
        mean, variance = networks.predict(rows.test)
        mean = mean * rows.sd[:, None, None] + rows.mean[:, None, None]
        each = zip(mean, variance * rows.sd[:, None, None] ** 2, rows.targets, strict=True)
        names = METHODS[self.method][len(METRICS) :]
        chosen = [dict(zip(names, map(float, np.atleast_1d(one)), strict=True)) for one in settings]
        return [{**scores(*its), **setting} for its, setting in zip(each, chosen, strict=True)]

    def _networks(self, stage: str, rows: Prepared, settings: Sequence[Sequence[Setting]]) -> tuple[Batch, State]:
        """Return the dropout networks of a stage after all epochs: one for each setting of each split."""
        n = rows.train.x.shape[1]
        networks = [
            Network(s, (int(stage == "final"), s, k), one.rate, keras_decay(one.rate, one.tau, n, one.length_scale))
            for s, its in enumerate(settings)
            for k, one in enumerate(its)
        ]
        return self._trained(stage, Batch(networks, rows.train, self.known.hidden, self.seed))

    def _trained(self, stage: str, batch: T) -> tuple[T, State]:
        state = State(self.path.with_suffix(f".{stage}.state"), self.of, batch, self.how.say)
        state.restore()
        train(batch, self.epochs, f"{self.path.stem}, {stage}", state, self.how)
        return batch, state

    def _scores(self, batch: Batch, rows: Prepared, split: int, setting: Setting) -> dict[str, float]:
        precision = np.array([[setting.tau * rows.sd[split] ** 2]])
        passes = self.how.passes if setting.rate else 1
        draws = batch.predict(rows.test, precision, passes, keep=True, only=[split]).draws[0]
        draws *= np.float32(rows.sd[split])
        draws += np.float32(rows.mean[split])
        off = batch.predict(rows.test, precision, 1, only=[split], dropout=False).mean[0]
        error = (off - rows.test.y[split]) * rows.sd[split]
        return {
            **scores(draws, 1 / setting.tau, rows.targets[split]),
            "rmse_no_dropout": math.sqrt(np.mean(error**2)),
            "drop_rate": setting.rate,
            "tau": setting.tau,
        }


def train(batch: Training, epochs: int, title: str, state: State, how: How) -> None:
    """Take the steps of all epochs that are left; say how far it is, and store the state now and then."""
    last, chunk = epochs * batch.steps_an_epoch, 1
    begun, said, saved, first = time.monotonic(), time.monotonic(), time.monotonic(), batch.step
    while batch.step < last:
        before = time.monotonic()
        batch.train(min(chunk, last - batch.step), how.threads)
        now = time.monotonic()
        chunk = chunk * 2 if now - before < CHUNK_S / 2 else max(1, chunk // 2) if now - before > 2 * CHUNK_S else chunk
        if now - said >= SAY_EVERY_S:
            said, left_s = now, (now - begun) / (batch.step - first) * (last - batch.step)
            epoch = batch.step // batch.steps_an_epoch
            how.say(
                f"{title}: {len(batch.networks)} networks, epoch {epoch}/{epochs}, training {duration(left_s)} more"
            )
        if now - saved >= how.save_every_s or batch.step == last:
            state.save()
            saved = time.monotonic()
