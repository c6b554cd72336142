"""The input of tables, figures and the page: a results folder's records of one profile, device and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from bench.core.folder import Problem
from bench.core.records import DerivedMetrics, Record
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.judge.ablation import derived_metrics
from bench.judge.ablation.effects import Numbers
from bench.judge.alternatives.named import with_others
from bench.judge.claims import Claim, ClaimRow, load_claims, match
from bench.judge.comparison import ENOUGH
from bench.judge.results import SPREAD, Results, described, origin_of, select
from bench.judge.samples import Samples
from bench.judge.stats.one_more_run import Rerun, reruns
from bench.judge.stats.verdicts import Judgement, end_results, judge
from bench.plan.manifests import DOCUMENTS, GROUPS, ApproachGroup, ApproachManifest
from bench.plan.registry import group_of, manifests, of_group
from bench.show.table import MINE, Table, sources_of
from bench.show.with_baseline import GIVEN, WithBaseline, with_baseline

if TYPE_CHECKING:
    import pandas as pd

    from bench.show.frame import SeedNumbers, TrainedRuns  # imports pandas, which verdicts need not

RecordsByRecipe: TypeAlias = Mapping[tuple[str, str], Sequence[Record]]
"""Records by approach and recipe."""


class Inputs:
    """The records of a results folder, and what is computed from them. Each part is computed once, when first used."""

    def __init__(
        self,
        root: Path,
        profile: str = "full",
        device: str = "cpu",
        precision: str = "float32",
        baseline: Path | None = None,
        group: ApproachGroup = DOCUMENTS,
        reads_others: bool = True,
    ) -> None:
        """Take a results folder and the conditions of the records that count; a missing folder counts as empty.

        Tables and figures also show the records of the folder `baseline`, in trained runs that `root` has not finished.
        Only records of approaches of `group` count. Without `reads_others`, no file of another group's approaches is
        opened, so that none of them is a problem.
        """
        self.store = Store(root)
        self.baseline = None if baseline is None or baseline.resolve() == root.resolve() else baseline
        self._baseline = None if self.baseline is None else Store(self.baseline)
        self.profile, self.device, self.precision = profile, device.split(":")[0], precision
        self.group, self.reads_others = group, reads_others
        # By folder and left out approaches:
        self._read_once: dict[tuple[Path, frozenset[str]], tuple[list[Record], list[Problem]]] = {}
        self._others: dict[tuple[ApproachGroup, str], Inputs] = {(group, profile): self}
        self._scores: dict[str, Scores] = {}  # by the key of the record

    @cached_property
    def _stored(self) -> tuple[Sequence[Record], Sequence[Problem]]:
        return self._read(self.store)

    @cached_property
    def _of_baseline(self) -> tuple[Sequence[Record], Sequence[Problem]]:
        return self._read(self._baseline) if self._baseline is not None else ((), ())

    def _read(self, store: Store) -> tuple[Sequence[Record], Sequence[Problem]]:
        """Return the records of this group in a folder, and the folder's problems."""
        others = frozenset(name for name, entry in manifests().items() if entry.group != self.group)
        key = (store.root, frozenset() if self.reads_others else others)
        if key not in self._read_once:
            self._read_once[key] = store.all_records(key[1])
        records, problems = self._read_once[key]
        return [one for one in records if group_of(one.approach) == self.group], problems

    @property
    def has_baseline(self) -> bool:
        """Whether the baseline has records of these conditions."""
        conditions = (self.profile, self.device, self.precision)
        return any(record.conditions == conditions for record in self._of_baseline[0])

    @property
    def every_own(self) -> Sequence[Record]:
        """The user's records of all conditions and of all groups that are read."""
        groups = GROUPS if self.reads_others else [self.group]
        return [record for group in groups for record in self.of(group)._stored[0]]

    @cached_property
    def with_baseline(self) -> WithBaseline:
        """The folder's records beside the baseline's, of all conditions."""
        return with_baseline(self._stored[0], self._of_baseline[0], (self.profile, self.device, self.precision))

    def of(self, group: ApproachGroup | None = None, profile: str | None = None) -> Inputs:
        """Return the same folder with the records of another group of approaches, or of another profile."""
        place = (group or self.group, profile or self.profile)
        if place not in self._others:
            conditions = (place[1], self.device, self.precision)
            other = Inputs(self.store.root, *conditions, self.baseline, place[0], self.reads_others)
            other._read_once, other._others = self._read_once, self._others  # no file is read twice
            self._others[place] = other
        return self._others[place]

    def only_own(self, table: Table) -> Table:
        """Return the rows of a table that show any of the user's records, of any group of approaches.

        Lines of the CSV file are kept with their rows; without a line for each row, the file has the rows. Seeds and
        origin are those of these rows.
        """
        own = {key for group in GROUPS for key in self.of(group).with_baseline.own_keys}
        kept = [not own.isdisjoint(key for entry in row for key in sources_of(entry)) for row in table.rows]
        lines = table.lines if len(table.lines) == len(table.rows) else ()
        table = replace(table, rows=list(compress(table.rows, kept)), lines=list(compress(lines, kept)))
        sources = table.sources()
        shown = [one for group in GROUPS for one in self.of(group).with_baseline.records if one.key in sources]
        if not shown:
            return table
        spread = SPREAD if SPREAD in table.conditions else ""
        conditions = described(shown[0].conditions, {one.seed for one in shown}, spread)
        return replace(table, conditions=conditions, origin=origin_of([one.provenance for one in shown]))

    @property
    def records(self) -> Sequence[Record]:
        """The records of all conditions."""
        return self.with_baseline.records

    @cached_property
    def results(self) -> Results:
        """The records of this profile, device and precision, by trained run."""
        return self._results(self.records, self.with_baseline.manifests(of_group(self.group)))

    def _results(self, records: Sequence[Record], known: Mapping[str, ApproachManifest]) -> Results:
        return Results(select(records, self.profile, self.device, self.precision, self._stored[1]), known)

    @cached_property
    def judged(self) -> Results:
        """The records that verdicts are of: the user's in trained runs with `ENOUGH` of their seeds, else the others'.

        Without a baseline, all are the user's.
        """
        if self._baseline is None:
            return self.results
        conditions = (self.profile, self.device, self.precision)
        kept = with_baseline(self._stored[0], self._of_baseline[0], conditions, ENOUGH)
        return self._results(kept.records, kept.manifests(of_group(self.group)))

    @cached_property
    def reruns(self) -> list[Rerun]:
        """The end results that the user's records give, beside the baseline's seeds; none without a baseline."""
        own = self._results(self._stored[0], of_group(self.group))
        if not own.records or self._baseline is None:
            return []  # before the baseline is read
        shipped = self._results(self._of_baseline[0], of_group(self.group))
        return reruns(end_results(self.claims), own, shipped) if shipped.records else []

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The same records as a tidy frame with the columns of `bench.show.frame.COLUMNS`."""
        from bench.show.frame import frame_of  # here and below: verdicts need no pandas

        own = self.with_baseline.own_keys
        return frame_of(self.results.records, lambda record: "own" if record.key in own else "baseline")

    @cached_property
    def _trained_runs(self) -> TrainedRuns:
        from bench.show.frame import TrainedRuns

        return TrainedRuns(self.frame)

    def sample(
        self, approach: str, recipe: str, protocol: str, metric: str, among: Callable[[SeedNumbers], bool] | None = None
    ) -> Samples:
        """Return a metric of every seed of a trained run under the conditions of these inputs, or of some seeds."""
        return self._trained_runs.sample(approach, recipe, protocol, metric, among)

    def seeds(self, approach: str, recipe: str, protocol: str) -> Mapping[int, SeedNumbers]:
        """Return the numbers of every seed of a trained run under the conditions of these inputs."""
        return self._trained_runs.seeds(approach, recipe, protocol)

    @cached_property
    def paper(self) -> Results:
        """The records of the approaches after Blundell et al. 2015 that verdicts are of."""
        return self.of("paper").judged

    @cached_property
    def claims(self) -> list[Claim]:
        """The numbers that the documents report."""
        return load_claims()

    @cached_property
    def rows(self) -> list[ClaimRow]:
        """Every reported number, each with the values that our seeds measured."""
        return with_others(match(self.claims, self.results), self.results)

    @cached_property
    def judgement(self) -> Judgement:
        """The verdicts of every reported number and of every curve."""
        return judge(self.rows if self._baseline is None else with_others(match(self.claims, self.judged), self.judged))

    @cached_property
    def _own_derived_metrics(self) -> tuple[Sequence[DerivedMetrics], Sequence[Problem]]:
        return derived_metrics.read_all(self.store)

    @cached_property
    def derived_metrics(self) -> Sequence[DerivedMetrics]:
        """Numbers that were read from kept fits, because no record has them."""
        others = derived_metrics.read_all(self._baseline)[0] if self._baseline else ()
        return [*others, *self._own_derived_metrics[0]]

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers that ablations compare, from records and derived metrics; no approach is called `mine: NAME`."""
        results = (
            self._results(self.with_baseline.plain, of_group(self.group)) if self.with_baseline.new else self.results
        )
        return Numbers(results, self.derived_metrics)

    @property
    def problems(self) -> list[str]:
        """Return for each file that cannot be trusted what is wrong with it."""
        of_records = (*self._stored[1], *self._of_baseline[1])
        return [one.reason for one in (*of_records, *self._own_derived_metrics[1])]

    def finished(self, approach: str, recipe: str = "published", protocol: str = "common") -> list[Record]:
        """Return the finished records of a trained run, by seed."""
        found = [record for record in self.results.trained_run(approach, recipe, protocol) if record.outcome == "done"]
        return sorted(found, key=lambda record: record.seed)

    def classifiers(self, recipe: str = "published") -> list[str]:
        """Return the classifiers, of documents and of the user, with finished common records of a recipe."""
        documented = {name for name, entry in self.results.manifests.items() if entry.document}
        shown = [name for name in self.results.classifiers() if name.startswith(MINE) or name in documented]
        return [name for name in shown if self.finished(name, recipe)]

    def with_array(self, array: str) -> RecordsByRecipe:
        """Return the finished common records that hold a field of `Arrays`, by approach and recipe."""
        return {
            (approach, recipe): found
            for recipe in ("published", "corrected")
            for approach in self.classifiers(recipe)
            if (found := [one for one in self.finished(approach, recipe) if getattr(one.arrays, array) is not None])
        }

    def scores(self, record: Record) -> Scores:
        """Return the per-row scores of a record; empty if the file beside the record is missing."""
        if record.key not in self._scores:
            is_own = record.key in self.with_baseline.own_keys
            store = self.store if self._baseline is None or is_own else self._baseline
            named = structs.replace(record, approach=record.approach.removeprefix(MINE).removesuffix(GIVEN))
            self._scores[record.key] = store.scores(named)
        return self._scores[record.key]

    def conditions(self, shown: Iterable[Record | Samples]) -> str:
        """Return the end of a figure's caption: profile, device, precision, and the seeds of what it shows."""
        seeds = {seed for one in shown for seed in (one.by_seed if isinstance(one, Samples) else (one.seed,))}
        return described((self.profile, self.device, self.precision), seeds)

    def not_run(self, what: str) -> str:
        """Return the sentence that no record of `what` is finished."""
        where = f"profile {self.profile}, {self.device}, {self.precision}"
        return f"there is no finished record of {what} ({where}); python -m bench run makes it"
