"""Format numbers, durations and foreign texts for people."""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SMALLEST_FIXED = 1e-4  # smaller numbers get an exponent


@dataclass(frozen=True)
class Digits:
    """How a number is rounded for display: to decimals, or to significant digits."""

    decimals: int | None = None
    significant: int = 3
    signed: bool = False

    def form(self, value: float) -> str:
        """Return the format for numbers of this value's size."""
        sign = "+" if self.signed else ""
        if self.decimals is not None:
            return f"{sign}.{self.decimals}f"
        if value == 0:
            return f"{sign}.{self.significant - 1}f"
        if abs(value) < SMALLEST_FIXED:
            return f"{sign}.{self.significant - 1}e"
        return f"{sign}.{max(0, self.significant - 1 - math.floor(math.log10(abs(value))))}f"

    def text(self, value: float) -> str:
        """Return the rounded number; what rounds to zero has no minus sign."""
        form = self.form(value)
        text = format(value, form)
        return format(0.0, form) if float(text) == 0 else text


FRACTION = Digits(decimals=4)
FRACTION_DIFFERENCE = Digits(decimals=4, signed=True)
WHOLE = Digits(decimals=0)
THREE = Digits(significant=3)
SIX = Digits(significant=6)
THREE_DIFFERENCE = Digits(significant=3, signed=True)


def one_line(text: str, longest: int | None = None) -> str:
    """Return any text as one line that is safe to print.

    White space becomes single spaces. `visible` replaces other unprintable characters. A text of more than `longest`
    characters is cut.
    """
    safe = visible(" ".join(text.split()))
    return safe if longest is None or len(safe) <= longest else f"{safe[:longest]}..."


def encodable(text: str) -> str:
    """Return text that UTF-8 can write: half a character, as of the name of a file, becomes Python's escape."""
    return text.encode(errors="backslashreplace").decode()


def visible(text: str) -> str:
    """Return text of any number of lines that is safe to show: on a terminal, in a table, on a page.

    Unprintable characters become Python's escapes, because they could move the terminal's cursor or reverse the
    direction of the text. All text from a file passes through here before it is shown.
    """
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_visible, line)) for line in lines)


def _visible(character: str) -> str:
    is_plain = character.isprintable() or character == "\t" or unicodedata.category(character) == "Zs"
    return character if is_plain else repr(character)[1:-1]


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 curve", "16 curves"; the plural must end in an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def duration(seconds: float | None) -> str:
    """Return a duration such as 48 s, 12 min, 1 h 05 min."""
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def program() -> str:
    """Return how the user calls the suite: `bnn-bench`, or else `python -m bench`."""
    return "bnn-bench" if Path(sys.argv[0]).stem == "bnn-bench" else "python -m bench"


def as_called(text: str) -> str:
    """Return text for the screen, with commands as the user calls them; files always say `python -m bench`."""
    return re.sub(r"\bpython -m bench(?![.\w])", program(), text)
