"""How one claim came to its verdict: step by step as text, and as plain values for JSON."""

from __future__ import annotations

from bench.core.text import FRACTION, SIX, THREE, Digits, counted
from bench.judge.claims import measured_key, print_interval
from bench.judge.comparison import ALPHA, CONTRADICTED, ENOUGH
from bench.judge.stats.curves import SEEN_BEFORE, Curve
from bench.judge.stats.on_scale import OnScale
from bench.judge.stats.rule import TRIES, Verdict, distance_from_print, is_exact
from bench.judge.stats.scales import IDENTITY, LOG, from_scale
from bench.judge.stats.verdicts import Judgement
from bench.show.outcomes import seeds_that_settle, why

FOUR = Digits(significant=4)
NAME_WIDTH = 14  # characters of the longest name of a step
SMALLEST_SHOWN = 0.001  # a smaller p is shown as "<.001"
CHOSEN_AFTER = (
    "The statistic of curves was chosen after this curve had been seen. The earlier statistic, the smallest p of its "
    "epochs times their number, would be {p}."
)


def digits_of(verdict: Verdict) -> Digits:
    """Return how the numbers of a verdict are rounded."""
    if verdict.claim.unit == "fraction":
        return FRACTION
    if verdict.scale == LOG:
        return THREE
    return SIX if verdict.claim.precision_kind == "count" else FOUR


def p_text(p: float | None) -> str:
    """Return a p-value with three decimals below 0.095 and two from there on, "-" where there is none."""
    if p is None:
        return "-"
    if p < SMALLEST_SHOWN:
        return "<.001"
    return f"{p:.3f}" if p < 0.095 else f"{p:.2f}"


def ours_text(verdict: Verdict) -> str:
    """Return our mean and the 95 % interval in which one more run would lie: "0.9732 [0.9708, 0.9755]"."""
    digits = digits_of(verdict)
    if verdict.centre is None:
        return "-"
    ends = verdict.interval
    return digits.text(verdict.centre) + ("" if ends is None else f" [{', '.join(map(digits.text, ends))}]")


def outcome_text(one: Verdict | Curve) -> str:
    """Return the outcome and its reason. For "contradicted", the reason says the outcome already."""
    return why(one) if one.outcome == CONTRADICTED else f"{one.outcome}: {why(one)}"


def explain(judgement: Judgement, verdict: Verdict, with_curve: bool = True) -> str:
    """Return the steps from one claim to its verdict, then those of its curve.

    Without `with_curve`, only the first and the last step of the curve.
    """
    claim = verdict.claim
    interval = print_interval(claim)
    lines = [
        f"{claim.id}: {verdict.outcome}",
        _step("reported", f"{claim.printed} {claim.unit} ({claim.precision_kind}; {claim.locator} of {claim.source})"),
        _step("metric", measured_key(claim)[1]),
        _step("printed alike", f"every number from {interval.low:.8g} to {interval.high:.8g}"),
        *([_step("note", claim.note)] if claim.note else []),
        _step("measured", _measured_text(verdict)),
    ]
    if is_exact(claim):
        if verdict.sample.n:
            worst = max(distance_from_print(claim, value) for value in verdict.sample.values)
            far = "" if worst == 0 else f", the worst is {worst:.2g} outside"
            asked = "a computed number: does every value print as reported?"
            lines.append(_step("rule", f"{asked} {_yes(worst == 0)}{far}"))
        return "\n".join([*lines, _step("so", outcome_text(verdict))])
    lines.append(_step("margin", f"M = {claim.margin:g}: {claim.margin_reason}"))
    if verdict.on_scale is not None:
        lines += _scale(verdict, verdict.on_scale) + _one_of_ours(verdict, verdict.on_scale)
        lines += _precision(verdict, verdict.on_scale)
    if not verdict.is_point:
        lines += _decision(verdict)
        lines.append(_step("so", outcome_text(verdict)))
    curve = _curve_of(judgement, verdict)
    if curve is None:
        return "\n".join(lines)
    shown = _of_curve(curve, verdict.is_point)
    return "\n".join(lines + (shown if with_curve else [shown[0], shown[-1]]))


def _curve_of(judgement: Judgement, verdict: Verdict) -> Curve | None:
    return next((curve for curve in judgement.curves if curve.name == verdict.curve), None)


def _step(name: str, text: str) -> str:
    return f"  {name:<{NAME_WIDTH}} {text}"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _measured_text(verdict: Verdict) -> str:
    sample = verdict.sample
    if sample.mean is None:
        return "nothing"
    spread = "" if sample.sd is None else f", standard deviation {sample.sd:.4g}"
    values = ", ".join(f"{value:.7g}" for value in sample.values)
    return f"mean {sample.mean:.7g}{spread}, {counted(sample.n, 'seed')}: {values}"


def _scale(verdict: Verdict, on_scale: OnScale) -> list[str]:
    if verdict.scale == IDENTITY:
        return []
    of = f" of (count + 1/2) / {verdict.scale.images + 1}" if verdict.scale.images else ""
    mean = on_scale.ours.mean or 0.0
    moments = (
        f"mean {mean:.4g} (of {from_scale(verdict.scale, mean):.4g}), standard deviation {on_scale.ours.sd:.4g}, "
        f"M = {on_scale.margin:.4g}"
    )
    return [_step("scale", f"{verdict.scale.name}{of}; on this scale, here and below, {moments}")]


def _one_of_ours(verdict: Verdict, on_scale: OnScale) -> list[str]:
    d, k = on_scale.estimate.difference, on_scale.ours.n
    if on_scale.reported.sd is None:
        text = f"t({on_scale.spread[1]}) of D / (s sqrt(1 + 1/{k}))"
    else:
        text = f"Welch's test against the mean of {on_scale.reported.n_runs:g} runs"
    below = (
        f"{on_scale.percentile:.0f} % of our {k} runs lie below the report; a run that is printed as the report counts "
        "as half a run"
    )
    lines = [
        *_pooling(on_scale),
        _step("distance", f"D = {d:.4g} from our mean to the nearest number that is printed alike"),
        _step("one of ours?", f"p = {p_text(on_scale.estimate.p)}, two-sided, by {text}"),
        _step("percentile", below),
    ]
    best = verdict.best_of_three_p
    if best is not None:
        lines.append(_step("best of three", f"p = {p_text(best)} if the report is the best of {TRIES} runs"))
    return lines


def _pooling(on_scale: OnScale) -> list[str]:
    """Return a step on the spread of several recipes, if there are several."""
    return [_step("pooled?", pooling_text(on_scale))] if on_scale.pooled is not None else []


def pooling_text(on_scale: OnScale) -> str:
    """Say whether the spread is pooled over recipes, and what the claim's own seeds alone and all seeds give."""
    pooled, own = on_scale.pooled, on_scale.own_estimate
    if pooled is None:
        return "own seeds alone: no other recipe has two seeds"
    test = f"Bartlett's test over {pooled.n_recipes} recipes, p = {p_text(pooled.p)}"
    alone = f"own seeds: s = {on_scale.ours.sd:.4g}, p = {p_text(own.p)}, h = {own.half_width():.4g}"
    if not pooled.is_allowed:
        return f"no, {test}: they scatter unlike each other; {alone}"
    return f"yes, {test}: s = {pooled.sd:.4g} with {pooled.freedom} degrees of freedom counts; {alone}"


def _precision(verdict: Verdict, on_scale: OnScale) -> list[str]:
    h, k, ends = on_scale.half_width, on_scale.ours.n, verdict.interval
    assert ends is not None, "a verdict on a scale has an interval"
    low, high = map(digits_of(verdict).text, ends)
    width = f"t({on_scale.spread[1]}, .975) s sqrt(1 + 1/{k})" if on_scale.reported.sd is None else "by Welch"
    r, level = on_scale.estimate.resolution(verdict.level), f"{verdict.level:.2g}"
    seeds = seeds_that_settle(on_scale)
    return [
        _step("how sharply?", f"h = {width} = {h:.4g}: 95 % of further reports lie from {low} to {high}"),
        _step("resolution", f"R = {r:.4g}: a shift of the mean that is seen with 80 % power at level {level}"),
        _step(
            "settled by",
            f"{seeds} can settle it, at this spread: then h + half of what prints alike <= M",
        ),
    ]


def _decision(verdict: Verdict) -> list[str]:
    on_scale, sample = verdict.on_scale, verdict.sample
    if not sample.n:
        return [_step("seeds", "did any seed measure it? no")]
    without = "none without a number" if sample.missing_value is None else sample.missing_value.reason
    holds = sample.n >= ENOUGH and sample.missing_value is None
    lines = [_step("enough", f"at least {ENOUGH} seeds, each with a number? {_yes(holds)}: {sample.n}, {without}")]
    if on_scale is None or verdict.p_adjusted is None:
        return lines
    return lines + _rule(on_scale, verdict.p_adjusted, verdict.level)


def _rule(on_scale: OnScale, p: float, level: float) -> list[str]:
    d, m, far_end = on_scale.estimate.difference, on_scale.margin, on_scale.farthest_distance + on_scale.half_width
    of = f"Holm over {round(ALPHA / level)} claims and curves of the document"
    lines = [_step("contradicted?", f"{of}: adjusted p = {p:.3g} < {ALPHA}? {_yes(p < ALPHA)}")]
    same = on_scale.p_equivalence
    if p < ALPHA:
        lines.append(_step("does it matter", f"D = {d:.4g} > M = {m:.4g}? {_yes(not on_scale.is_within_margin)}"))
    elif same is not None:
        lines.append(_step("confirmed?", f"two one-sided tests with M, p = {same:.3g} < {ALPHA}? {_yes(same < ALPHA)}"))
    else:
        far = f"E = {on_scale.farthest_distance:.4g} to the farthest number that is printed alike"
        lines.append(_step("confirmed?", f"{far}; E + h = {far_end:.4g} <= M = {m:.4g}? {_yes(on_scale.would_land)}"))
    return lines


def _of_curve(curve: Curve, is_point: bool) -> list[str]:
    """Return the steps from a curve to its verdict; without `is_point`, they are shown below an end result."""
    on_scale = curve.on_scale
    whole = "this point gets the verdict of its curve" if is_point else "it is also the last point of a curve"
    lines = [_step("curve", f"{whole}, one claim of {len(curve.rows)} epochs: {curve.name}")]
    if on_scale is not None:
        lines.append(_step("", f"mean over epochs of (run - mean) / sd of all {on_scale.ours.n + 1} runs:"))
        middle, values = on_scale.reported.middle, ", ".join(f"{value:.2f}" for value in on_scale.ours.values)
        lines.append(_step("", f"report {middle:.2f}; our seeds {values}"))
        d, h, m = on_scale.estimate.difference, on_scale.half_width, on_scale.margin
        lines.append(_step("", f"D = {d:.3g}, h = {h:.3g}, M = {m:.3g}, p = {p_text(on_scale.estimate.p)}"))
        if curve.p_adjusted is not None:
            lines += _rule(on_scale, curve.p_adjusted, curve.level)
        earlier = f"the earlier statistic, smallest p of the epochs times their number: {p_text(curve.smallest_p)}"
        lines.append(_step("before", earlier))
    if curve.name == SEEN_BEFORE:
        lines.append(_step("note", CHOSEN_AFTER.format(p=p_text(curve.smallest_p))))
    return [*lines, _step("so", outcome_text(curve))]


def as_json(judgement: Judgement, verdict: Verdict) -> dict[str, object]:
    """Return a verdict as plain values for JSON."""
    claim, sample, on_scale = verdict.claim, verdict.sample, verdict.on_scale
    curve = _curve_of(judgement, verdict)
    fields = ("source", "approach", "stage", "locator", "unit", "printed", "precision_kind")
    return {
        "claim": claim.id,
        **{name: getattr(claim, name) for name in fields},
        "reported": claim.value,
        "margin": claim.margin,
        "margin_reason": claim.margin_reason,
        "n": sample.n,
        "missing value": sample.missing_value.reason if sample.missing_value else None,
        "values": list(sample.values),
        "mean": sample.mean,
        "sd": sample.sd,
        "difference": verdict.difference,
        "interval": verdict.interval,
        "scale": verdict.scale.name,
        "distance": on_scale and on_scale.estimate.difference,
        "farthest_distance": on_scale and on_scale.farthest_distance,
        "half_width": on_scale and on_scale.half_width,
        "margin_on_scale": on_scale and on_scale.margin,
        "resolution": on_scale and on_scale.estimate.resolution(verdict.level),
        "seeds_to_settle": on_scale and on_scale.seeds_to_settle,
        "level": verdict.level,
        "p": on_scale and on_scale.estimate.p,
        "p_adjusted": verdict.p_adjusted,
        "p_best_of_three": verdict.best_of_three_p,
        "p_equivalence": on_scale and on_scale.p_equivalence,
        "percentile": on_scale and on_scale.percentile,
        "own_p": on_scale and on_scale.own_estimate.p,
        "own_half_width": on_scale and on_scale.own_estimate.half_width(),
        "pooled": on_scale and on_scale.pooled and on_scale.pooled._asdict() | {"counts": on_scale.pooled.is_allowed},
        "curve": verdict.curve or None,
        "p_curve": curve and curve.on_scale and curve.on_scale.estimate.p,
        "p_joint": judgement.joint.get(claim.source),
        "verdict": verdict.outcome,
        "reason": why(verdict),
    }
