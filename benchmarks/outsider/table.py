"""Table `corpus`: how many right objectives and mistakes of each library the audit judged as expected."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Iterable, Sequence

from bench.core.text import WHOLE
from bench.show.table import Number, Table
from benchmarks.outsider.common import Style

COLUMN = {  # where each cell of `running.judged` is counted
    "passes": "right: passes",
    "passes without the number": "right: passes without the number",
    "false failure": "right: fails falsely",
    "caught": "mistake: caught",
    "withheld as expected": "mistake: withheld as expected",
    "caught, other number": "mistake: told otherwise",
    "another rule": "mistake: told otherwise",
    "missed": "mistake: missed",
    "missed, KL withheld": "mistake: missed",
}
COLUMNS = tuple(dict.fromkeys(COLUMN.values()))
CAPTION = (
    "Each style of objective is written twice: right, and with one mistake, which is drawn. Every answer was written "
    "down before the audit first ran on the objectives. The audit was improved after that run, so these counts do not "
    "say how it does on objectives that it has never seen. Passes: no rule fails, and the KL's number is within a "
    "tenth of the expected one; without the number: no rule fails, but the number is missing or another. Fails "
    "falsely: a rule fails. Caught: an expected rule fails. Withheld as expected: the audit gives no number for the "
    "KL and says so, as it should. Told otherwise: only other rules fail, or the number is another. Missed: no rule "
    "fails."
)


def corpus_table(found: Sequence[tuple[Style, str]], origin: Sequence[str] = ()) -> Table:
    """Return the table of audited objectives, each given by its style and its cell."""
    by_library: dict[str, list[tuple[Style, str]]] = {}
    for style, cell in found:
        by_library.setdefault(_library(style), []).append((style, cell))
    rows = [[name, *_counts(cell for _, cell in mine)] for name, mine in by_library.items()]
    rows.append(["all", *_counts(cell for _, cell in found)])
    notes = [
        f"{name}{_version(name)}: {'; '.join(dict.fromkeys(style.name for style, _ in mine))}."
        for name, mine in by_library.items()
    ]
    title = "Does the audit tell right objectives from mistakes?"
    return Table("corpus", title, CAPTION, ("written with", *COLUMNS), rows, notes, origin=origin)


def _counts(cells: Iterable[str]) -> list[Number]:
    counted = Counter(COLUMN[cell] for cell in cells)
    return [Number(float(counted[column]), WHOLE) for column in COLUMNS]


def _library(style: Style) -> str:
    """Return the name under which a style's library is installed."""
    return {None: "plain torch", "pyro": "pyro-ppl"}.get(style.needs) or str(style.needs).replace("_", "-")


def _version(name: str) -> str:
    return "" if name == "plain torch" else f" {importlib.metadata.version(name)}"
