"""Pairs the records of two folders, A and B, and names the conditions in which the folders differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from bench.core.errors import ConfigError
from bench.core.reasons import in_words
from bench.core.records import Record
from bench.core.store import Store
from bench.core.text import counted
from bench.data.manifest import TASKS
from bench.judge.results import Results, made_at, origin_of, select
from bench.plan.recipes import PROFILES

PROVENANCE = ("cpu", "device_name", "vector_instructions", "threads", "source_sha256", "commit")

AMOUNTS = {  # field of a profile -> in words
    "epochs": "epochs",
    "steps_per_epoch": "steps an epoch",
    "rows": "rows of the published protocol",
    "draws": "draws of the common protocol",
    "common_rows": "rows of the common protocol",
}

CONDITIONS = ("profile", "device", "precision")
OTHER_VERSIONS = "it was made at other versions than the newest record of its trained run"

TrainedRunName = tuple[str, str, str]  # approach, recipe, protocol


@dataclass(frozen=True)
class Side:
    """The finished records of one folder under one profile, device and precision, the newest of each run and seed."""

    store: Store
    conditions: tuple[str, ...]  # profile, device, precision
    records: Mapping[tuple[TrainedRunName, int], Record]  # by trained run and seed
    problems: tuple[str, ...]  # what is wrong with files that were left out
    unfinished: tuple[tuple[TrainedRunName, str], ...]  # which records do not count, and why

    @classmethod
    def read(cls, store: Store, wanted: Mapping[str, str | None], name: str) -> Side:
        """Read folder `name`, "A" or "B"; raises ConfigError if it has no record, or records of several conditions.

        `wanted` has the profile, device and precision to compare, or None for what the folder has.
        """
        records, problems = store.all_records()
        kept = [record for record in records if all(wanted[key] in (None, getattr(record, key)) for key in CONDITIONS)]
        found = sorted({record.conditions for record in kept})
        if not found:
            damaged = f", and {len(problems)} damaged: {problems[0].reason}" if problems else ""
            raise ConfigError(
                f"folder {name} has no record that fits; {store.root} has {counted(len(records), 'record')} in all"
                f"{damaged}"
            )
        if len(found) > 1:
            listed = "; ".join(map(", ".join, found))
            raise ConfigError(
                f"folder {name} has several kinds of records: {listed}; choose with --profile, --device, --precision"
            )
        profile, device, precision = found[0]
        newest, others = _of_one_version(Results(select(kept, profile, device, precision), {}, with_stale=True).records)
        done = {(record.combination, record.seed): record for record in newest if record.outcome == "done"}
        unfinished = [
            (record.combination, f"{name}: {record.title}, {record.outcome}: {in_words(record.reason)}")
            for record in newest
            if record.outcome != "done"
        ]
        unfinished += [(one.combination, f"{name}: {one.title} is left out: {OTHER_VERSIONS}") for one in others]
        return cls(store, found[0], done, tuple(problem.reason for problem in problems), tuple(unfinished))


def take_common(stores: Sequence[Store], wanted: Sequence[dict[str, str | None]]) -> None:
    """If a folder has several kinds of records, set in `wanted` the one that both have; of several, the user chooses.

    Raises:
        ConfigError: they have none in common.
    """
    kinds = [
        {
            one.conditions
            for one in store.all_records()[0]
            if all(asked[key] in (None, getattr(one, key)) for key in asked)
        }
        for store, asked in zip(stores, wanted, strict=True)
    ]
    common = kinds[0] & kinds[1]
    if not all(kinds) or max(map(len, kinds)) == 1:
        return
    if not common:
        a, b = ("; ".join(map(", ".join, sorted(found))) for found in kinds)
        raise ConfigError(
            f"no kind of records is in both folders: A has {a}; B has {b}; choose one of each: --profile X,Y"
        )
    if len(common) == 1:
        for asked in wanted:
            asked.update(zip(CONDITIONS, *common, strict=True))


def _of_one_version(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Return the records with the same versions as the newest record of their trained run, and the other records.

    Two folders of different versions may be compared, but all seeds of one trained run in a folder must have the same.
    """
    newest = {record.combination: record for record in sorted(records, key=made_at)}
    kept = [record for record in records if record.versions == newest[record.combination].versions]
    return kept, [record for record in records if record not in kept]


@dataclass(frozen=True)
class Pairs:
    """The records of one trained run for the seeds that both folders have, in the order of the seeds."""

    trained_run: TrainedRunName
    seeds: tuple[int, ...]
    a: tuple[Record, ...]
    b: tuple[Record, ...]


def pair_records(a: Side, b: Side) -> list[Pairs]:
    """Return the trained runs with at least one seed that both folders have; raises ConfigError if there are none."""
    common = sorted(a.records.keys() & b.records.keys())
    if not common:
        raise ConfigError("the folders have no finished trained run with the same seed in common")
    found = []
    for trained_run in dict.fromkeys(trained_run for trained_run, _ in common):
        seeds = tuple(seed for its_trained_run, seed in common if its_trained_run == trained_run)
        found.append(
            Pairs(trained_run, seeds, *(tuple(side.records[trained_run, seed] for seed in seeds) for side in (a, b)))
        )
    return found


def only_in(one: Side, other: Side) -> list[str]:
    """Return the titles of finished records that only the first folder has."""
    return [one.records[key].title for key in sorted(one.records.keys() - other.records.keys())]


def unfinished(one: Side, other: Side) -> list[str]:
    """Return which records of a folder do not count, and why; of trained runs that the other folder has too."""
    theirs = {trained_run for trained_run, _ in (*other.records, *other.unfinished)}
    return [text for trained_run, text in one.unfinished if trained_run in theirs]


def differing_conditions(a: Side, b: Side, pairs: Iterable[Pairs]) -> list[str]:
    """Return lines on what differs between the sides besides the numbers, and may explain why the numbers differ."""
    both = [(one, other) for trained_run in pairs for one, other in zip(trained_run.a, trained_run.b, strict=True)]
    lines = [
        f"{name}: {one} and {other}"
        for name, one, other in zip(CONDITIONS, a.conditions, b.conditions, strict=True)
        if one != other
    ]
    lines += _other_amounts(a.conditions[0], b.conditions[0])
    looks = {f"{name} differs": attrgetter(f"provenance.{name}") for name in PROVENANCE}
    looks["versions of recipe, protocol or metrics differ"] = attrgetter("versions")
    looks["the number of seeds that were trained together differs"] = attrgetter("timings.batched")
    for what, look in looks.items():
        n_other = sum(look(one) != look(other) for one, other in both)
        if n_other:
            lines.append(f"{what} in {n_other} of {len(both)} pairs")
    versions = [(one.provenance.versions, other.provenance.versions) for one, other in both]
    names = sorted({name for one, other in versions for name in {**one, **other} if one.get(name) != other.get(name)})
    if names:
        lines.append(f"versions of packages differ: {', '.join(names)}")
    return lines


def _other_amounts(one: str, other: str) -> list[str]:
    """Return a line on the amounts in which two profiles differ: they change the numbers even of the same code."""
    a, b = PROFILES.get(one), PROFILES.get(other)
    if a is None or b is None or a == b:
        return []
    both = [(words, getattr(a, field), getattr(b, field)) for field, words in AMOUNTS.items()]
    amounts = ", ".join(f"{words} {_amount(n)} and {_amount(m)}" for words, n, m in both if n != m)
    return [f"the profiles train or measure different amounts, which alone makes the numbers differ: {amounts}"]


def _amount(n: int | None) -> str:
    return "all" if n is None else f"{n:,}"


def inside_of(record: Record) -> str:
    """Return the data set that a record's fit learnt; that of task mnist if the profile is unknown."""
    return TASKS[PROFILES[record.profile].task if record.profile in PROFILES else "mnist"].inside


def made(side: Side, name: str) -> str:
    """Return one line on the machine, versions and code that made a side's records."""
    (said,) = origin_of([record.provenance for record in side.records.values()])
    return f"{name}: {side.store.root}, {', '.join(side.conditions)}; {said}"
