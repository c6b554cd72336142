"""Tables as LaTeX: fragments to be input, with the rules of booktabs; long ones break over pages (longtable)."""

from __future__ import annotations

import re

from bench.core.text import one_line
from bench.show.table import Entry, Measured, Number, Table

LONGEST_FLOAT = 40  # rows of a table that stays on one page
_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "_": r"\_",
        "%": r"\%",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': "''",  # the straight quote is not in every font encoding
        "`": "'",
        "[": "{[}",  # at the start of a row it would be taken for the option of the line break before it
        "]": "{]}",
    }
)


def latex(table: Table) -> str:
    """Return a table as a fragment that needs the packages booktabs and longtable and defines label `tab:NAME`."""
    rows = [
        [_shown(entry, text) for entry, text in zip(row, texts, strict=True)]
        for row, texts in zip(table.rows, table.texts(), strict=True)
    ]
    header = [escape(column) for column in table.columns]
    columns = "".join("r" if table.is_numeric(place) else "l" for place in range(len(header)))
    label = re.sub(r"[^A-Za-z0-9:.-]", "-", table.name)
    caption = rf"\caption{{{escape(table.title)}. {escape(table.caption)}}}\label{{tab:{label}}}"
    body = "\n".join(_row(row) for row in rows)
    top = rf"\toprule{_break(_row(header))}\midrule"
    if len(rows) > LONGEST_FLOAT:
        lines = [rf"{{\small\begin{{longtable}}{{{columns}}}", rf"{caption} \\"]
        lines += [rf"{top}\endfirsthead", rf"{top}\endhead"]
        lines += [rf"\bottomrule\endfoot{_break(body)}\end{{longtable}}}}"]
    else:
        lines = [r"\begin{table}", r"\centering\small", caption, rf"\begin{{tabular}}{{{columns}}}"]
        lines += [rf"{top}{_break(body)}\bottomrule", r"\end{tabular}", r"\end{table}"]
    notes = "".join(f"% {one_line(note)}\n" for note in table.notes)
    return f"% \\usepackage{{booktabs,longtable}}\n{notes}" + "\n".join(lines) + "\n"


def escape(raw: str) -> str:
    """Return text that LaTeX prints as it is, on one line."""
    return one_line(raw).translate(_SPECIAL)


def _shown(entry: Entry, text: str) -> str:
    """Return an entry's text; in numbers a minus is as long as a plus, and a spread has its sign."""
    shown = escape(text)
    if isinstance(entry, Measured | Number):
        shown = re.sub(r"^-(?=\d)", "$-$", shown).replace(" +- ", r" $\pm$ ")
    return shown


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _break(text: str) -> str:
    return f"\n{text}\n" if text else "\n"
