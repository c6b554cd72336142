"""How an outcome is coloured, on a page and on a terminal."""

from __future__ import annotations

from bench.judge.stats.verdicts import CONSISTENT, EQUIVALENT, EXACT, NOT_REPRODUCED, WITHIN

TONES = {EXACT: "good", EQUIVALENT: "good", WITHIN: "good", CONSISTENT: "good", NOT_REPRODUCED: "bad"}


def tone(outcome: str) -> str:
    """Return "good", "bad", or "open" for what is not decided."""
    return TONES.get(outcome, "open")
