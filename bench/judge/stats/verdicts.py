"""The verdicts of all claims, by `bench.judge.stats.rule`; Holm's procedure adjusts p-values over each document.

A document claims its numbers after training, and its curves over epochs. Each curve is one claim
(`bench.judge.stats.curves`): its points have its outcome, but their own p-value and interval. Documents quote the last
test accuracy of a curve as a result, so that point is an end result too, a claim by itself.

A p-value is adjusted over all claims that the document prints, measured or not: an untested one counts as a p of 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

from bench.judge.claims import Claim, ClaimRow
from bench.judge.comparison import ALPHA, holm_over
from bench.judge.stats.curves import DUPLICATES, Curve, curve_name, curves, joint_p
from bench.judge.stats.on_scale import OnScale
from bench.judge.stats.rule import Verdict, conclude, is_exact, testable


@dataclass(frozen=True)
class Judgement:
    """The verdicts of all claims, in their order, and of the curves."""

    verdicts: Sequence[Verdict]
    curves: Sequence[Curve]

    @property
    def ends(self) -> list[Verdict]:
        """Return the verdicts on end results: what the documents report after training."""
        ids = {claim.id for claim in end_results(verdict.claim for verdict in self.verdicts)}
        return [verdict for verdict in self.verdicts if verdict.claim.id in ids]

    @property
    def computed(self) -> list[Verdict]:
        """Return the verdicts on numbers that are computed, not trained."""
        return [verdict for verdict in self.verdicts if is_exact(verdict.claim)]

    @property
    def points(self) -> list[Verdict]:
        """Return the verdicts on all points of curves, including the last ones."""
        return [verdict for verdict in self.verdicts if curve_name(verdict.claim)]

    @cached_property
    def joint(self) -> Mapping[str, float]:
        """Return the joint p-value of the end results of each document, if any of them was tested."""
        return _joint_ps(self._joint_claims())

    @cached_property
    def joint_with_curves(self) -> Mapping[str, float]:
        """Return the joint p-value of the end results and the curves of each document, which hold some end results."""
        found = self._joint_claims(without_points=True)
        for curve in self.curves:
            if curve.p_adjusted is not None and curve.on_scale is not None:
                found.setdefault(curve.first.source, []).append((curve.first.approach, curve.on_scale))
        return _joint_ps(found)

    def _joint_claims(self, *, without_points: bool = False) -> dict[str, list[tuple[str, OnScale]]]:
        found: dict[str, list[tuple[str, OnScale]]] = {}
        for verdict in self.ends:
            claim, on_scale = verdict.claim, verdict.on_scale
            is_left_out = claim.id in DUPLICATES or (without_points and verdict.curve)
            if verdict.p_adjusted is not None and on_scale is not None and not is_left_out:
                found.setdefault(claim.source, []).append((claim.approach, on_scale))
        return found

    def of_documents(self, documents: Collection[str]) -> Judgement:
        """Return the verdicts of some documents. Adjusted p-values stay: each is adjusted over its own document."""
        return Judgement(
            [verdict for verdict in self.verdicts if verdict.claim.source in documents],
            [curve for curve in self.curves if curve.first.source in documents],
        )


def _joint_ps(claims: Mapping[str, list[tuple[str, OnScale]]]) -> dict[str, float]:
    with (
        ThreadPoolExecutor() as threads
    ):  # NumPy draws outside the interpreter's lock; each document has its own streams
        return dict(zip(claims, threads.map(joint_p, claims, claims.values()), strict=True))


def end_results(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims on end results: trained and measured after training, or the last test accuracy of a curve."""
    found = list(claims)
    is_accuracy = [claim.metric == "accuracy" and claim.split.startswith("test") for claim in found]
    lasts = {curve_name(claim): claim.id for claim, holds in zip(found, is_accuracy, strict=True) if holds}
    lasts.pop("", None)  # numbers that stand alone
    return [claim for claim in found if claim.id in lasts.values() or (claim.stage == "final" and not is_exact(claim))]


def judge(rows: Sequence[ClaimRow]) -> Judgement:
    """Return the verdict of every claim, in the order given, and of every curve."""
    found = curves(rows)
    ends = {claim.id for claim in end_results(row.claim for row in rows)}
    tests: dict[str, tuple[float, float]] = {}
    for document in dict.fromkeys(row.claim.source for row in rows):
        its_curves = [curve for curve in found if curve.first.source == document]
        tests |= _tests([row for row in rows if row.claim.source == document], its_curves, ends)
    judged = {curve.name: _judge_curve(curve, tests.get(curve.name)) for curve in found}
    return Judgement([_judge_row(row, judged, tests, ends) for row in rows], list(judged.values()))


def _tests(
    rows: Sequence[ClaimRow], its_curves: Sequence[Curve], ends: Collection[str]
) -> dict[str, tuple[float, float]]:
    """Return the adjusted p-value and the level of each tested claim and curve of one document."""
    in_curves = {row.claim.id for curve in its_curves for row in curve.rows}
    estimates = {row.claim.id: testable(row) for row in rows if row.claim.id not in in_curves or row.claim.id in ends}
    for curve in its_curves:
        if curve.on_scale is not None and curve.is_testable:
            estimates[curve.name] = curve.on_scale.estimate
    n = _n_printed([row.claim for row in rows], ends)
    return {name: (p, ALPHA / n) for name, p in holm_over(estimates, n).items()}


def _n_printed(claims: Sequence[Claim], ends: Collection[str]) -> int:
    """Return how many trained claims a document prints: numbers that stand alone, curves, and the ends of curves."""
    points = Counter(curve_name(claim) for claim in claims if not is_exact(claim))
    alone = points.pop("", 0)
    several = {name for name, n in points.items() if n > 1}
    return alone + len(points) + sum(claim.id in ends and curve_name(claim) in several for claim in claims)


def _judge_curve(curve: Curve, test: tuple[float, float] | None) -> Curve:
    if test is None or curve.on_scale is None:
        return curve
    p, level = test
    return replace(curve, outcome=curve.on_scale.outcome(p), p_adjusted=p, level=level)


def _judge_row(
    row: ClaimRow, judged: Mapping[str, Curve], tests: Mapping[str, tuple[float, float]], ends: Collection[str]
) -> Verdict:
    claim, sample = row.claim, row.sample
    test = tests.get(claim.id)
    alone = conclude(row, *(test or (None, ALPHA)))
    curve = judged.get(curve_name(claim))
    if curve is None or not sample.n:
        return alone
    if claim.id in ends:
        return replace(alone, curve=curve.name)
    return replace(alone, outcome=curve.outcome, curve=curve.name, is_point=True)
