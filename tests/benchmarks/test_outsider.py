"""The audit of objectives that were written before it ran on them: a fast part of the eighty.

`python -m benchmarks.outsider` audits all.
"""

import sys

import pytest

from bench.cli import USAGE
from benchmarks.outsider import __main__ as command
from benchmarks.outsider.common import Style
from benchmarks.outsider.running import GOOD, NOTES, judged, plan
from benchmarks.outsider.table import COLUMNS, corpus_table

FAST = (  # a few seconds
    *("counts", "tied weights", "blitz manner", "guide by hand, subsample", "latent noise"),
    *("scaled layers", "two names", "noise kept", "plain SGD"),
)


@pytest.mark.parametrize(("style", "fault"), [case for case in plan() if case[0].name in FAST])
def test_a_user_is_told_what_should_be_told(style, fault):
    cell, objective, told = judged(style, fault)
    assert cell in GOOD, f"{cell}: {objective.expected}\n{told.text}"


def test_the_notes_are_of_mistakes_that_a_style_can_have():
    known = {(style.name, fault) for style, fault in plan(every_mistake=True)}
    assert NOTES.keys() <= known


def made_up_style(name):
    return Style(name, lambda sizes, fault: None, ("a mistake",))


def test_the_table_counts_the_cells_of_each_library_and_of_all():
    plain, other = made_up_style("one"), made_up_style("two")
    cells = ["passes", "missed", "false failure", "missed, KL withheld"]
    found = [(plain, cell) for cell in cells] + [(other, cell) for cell in ("passes", "another rule", "caught")]
    table = corpus_table(found)
    assert table.columns[1:] == COLUMNS
    assert table.texts() == [[name, "2", "0", "1", "1", "0", "1", "2"] for name in ("plain torch", "all")]
    assert table.own_notes == ("plain torch: one; two.",)


@pytest.mark.parametrize(("words", "message"), [(["counts"], "needs every style"), (["--all"], "not allowed with")])
def test_a_part_of_the_corpus_has_no_table(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["outsider", *words, "--table"])
    assert command.main() == USAGE
    assert message in capsys.readouterr().err
