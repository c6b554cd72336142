"""Reasons as data: why a number is missing, why a time does not count, why a trained run has no result.

A reason is a kind and its values. Code compares kinds. `in_words` makes the text when a reason is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from bench.core.text import encodable

LONGEST = 2_000  # characters of a text in a reason; an approach's error may hold megabytes

ReasonValue = str | int | float
ReasonValues = Mapping[str, ReasonValue]

OTHER_LOAD = "other-load"
SEEDS_TOGETHER = "seeds-together"
RESUMED = "resumed"


def _seeds_together(values: ReasonValues) -> str:
    return f"trained together with {values['n']} other seed{'' if values['n'] == 1 else 's'}"


def _error(values: ReasonValues) -> str:
    text = f"{values['type']}: {values['message']}" if values["message"] else str(values["type"])
    return f"{text} ({values['place']})" if values["place"] else text


# The words of each kind. A name in braces is a value that a reason of this kind has.
_TEMPLATES = {
    # why a time does not count
    OTHER_LOAD: "other load on the machine",
    "fits-at-once": "{n} fits at a time",
    RESUMED: "the fit was interrupted and resumed",
    "short-epochs": "profile {profile} runs {steps} steps an epoch",
    # why a metric is missing
    "one-draw": "one draw: nothing varies",
    "row-noise": "noise is drawn for each row: a draw is not one network",
    "shared-noise": (
        "one noise vector serves all rows: a draw is right for each row alone, but it is not one network for the whole "
        "data set"
    ),
    "rows-refused": "every row is refused",
    "images-refused": "the rule refused every image",
    "label-impossible": "infinite: a label has probability exactly 0",
    "not-finite": "the number is not finite",
    "no-observation-noise": "the network states no observation noise",
    "no-spread": "one network has no spread",
    "no-data": "{message}",
    "unsupported": "{message}",
    # why a trained run has no result
    "diverged": "{metric} is {value} in epoch {epoch}; a smaller learning rate may help",
    "diverged-by-itself": "{message}",  # the approach itself raised `Diverged`
    "no-framework": "{message}",
    "broken-approach": "{message}",
    "cpu-float32-only": "{approach} runs on cpu in float32 or float64 only: {why}",
    "out-of-time": "{message}",
    "crashed": "{message}",
    "not-written": "{message}",
    "damaged": "{message}",
    # an old record's text that was not split into a kind and values
    "text": "{message}",
}
_COMPOSED: dict[str, tuple[frozenset[str], Callable[[ReasonValues], str]]] = {
    SEEDS_TOGETHER: (frozenset({"n"}), _seeds_together),
    "error": (frozenset({"type", "message", "place"}), _error),
}
_NAMES = {kind: frozenset(re.findall(r"{(\w+)}", text)) for kind, text in _TEMPLATES.items()} | {
    kind: names for kind, (names, _) in _COMPOSED.items()
}


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A kind and its values. A longer text than `LONGEST` is cut, and can be encoded."""

    kind: str
    values: dict[str, ReasonValue] = {}

    def __post_init__(self) -> None:
        """Cut long texts. Raise ValueError for an unknown kind, or for other values than a reason of this kind has."""
        if self.kind == "diverged-as-told":  # its name in older records
            msgspec.structs.force_setattr(self, "kind", "diverged-by-itself")
        names = _NAMES.get(self.kind)
        if names is None:
            raise ValueError(f"unknown kind of reason '{self.kind:.50}'")
        if self.values.keys() != names:
            raise ValueError(f"a reason of kind '{self.kind}' has the values {', '.join(sorted(names)) or 'none'}")
        msgspec.structs.force_setattr(self, "values", {name: _cut(value) for name, value in self.values.items()})


def _cut(value: ReasonValue) -> ReasonValue:
    if not isinstance(value, str):
        return value
    text = encodable(value[: LONGEST + 1])  # first, because an escape is longer than its character
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def message_reason(kind: str, message: object) -> Reason:
    """Return a reason whose only value is a message."""
    return Reason(kind, {"message": str(message)})


def in_words(*reasons: Reason | None) -> str:
    """Return reasons as one text; '' if there are none."""
    return "; ".join(_words(reason) for reason in reasons if reason is not None)


def _words(reason: Reason) -> str:
    composed = _COMPOSED.get(reason.kind)
    return composed[1](reason.values) if composed else _TEMPLATES[reason.kind].format(**reason.values)
