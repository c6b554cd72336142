"""Numbers of papers: the file's schema, and a table that marks what nobody has checked."""

import pytest

from bench.core.csv_rows import columns
from bench.core.errors import ConfigError
from bench.judge.stats.papers import OBTAINED, Paper, load_papers
from bench.show.tables.lists import papers_table
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
