"""What tables, figures and the page are made from: one results folder, read under one set of conditions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from bench.core.errors import BenchError
from bench.core.folder import Problem
from bench.core.records import Reading, Record
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.judge.claims import Claim, ClaimRow, load_claims, match
from bench.judge.ladder import readings
from bench.judge.ladder.effects import Numbers
from bench.judge.results import Results, described, select
from bench.judge.stats.verdicts import Judgement, judge
from bench.measure.recomputed import sound
from bench.plan.manifests import DOCUMENTS, ApproachGroup, ApproachManifest
from bench.plan.registry import group_of, of_group
from bench.show.beside import MINE, Beside, beside
from bench.show.cells import Table
from bench.show.measured import measured_folder

Cells: TypeAlias = Mapping[tuple[str, str], Sequence[Record]]
"""Records by approach and recipe."""


class Material:
    """A results folder: each part is read when it is first asked for, and once."""

    def __init__(
        self,
        root: Path,
        profile: str = "full",
        device: str = "cpu",
        precision: str = "float32",
        baseline: Path | None = None,
        group: ApproachGroup = DOCUMENTS,
    ) -> None:
        """Take a results folder and the conditions of the records that count; a folder that is not there is empty.

        The records of the folder `baseline` are shown beside those of `root`.
        """
        self.store = Store(root)
        has_baseline = baseline is not None and baseline.resolve() != root.resolve()
        self._baseline = Store(baseline) if baseline is not None and has_baseline else None
        self.profile, self.device, self.precision = profile, device.split(":")[0], precision
        self.group = group
        self._read_once: dict[Path, tuple[list[Record], list[Problem]]] = {}  # by folder, of all groups
        self._scores: dict[str, Scores] = {}
        self._untrusted: dict[str, Sequence[Problem]] = {}  # of each folder that was read

    @cached_property
    def _stored(self) -> tuple[Sequence[Record], Sequence[Problem]]:
        return self._read(self.store)

    @cached_property
    def _lent(self) -> tuple[Sequence[Record], Sequence[Problem]]:
        return self._read(self._baseline) if self._baseline is not None else ((), ())

    def _read(self, store: Store) -> tuple[Sequence[Record], Sequence[Problem]]:
        """Return the group's records of a folder that can be trusted, and the problems of all groups read so far."""
        if store.root not in self._read_once:
            self._read_once[store.root] = store.all_records()
        records, problems = self._read_once[store.root]
        kept, contradicting = sound([one for one in records if group_of(one.approach) == self.group], store)
        problems += [problem for problem in contradicting if problem not in problems]
        return kept, problems

    @cached_property
    def beside(self) -> Beside:
        """The records of all conditions, of the folder and of the baseline."""
        return beside(self._stored[0], self._lent[0], (self.profile, self.device, self.precision))

    def of_other_group(self, group: ApproachGroup) -> Material:
        """Return the same folder under the same conditions, with the records of another group of approaches."""
        baseline = None if self._baseline is None else self._baseline.root
        other = Material(self.store.root, self.profile, self.device, self.precision, baseline, group)
        other._read_once = self._read_once  # no file is read twice
        return other

    def of_approach(self, name: str) -> Material:
        """Return the material of the group of an approach."""
        group = group_of(name)
        return self if group == self.group else self.of_other_group(group)

    @property
    def records(self) -> Sequence[Record]:
        """The records of all conditions."""
        return self.beside.records

    @cached_property
    def results(self) -> Results:
        """The records of the conditions, by cell."""
        return self.of_profile(self.profile)

    def of_profile(self, profile: str) -> Results:
        """Return the records of another profile under the same conditions otherwise."""
        return self._results(self.records, self.beside.manifests(of_group(self.group)), profile)

    def _results(self, records: Sequence[Record], known: Mapping[str, ApproachManifest], profile: str) -> Results:
        return Results(select(records, profile, self.device, self.precision, self._stored[1]), known)

    @cached_property
    def paper(self) -> Results:
        """The records of the approaches of the paper, under the same conditions."""
        return self.of_other_group("paper").results

    @cached_property
    def claims(self) -> list[Claim]:
        """The numbers that the documents report."""
        return load_claims()

    @cached_property
    def rows(self) -> list[ClaimRow]:
        """Every reported number and what the records measured of it."""
        return match(self.claims, self.results)

    @cached_property
    def judgement(self) -> Judgement:
        """The verdicts of every reported number and of every curve."""
        return judge(self.rows)

    @cached_property
    def readings(self) -> Sequence[Reading]:
        """What was read from fits beyond their records."""
        found, self._untrusted["readings"] = readings.read_all(self.store)
        others = readings.read_all(self._baseline)[0] if self._baseline else ()
        return [*others, *found]

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers that ladders compare, from records and readings: approaches have the names of their manifests."""
        results = (
            self._results(self.beside.plain, of_group(self.group), self.profile) if self.beside.new else self.results
        )
        return Numbers(results, self.readings)

    @cached_property
    def measured(self) -> Mapping[str, Table]:
        """Tables about the suite itself by name, those of the folder before the baseline's."""
        read = [measured_folder(store.root).read_all() for store in (self._baseline, self.store) if store is not None]
        self._untrusted["measured"] = [problem for _, problems in read for problem in problems]
        distrusted = {problem.path.stem for problem in read[-1][1]}  # no baseline speaks for these
        return {one.name: one.table() for tables, _ in read for one in tables if one.name not in distrusted}

    def untrusted(self, name: str) -> str:
        """Return why the file of a measured table cannot be trusted, '' if it can or is not there."""
        found = self._untrusted.get("measured", ())
        return next((problem.reason for problem in found if problem.path.stem == name), "")

    @property
    def problems(self) -> list[str]:
        """What is wrong with files of the folder that cannot be trusted."""
        for part in ("readings", "measured"):
            getattr(self, part)  # reads it, if nothing has
        found = itertools.chain(self._stored[1], self._lent[1], *self._untrusted.values())
        return [problem.reason for problem in found]

    def finished(self, approach: str, recipe: str = "published", protocol: str = "common") -> list[Record]:
        """Return the finished records of a cell, by seed."""
        found = [record for record in self.results.cell(approach, recipe, protocol) if record.outcome == "done"]
        return sorted(found, key=lambda record: int(record.seed))

    def classifiers(self, recipe: str = "published") -> list[str]:
        """Return the approaches to MNIST, of documents and the user's, with finished common records of a recipe."""
        documented = {name for name, entry in self.results.manifests.items() if entry.document}
        shown = [name for name in self.results.classifiers() if name.startswith(MINE) or name in documented]
        return [name for name in shown if self.finished(name, recipe)]

    def with_array(self, array: str) -> Cells:
        """Return the finished common records that hold a field of `Arrays`, by approach and recipe."""
        return {
            (approach, recipe): found
            for recipe in ("published", "corrected")
            for approach in self.classifiers(recipe)
            if (found := [one for one in self.finished(approach, recipe) if getattr(one.arrays, array) is not None])
        }

    def scores(self, record: Record) -> Scores:
        """Return the per-row scores beside a record, empty without them."""
        if record.key not in self._scores:
            is_own = record.key in self.beside.own_keys
            store = self.store if self._baseline is None or is_own else self._baseline
            named = structs.replace(record, approach=record.approach.removeprefix(MINE))
            self._scores[record.key] = store.scores(named)
        return self._scores[record.key]

    def scored(self, approach: str) -> Record | None:
        """Return the first published x common record that has per-row scores, None without any."""
        return next((record for record in self.finished(approach) if self.scores(record)), None)

    def conditions(self, records: Sequence[Record]) -> str:
        """Return profile, device, precision and seeds of some records, the end of a figure's caption."""
        return described((self.profile, self.device, self.precision), {int(record.seed) for record in records})

    def not_run(self, what: str) -> str:
        """Return the sentence for records that are not there."""
        where = f"profile {self.profile}, {self.device}, {self.precision}"
        return f"there is no finished record of {what} ({where}); python -m bench run makes it"


def images(name: str, seed: int) -> NDArray[np.float32] | str:
    """Return the pixels of a data set [N, 28, 28] in [0, 1], or why it is not there; noise may lie outside."""
    from bench.data.manifest import OOD_NAMES  # here: images need PyTorch, tables do not
    from bench.data.splits import load_ood, load_split

    try:
        split = load_ood(name, seed) if name in OOD_NAMES else load_split(name, seed)
    except BenchError as error:
        return str(error)
    return np.asarray(split.x.numpy()).reshape(-1, 28, 28)
