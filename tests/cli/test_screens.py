"""Screens that fit a person: the gate's and the verdicts' short forms."""

import pytest

from bench.cli import FAILED, INCOMPLETE
from bench.cli.main import main, parse
from bench.cli.table import _chosen
from bench.core.project import RESULTS
from bench.show.inputs import Inputs
from bench.show.tables.registry import one_table
from tests.gate_folders import folders, fresh_folder

LOSS = "last epoch/mnist/{train}/train_loss"
PASSED = "mlp/corrected/common"


def test_a_gate_begins_with_the_outcome_and_has_a_line_for_each_trained_run_that_passes(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    path, gate, _, _ = folders(tmp_path)
    fresh = fresh_folder(tmp_path / "fresh", gate, shift=0.2)
    command = ["gate", "--gate", str(path), "--baseline", str(tmp_path / "baseline"), "--fresh", str(fresh.root)]
    assert main(command) == FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "gate NOT PASSED: 3 pass, 2 fail"
    assert [line[:4] for line in lines[2:7]] == ["fail"] * 2 + ["pass"] * 2 + [""]  # three checks of two trained runs
    assert f"pass: {PASSED}: {LOSS}, mnist/nll" in lines
    assert not any("sees at" in line for line in lines)  # a column of the table, which is not there
    assert lines[-1] == "--all shows the numbers of every check."
    assert main([*command, "--all"]) == FAILED
    whole = capsys.readouterr().out.splitlines()
    rows = [place for place, line in enumerate(whole) if line.startswith("mlp/")]
    assert len(rows) == 4
    assert whole.index(lines[0]) > max(rows)  # the outcome follows the table
    for file in fresh.records.glob("mlp/published*"):
        file.unlink()
    assert main(command) == INCOMPLETE
    (together,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("missing")]
    assert together.endswith("(2 checks of mlp/published/common)")


@pytest.fixture(scope="module")
def shipped():
    return Inputs(RESULTS)


@pytest.mark.parametrize("more", [[], ["--all"], ["--format", "csv"], ["--column", "p"]])
def test_a_screen_of_verdicts_has_the_end_results_and_files_every_number(more, shipped):
    whole = one_table(shipped, "verdicts")
    shown = _chosen(whole, parse(["table", "verdicts", *more]))
    ends, is_short = {verdict.claim.id for verdict in shipped.judgement.ends}, more in ([], ["--column", "p"])
    assert len(ends) < len(whole.rows) == len(shipped.judgement.verdicts)
    assert {str(row[0]) for row in shown.rows} == (
        ends if is_short else {one.claim.id for one in shipped.judgement.verdicts}
    )
    assert any("--all shows every number" in remark for remark in shown.remarks) == is_short


def test_only_tables_with_main_rows_are_shortened(shipped):
    table = one_table(shipped, "headline")
    assert table.shortened("no row is left out") == table
