"""Tries the rule of verdicts on reports whose truth is known, as if a document had printed them.

A true report is one seed of the published recipe, judged by the other seeds. A false report is a seed of another
recipe, judged by the seeds of the published recipe. The claims of a report are the document's end results, printed with
the document's digits and tested together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from pathlib import Path

import msgspec

from bench.core.csv_rows import CsvRow, read_csv
from bench.core.project import REFERENCE
from bench.core.records import Real
from bench.judge.alternatives.named import Alternative, alternatives, learns_what_is_measured
from bench.judge.alternatives.weighing import COMMON, PUBLISHED, by_seed
from bench.judge.claims import Claim, in_claim_unit, measured_key
from bench.judge.results import Results
from bench.judge.samples import Sample
from bench.judge.stats.rule import DIFFERS, ENOUGH, is_exact, judge_one
from bench.plan.manifests import ApproachManifest

TRUE, PLANTED = "true", "planted fault"
FULL, FIRST_EPOCH = "full", "epoch1"  # profiles
RUNS = REFERENCE / "planted_runs.csv"

TrialNumbers = Mapping[int, float]  # seed -> number


class PlantedRun(CsvRow, frozen=True):
    """A number of a seed's first epoch, by the published recipe and protocol, but by code with a small planted fault.

    `python -m benchmarks.planted --save` makes them. They are not records, because records come from unchanged code.
    """

    fault: str
    approach: str
    seed: int
    key: str  # of the number, in an entry of `epochs`
    value: Real
    made: str
    commit: str


def read_runs(path: Path = RUNS) -> list[PlantedRun]:
    """Read the file; no file means no runs. Raises ConfigError, which names the first bad row."""
    return read_csv(path, PlantedRun, "planted runs") if path.exists() else []


@dataclass(frozen=True)
class Trial:
    """Reports of one approach that were made in one way, and their outcomes."""

    approach: str
    kind: str  # `TRUE`, `PLANTED`, or the kind of alternative
    truth: str  # what made the reports: a recipe or a fault
    protocol: str
    profile: str
    reports: tuple[tuple[str, ...], ...]  # the outcomes of each report's claims

    @property
    def n_told(self) -> int:
        """Return how many reports are told apart: at least one claim differs."""
        return sum(DIFFERS in outcomes for outcomes in self.reports)

    def count(self, outcome: str) -> int:
        """Return how many claims of all reports have an outcome."""
        return sum(outcomes.count(outcome) for outcomes in self.reports)


def trials(results: Results, claims: Iterable[Claim]) -> list[Trial]:
    """Return the trials of published recipes and of their alternatives; a trial without reports is left out.

    Claims that are computed, or of another run of a document, do not count.
    """
    found: list[Trial] = []
    for entry, mine, n_claims in _by_approach(results, claims):
        found.append(_true(results, entry, mine, n_claims, FULL))
        found += [_false(results, entry, one, mine, n_claims) for one in alternatives(entry)]
    return [trial for trial in found if trial.reports]


def planted_trials(results: Results, runs: Sequence[PlantedRun], claims: Iterable[Claim]) -> list[Trial]:
    """Return the trials of faults that were planted in the code, on numbers of the first epoch.

    `results` has records of the first epoch by unchanged code, `runs` the same numbers by code with a fault.
    """
    found: list[Trial] = []
    for entry, mine, n_claims in _by_approach(results, (claim for claim in claims if claim.stage == "epoch:1")):
        faults = dict.fromkeys(run.fault for run in runs if run.approach == entry.name)
        if faults:
            found.append(_true(results, entry, mine, n_claims, FIRST_EPOCH))
        ours = _seeds(mine, results, entry.name, "published", PUBLISHED)
        for fault in faults:
            theirs = {claim.id: _planted(claim, fault, runs) for claim in mine}
            reports = _reports(mine, ours, theirs, n_claims)
            found.append(Trial(entry.name, PLANTED, fault, PUBLISHED, FIRST_EPOCH, reports))
    return [trial for trial in found if trial.reports]


def _planted(claim: Claim, fault: str, runs: Sequence[PlantedRun]) -> TrialNumbers:
    key = measured_key(claim)[1]
    mine = [run for run in runs if (run.fault, run.approach, run.key) == (fault, claim.approach, key)]
    return {run.seed: in_claim_unit(claim, run.value) for run in mine}


def _by_approach(results: Results, claims: Iterable[Claim]) -> Iterator[tuple[ApproachManifest, list[Claim], int]]:
    """Yield each approach, its claims (one for each measured number), and how many claims its document tests."""
    found: dict[str, dict[tuple[str, str], Claim]] = {}
    for claim in claims:
        entry = results.manifests.get(claim.approach)
        if entry is not None and claim.source == entry.document and not is_exact(claim):
            found.setdefault(claim.approach, {}).setdefault(measured_key(claim), claim)
    for approach, mine in found.items():
        entry = results.manifests[approach]
        together = [len(one) for name, one in found.items() if results.manifests[name].document == entry.document]
        yield entry, list(mine.values()), sum(together)


def _true(results: Results, entry: ApproachManifest, claims: Sequence[Claim], n_claims: int, profile: str) -> Trial:
    """Return the published recipe's own seeds as reports, each judged by the others."""
    ours = _seeds(claims, results, entry.name, "published", PUBLISHED)
    reports = _reports(claims, ours, ours, n_claims)
    return Trial(entry.name, TRUE, f"{entry.name} published", PUBLISHED, profile, reports)


def _false(
    results: Results, entry: ApproachManifest, one: Alternative, claims: Sequence[Claim], n_claims: int
) -> Trial:
    """Return the trial of an alternative, by the published protocol unless the common one gives more reports."""
    usable = [claim for claim in claims if not learns_what_is_measured(one, entry, claim.split)]
    found = []
    for protocol in (PUBLISHED, COMMON):
        ours = _seeds(usable, results, entry.name, "published", protocol)
        theirs = _seeds(usable, results, one.approach, one.recipe, protocol)
        reports = _reports(usable, ours, theirs, n_claims)
        found.append(Trial(entry.name, one.kind, one.name, protocol, FULL, reports))
    return max(found, key=lambda trial: len(trial.reports))  # of equals, `max` takes the first


def _seeds(
    claims: Sequence[Claim], results: Results, approach: str, recipe: str, protocol: str
) -> dict[str, TrialNumbers]:
    return {claim.id: by_seed(claim, results, approach, recipe, protocol) for claim in claims}


def _reports(
    claims: Sequence[Claim], ours: Mapping[str, TrialNumbers], handed_in: Mapping[str, TrialNumbers], n_claims: int
) -> tuple[tuple[str, ...], ...]:
    """Return the outcomes of the reports, one report for each seed of `handed_in`.

    Our seed of the same number does not judge the report: it has the same initial weights and order of images. But it
    judges a false report if too few seeds would be left without it.
    """
    outcomes: dict[int, list[str]] = {}
    is_false = handed_in is not ours
    for claim in claims:
        mine = ours[claim.id]
        for seed, value in handed_in[claim.id].items():
            others = tuple(number for other, number in mine.items() if other != seed)
            if len(others) < ENOUGH and is_false:
                others = tuple(mine.values())
            if len(others) >= ENOUGH:
                verdict = judge_one(as_printed(claim, value), Sample(others), n_claims)
                outcomes.setdefault(seed, []).append(verdict.outcome)
    return tuple(tuple(outcomes[seed]) for seed in sorted(outcomes))


def as_printed(claim: Claim, value: float) -> Claim:
    """Return the claim with another value, printed with the same number of digits."""
    printed = Decimal(repr(value))
    if claim.precision_kind in ("rounded", "truncated"):
        way = ROUND_FLOOR if claim.precision_kind == "truncated" else ROUND_HALF_EVEN
        unit = Decimal(repr(claim.precision))
        printed = (printed / unit).quantize(Decimal(1), rounding=way) * unit
    return msgspec.structs.replace(claim, printed=str(printed))
