"""A table as text of a form: for a terminal, as Markdown, as CSV, as LaTeX.

LaTeX: fragments to be input, with the rules of booktabs; long ones break over pages (longtable).
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable

from bench.core.errors import unknown_name
from bench.core.text import one_line, visible
from bench.show.table import EMPTY, NOTHING, Entry, Linked, Measured, Missing, Number, Table
from bench.show.terminal import text


def render(table: Table, form: str = "text") -> str:
    """Return a table as "text", "md", "csv" or "tex"; raises ConfigError for another form."""
    forms: dict[str, Callable[[Table], str]] = {"text": text, "md": markdown, "csv": comma_separated, "tex": latex}
    if form not in forms:
        raise unknown_name("table format", form, forms)
    return forms[form](table)


def markdown(table: Table) -> str:
    """Return a table as a Markdown document: heading, caption, grid and notes."""
    notes = "".join(f"- {escape(note)}\n" for note in table.notes)
    heading = f"# {escape(table.title)}\n\n{escape(table.caption)}"
    return f"{heading}\n\n{markdown_grid(table)}\n" + (f"\n{notes}" if notes else "")


def markdown_grid(table: Table) -> str:
    """Return the rows and columns of a table in Markdown."""
    columns = []
    for place, header in enumerate(table.columns):
        texts = [escape(text) for text in (header, *(row[place] for row in table.texts()))]
        width = max(len(texts[0]) + 2, *map(len, texts))
        is_right, line = table.is_numeric(place), "-" * (width + 1)
        column = [f" {text.rjust(width) if is_right else text.ljust(width)} " for text in texts]
        columns.append([column[0], f"{line}:" if is_right else f":{line}", *column[1:]])
    return "\n".join(f"|{'|'.join(line)}|" for line in zip(*columns, strict=True))


def escape(raw: str) -> str:
    """Return text that Markdown shows as it is, on one line: no cell borders, tags, emphasis or comments."""
    line = one_line(raw)
    for character in "\\|*`":
        line = line.replace(character, f"\\{character}")
    return line.replace("<", "&lt;")


def comma_separated(table: Table) -> str:
    """Return a table as CSV with unrounded numbers.

    A measured column NAME gets "NAME sd" and "NAME n" beside it. A number that was not measured is its reason. A table
    with lines of its own has these instead of its rows.
    """
    out = io.StringIO()
    if table.lines:
        named = csv.DictWriter(out, list(table.lines[0]), lineterminator="\n")
        named.writeheader()
        named.writerows(table.lines)
        return visible(out.getvalue())
    spreads = [any(isinstance(row[place], Measured) for row in table.rows) for place in range(len(table.columns))]
    writer = csv.writer(out, lineterminator="\n")
    header: list[list[str | int]] = [[column, f"{column} sd", f"{column} n"] for column in table.columns]
    for line in [header, *([_raw(entry) for entry in row] for row in table.rows)]:
        kept = (parts if has_spread else parts[:1] for parts, has_spread in zip(line, spreads, strict=True))
        writer.writerow(itertools.chain.from_iterable(kept))
    return visible(out.getvalue())


def _raw(entry: Entry) -> list[str | int]:
    """Return value, standard deviation and number of seeds."""
    if isinstance(entry, Number):
        return [repr(entry.value), "", ""]
    if isinstance(entry, Missing):
        return [entry.missing_value.code, "", 0]
    if entry is None or isinstance(entry, str | Linked):
        return [EMPTY if entry is None else str(entry), "", ""]
    sample = entry.sample
    if sample.mean is None:
        missing_value = sample.missing_value or NOTHING
        return [f"{missing_value.code}: {missing_value.reason}", "", 0]
    return [repr(sample.mean), "" if sample.sd is None else repr(sample.sd), sample.n]


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
    header = [escape_latex(column) for column in table.columns]
    columns = "".join("r" if table.is_numeric(place) else "l" for place in range(len(header)))
    label = re.sub(r"[^A-Za-z0-9:.-]", "-", table.name)
    caption = rf"\caption{{{escape_latex(table.title)}. {escape_latex(table.caption)}}}\label{{tab:{label}}}"
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


def escape_latex(raw: str) -> str:
    """Return text that LaTeX prints as it is, on one line."""
    return one_line(raw).translate(_SPECIAL)


def _shown(entry: Entry, text: str) -> str:
    """Return an entry's text; in numbers a minus is as long as a plus, and a spread has its sign."""
    shown = escape_latex(text)
    if isinstance(entry, Measured | Number):
        shown = re.sub(r"^-(?=\d)", "$-$", shown).replace(" +- ", r" $\pm$ ")
    return shown


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _break(text: str) -> str:
    return f"\n{text}\n" if text else "\n"
