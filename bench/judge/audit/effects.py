"""What a document's mistake is worth: one number of a rung of our approach's ladder, paired by seed."""

from __future__ import annotations

from bench.core.errors import ConfigError, unknown_name
from bench.core.metric_table import METRICS
from bench.core.toml import TomlTable
from bench.judge.ladder.definition import ladder
from bench.judge.ladder.effects import Numbers, effect_text
from bench.judge.ladder.rungs import STORED, Rung


class RungNumber(TomlTable, frozen=True):
    """Which number of which rung of an approach's ladder."""

    rung: str
    data_set: str
    quantity: str
    kind: str = ""  # of the rung, where rungs of several kinds share the name


def rung_of(approach: str, wanted: RungNumber) -> Rung:
    """Return the rung of an approach's ladder; raises ConfigError unless there is exactly one, with this number."""
    rungs = ladder(approach).rungs
    named = [rung for rung in rungs if rung.name == wanted.rung]
    if not named:
        raise unknown_name(f"rung of {approach}", wanted.rung, {rung.name for rung in rungs})
    found = [rung for rung in named if wanted.kind in ("", rung.kind)]
    if len(found) != 1:
        kinds = ", ".join(rung.kind for rung in named)
        raise ConfigError(f"rung {wanted.rung} of {approach} was given kind '{wanted.kind}'; give one of {kinds}")
    number = (wanted.data_set, wanted.quantity)
    if number not in found[0].numbers:
        known = {" ".join(what) for what in found[0].numbers}
        raise unknown_name(f"number of rung {wanted.rung} of {approach}", " ".join(number), known)
    return found[0]


def effect_of(approach: str, wanted: RungNumber, numbers: Numbers) -> str:
    """Return the difference with its 95 % interval over seeds, or why there is none and which command makes it.

    Raises:
        ConfigError: the ladder has no such number.
    """
    rung = rung_of(approach, wanted)
    effect = numbers.effect(*rung.numbers[wanted.data_set, wanted.quantity])
    what = f"ladder {approach}, rung {rung.name} ({rung.kind}: {rung.title}), {wanted.data_set} {wanted.quantity}"
    if effect.paired is None:
        return f"{what}: {effect.gaps[0].code}: {effect.gaps[0].reason}"
    n, unit = effect.paired.n, METRICS[STORED[wanted.quantity]].unit.name
    seeds = "1 seed, no interval" if n == 1 else f"{n} seeds"
    return f"{what}: {effect_text(effect, wanted.quantity)} ({unit}; {seeds})"
