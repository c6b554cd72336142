"""How often the rule of verdicts errs on reports whose truth is known: python -m benchmarks.trial [RESULTS].

Judges seeds of a results folder as if a document had printed them, and prints a table. A true report is one seed of the
published recipe, judged by the other seeds. A false report is a seed of another recipe, judged by the seeds of the
published recipe. The claims of a report are the document's end results, printed with the document's digits and tested
together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from pathlib import Path

import msgspec

from bench.cli.main import Parser, guarded
from bench.core.text import WHOLE
from bench.judge.alternatives.named import Alternative, alternatives, learns_what_is_measured
from bench.judge.alternatives.weighing import COMMON, PUBLISHED, by_seed
from bench.judge.claims import Claim, measured_key
from bench.judge.comparison import ALPHA, CANNOT_TELL, CONFIRMED, CONTRADICTED, ENOUGH
from bench.judge.results import Results
from bench.judge.samples import Samples
from bench.judge.stats.rule import is_exact, judge_one
from bench.judge.stats.verdicts import end_results
from bench.plan.manifests import ApproachManifest
from bench.show.inputs import Inputs
from bench.show.table import Number, Table
from bench.show.tables.render import render

TRUE = "true"
COLUMNS = ("approach", "reports from", "told apart")
COUNTED = (CONTRADICTED, CANNOT_TELL, CONFIRMED)
CAPTION = (
    "Each report is a run of ours whose recipe is known, judged as if the document had printed it. True: a seed of the "
    "published recipe, judged by its other seeds. The others are false: a seed of another recipe (+NAME: the published "
    "recipe with that change) or of a control, judged by the published recipe's seeds in the same protocol. Told "
    f"apart: reports with at least one contradicted claim; of the true ones, at most {ALPHA:.0%} should be. The other "
    "columns count the claims with each verdict."
)

TrialNumbers = Mapping[int, float]  # seed -> number


@dataclass(frozen=True)
class Trial:
    """Reports of one approach that were made in one way, and their outcomes."""

    approach: str
    kind: str  # `TRUE`, or the kind of alternative
    truth: str  # the recipe that made the reports
    protocol: str
    reports: tuple[tuple[str, ...], ...]  # the outcomes of each report's claims

    @property
    def n_told(self) -> int:
        """Return how many reports are told apart: at least one claim is contradicted."""
        return sum(CONTRADICTED in outcomes for outcomes in self.reports)

    def count(self, outcome: str) -> int:
        """Return how many claims of all reports have an outcome."""
        return sum(outcomes.count(outcome) for outcomes in self.reports)


def trials(results: Results, claims: Iterable[Claim]) -> list[Trial]:
    """Return the trials of published recipes and of their alternatives; a trial without reports is left out.

    Claims that are computed, or of another run of a document, do not count.
    """
    found: list[Trial] = []
    for entry, mine, n_claims in _by_approach(results, claims):
        found.append(_true(results, entry, mine, n_claims))
        found += [_false(results, entry, one, mine, n_claims) for one in alternatives(entry)]
    return [trial for trial in found if trial.reports]


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


def _true(results: Results, entry: ApproachManifest, claims: Sequence[Claim], n_claims: int) -> Trial:
    """Return the published recipe's own seeds as reports, each judged by the others."""
    ours = _seeds(claims, results, entry.name, "published", PUBLISHED)
    reports = _reports(claims, ours, ours, n_claims)
    return Trial(entry.name, TRUE, f"{entry.name} published", PUBLISHED, reports)


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
        found.append(Trial(entry.name, one.kind, one.name, protocol, reports))
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
                verdict = judge_one(as_printed(claim, value), Samples.of(others), n_claims)
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


def trial_table(found: Sequence[Trial], origin: Sequence[str] = ()) -> Table:
    """Return a row for each approach and each recipe that made the reports."""
    rows = [
        [
            trial.approach,
            _recipe(trial),
            f"{trial.n_told}/{len(trial.reports)}",
            *(Number(trial.count(outcome), WHOLE) for outcome in COUNTED),
        ]
        for trial in found
    ]
    kinds = dict.fromkeys(trial.kind for trial in found)
    shares = "; ".join(f"{kind} {_share(trial for trial in found if trial.kind == kind)}" for kind in kinds)
    remarks = [f"In all, told apart: {shares}."] if found else ["No approach has enough seeds."]
    title = "The judge judged: reports whose truth is known"
    return Table("trial", title, CAPTION, [*COLUMNS, *COUNTED], rows, remarks, origin=origin)


def _recipe(trial: Trial) -> str:
    """Return in short which recipe made the reports; the row names the approach already."""
    recipe = trial.truth.removeprefix(f"{trial.approach} ").replace("published+", "+").removesuffix(" published")
    short = recipe if recipe == trial.kind else f"{trial.kind}: {recipe}"
    return f"{short}, common protocol" if trial.protocol == COMMON else short


def _share(found: Iterable[Trial]) -> str:
    some = list(found)
    return f"{sum(trial.n_told for trial in some)} of {sum(len(trial.reports) for trial in some)}"


def main(words: Sequence[str] | None = None) -> int:
    """Print the table of a results folder, and return the exit code."""
    parser = Parser(
        prog="python -m benchmarks.trial", description="how often the rule of verdicts errs", allow_abbrev=False
    )
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"), help="default: results")
    return guarded(lambda: _main(parser.parse_args(words).results))


def _main(folder: Path) -> int:
    inputs = Inputs(folder)
    found = trials(inputs.results, end_results(inputs.claims))
    sys.stdout.write(render(trial_table(found, inputs.results.origin()), "md"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
