"""The methods of the UCI table, each for all splits of a set at once; resumable; results as the rows of `scores.tidy`.

- mc_dropout_2018: the grid of drop rates and taus on the last fifth of each split's training part, by the mixture's
  log-likelihood (the first of equal ones); then a new network on the whole part, as the author's code of 2018 does
- mc_dropout_2016: the drop rate, tau and length scale of 2016, but batches of 128 as in 2018 (the paper's have 32)
- network: no dropout and no decay; the noise is the error on the last fifth of a network trained on the rest; then a
  new network on the whole part
- deep_ensemble: see `bench.uci.ensembles`; its 40 epochs begin again if the run is killed
- linear: least squares in closed form; variance s^2 (1 + x' (X'X)^-1 x), s^2 by the degrees of freedom

Files, in ROOT/uci: NAME.csv when all splits are done; before, the state of the networks, about once a minute.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.core.environment import usable_threads
from bench.core.errors import ConfigError, DataCorrupt, check_known
from bench.core.files import is_there, read_file, remove, write_atomically
from bench.core.text import duration
from bench.uci.data import Floats, Regression, SetFacts, Split, facts_of, load, standardise, validation
from bench.uci.dropout import LARGEST, LENGTH_SCALE, Batch, Network, Parts, State, keras_decay
from bench.uci.ensembles import Ensembles
from bench.uci.scores import Fit, scores, tidy

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("mc_dropout_2018", "mc_dropout_2016", "network", "deep_ensemble", "linear")
PASSES = 10_000
FURTHER = {
    "rmse_no_dropout": "RMSE of the network without dropout",
    "drop_rate": "the drop rate that was used",
    "tau": "the precision of the noise that was used, in the inverse square of the target's unit",
}
SAY_EVERY_S = 15.0
CHUNK_S = 1.0  # least time of a call of the compiled loop, once it is known


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


class Prepared(NamedTuple):
    """Standardised rows of every split, and the target's mean and standard deviation in each."""

    train: Parts
    test: Parts
    targets: Floats  # of the test rows, in the target's unit [S, n]
    mean: Floats
    sd: Floats


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
        DataMissing, DataCorrupt: see `data.load`.
    """
    check_known("method of the UCI table", METHODS, method)
    if epochs < 1 and method != "linear":
        raise ConfigError(f"{epochs} epochs given; a network needs at least 1")
    epochs = 0 if method == "linear" else epochs
    data, known = load(name, how.data_dir), facts_of(name)
    data = data._replace(splits=data.splits[: how.splits])
    recipe = "" if how.passes == PASSES or not method.startswith("mc_dropout") else f"{how.passes} passes"
    fits = [Fit(name, method, recipe, epochs, split, seed) for split in range(len(data.splits))]
    stem = "-".join([name, method, str(epochs), str(seed), *([f"{how.passes}p"] if recipe else [])])
    stem += f"-{how.splits}s" if how.splits else ""
    path = how.root / "uci" / f"{stem}.csv"
    if is_there(path):
        return _read_table(path, fits)
    if method == "linear":
        found = [linear(data, split) for split in data.splits]
    elif method == "deep_ensemble":
        found = ensemble(data, known.hidden, epochs, seed)
    else:
        found = _Run(data, known, method, epochs, seed, how, stem).found()
    table = tidy(zip(fits, found, strict=True))
    write_atomically(path, table.to_csv(index=False).encode())
    for stage in ("tuning", "final"):
        state = path.with_name(f"{stem}.{stage}.state")
        if is_there(state):
            remove(state, how.root)
    return table


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    content = io.BytesIO(read_file(path, LARGEST))
    return pd.read_csv(content, keep_default_na=False, float_precision="round_trip")


def _read_table(path: Path, fits: Sequence[Fit]) -> pd.DataFrame:
    table = _table(path)
    if list(table.columns) != [*Fit._fields, "metric", "value"] or set(table["split"]) != {fit.split for fit in fits}:
        raise DataCorrupt(f"{path} is no table of {len(fits)} splits; remove it, and the same command makes it again")
    return table


def linear(data: Regression, split: Split) -> dict[str, float]:
    """Return the scores of least squares with an intercept on a split's test rows."""
    x, y = standardise(data.x[split.train], data.x[split.test]), data.y[split.train]
    design, points = (np.column_stack([np.ones(len(one)), one]) for one in (x.train, x.test))
    inverse = np.linalg.pinv(design.T @ design, hermitian=True)  # a constant feature has no effect
    weights = inverse @ (design.T @ y)
    freedom = len(y) - np.linalg.matrix_rank(design)
    noise = float(np.sum((y - design @ weights) ** 2)) / freedom
    variance = noise * (1 + np.einsum("ni,ij,nj->n", points, inverse, points))
    return scores((points @ weights)[None], variance[None], data.y[split.test])


def ensemble(data: Regression, hidden: int, epochs: int, seed: int) -> list[dict[str, float]]:
    """Return the scores of a deep ensemble on each split."""
    rows = prepare(data, data.splits)
    networks = Ensembles(rows.train, hidden, seed)
    networks.train(epochs)
    mean, variance = networks.predict(rows.test)
    mean, variance = mean * rows.sd[:, None, None] + rows.mean[:, None, None], variance * rows.sd[:, None, None] ** 2
    return [scores(*one) for one in zip(mean, variance, rows.targets, strict=True)]


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


class _Run:
    """Networks of all splits of a set with one method."""

    def __init__(
        self, data: Regression, known: SetFacts, method: str, epochs: int, seed: int, how: How, stem: str
    ) -> None:
        self._data, self._known, self._method = data, known, method
        self._epochs, self._seed, self._how, self._stem = epochs, seed, how, stem

    def found(self) -> list[dict[str, float]]:
        """Choose the settings, train the final networks and return the scores of each split."""
        splits, known = self._data.splits, self._known
        if self._method == "mc_dropout_2016":
            settings = [Setting(known.drop_rate_2016, known.tau_2016, known.length_scale_2016)] * len(splits)
        else:
            settings = self._chosen()
        rows = prepare(self._data, splits)
        batch = self._trained("final", rows, [[one] for one in settings])
        with ThreadPoolExecutor(self._how.threads) as pool:
            return list(pool.map(lambda s: self._scores(batch, rows, s, settings[s]), range(len(splits))))

    def _chosen(self) -> list[Setting]:
        """Return the setting of each split that is best on its validation rows."""
        parts = [validation(split.train) for split in self._data.splits]
        rows = prepare(self._data, parts)
        if self._method == "network":
            batch = self._trained("tuning", rows, [[Setting(0.0, math.inf, 0.0)]] * len(parts))
            off = batch.predict(rows.test, np.ones((len(parts), 1)), 1, threads=self._how.threads, dropout=False)
            noise = np.mean((off.mean - rows.test.y) ** 2, axis=1) * rows.sd**2
            return [Setting(0.0, float(1 / one), 0.0) for one in noise]
        grid = [Setting(rate, tau) for rate in self._known.drop_rates for tau in self._known.taus]
        batch = self._trained("tuning", rows, [grid] * len(parts))
        found, said = [], time.monotonic()
        for split, sd in enumerate(rows.sd):
            own = range(split * len(grid), (split + 1) * len(grid))
            precision = np.array([[one.tau * sd**2] for one in grid])
            passes = batch.predict(rows.test, precision, self._how.passes, threads=self._how.threads, only=own)
            likelihood = passes.log_density.mean(axis=(1, 2))  # log(sd) above that in the target's unit, for all alike
            found.append(grid[int(likelihood.argmax())])
            if time.monotonic() - said >= SAY_EVERY_S:
                said = time.monotonic()
                self._how.say(f"{self._stem}: {split + 1}/{len(parts)} splits validated")
        return found

    def _trained(self, stage: str, rows: Prepared, settings: Sequence[Sequence[Setting]]) -> Batch:
        """Return the networks of a stage after all epochs: one for each setting of each split."""
        n = rows.train.x.shape[1]
        networks = [
            Network(s, (int(stage == "final"), s, k), one.rate, keras_decay(one.rate, one.tau, n, one.length_scale))
            for s, its in enumerate(settings)
            for k, one in enumerate(its)
        ]
        batch = Batch(networks, rows.train, self._known.hidden, self._seed)
        state = State(self._how.root / "uci" / f"{self._stem}.{stage}.state", batch, self._how.say)
        state.restore()
        train(batch, self._epochs, f"{self._stem}, {stage}", state, self._how)
        return batch

    def _scores(self, batch: Batch, rows: Prepared, split: int, setting: Setting) -> dict[str, float]:
        precision = np.array([[setting.tau * rows.sd[split] ** 2]])
        passes = self._how.passes if setting.rate else 1
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


def train(batch: Batch, epochs: int, title: str, state: State, how: How) -> None:
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
