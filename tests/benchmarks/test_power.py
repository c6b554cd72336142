"""How likely the gate catches planted faults: effects computed by hand, their table, and the shipped table."""

import sys

import pytest

from bench.cli import USAGE
from bench.core.project import RESULTS
from bench.judge.gate.config import load_gate
from bench.judge.gate.samples import Folder
from bench.show.tables.render import render
from benchmarks.effects import EFFECTS, caught, power_table, read_effects
from benchmarks.power import main
from tests.gate_folders import folders

PUBLISHED = "mlp/published/common"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return the command on made-up records and effects: two large effects, and one that is nearly zero."""
    path, _, reference, _ = folders(tmp_path)
    effects = tmp_path / "planted.csv"
    effects.write_text(
        "fault,cell,metric,seeds,mean,made,commit\n"
        f"kl-scale,{PUBLISHED},mnist/nll,3,0.9,2026-01-01,abc\n"
        f"learning-rate,{PUBLISHED},mnist/nll,3,0.3,2026-01-01,abc\n"
        f"dropout-on,{PUBLISHED},mnist/nll,3,0.9,2026-01-01,abc\n"
        f"dropout-on,{PUBLISHED},not gated any more,3,0.9,2026-01-01,abc\n"
    )

    def command(old="", new=""):
        effects.write_text(effects.read_text().replace(old, new))
        places = {"reference": reference.root, "gate": path, "effects": effects, "results": tmp_path / "made"}
        words = [word for name, place in places.items() for word in (f"--{name}", str(place))]
        monkeypatch.setattr(sys, "argv", ["benchmarks.power", *words])
        return main()

    return command


def test_without_a_fault_the_command_prints_and_writes_the_table_of_the_kept_effects(run, tmp_path, capsys):
    assert run() == 0
    rows = {row[0]: row for row in (line.split() for line in capsys.readouterr().out.splitlines()) if row}
    assert rows["kl-scale"][-1] == rows["dropout-on"][-1] == "100.0%"
    assert float(rows["learning-rate"][-1].rstrip("%")) < 5
    written = (tmp_path / "made" / "tables" / "gate_power.md").read_text()
    assert "wrong-split: always caught, by the exact check 'rows learnt from'" in written
    assert "not measured" not in written


def test_faults_without_effects_and_damaged_effects_are_named(run, capsys):
    assert run(f"kl-scale,{PUBLISHED},mnist/nll,3,0.9,2026-01-01,abc\n", "") == 0
    assert "kl-scale: not measured yet; python -m benchmarks.power kl-scale --save does" in capsys.readouterr().out
    assert run("learning-rate", "learning-rates") == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "row 2" in line


def test_the_committed_table_is_that_of_the_committed_effects():
    gate = load_gate()
    table = power_table(caught(gate, Folder.read(RESULTS, gate), read_effects(EFFECTS)))
    for form in ("md", "csv"):
        assert (RESULTS / "tables" / f"gate_power.{form}").read_text(encoding="utf-8") == render(table, form)
