"""Tables about the suite itself: the committed ones are up to date, and damaged ones are named."""

import json

import pytest

from bench.cli import INCOMPLETE, USAGE
from bench.cli.main import main
from bench.core.errors import StoreError
from bench.core.project import RESULTS
from bench.core.sealed import seal
from bench.core.text import THREE, Digits
from bench.judge.samples import Gap
from bench.show.material import Material
from bench.show.table import Missing, Number, Table
from bench.show.tables.registry import one_table
from bench.show.tables.render import render
from benchmarks.keeping import keep, kept
from benchmarks.throughput.table import subject, versions_today


@pytest.mark.parametrize(
    "name", ["throughput", "determinism", "fault_tests", "library_speed", "corpus", "elbo_intervals"]
)
def test_a_committed_table_is_that_of_its_kept_file(name):
    shown = one_table(Material(RESULTS), name)
    for form in ("md", "csv"):
        assert (RESULTS / "tables" / f"{name}.{form}").read_text(encoding="utf-8") == render(shown, form)


def test_no_speed_is_of_another_version():
    found = kept("throughput", RESULTS)
    stale = sorted(name for name, made in found.versions.items() if made != versions_today(name.split()[0]))
    assert set(found.versions) == {subject(row) for row in found.table().rows}
    assert not stale, f"measure these again with python -m benchmarks.throughput: {', '.join(stale)}"


def test_a_damaged_table_is_not_replaced_by_a_part(tmp_path):
    keep(table(), tmp_path)
    path = tmp_path / "measured" / "throughput.json"
    path.write_text(path.read_text().replace("a note", "another note"))
    with pytest.raises(StoreError, match=r"was changed after it was written.*remove the file"):
        kept("throughput", tmp_path)


def table(words="own"):
    gaps = Missing(Gap("-", "not measured")), Missing(Gap("n/a", "no GPU")), Missing(Gap("n/a", "no such part"))
    rows = [["mlp", Number(1 / 3, Digits(decimals=2)), gaps[0]], [words, gaps[1], gaps[2]]]
    rows.append(["uniform", Number(1e-7, Digits(significant=2)), Number(12.5, THREE)])
    return Table("throughput", "Speed", "How fast.", ["approach", "ours", "GPU"], rows, ["a note"], origin=["a CPU"])


def test_a_table_comes_back_and_a_folders_own_stands_before_the_baselines(tmp_path):
    made = keep(table(), tmp_path / "own")
    keep(table("of the baseline"), tmp_path / "base")
    assert one_table(Material(tmp_path / "own", baseline=tmp_path / "base"), "throughput") == made
    lent = one_table(Material(tmp_path / "none", baseline=tmp_path / "base"), "throughput")
    assert lent.texts()[1] == ["of the baseline", "n/a [1]", "n/a [2]"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [["too short"]]}, "the 3 entries of the columns"),
        ({"rows": [["mlp", {"value": 1.0, "decimals": 10**9}, "-"]]}, "decimals"),
        ({"rows": [["mlp", ["-"], "-"]]}, "length 2"),
        ({"schema": 2}, "make it again with the program that measures it"),
    ],
)
def test_a_damaged_table_is_named_in_one_line(tmp_path, capsys, change, message):
    keep(table(), tmp_path)
    path = tmp_path / "measured" / "throughput.json"
    text = path.read_text()
    path.write_text(json.dumps(seal({**json.loads(text), **change})))
    place = ["--results", str(tmp_path), "--baseline", "none"]
    assert main(["table", "throughput", *place]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "no table 'throughput' can be made" in line
    assert message in line
    assert main(["table", "definitions", *place]) == INCOMPLETE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: measured table")
    assert message in line
