"""Tables of lists: numbers of papers, which mark what nobody has checked, and other people's libraries."""

import sys

import pytest

from bench.cli.main import main
from bench.core.csv_rows import columns
from bench.core.errors import ConfigError
from bench.judge.audit.libraries.audited import ObjectiveAudit
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.judge.stats.papers import OBTAINED, Paper, load_papers
from bench.show.tables.lists import LIBRARIES_COLUMNS, as_if_n, libraries_table, papers_table, weights
from bench.show.tables.render import markdown
from tests.tables import by_column

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
