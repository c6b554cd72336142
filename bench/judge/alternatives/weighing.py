"""How likely a reported number is under each alternative, compared with the published recipe.

One protocol measures both recipes: the published protocol if both have enough seeds of it, otherwise the common one.
The result says which, because the report was measured by the published protocol, and the common one may measure another
quantity. So the two protocols' distributions for the published recipe must overlap by at least half; otherwise there is
no comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from bench.core.records import Record
from bench.judge.ablation.effects import command
from bench.judge.ablation.single_changes import MetricKey
from bench.judge.alternatives.named import Alternative, alternatives, learns_what_is_measured
from bench.judge.claims import Claim, in_claim_unit, measure
from bench.judge.comparison import ALPHA, ENOUGH
from bench.judge.results import Results
from bench.judge.samples import NO_RECORD, MissingValue, Samples, metrics_of
from bench.judge.stats.on_scale import OnScale, on_scale
from bench.judge.stats.one_more_run import density_ratio, overlap

PUBLISHED, COMMON = "published", "common"
FAR = 10.0  # standard deviations from an alternative's mean; a few seeds say nothing of the tail beyond
OVERWHELMING = 1_000.0  # larger ratios are shown as ">1000"
HALF = 0.5  # recipes whose distributions overlap by more cannot be told apart
_ONE_DRAW = ("dropout_fcn", "pyro_hidden_layer")  # their documents measure with one draw for each image

WeighingResult = Literal["ratio", "far outside", "few seeds", "not measured"]
RATIO: WeighingResult = "ratio"
FAR_OUTSIDE: WeighingResult = "far outside"
FEW_SEEDS: WeighingResult = "few seeds"
NOT_MEASURED: WeighingResult = "not measured"


@dataclass(frozen=True)
class Weighed:
    """A reported number under an alternative and under the published recipe, both measured by one protocol."""

    alternative: Alternative
    protocol: str
    published: Samples
    measured: Samples  # of the alternative
    finding: WeighingResult
    reason: str = ""  # why there is no ratio
    ratio: float | None = None  # how many times likelier the number is under the published recipe
    shared: float | None = None  # overlap of the two distributions
    is_overwhelming: bool = False  # the published recipe can give the number, the alternative hardly can


class Against(NamedTuple):
    """A claim, and what is known of it under each alternative."""

    claim: Claim
    found: tuple[Weighed, ...]

    @property
    def tests_nothing(self) -> bool:
        """Return whether no reported number could tell the published recipe from any alternative.

        The overlaps of the distributions decide, not the ratios at the reported number: of eight alternatives that are
        identical to the published recipe, one reaches a ratio of ten in 9 % of cases by chance. The distribution of an
        alternative with few seeds is too wide for this conclusion.
        """
        known = [(one.finding, one.shared) for one in self.found if one.shared is not None]
        return bool(known) and all(finding != FEW_SEEDS and shared > HALF for finding, shared in known)

    @property
    def hardly_from(self) -> tuple[Weighed, ...]:
        """Return the alternatives that the report can hardly come from, the corrected recipe first."""
        return tuple(one for one in self.found if one.is_overwhelming)


def against(claim: Claim, results: Results) -> Against:
    """Return what the records say of a claim under each alternative; an unknown approach has no alternatives."""
    entry = results.manifests.get(claim.approach)
    if entry is None:
        return Against(claim, ())
    found = []
    for one in alternatives(entry):
        if learns_what_is_measured(one, entry, claim.split):
            missing_value = MissingValue("n/a", "it trains on the rows that the document holds out")
            found.append(_unknown(one, PUBLISHED, Samples(), Samples(missing_value=missing_value)))
        else:
            fits = ((claim.approach, PUBLISHED), (one.approach, one.recipe))
            pairs = {
                protocol: [_measured(claim, results, results.trained_run(*fit, protocol), protocol) for fit in fits]
                for protocol in (PUBLISHED, COMMON)
            }
            found.append(weigh(claim, one, pairs))
    return Against(claim, tuple(found))


def weigh(claim: Claim, alternative: Alternative, pairs: Mapping[str, Sequence[Samples]]) -> Weighed:
    """Choose the protocol, and compare a number under an alternative and under the published recipe.

    `pairs` has what each protocol measured of the published recipe and of the alternative, in the claim's unit.
    """
    for fewest in (ENOUGH, 2):
        for protocol, (ours, theirs) in pairs.items():
            if min(ours.n, theirs.n) >= fewest:
                if protocol == COMMON and (shift := _shift(claim, pairs[PUBLISHED][0], ours)):
                    return _unknown(alternative, COMMON, ours, Samples(missing_value=MissingValue("n/a", shift)))
                return compare(claim, alternative, protocol, ours, theirs)
    ours, theirs = pairs[PUBLISHED]
    return _unknown(alternative, PUBLISHED, ours, theirs)


def _unknown(alternative: Alternative, protocol: str, ours: Samples, theirs: Samples) -> Weighed:
    missing_value = theirs.missing_value or ours.missing_value
    reason = missing_value.reason if missing_value else "one seed has no spread"
    if theirs.missing_value is not None and theirs.missing_value.code == NO_RECORD:
        reason = f"`{command(MetricKey(alternative.approach, alternative.recipe, protocol, ''), ENOUGH)}` measures it"
    return Weighed(alternative, protocol, ours, theirs, NOT_MEASURED, reason)


def compare(claim: Claim, alternative: Alternative, protocol: str, ours: Samples, theirs: Samples) -> Weighed:
    """Compare a number under its own recipe (`ours`) and under an alternative (`theirs`).

    One protocol measured both, in the claim's unit.
    """
    published, other = on_scale(claim, ours), on_scale(claim, theirs)
    if theirs.n < 2 or ours.n < 2:
        return _unknown(alternative, protocol, ours, theirs)
    if published is None or other is None or not published.ours.sd or not other.ours.sd:
        if published is not None and other is not None and _is_elsewhere(published, other.ours):
            reason = f"all seeds give {theirs.mean:.4g}"
            return Weighed(alternative, protocol, ours, theirs, FAR_OUTSIDE, reason, shared=0.0)
        missing_value = MissingValue(
            "n/a", "no distribution fits: all seeds give one number, or a number is outside the claim's scale"
        )
        return _unknown(alternative, protocol, ours, replace(theirs, missing_value=missing_value))
    low, high = published.reported.low, published.reported.high
    shared = overlap(published.ours, other.ours)
    is_far = other.estimate.difference / other.ours.sd > FAR
    if min(ours.n, theirs.n) < ENOUGH:
        finding, reason = FAR_OUTSIDE if is_far else FEW_SEEDS, f"fewer than {ENOUGH} seeds"
        return Weighed(alternative, protocol, ours, theirs, finding, reason, shared=shared)
    ratio = density_ratio(published.ours, other.ours, low, high)
    finding, is_overwhelming = FAR_OUTSIDE if is_far else RATIO, ratio > OVERWHELMING and published.estimate.p >= ALPHA
    return Weighed(alternative, protocol, ours, theirs, finding, "", ratio, shared, is_overwhelming)


def _is_elsewhere(published: OnScale, theirs: Samples) -> bool:
    """Return whether all seeds of an alternative give one number that neither the report nor any seed of ours gives."""
    (value, *others), ours, reported = dict.fromkeys(theirs.values), published.ours, published.reported
    return not others and bool(ours.sd) and not reported.low <= value <= reported.high and value not in ours.values


def _shift(claim: Claim, as_published: Samples, as_common: Samples) -> str:
    """Return why the common protocol cannot stand in for the document's, '' if it can."""
    here, there = on_scale(claim, as_published), on_scale(claim, as_common)
    if not (here and there and here.ours.sd and there.ours.sd) or overlap(here.ours, there.ours) >= HALF:
        return ""
    return (
        f"the common protocol measures something else: it gives the published recipe {as_common.mean:.4g} +- "
        f"{as_common.sd:.2g}, the document's own protocol {as_published.mean:.4g} +- {as_published.sd:.2g}"
    )


def by_seed(claim: Claim, results: Results, approach: str, recipe: str, protocol: str) -> dict[int, float]:
    """Return the number that each seed measured of a claim, in the claim's unit; seeds without one are left out."""
    return dict(_measured(claim, results, results.trained_run(approach, recipe, protocol), protocol).by_seed)


def _measured(claim: Claim, results: Results, records: Sequence[Record], protocol: str) -> Samples:
    """Return what the records measured of a claim, in the claim's unit."""
    if protocol == PUBLISHED:
        return measure(claim, records)
    key = _common_key(claim, results)
    if not key:
        return Samples(missing_value=MissingValue("n/a", "the common protocol measures no such number"))
    sample = metrics_of(records, key)
    return sample.converted(lambda value: in_claim_unit(claim, value))


def _common_key(claim: Claim, results: Results) -> str:
    """Return the key of the common protocol's number that corresponds to a claim, '' if there is none."""
    if claim.split.startswith("train") or claim.stage not in ("final", _last_stage(claim, results)):
        return ""
    if claim.metric == "predictive_entropy":  # of mean log-probabilities, as feldman2018 takes it
        return f"{claim.dataset}/geometric_entropy"
    if claim.metric == "accuracy" and claim.approach in _ONE_DRAW:
        return f"{claim.dataset}/draw_accuracy_mean"
    return f"{claim.dataset}/{claim.metric}"


def _last_stage(claim: Claim, results: Results) -> str:
    epochs = [len(record.epochs) for record in results.trained_run(claim.approach, PUBLISHED, PUBLISHED)]
    return f"epoch:{max(epochs)}" if epochs else ""
