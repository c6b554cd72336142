"""Shows the verdict on a user's own number as text and as plain values."""

from __future__ import annotations

import dataclasses
import textwrap

from bench.judge.alternatives.own import JudgedNumber
from bench.judge.claims import print_interval
from bench.show.outcomes import why
from bench.show.reasoning import outcome_text
from bench.show.tables.alternatives import against_json, against_lines

LABEL = 14  # width of the labels before the text


def own_text(judged: JudgedNumber, width: int) -> str:
    """Return the verdict, then the answers to the rule's questions, in lines of at most `width` characters."""
    longest, indent = max(width, 2 * LABEL), " " * LABEL
    return "\n".join(
        textwrap.fill(text, longest, initial_indent=f"{name:<{LABEL}}", subsequent_indent=indent)
        for name, text in _parts(judged)
    )


def _parts(judged: JudgedNumber) -> list[tuple[str, str]]:
    own, verdict, claim = judged.own, judged.verdict, judged.verdict.claim
    interval, sample, on_scale = print_interval(claim), verdict.sample, verdict.on_scale
    where = f"{judged.key} of {own.approach} {own.recipe}, protocol {own.protocol}"
    parts = [
        ("verdict", outcome_text(verdict)),
        ("your number", f"{claim.printed} {claim.unit}".strip() + f", {claim.precision_kind}: {where}"),
        ("printed alike", f"every number from {interval.low:.8g} to {interval.high:.8g}"),
    ]
    if sample.mean is not None and sample.sd is not None:
        parts.append(("measured", f"{sample.mean:.5g} +- {sample.sd:.2g} ({sample.n} seeds)"))
    if on_scale is not None and on_scale.estimate.has_spread:
        assert verdict.interval is not None, "a verdict on a scale has an interval"
        low, high = verdict.interval
        below, n = (
            on_scale.percentile * on_scale.ours.n / 100,
            on_scale.ours.n,
        )  # a run that prints like the report counts half
        above = f"all {n} of our runs" if below == n else f"{below:.3g} of our {n} runs"
        parts += [
            (
                "one of ours?",
                f"p {on_scale.estimate.p:.2g} that one more run of ours lies at least as far from our mean; "
                f"above {above}",
            ),
            (
                "how sharply?",
                f"one more run of ours: {low:.4g} to {high:.4g} in 95 of 100 cases; shifts below "
                f"{verdict.in_words(on_scale.estimate.resolution(verdict.level))} might not have shown; the margin, "
                f"{claim.margin:.3g}, is {claim.margin_reason}",
            ),
        ]
    lines = against_lines(judged.against) or [f"no alternative to {own.recipe} is known"]
    return [*parts, *(("against what?" if place == 0 else "", line) for place, line in enumerate(lines))]


def own_json(judged: JudgedNumber) -> dict[str, object]:
    """Return the verdict and its numbers as plain values for JSON."""
    verdict, found = judged.verdict, judged.verdict.on_scale
    on_scale = found if found is not None and found.estimate.has_spread else None
    return {
        **dataclasses.asdict(judged.own),
        "key": judged.key,
        "margin": verdict.claim.margin,
        "margin_reason": verdict.claim.margin_reason,
        "values": list(verdict.sample.values),
        "verdict": verdict.outcome,
        "reason": why(verdict),
        "p": on_scale and on_scale.estimate.p,
        "percentile": on_scale and on_scale.percentile,
        "interval": on_scale and verdict.interval,
        "resolution": on_scale and on_scale.estimate.resolution(verdict.level),
        "alternatives": against_json(judged.against),
    }
