"""Everything that commands print fits 80 columns, with nothing cut off; where a record's numbers are shown."""

import fnmatch
from collections import Counter
from dataclasses import replace

import pytest
from rich.cells import cell_len

from bench.cli import verdict
from bench.cli.main import COMMANDS, UNFOLDED, main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.show.inputs import Inputs
from bench.show.screens.summary import tables_with
from bench.show.table import Table
from bench.show.tables.registry import TABLES, all_tables
from bench.show.terminal import PIPE, Listing, narrowed, shown, text
from tests.gate_folders import folders
from tests.tables import inputs

WIDTH = 80
CLAIM = "alsibahi2019.fcn.epoch01.train_loss"
OWN = "--approach mlp --metric accuracy --reported .985"


@pytest.fixture
def terminal(monkeypatch):
    """Set the working folder to the repository, and the terminal's width to WIDTH."""
    monkeypatch.chdir(RESULTS.parent)
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def assert_fits(printed, width=WIDTH):
    too_wide = [line for line in printed.splitlines() if cell_len(line) > width]
    assert too_wide == []


def letters(*texts):
    return Counter(character for text in texts for character in text if not character.isspace())


@pytest.fixture(scope="module")
def shipped():
    """Return the records that come with the suite; shared by the tests, because their verdicts take seconds."""
    return Inputs(RESULTS)


@pytest.fixture(scope="module")
def tables(shipped):
    return all_tables(shipped)


@pytest.mark.parametrize("width", [80, 120, UNFOLDED])
def test_every_table_fits_and_shows_every_letter(width, tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    for name, table in tables.items():
        printed = text(table)
        assert_fits(printed, width)
        shown_part = narrowed(table, width)
        entries = [entry for row in shown_part.texts() for entry in row]
        assert not letters(*entries) - letters(printed), name
        left_out = [column for column in table.columns if column not in shown_part.columns]
        assert ("--wide shows all columns." in " ".join(printed.split())) == bool(left_out), name
        assert set(left_out) <= set(table.spare), name
        assert width != UNFOLDED or not left_out


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "env",
        "data list",
        "data verify",
        "plan --all",
        "status --all",
        "baseline",
        "table",
        "table --list",
        "ablation mlp",
        "audit documents",
        "audit --rules",
        "predict docs/predict.png",
        "compare results results --profile epoch1 --precision float32 --metric *accuracy",
    ],
)
def test_every_listing_fits(command, terminal, capsys):
    assert main(command.split()) in (0, 3)
    printed = capsys.readouterr().out
    assert printed.strip()
    assert_fits(printed)


@pytest.mark.parametrize("command", ["verdict", "verdict --all", f"verdict {CLAIM}", "verdict " + OWN])
def test_every_verdict_fits(command, terminal, shipped, monkeypatch, capsys):
    monkeypatch.setattr(verdict, "inputs_of", lambda arguments, reads_others=True: shipped)
    assert main(command.split()) == 0
    printed = capsys.readouterr().out
    assert printed.strip()
    assert_fits(printed)


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_help_page_fits(name, terminal, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "usage: python -m bench" in printed
    assert_fits(printed)


def test_a_wider_terminal_is_used(terminal, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(WIDTH + 40))
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert_fits(printed, WIDTH + 40)
    with pytest.raises(AssertionError):
        assert_fits(printed)


def test_a_gate_fits(terminal, tmp_path, capsys):
    gate, _, reference, fresh = folders(tmp_path)
    main(["gate", "--gate", str(gate), "--reference", str(reference.root), "--fresh", str(fresh.root)])
    assert_fits(capsys.readouterr().out)


def test_a_pipe_is_as_wide_as_it_says_and_wide_folds_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")  # so that monkeypatch restores the variable after --wide has set it
    monkeypatch.delenv("COLUMNS")
    command = ["table", "papers", "--results", str(tmp_path), "--baseline", "none"]
    main(command)
    folded = capsys.readouterr().out
    assert_fits(folded, PIPE)
    main([*command, "--wide"])
    whole = capsys.readouterr().out
    assert PIPE < max(map(len, whole.splitlines())) < UNFOLDED
    assert len(whole.splitlines()) < len(folded.splitlines())
    assert not letters(whole) - letters(folded) - letters("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * UNFOLDED)


def test_only_columns_that_a_table_has_are_spare(tables):
    for kind in TABLES:
        found = [tables[name].columns for name in fnmatch.filter(tables, kind.name)]
        assert set(kind.spare) <= set().union(*found), kind.name


def test_a_narrow_screen_leaves_out_what_has_no_room_and_says_so(monkeypatch):
    table = replace(Table("t", "T", "C", ["name", "x", "y"], [["a.b.c", "one", "two"]]), spare=("y", "x"))
    # The longest parts take 4 + 3 + 3 columns, the gaps 1 each: 12, without y 8, without x too 4.
    for width, left in ((12, "name x y"), (11, "name x"), (8, "name x"), (7, "name"), (3, "name x y")):
        assert list(narrowed(table, width).columns) == left.split()
    monkeypatch.setenv("COLUMNS", "8")
    assert text(table).splitlines()[3:7] == ["name x", "─" * 8, "a.b. one", "c"]
    assert "Left out: y. --wide shows all columns." in " ".join(text(table).split())


def test_what_is_folded_keeps_its_indentation(monkeypatch):
    monkeypatch.setenv("COLUMNS", "12")
    assert shown("    one two three").splitlines() == ["    one two", "    three"]
    assert shown(Listing("h", [("a", "one two three")])).splitlines() == ["h", "  a  one two", "     three"]
    assert shown(Listing("alone", [])) == "alone"


def test_every_table_whose_numbers_a_record_changes_is_named():
    """A level and a single change of the ablation show the record as do the tables of means."""
    records = [one for one in Store(RESULTS).all_records()[0] if (one.approach, one.profile) == ("mlp", "full")]
    one = next(one for one in records if (one.recipe, one.protocol, one.seed) == ("corrected", "common", 1))
    found = dict(tables_with(one, inputs(records)).lines)
    assert {"accuracy", "calibration", "choice", "confidence", "mistakes", "ablation_mlp", "provenance"} <= found.keys()
    assert "verdicts" not in found  # they read the protocol of the document
    assert found["mistakes"] == "mlp lr-decay 5: accuracy, points, NLL, letters' AUROC, points"


@pytest.mark.parametrize("words", [["list", "--tables"], ["list", "", "--tables"]])
def test_tables_are_of_one_record(words, capsys):
    assert main(words) == 2
    assert "give the first letters" in capsys.readouterr().err
