"""Checks an entry, a folder with records of other people, without training anything.

A record has its numbers, the hash of a file with the scores of every test row, the hash of its training rows, and its
versions. An entry contradicts itself if numbers were edited, if other rows were used, or if one run stands under
several seeds. If a fit used test rows and its record does not say so, nobody can see it: see `UNSEEN`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bench.core.canonical import plain
from bench.core.errors import ConfigError, DataMissing
from bench.core.metric_table import BRIER, ENTROPY, NATS, unit_of
from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.store import Store
from bench.data.fingerprint import split_hash
from bench.data.manifest import TASKS, TaskData, data_hashes
from bench.data.splits import SPLIT_NAMES, load_split
from bench.measure.measuring import first_rows
from bench.measure.metrics.arrays import FloatArray
from bench.measure.recomputed import compared, contradictions
from bench.plan.cells import Selection, cells
from bench.plan.freshness import why_stale
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import is_profile, profile, resolve
from bench.plan.registry import manifests

CLOSE = 1e-4  # relative difference; of two true runs, below 1 % of the rows' NLLs and 10 % of the metrics are closer
FEW = 5  # fewer numbers may all be close by chance
SMOOTH = (NATS, ENTROPY, BRIER)  # units of metrics that are not shares of rows, so seldom equal by chance
UNSEEN = (
    "whether a fit used test rows in a way that its record does not tell, whether seeds were left out, and times: "
    "train it again to know"
)

Judged = Literal["refused", "not checked"]


class Remark(NamedTuple):
    """What is wrong with an entry, or what could not be checked."""

    judged: Judged
    subject: str
    detail: str


def verified(root: Path) -> tuple[int, list[Remark]]:
    """Return the number of finished records of a folder, and what is wrong or could not be checked."""
    store = Store(root)
    records, problems = store.all_records()
    done = [record for record in records if record.outcome == "done"]
    found = [Remark("refused", str(problem.path.name), problem.reason) for problem in problems]
    for record in done:
        subject = f"{record.title}, profile {record.profile}"
        found += [Remark(judged, subject, detail) for judged, detail in _of_record(record, store)]
    found += _copied(done, store)
    return len(done), [*found, Remark("not checked", "the entry", UNSEEN)]


def _of_record(record: Record, store: Store) -> Iterator[tuple[Judged, str]]:
    entry = manifests().get(record.approach)
    if entry is None:
        yield "not checked", "its approach is not installed here: recipe, versions and training rows are unknown"
    elif why := why_stale(record):
        yield "refused", why
    else:
        yield from _settings(record)
    made_from = record.provenance.data_sha256
    if not made_from:
        yield "not checked", "it does not say from which data it was made"
    if differing := [name for name, sha in data_hashes().items() if made_from.get(name, sha) != sha]:
        yield "refused", f"it was made from other data: {', '.join(differing)}"
    if entry is not None and entry.task == "mnist":
        yield from _trained(record, entry)
    yield from _scored(record, store)


def _settings(record: Record) -> Iterator[tuple[Judged, str]]:
    """Compare the settings with the recipe's, and the epochs with the settings."""
    n_epochs = record.recipe_values.get("epochs", len(record.epochs))
    if len(record.epochs) != n_epochs:
        yield "refused", f"it lists {len(record.epochs)} epochs, its settings have {n_epochs}"
    try:
        chosen = Selection(
            (record.approach,), recipes=(record.recipe,), protocols=(record.protocol,), profile=record.profile
        )
        (planned,) = cells(chosen)
    except ConfigError as error:
        yield "not checked", f"its settings: {error}"
        return
    if planned.skip:
        yield "not checked", f"its settings: {in_words(planned.skip)}"
    for name, value in record.recipe_values.items():
        wanted = planned.values.get(name, value)
        if plain(value) != plain(wanted):
            yield "refused", f"its {name} is {value}, its recipe has {wanted}"


def _trained(record: Record, entry: ApproachManifest) -> Iterator[tuple[Judged, str]]:
    """Compare the hash of the training rows with the hash of the recipe's split."""
    try:
        wanted, task = resolve(entry, record.recipe).split, _task(record)
    except ConfigError:  # an unknown recipe: `why_stale` has said so
        return
    found = record.provenance.train_sha256
    if found is None:
        yield "not checked", "it does not say from which rows it learnt"
        return
    try:
        if found != _split_hash(wanted, record.seed, task):
            other = next((name for name in SPLIT_NAMES if found == _split_hash(name, record.seed, task)), "other rows")
            yield "refused", f"it learnt from {other}, its recipe from {wanted}"
    except DataMissing as error:
        yield "not checked", f"from which rows it learnt: {error}"


@functools.lru_cache(maxsize=32)
def _split_hash(name: str, seed: int, task: str) -> str:
    return split_hash(load_split(name, seed, task=task))


def task_of(record: Record) -> TaskData:
    """Return the data sets of a record's task; of task mnist if the profile is unknown."""
    return TASKS[_task(record)]


def _task(record: Record) -> str:
    return profile(record.profile).task if is_profile(record.profile) else "mnist"


def _scored(record: Record, store: Store) -> Iterator[tuple[Judged, str]]:
    """Compute the metrics from the scores, and compare the scored rows with the test rows."""
    if not store.record_path(record).with_suffix(".npz").is_file():
        yield "not checked", "no scores of its rows are there: its metrics cannot be computed again"
        yield from (("refused", why) for why in contradictions(record.metrics, {}, record.arrays))
        return
    scores = store.scores(record)
    if not scores:
        yield "refused", "its scores cannot be trusted: quarantine/reasons.txt says why"
        return
    inside = task_of(record).inside
    if f"{inside}/label" not in scores:
        yield "not checked", "its scores are of no test rows"
        return
    found, untold = compared(record.metrics, scores, record.arrays)
    yield from (("refused", why) for why in found)
    if untold:
        names = sorted({key.partition("/")[2] for key in untold})
        yield "not checked", f"its scores do not bound these metrics to within a tenth: {', '.join(names)}"
    if not is_profile(record.profile):
        yield "not checked", f"profile {record.profile} is not known here: which rows it measures is unknown"
        return
    try:
        test = load_split("test10k", record.seed, task=_task(record))
    except DataMissing as error:
        yield "not checked", f"which rows were scored: {error}"
        return
    labels = first_rows(test, profile(record.profile).common_rows).y.numpy()
    if not np.array_equal(scores[f"{inside}/label"], labels):
        yield "refused", f"the scored rows are not the {len(labels):,} test rows of profile {record.profile}"


def _copied(records: Sequence[Record], store: Store) -> Iterator[Remark]:
    """Find seeds of one cell that are copies of one run: all metrics are equal, or most metrics or rows are close."""
    seen: dict[tuple[str, ...], list[tuple[Record, FloatArray, FloatArray]]] = {}
    for record in records:
        if not record.epochs or not record.metrics:
            continue
        smooth = [value or 0 for key, value in sorted(record.metrics.items()) if unit_of(key) in SMOOTH]
        nll = store.scores(record).get(f"{task_of(record).inside}/nll", np.empty(0))
        numbers, rows = np.array(smooth), nll.astype(np.float64)
        cell = seen.setdefault(record.series, [])
        for first, others, other_rows in cell:
            same = first.metrics == record.metrics or _are_close(others, numbers) or _are_close(other_rows, rows)
            if same and first.seed != record.seed:
                yield Remark(
                    "refused",
                    record.title,
                    f"its numbers are those of seed {first.seed}: one run is stored under two seeds",
                )
                break
        cell.append((record, numbers, rows))


def _are_close(a: FloatArray, b: FloatArray) -> bool:
    """Return whether most numbers are close, of those that are not near zero in both."""
    if a.shape != b.shape:
        return False
    told = np.maximum(a, b) > CLOSE
    return int(told.sum()) >= FEW and bool(np.isclose(a, b, rtol=CLOSE, atol=0)[told].mean() > 1 / 2)
