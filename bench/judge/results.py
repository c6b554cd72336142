"""Records of one profile, device and precision, by trained run; numbers of different conditions are never mixed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from bench.core.errors import ConfigError
from bench.core.folder import Problem
from bench.core.reasons import message_reason
from bench.core.records import SCHEMA, Provenance, Record, Timings
from bench.core.text import counted
from bench.plan.freshness import NOT_RETRAINED, is_stale
from bench.plan.manifests import ApproachManifest

NAME = re.compile(r"(?P<recipe>.+)__(?P<protocol>\w+?)__(?P<profile>\w+?)__seed(?P<seed>\d+)__(?P<key>\w+)\.json")
"""The name of a record's file, as `bench.core.store.Store.record_path` makes it."""
DAMAGED: Literal["damaged"] = "damaged"  # outcome of a substitute for a record that cannot be read
BETWEEN, CODE = " / ", " Code: "  # in a note on what made records: between several values, and before the commits
SPREAD = "; mean +- standard deviation (number of seeds)"
SHOWN_VERSIONS = ("python", "torch", "numpy", "pyro-ppl", "mxnet")


def select(
    records: Iterable[Record],
    profile: str = "full",
    device: str = "cpu",
    precision: str = "float32",
    problems: Iterable[Problem] = (),
) -> list[Record]:
    """Return the records made under exactly these conditions.

    A file that cannot be trusted (`problems`) counts as a record without numbers, so that no seed is dropped because
    its file is damaged. The file's name does not give device and precision, so it counts under any of them.
    It has no date, so `Results` prefers a readable record of the same trained run and seed.
    """
    wanted = (profile, device, precision)
    chosen = [record for record in records if record.conditions == wanted]
    damaged = [record for problem in problems if (record := _stand_in(problem, wanted)) is not None]
    return chosen + damaged


def _stand_in(problem: Problem, conditions: tuple[str, str, str]) -> Record | None:
    """Return a record without numbers for a damaged file; None if its name is not that of a record of this profile."""
    named = NAME.fullmatch(problem.path.name)
    if named is None or named["profile"] != conditions[0]:
        return None
    profile, device, precision = conditions
    return Record(
        schema=SCHEMA,
        approach=problem.path.parent.name,
        recipe=named["recipe"],
        protocol=named["protocol"],
        profile=profile,
        seed=int(named["seed"]),
        device=device,
        precision=precision,
        fit_key="",
        key=named["key"],
        outcome=DAMAGED,
        reason=message_reason("damaged", problem.reason),
        metrics={},
        missing={},
        epochs=[],
        timings=Timings(),
        provenance=Provenance(),
    )


class Results:
    """The newest record of every trained run and seed, and the approaches that get rows in tables."""

    def __init__(
        self, records: Iterable[Record], manifests: Mapping[str, ApproachManifest], with_stale: bool = False
    ) -> None:
        """Index the records; raises ConfigError if they differ in profile, device or precision.

        Records made at other versions of a recipe, a protocol or the metrics are left out, unless `with_stale`.
        """
        newest: dict[tuple[str, str, str, int], Record] = {}
        self.n_superseded = 0
        self._stale = Counter[str]()  # by the command that makes them again
        self.conditions: tuple[str, str, str] | None = None
        for record in records:
            conditions = record.conditions
            if self.conditions not in (None, conditions):
                both = " and ".join(", ".join(item) for item in (self.conditions, conditions) if item)
                raise ConfigError(f"a table cannot mix records of {both}; select one profile, device and precision")
            self.conditions = conditions
            if not with_stale and record.outcome != DAMAGED and is_stale(record):
                self._stale["score" if record.recipe == NOT_RETRAINED else "run"] += 1
                continue
            key = (record.approach, record.recipe, record.protocol, record.seed)
            rival = newest.get(key)
            self.n_superseded += rival is not None and DAMAGED not in (rival.outcome, record.outcome)
            if rival is None or made_at(record) > made_at(rival):
                newest[key] = record
        self.records = list(newest.values())
        self._trained_runs: dict[tuple[str, str, str], list[Record]] = {}
        for record in self.records:
            self._trained_runs.setdefault((record.approach, record.recipe, record.protocol), []).append(record)
        self.manifests = manifests
        others = {record.approach for record in self.records} - set(manifests)
        self.approaches = [*manifests, *sorted(others)]
        given = {record.approach for record in self.records if record.recipe == NOT_RETRAINED} & others
        self.not_retrained = sorted(given)  # names of somebody's trained models, which were scored as they are

    def trained_run(self, approach: str, recipe: str, protocol: str) -> list[Record]:
        """Return the records of one trained run, one a seed."""
        return list(self._trained_runs.get((approach, recipe, protocol), ()))

    def measured_recipes(self, approach: str, protocol: str) -> list[str]:
        """Return the recipes of an approach that a protocol measured, by name."""
        return sorted(recipe for name, recipe, by in self._trained_runs if (name, by) == (approach, protocol))

    def toys(self) -> list[str]:
        """Return the approaches to the toy regression."""
        return [name for name in self.approaches if name in self.manifests and self.manifests[name].task == "toy"]

    def classifiers(self) -> list[str]:
        """Return all other approaches."""
        return [name for name in self.approaches if name not in self.toys()]

    def has_corrected(self, approach: str) -> bool:
        """Return whether the approach has a corrected recipe."""
        return approach in self.manifests and "corrected" in self.manifests[approach].recipes

    def row_recipe(self, approach: str) -> str:
        """Return the recipe of an approach in a table that has one row for each approach."""
        usual = "corrected" if self.has_corrected(approach) else "published"
        return NOT_RETRAINED if approach in self.not_retrained else usual

    def variants(self, approach: str) -> list[str]:
        """Return the recipes with records, other than published and corrected, by name."""
        found = {record.recipe for record in self.records if record.approach == approach}
        return sorted(found - {"published", "corrected"})

    def recipes(self, approach: str) -> list[str]:
        """Return the recipes that get rows: published, corrected where there is one, variants with records."""
        if approach in self.not_retrained:
            return [NOT_RETRAINED]
        corrected = ["corrected"] if self.has_corrected(approach) else []
        return ["published", *corrected, *self.variants(approach)]

    def describe(self, spread: bool = True, shown: Collection[str] = ()) -> str:
        """Return the conditions as the end of a caption; with `spread`, also how the table shows means over seeds.

        `shown`: keys of the records whose seeds count, or of none for the seeds of all.
        """
        if self.conditions is None:
            return "No records."
        some = {record.seed for record in self.records if record.key in shown}
        seeds = some or {record.seed for record in self.records}
        return described(self.conditions, seeds, SPREAD if spread else "")

    def origin(self) -> list[str]:
        """Return notes on the machine, the versions and the code that made the records, and on records left out."""
        notes = origin_of([record.provenance for record in self.records])
        if self.n_superseded:
            notes.append(f"Left out: {counted(self.n_superseded, 'older record')} of the same trained run and seed.")
        for command, n in self._stale.items():
            made = f"{counted(n, 'record')} made at other versions of recipe, protocol or metrics"
            notes.append(f"left out: {made}; `python -m bench {command}` makes them again.")
        return notes


def conditions_text(results: Results) -> str:
    """Return profile, device and precision as the end of the caption of a table of differences."""
    return "Profile {}, {}, {}.".format(*results.conditions) if results.conditions else "No records."


def described(conditions: tuple[str, str, str], seeds: Collection[int], spread: str = "") -> str:
    """Return profile, device, precision and seeds as the end of a caption; several seeds add `spread`."""
    profile, device, precision = conditions
    size, _, task = profile.partition("_")
    profile = f"{size} of task {task}" if task else size
    short = "" if size == "full" else " (a short run: fewer epochs, rows and draws than stated here)"
    ordered = sorted(seeds)
    is_range = len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1
    listed = f"{ordered[0]}-{ordered[-1]}" if is_range else ", ".join(map(str, ordered))
    which = f"seed{'s' if len(ordered) > 1 else ''} {listed}" if ordered else "no records"
    return f"Profile {profile}{short}, {device}, {precision}, {which}{spread if len(ordered) > 1 else ''}."


def origin_of(made: Sequence[Provenance]) -> list[str]:
    """Return a note on the machines, versions and code that made something; no note if `made` is empty."""
    if not made:
        return []
    cpu = _listed(entry.cpu for entry in made)
    accelerator = _listed(entry.accelerator for entry in made)
    threads = _listed(entry.threads for entry in made)
    versions = [
        f"{name} {numbers}"
        for name in SHOWN_VERSIONS
        if (numbers := _listed(entry.versions.get(name) for entry in made))
    ]
    commits = _listed(code_of(entry) for entry in made)
    machine = " with ".join(part for part in (cpu or "an unknown machine", accelerator) if part)
    note = f"Made on {machine}, {threads or '?'} threads; {', '.join(versions)}."
    return [note + (f"{CODE}{commits}." if commits else "")]


def without_commits(note: str) -> str:
    """Return a note of `origin_of` in which the number of commits replaces several commits."""
    made, _, commits = note.partition(CODE)
    number = len(commits.split(BETWEEN))
    return f"{made}{CODE}{number} commits (table provenance)." if number > 1 else note


def made_at(record: Record) -> str:
    """Return when a record was measured, or else when it was started: ISO 8601, '' if unknown."""
    return record.provenance.measured or record.provenance.started


def code_of(made: Provenance) -> str | None:
    """Return the commit that made a record, None if unknown."""
    return f"{made.commit[:10]}{' with changes' if made.dirty else ''}" if made.commit else None


def _listed(values: Iterable[object]) -> str:
    return BETWEEN.join(sorted({str(value) for value in values if value not in (None, "", "absent")}))
