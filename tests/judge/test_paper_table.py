"""The paper's table, figure and command."""

import json
import re

import pytest

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.store import Store
from bench.judge.stats.papers import load_papers, paper_claims
from bench.show.figures import learning
from bench.show.figures.style import style
from bench.show.inputs import Inputs
from bench.show.tables.blundell2015 import blundell_table
from tests.judge.claims import blundell_records as records
from tests.judge.claims import results

CLAIMS = {claim.paper.id: claim for claim in paper_claims(load_papers())}
SMALL = "blundell2015.t1.bbb_mixture.400"


def test_the_table_has_the_numbers_that_were_measured_and_counts_the_others():
    table = blundell_table(results(records("published", [0.0134] * 5), records("published", [0.02], "blundell_sgd")))
    marks = {row[0]: re.sub(r"[^a-z]", "", row[1]) for row in table.rows}
    assert marks == {"t1.bbb_mixture.400": "s", "t1.sgd.400": "m"}
    (missing,) = [note for note in table.notes if note.startswith("Numbers without a finished fit")]
    assert "15 of 17 of blundell2015, 3 of 3 of jinkehe2019" in missing
    assert {line["number"] for line in table.lines} == set(CLAIMS)
    assert not blundell_table(results()).rows


@pytest.fixture
def folder(tmp_path):
    for one in [*records("published", [0.0134, 0.0138]), *records("published+gaussian-prior", [0.018])]:
        Store(tmp_path).write(one)
    return tmp_path


def test_the_command_and_the_figure(folder, capsys):
    place = ["--results", str(folder), "--baseline", "none"]
    assert main(["verdict", "blundell2015", *place]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1.36 % with 400 units is open: 2 of 5 seeds so far; the lowest error is" in said
    assert main(["verdict", "--document", "blundell2015", *place, "--json"]) == 0
    assert {row["number"] for row in json.loads(capsys.readouterr().out)} == set(CLAIMS)
    assert main(["verdict", SMALL, "--results", str(folder)]) == USAGE
    assert "a paper with a table of its own; give its name alone" in capsys.readouterr().err
    (figure,) = learning.make(Inputs(folder))
    assert "scale mixture 2" in figure.caption
    with style():
        (axes,) = figure.draw().axes
    assert [line.get_label() for line in axes.lines if not line.get_label().startswith("_")] == [
        "Gaussian prior",
        "scale mixture",
    ]


def test_without_records_there_is_no_figure(tmp_path):
    assert list(learning.make(Inputs(tmp_path))) == []
