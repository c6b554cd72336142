"""Tables as LaTeX: worked cells, and that a real LaTeX accepts whatever text stands in them."""

import shutil
import string
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.core.text import FRACTION_DIFFERENCE
from bench.judge.samples import MissingValue, Samples
from bench.show.table import Measured, Missing, Number, Table
from bench.show.tables.render import LONGEST_FLOAT, escape_latex, latex, render

PLAIN = set(string.ascii_letters + string.digits + " .,;:!?()+-*/=@'")


def table(rows: int = 1) -> Table:
    mean, missing_value = Measured(Samples.of((0.97, 0.98))), Missing(MissingValue("n/a", "no"))
    row = ["a_b & 5 % {x}", mean, Number(-0.0018, FRACTION_DIFFERENCE), missing_value]
    return Table(
        "my_table", "Title #1", "Caption $", ["name", "mean", "difference", "missing value"], [row] * rows, ["last"]
    )


def test_cells_are_escaped_and_numbers_typeset():
    # Mean (0.97 + 0.98) / 2 = 0.975; sd 0.005 * sqrt(2) = 0.0071.
    shown = render(table(), "tex")
    assert r"a\_b \& 5 \% \{x\} & 0.9750 $\pm$ 0.0071 (2) & $-$0.0018 & n/a \\" in shown
    assert r"\begin{tabular}{lrrr}" in shown
    assert r"\caption{Title \#1. Caption \$}\label{tab:my-table}" in shown
    assert "% n/a: no\n% last\n" in shown


def test_a_table_longer_than_a_page_breaks():
    assert r"\begin{longtable}" not in latex(table(LONGEST_FLOAT))
    assert r"\begin{longtable}" in latex(table(LONGEST_FLOAT + 1))


@given(st.text())
def test_no_character_with_a_meaning_is_left(raw):
    left = escape_latex(raw)
    for escaped in (r"\textbackslash{}", r"\textasciicircum{}", r"\textasciitilde{}", r"\textless{}"):
        left = left.replace(escaped, "")
    for escaped in (r"\textgreater{}", r"\textbar{}", "{[}", "{]}", *(f"\\{character}" for character in "{}$&#_%")):
        left = left.replace(escaped, "")
    assert not set(left) & set('\\{}$&#_%^~<>|"`[]\n\r\t')
    assert escape_latex("".join(character for character in raw if character in PLAIN)).isascii()


def test_latex_accepts_every_character(tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    row = [string.punctuation, "[x] first", Measured(Samples.of((-0.5, 0.5))), "\\end{tabular}"]
    made = [Table(f"t{n}", string.punctuation, "c", ["a_1", "[", "%", "~"], [row] * n, ["%\n\\x"]) for n in (2, 60)]
    head = "\\documentclass{article}\\usepackage{booktabs,longtable}\\begin{document}\n"
    (tmp_path / "t.tex").write_text(head + "\n".join(map(latex, made)) + "\\end{document}\n", encoding="utf-8")
    command = ["pdflatex", "-no-shell-escape", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-1500:]
