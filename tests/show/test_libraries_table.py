"""The table of other people's libraries, and the command that audits them."""

import sys

from bench.cli.main import main
from bench.judge.audit.libraries.audited import ObjectiveAudit
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.show.tables.lists import LIBRARIES_COLUMNS, as_if_n, libraries_table, weights
from bench.show.tables.render import markdown


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
    assert "pip install 'bnn-uncertainty-bench[libraries]'" in capsys.readouterr().err


def test_an_unknown_library_and_a_part_beside_one_are_one_line(capsys):
    assert main(["audit", "--library", "torchbn"]) == 2
    assert "did you mean 'torchbnn'" in capsys.readouterr().err
    assert main(["audit", "data", "--library", "torchbnn"]) == 2
    assert "leave out 'data'" in capsys.readouterr().err
