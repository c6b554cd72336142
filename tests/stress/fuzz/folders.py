"""Targets among whole results folders: what somebody else may have put in the place of a file, and forged files.

Each command is a target of its own, so that the figures of a campaign say how often it was tried.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.core import locks
from bench.core.canonical import canonical
from bench.core.errors import BenchError
from bench.core.files import write_atomically
from bench.core.records import Record
from bench.core.sealed import seal
from bench.core.store import Store
from tests.show.posteriors import described
from tests.stress.fuzz.damage import VALUES, Json, damaged_value
from tests.stress.fuzz.engine import Target
from tests.stress.fuzz.guarded import KEY, NETWORK, SCORED, Guarded, forgeable, scored
from tests.stress.fuzz.scores import forged_scores
from tests.stress.fuzz.stored import tensor_bytes

KINDS = ("link to a file", "link to a folder", "hard link", "pipe", "folder", "loop", "nothing")
PLACES = (
    *("records", "records/mlp", "RECORD", "SCORES", "fits", "fits/KEY", "fits/KEY/posterior.safetensors"),
    *("fits/KEY/checkpoint.safetensors", "locks", "locks/KEY.lock", "locks/KEY.json"),
    *("readings", "tables", "tables/accuracy.md"),
    *("report", "figures", "figures/confidence.svg", "shipped-fits", "shipped-fits/KEY"),
)
TENSOR_TYPES = (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64)
FIGURES = (
    *("confidence", "roc", "entropy", "draws", "chopra2018-votes", "feldman2018-ood", "reliability", "risk-coverage"),
    *("feldman2018-toys", "feldman2018-training-mlp", "alsibahi2019-uncertain-pyro_hidden_layer", "accuracy"),
    *("pruning", "cost", "chopra2018-verdicts"),
)
ALONE = "--baseline none --results RESULTS"  # the shipped records are not what is tried, and take seconds to judge
HERE = "--results RESULTS"

Command = tuple[str, ...]
Plant = tuple[str, str]  # where, and what kind of thing
Change = tuple[str, str, torch.dtype, float]  # of which tensor, what is done to it, and with what


class Posterior(NamedTuple):
    """What is changed in a sound network; the megabytes are made when it is written, or hypothesis remembers them."""

    changes: Sequence[Change]
    info: Json


class Forged(NamedTuple):
    """What a folder gets besides its sound files."""

    plants: Sequence[Plant] = ()
    record: tuple[int, Json] | None = None  # the number of a sound record, and the fields that are put in its place
    approach: str = "mlp"  # of the scores
    scores: bytes | None = None
    posterior: Posterior | None = None
    is_shipped: bool = False  # whether the posterior lies where those that come with the suite lie


class Tried(NamedTuple):
    """A command that is tried on forged folders."""

    name: str
    share: float
    lines: tuple[str, ...]  # its ways


TABLES = ("accuracy", "ood", "refusal", "pruning", "calibration", "choice")
COMMANDS = (
    Tried(
        "table",
        1.5,
        (
            f"table {ALONE}",
            f"table unfinished --format md {ALONE}",
            f"table provenance --format csv {ALONE}",
            *(f"table {name} {ALONE}" for name in TABLES),
            f"table --write {ALONE}",
        ),
    ),
    Tried("table confidence", 3, (f"table confidence {ALONE}",)),
    Tried("status", 1.5, (f"status mlp {HERE}", f"status --all --wide {HERE}", f"status mlp --json {HERE}")),
    Tried("plan", 1, (f"plan mlp {HERE}",)),
    Tried("verdict", 1.5, (f"verdict {HERE}", f"verdict --all --json {HERE}")),
    Tried("ablation", 1.5, (f"ablation mlp {HERE}",)),
    Tried("audit records", 2, (f"audit records {HERE}",)),
    Tried("compare", 2, ("compare RESULTS SOUND", "compare SOUND RESULTS --json")),
    Tried("compare --verify", 3, ("compare RESULTS --verify",)),
    Tried(
        "predict",
        2.5,
        (
            *(f"predict PICTURE --draws 3 --rule {rule} {HERE}" for rule in ("median", "entropy")),
            f"predict PICTURE --approach mlp --json {HERE}",
        ),
    ),
    Tried("figures", 3, (f"figures --list {ALONE}", *(f"figures {name} {ALONE}" for name in FIGURES))),
    Tried("report", 1.5, (f"report --no-figures {ALONE}",)),
)


def folder_targets(folder: Path) -> list[Target]:
    """Return the targets that are given whole folders."""
    plants = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(KINDS)), min_size=1, max_size=3)
    record = st.sampled_from(range(len(_records()))).flatmap(_changed)
    scores = st.tuples(st.sampled_from(SCORED), forged_scores())
    forged = st.one_of(
        plants.map(lambda found: Forged(plants=found)),
        *[record.map(lambda found: Forged(record=found))] * 2,
        *[scores.map(lambda found: Forged(approach=found[0], scores=found[1]))] * 3,
    )
    posteriors = st.tuples(_posteriors(), st.booleans()).map(
        lambda found: Forged(posterior=found[0], is_shipped=found[1])
    )
    place = Guarded(folder / "guarded")
    targets = [Target("links and pipes", st.tuples(plants, st.booleans()), _files_reader(place), share=2)]
    for tried in COMMANDS:
        given = st.one_of(forged, posteriors, posteriors) if tried.name == "predict" else forged
        inputs = st.tuples(given, st.sampled_from([tuple(line.split()) for line in tried.lines]))
        targets.append(Target(f"folders, {tried.name}", inputs, _commands_reader(place), share=tried.share))
    return targets


@functools.cache
def _records() -> list[Record]:
    return forgeable()


def _changed(number: int) -> st.SearchStrategy[tuple[int, Json]]:
    """Return the number of a record, and its fields with one part changed."""
    value: dict[str, Json] = json.loads(seal(_records()[number]))
    del value["sha256"]
    return damaged_value(value).map(lambda changed: (number, changed))


def _posteriors() -> st.SearchStrategy[Posterior]:
    changes = st.lists(
        st.tuples(
            st.sampled_from((*NETWORK, "scores/mnist/predictive_entropy", "scores/mnist/expected_entropy", "mu")),
            st.sampled_from(("gone", "type", "flat", "empty", "scalar", "number", "none")),
            st.sampled_from(TENSOR_TYPES),
            st.sampled_from((float("nan"), float("inf"), 1e38, -1.0, 0.0)),
        ),
        max_size=2,
    )
    good: Json = json.loads(canonical(described(KEY)))
    info = st.one_of(st.just(good), damaged_value(good), st.sampled_from(VALUES))
    return st.builds(Posterior, changes, info)


def _posterior_bytes(changes: Sequence[Change], info: Json) -> bytes:
    tensors = {name: value.clone() for name, value in NETWORK.items()}
    for name, how, kind, number in changes:
        old = tensors.pop(name, torch.zeros(12))
        changed = {
            "type": lambda old, kind, _: old.to(kind),
            "flat": lambda old, *_: old.reshape(-1)[:10].clone(),
            "empty": lambda old, *_: old.reshape(-1)[:0],
            "scalar": lambda *_: torch.tensor(1.0),
            "number": lambda old, _, number: torch.full_like(old, number),
            "none": lambda old, *_: old,
        }.get(how)
        if changed is not None:
            tensors[name] = changed(old, kind, number)
    return tensor_bytes(tensors, info)


def _forge(folder: Guarded, forged: Forged) -> None:
    """Make a new results folder with the forged files."""
    store = folder.fresh()
    if forged.record is not None:
        number, value = forged.record
        fields = value if isinstance(value, dict) else {}
        path = store.record_path(_records()[number])
        path.parent.mkdir(exist_ok=True)
        with contextlib.suppress(RecursionError):  # nested more deeply than a forger could write
            path.write_bytes(seal(fields))
    if forged.scores is not None:
        made = replace(scored(forged.approach), scores_sha256=hashlib.sha256(forged.scores).hexdigest())
        store.write(made)
        store.record_path(made).with_suffix(".npz").write_bytes(forged.scores)
    if forged.posterior is not None:
        path = store.fit_path(KEY, "posterior")
        path.unlink()
        path = store.root / "shipped-fits" / path.relative_to(store.root / "fits") if forged.is_shipped else path
        write_atomically(path, _posterior_bytes(*forged.posterior))
    for where, kind in forged.plants:
        folder.plant(where, kind)


def _commands_reader(folder: Guarded) -> Callable[[tuple[Forged, Command]], None]:
    def read(given: tuple[Forged, Command]) -> None:
        forged, command = given
        _forge(folder, forged)
        folder.run(command)

    return read


def _files_reader(folder: Guarded) -> Callable[[tuple[Sequence[Plant], bool]], None]:
    def read(given: tuple[Sequence[Plant], bool]) -> None:
        plants, later = given
        store = folder.fresh()
        for where, kind in plants:
            folder.plant(where, kind)
        try:
            _use(store, folder, later)
        finally:
            folder.check()

    return read


def _use(store: Store, folder: Guarded, later: bool) -> None:
    """Do with a folder what a run does."""
    store.all_records()
    if later:
        store.check_writable()
    found = store.find(folder.good)
    store.read_tensors(store.fit_path(KEY, "posterior"))
    store.read_tensors(store.fit_path(KEY, "checkpoint"))
    locks.is_held(store.root, KEY)
    locks.holder(store.root, KEY)
    with locks.hold(store.root, [KEY]):
        store.write(folder.good, {})
    store.drop_checkpoint(KEY)
    if found is None:
        raise BenchError("left out")
