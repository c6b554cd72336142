"""The finding on the documents' mistakes: what each changes, and which reports it made."""

from __future__ import annotations

from collections.abc import Sequence

from bench.core.text import counted
from bench.judge.alternatives.named import CORRECTED
from bench.judge.alternatives.weighing import COMMON, OVERWHELMING
from bench.judge.comparison import ENOUGH
from bench.show.inputs import Inputs
from bench.show.tables.ablation import Mistake, mistakes
from bench.show.tables.alternatives import end_results_against
from bench.show.tables.verdicts import load_short_names

NOT_MEASURED = "Nothing is measured yet: `python -m bench run --all` makes the records."


def with_verb(count: int, one: str, more: str) -> str:
    """Return a number with the verb that fits it: "1 is confirmed", "2 are confirmed"."""
    return f"{count} {one if count == 1 else more}"


def worth(inputs: Inputs) -> str:
    """Say which corrections change the accuracy, and which reports hardly come from a corrected run."""
    measured = [one for one in mistakes(inputs) if one.accuracy]
    if not measured:
        return NOT_MEASURED
    clear = [one for one in measured if one.is_clear]
    clear.sort(key=lambda one: -abs(one.accuracy.difference if one.accuracy else 0))
    return f"{_effects(clear, len(measured))}{_unclear(measured)}{_reports_with_mistakes(inputs)}"


def _unclear(measured: Sequence[Mistake]) -> str:
    """Say for how many other corrections chance can explain the change, and how many have too few pairs of seeds."""
    pairs = [one.accuracy.n for one in measured if one.accuracy and not one.is_clear]
    few = sum(n < ENOUGH for n in pairs)
    said = []
    if len(pairs) > few:
        said.append(f"for {with_verb(len(pairs) - few, 'other', 'others')}, chance can explain the change")
    if few:
        said.append(f"for {few}, fewer than {ENOUGH} seeds finished with and without the mistake, too few to tell")
    return f" {'; '.join(said).capitalize()}." if said else ""


def _reports_with_mistakes(inputs: Inputs) -> str:
    """Say which reported numbers are far likelier from the published code than from the corrected one."""
    names = load_short_names()
    found: dict[str, list[str]] = {}
    protocols: set[str] = set()
    for mine in end_results_against(inputs.judged, inputs.claims):
        corrected = [one for one in mine.hardly_from if one.alternative.kind == CORRECTED]
        if corrected:
            name = names.get(mine.claim.id, mine.claim.metric)
            found.setdefault(mine.claim.source, []).append(f"{mine.claim.printed} ({name})")
            protocols |= {one.protocol for one in corrected}
    if not found:
        return ""
    numbers = counted(sum(map(len, found.values())), "reported number")
    caution = ", measured by the common protocol, which measures all alike" if COMMON in protocols else ""
    reported = [
        f"{len(mine)} of {source}, such as {mine[0]}" if len(mine) > 1 else f"{mine[0]} of {source}"
        for source, mine in found.items()
    ]
    return (
        f" {numbers} can hardly come from corrected code, as the published code makes them over {OVERWHELMING:.0f} "
        f"times likelier{caution}: {'; '.join(reported)}."
    )


def _effects(clear: Sequence[Mistake], measured: int) -> str:
    """Say how much the clear corrections change the accuracy, the largest change first."""
    if not clear:
        return f"None of {measured} corrections, made one at a time, changes the test accuracy beyond chance."
    first, *others = clear
    effects = [_effect(first, " percentage points", "95 % interval "), *map(_effect, others)]
    return (
        f"Of {measured} corrections, made one at a time, {with_verb(len(clear), 'changes', 'change')} "
        f"the test accuracy beyond chance: {'; '.join(effects)}."
    )


def _effect(one: Mistake, unit: str = "", what: str = "") -> str:
    change = one.accuracy
    interval = None if change is None else change.interval()
    assert change is not None
    assert interval is not None
    low, high = (f"{100 * end:+.2f}" for end in interval)
    size = f"{100 * change.difference:+.2f}{unit} [{what}{low} to {high}, {counted(change.n, 'seed')}]"
    return f"{one.approach} by {size} (correction: {one.single_change.title})"
