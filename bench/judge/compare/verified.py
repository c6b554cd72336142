"""Whether an entry, a folder of somebody else's records, can be believed: what a reader can check without training.

A record gives its numbers, a sealed file of scores of every test row, the hash of its training rows and its versions.
An entry whose numbers were edited, whose rows are others, or that shows one run under several seeds contradicts itself.
That a fit looked at test rows in a way that its record does not tell cannot be seen; `UNSEEN` says so.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bench.core.records import Record
from bench.core.store import Store
from bench.data.fingerprint import split_hash
from bench.data.manifest import TASKS, data_hashes
from bench.data.splits import SPLIT_NAMES, load_split
from bench.measure.measuring import first_rows
from bench.measure.recomputed import contradictions
from bench.plan.freshness import why_stale
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import is_profile, profile, resolve
from bench.plan.registry import manifests

UNSEEN = "whether a fit used test rows in a way that its record does not tell: train it again to know"

Judged = Literal["refused", "not checked"]


class Remark(NamedTuple):
    """What is wrong with an entry, or what could not be checked."""

    judged: Judged
    subject: str
    detail: str


def verified(root: Path) -> tuple[int, list[Remark]]:
    """Return the number of finished records of a results folder, and all that is wrong or could not be checked."""
    store = Store(root)
    records, problems = store.all_records()
    done = [record for record in records if record.outcome == "done"]
    found = [Remark("refused", str(problem.path.name), problem.reason) for problem in problems]
    for record in done:
        found += [Remark(judged, record.title, detail) for judged, detail in _of_record(record, store)]
    found += _copied(done)
    return len(done), [*found, Remark("not checked", "the entry", UNSEEN)]


def _of_record(record: Record, store: Store) -> Iterator[tuple[Judged, str]]:
    entry = manifests().get(record.approach)
    if entry is None:
        yield "not checked", "its approach is not installed here: recipe, versions and training rows are unknown"
    elif why := why_stale(record):
        yield "refused", why
    made_from = record.provenance.data_sha256
    if not made_from:
        yield "not checked", "it does not say from which data it was made"
    if differing := [name for name, sha in data_hashes().items() if made_from.get(name, sha) != sha]:
        yield "refused", f"it was made from other data: {', '.join(differing)}"
    if entry is not None and entry.task == "mnist":
        yield from _trained(record, entry)
    yield from _scored(record, store)


def _trained(record: Record, entry: ApproachManifest) -> Iterator[tuple[Judged, str]]:
    """Compare the hash of the training rows with that of the split that the recipe names."""
    wanted, task = resolve(entry, record.recipe).split, _task(record)
    found = record.provenance.train_sha256
    if found is None:
        yield "not checked", "it does not say from which rows it learnt"
    elif found != _split_hash(wanted, record.seed, task):
        other = next((name for name in SPLIT_NAMES if found == _split_hash(name, record.seed, task)), "other rows")
        yield "refused", f"it learnt from {other}, its recipe from {wanted}"


@functools.lru_cache(maxsize=32)
def _split_hash(name: str, seed: int, task: str) -> str:
    return split_hash(load_split(name, seed, task=task))


def _task(record: Record) -> str:
    return profile(record.profile).task if is_profile(record.profile) else "mnist"


def _scored(record: Record, store: Store) -> Iterator[tuple[Judged, str]]:
    """Compute the metrics again from the scores, and compare the scored rows with the test rows."""
    if not store.record_path(record).with_suffix(".npz").is_file():
        yield "not checked", "no scores of its rows are there: its metrics cannot be computed again"
        yield from (("refused", why) for why in contradictions(record.metrics, {}))
        return
    scores = store.scores(record)
    if not scores:
        yield "refused", "its scores cannot be trusted: quarantine/reasons.txt says why"
        return
    inside = TASKS[_task(record)].inside
    if f"{inside}/label" not in scores:
        yield "not checked", "its scores are of no test rows"
        return
    for why in contradictions(record.metrics, scores):
        yield "refused", why
    if not is_profile(record.profile):
        yield "not checked", f"profile {record.profile} is not known here: which rows it measures is unknown"
        return
    test = load_split("test10k", record.seed, task=_task(record))
    labels = first_rows(test, profile(record.profile).common_rows).y.numpy()
    if not np.array_equal(scores[f"{inside}/label"], labels):
        yield "refused", f"the scored rows are not the {len(labels):,} test rows of profile {record.profile}"


def _copied(records: Sequence[Record]) -> Iterable[Remark]:
    """Find seeds of one cell that have the same numbers to the last bit although they were trained."""
    seen: dict[tuple[object, ...], Record] = {}
    for record in records:
        if not record.epochs or not record.metrics:
            continue
        numbers = tuple(sorted(record.metrics.items()))
        first = seen.setdefault((record.place, numbers), record)
        if first.seed != record.seed:
            yield Remark("refused", record.title, f"all its numbers are those of seed {first.seed}: one run, two names")
