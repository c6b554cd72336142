"""What the page and LaTeX write, which a real LaTeX accepts; tables of lists: numbers of papers and other libraries."""

import re
import shutil
import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.cli.main import main
from bench.core.csv_rows import columns
from bench.core.errors import ConfigError
from bench.core.text import FRACTION_DIFFERENCE
from bench.judge.audit.libraries.audited import ObjectiveAudit
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.judge.comparison import CANNOT_TELL, CONTRADICTED
from bench.judge.samples import MissingValue, Samples
from bench.judge.stats.papers import OBTAINED, Paper, load_papers
from bench.judge.stats.rule import NOT_EXACT, OUTCOMES
from bench.show.figures.style import DARK
from bench.show.outcomes import LOOKS, css, tone
from bench.show.page.grid import breakable, coded, levels, typeset
from bench.show.page.links import anchor, web_address
from bench.show.table import Measured, Missing, Number, Table
from bench.show.tables.lists import LIBRARIES_COLUMNS, as_if_n, libraries_table, papers_table, weights
from bench.show.tables.render import LONGEST_FLOAT, escape_latex, latex, markdown, render
from tests.tables import by_column


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_ids_are_plain_and_as_different_as_the_names(one, other):
    assert re.fullmatch(r"claim-[A-Za-z0-9._~-]+", anchor("claim", one))
    assert (anchor("claim", one) == anchor("claim", other)) == (one == other)


@pytest.mark.parametrize("link", ["javascript:alert(1)", " https://x", "data:text/html,x", "//host", "ftp://x", ""])
def test_only_links_to_the_web_are_links(link):
    assert web_address(link) == ""
    assert web_address("https://x/y") == "https://x/y"


def test_numbers_are_set_with_the_signs_of_print():
    assert typeset("-0.0018") == "\u22120.0018"
    assert typeset("0.9726 +- 0.0008 (5)") == "0.9726 \u00b1\u00a00.0008 (5)"
    assert typeset("1.2e-05") == "1.2e-05"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a2019.fcn.epoch01.loss", "a2019.<wbr>fcn.<wbr>epoch01.<wbr>loss"),
        ("a.<b>.c", "a.<wbr>&lt;b&gt;.<wbr>c"),
        ("0.25", "0.25"),
        ("published+a-b+c", "published<wbr>+a-b<wbr>+c"),
        ("pyro_random_module", "pyro_<wbr>random_<wbr>module"),
        ("linear_bbb", "linear_bbb"),
        ("+0.25", "+0.25"),
        ("one word. two. three", "one word. two. three"),
    ],
)
def test_long_names_may_break_and_stay_text(text, shown):
    assert str(breakable(text)) == shown


def test_what_stands_between_backticks_is_code_and_never_markup():
    assert coded("give `--all` or `a < b`, <b>") == "give <code>--all</code> or <code>a &lt; b</code>, &lt;b&gt;"
    assert coded("one ` alone") == "one ` alone"


def test_a_link_to_a_file_is_its_text_on_the_page():
    assert coded("by 0.3 points ([methods](docs/methods.md)), +0.5 [+0.4, +0.6] (5)") == (
        "by 0.3 points (methods), +0.5 [+0.4, +0.6] (5)"
    )


def test_every_outcome_has_a_colour_of_its_own_that_means_what_it_says():
    """Shades of one colour confirm, shades of another contradict; the rest is grey. A new outcome must choose."""
    assert tuple(LOOKS) == OUTCOMES
    assert len({look.light for look in LOOKS.values()}) == len({look.dark for look in LOOKS.values()}) == len(OUTCOMES)
    assert {outcome for outcome in OUTCOMES if tone(outcome) == "bad"} == {CONTRADICTED, NOT_EXACT}
    for outcome, look in LOOKS.items():
        red, green, blue = (int(look.light[place : place + 2], 16) for place in (1, 3, 5))
        if tone(outcome) == "good":
            assert blue > green > red
        elif tone(outcome) == "bad":
            assert red > green > blue
        else:
            assert max(red, green, blue) - min(red, green, blue) < 20  # grey
    assert tone(CANNOT_TELL) == "open"
    assert LOOKS[CANNOT_TELL].marker == "$?$"
    assert css().count("light-dark(") == len(OUTCOMES)


def test_shades_are_equal_steps_from_the_worst_to_the_best():
    # .9 to 1: .95 is half of the way; of times the logarithm counts: 10 lies halfway between 1 and 100
    assert levels([0.9, 0.95, 1.0, None], is_higher_better=True) == [0, 2, 4, None]
    assert levels([1, 10, 19], is_higher_better=False) == [4, 2, 0]
    assert levels([0.5, 0.5], is_higher_better=True) == [None, None]  # no difference, no shade
    assert levels([None], is_higher_better=True) == [None]


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


def test_the_colour_of_each_outcome_has_one_for_dark_screens():
    assert {look.light.lower() for look in LOOKS.values()} <= set(DARK)


COLUMNS = columns(Paper)

GOOD = ["p.one", "A paper", "SGD", "784-10", "error", "mnist", "fraction", "0.02", "", "read", "a note"]


def write(path, *rows):
    path.write_text("\n".join(",".join(row) for row in (COLUMNS, *rows)) + "\n", encoding="utf-8")
    return path


def test_the_file_is_read_and_every_number_says_how_it_was_obtained():
    papers = load_papers()
    assert {paper.obtained for paper in papers} == set(OBTAINED)
    assert len({paper.id for paper in papers}) == len(papers) > 20


def test_unchecked_numbers_are_marked_and_the_others_are_not():
    papers = load_papers()
    table = papers_table(papers)
    marked = [row["obtained"] == "UNCHECKED" for row in by_column(table)]
    assert marked == [paper.obtained == "unchecked" for paper in papers]
    assert f"not checked against the source ({sum(marked)})" in markdown(table)


@pytest.mark.parametrize(
    ("column", "value"),
    [("id", ""), ("value", "1.2"), ("value", "two"), ("obtained", "guessed"), ("n_runs", "0"), ("n_runs", "some")],
)
def test_a_bad_value_names_row_and_column(tmp_path, column, value):
    bad = ["p.two", *GOOD[1:]]
    bad[COLUMNS.index(column)] = value
    with pytest.raises(ConfigError, match=f"row 3, column {column}"):
        load_papers(write(tmp_path / "papers.csv", GOOD, bad))


def objective(**kl_weights):
    return ObjectiveAudit("passes", "", kl_weights)


def test_alike_weights_are_one_number_and_unlike_ones_are_named():
    assert weights(objective(a=2.0, b=2.01)) == "2"
    assert as_if_n(objective(a=2.0, b=2.01)) == "29,900"  # 60,000 / 2.01 = 29,851
    assert weights(objective(a=0.5, b=3.0)) == "a 0.5, b 3"
    assert as_if_n(objective(a=0.5, b=3.0)) == "20,000 to 120,000"
    assert weights(ObjectiveAudit("fails", "")) == "not measured: gradients are no slopes"
    assert as_if_n(ObjectiveAudit("fails", "")) is None


def test_an_example_that_nobody_measured_says_what_to_install():
    table = libraries_table({})
    assert len(table.rows) == len(EXAMPLES)
    assert all(len(row) == len(LIBRARIES_COLUMNS) for row in table.rows)
    assert "pip install torchbnn" in markdown(table)


def test_a_library_that_is_not_there_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torchbnn", None)  # its import then fails
    assert main(["audit", "--library", "torchbnn"]) == 2
    assert "pip install -c constraints.txt -e '.[libraries]'" in capsys.readouterr().err
