"""Everything that commands print fits 80 columns, with nothing cut off; where a record's numbers are shown."""

import fnmatch
import itertools
import re
import sys
from collections import Counter
from dataclasses import replace

import pytest
from rich.cells import cell_len

from bench.cli import verdict
from bench.cli.main import COMMANDS, UNFOLDED, main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.core.text import as_called
from bench.judge.ablation.definition import ablation
from bench.judge.ablation.single_changes import MEASURING
from bench.judge.stats.papers import load_papers
from bench.show.screens.summary import tables_with
from bench.show.screens.verdict import ROOM_FOR_P, summary_text
from bench.show.table import MINE, Table
from bench.show.tables.registry import TABLES
from bench.show.terminal import LONGEST, PIPE, SCREEN, Listing, narrowed, page, shown, text
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


def test_what_a_narrow_verdict_leaves_out_is_named_and_not_explained(shipped):
    narrow, wide = (summary_text(shipped.judgement, width) for width in (ROOM_FOR_P - 1, ROOM_FOR_P))
    assert "Left out: p of each number" in " ".join(narrow.split())
    assert "p: how often" in " ".join(wide.split())
    assert "p: how often" not in " ".join(narrow.split())
    assert "Left out" not in wide


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
    main(["gate", "--gate", str(gate), "--baseline", str(reference.root), "--fresh", str(fresh.root)])
    assert_fits(capsys.readouterr().out)


def test_a_pipe_is_as_wide_as_it_says_and_wide_folds_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")  # so that monkeypatch restores the variable after --wide has set it
    monkeypatch.delenv("COLUMNS")
    command = ["table", "definitions", "--all", "--results", str(tmp_path), "--baseline", "none"]
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
    assert 'Left out: "y". --wide shows all columns.' in " ".join(text(table).split())


def test_a_list_cuts_no_name_and_no_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    entry = "sigmoid-512-uniform-init-of-a-network", f"pip install -c constraints.txt -e '.[{'y' * 40}]'"
    assert letters(*entry) == letters(shown(Listing("", [entry])))


def test_a_name_breaks_at_its_words_before_a_row_becomes_a_list(monkeypatch):
    monkeypatch.setenv("COLUMNS", "13")
    table = Table("t", "T", "C", ["m", "random_module"], [["a/mean_net", "0.5"], ["a/ece", "0.25"]])
    lines = ["      random_", "m     module", "─" * 13, "a/    0.5", "mean_", "net", "a/ece 0.25"]
    assert text(table).splitlines()[3:] == lines


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


# --- screens that fit a person ---------------------------------------------------------------------------------------


@pytest.fixture
def lines(terminal, monkeypatch, capsys):
    """Return a function that runs a command on a terminal of 100 columns and returns its lines."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(command):
        assert main(command.split()) in (0, 3)
        printed = capsys.readouterr().out
        assert_fits(printed, 100)
        return printed.splitlines()

    return run


def test_an_ablation_begins_with_its_answer_and_has_a_line_for_each_change(lines):
    found = lines("ablation linear_bbb")
    assert found[0] == "Where a reported number of linear_bbb comes from"
    assert found[1].startswith("By the document's entropy, the predictive")  # what the steps show, before the steps
    assert any(line.startswith("normalised") for line in found)  # of the noise that the answer is about
    assert any(line.startswith("Data set mnist and noise_gaussian; --data-set NAME") for line in found)
    digits = lines("ablation linear_bbb --data-set mnist")
    assert not any(line.startswith("normalised") for line in digits)
    kinds = [line.split()[1] for line in digits if re.match(r"[a-z0-9-]+ +(alone|cumulative|control|variant) ", line)]
    single_changes = [one for one in ablation("linear_bbb").single_changes if one.kind != MEASURING]
    assert kinds == [one.kind for one in single_changes]


def test_all_ablations_fit_two_screens(lines):
    found = lines("ablation --all")
    assert found[0] == "What is each mistake of the documents worth?"
    assert "Where a reported number of linear_bbb comes from" in found
    assert "python" not in found[-1]
    assert len(found) < 80


def test_an_audit_shows_what_fails_and_counts_the_rest(lines):
    shown, every = lines("audit documents"), lines("audit documents --all")
    fails = [line for line in every if re.match(r"\w+ +fails ", line)]
    assert shown[: len(fails)] == fails
    assert shown[len(fails) + 1].startswith(f"documents: {len(fails)} fails")
    assert len(shown) == len(fails) + 3
    after = [second for first, second in itertools.pairwise(every) if re.match(r"\w+ +passes ", first)]
    assert after
    assert not any(line.startswith("    ") for line in after)  # a check that passes is one line
    assert any("to do: " in line for line in lines("audit documents --rule kl-sign"))


def test_a_table_shows_the_digits_first_and_what_is_asked_for(lines):
    rows = [line for line in lines("table refusal") if line.startswith("mlp ")]
    assert rows
    assert all(" mnist " in line for line in rows)
    chosen = lines("table refusal --data-set letters --column refused")
    (heading,) = [line for line in chosen if line.startswith("approach")]
    assert heading.split() == ["approach", "recipe", "data", "set", "refused"]
    (row,) = [line for line in chosen if re.match("mlp +published +letters ", line)]
    whole = lines("table refusal --data-set all --column refused")
    assert row.split() in [line.split() for line in whole]
    assert sum(line.startswith("mlp ") for line in whole) > len(rows)
    assert len(lines("table papers --all")) > len(load_papers())  # their data sets are not ours: nothing is left out


def test_the_column_that_sorts_a_table_is_never_left_out(tables):
    for name in ("methods", "methods_fashion"):
        narrow = narrowed(tables[name], 100)
        assert len(narrow.columns) < len(tables[name].columns), name  # some do not fit
        assert {"place", "NLL"} <= set(narrow.columns), name


@pytest.mark.parametrize("place", ["/usr/bin/bnn-bench", "/clone/bench/__main__.py"])
def test_the_program_that_was_called_is_named(place, terminal, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [place])
    called, other = ("bnn-bench", "python -m bench")[:: 1 if place.endswith("bnn-bench") else -1]
    with pytest.raises(SystemExit) as ended:
        main([])  # alone, it shows the commands, each on one line
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: {called} COMMAND")
    assert [line.split()[0] for line in printed.splitlines() if line.startswith("  ")][2:] == list(COMMANDS)
    main(["ablation"])
    main(["run", "mlp", "--sed", "1"])
    said = capsys.readouterr().err + shown("see python -m bench list; python -m bench.judge.audit.libraries stays")
    assert f"{called} list" in said
    assert f"{called} run --help" in said
    assert other not in said.replace("python -m bench.judge", "")
    assert as_called("python -m benchmarks.throughput") == "python -m benchmarks.throughput"


def test_a_long_table_keeps_the_rows_of_the_users_own_approaches(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    rows = [[f"network {number}", str(number)] for number in range(LONGEST)] + [[f"{MINE}last", "x"]]
    shown_rows = page(Table("t", "Title", "", ("approach", "accuracy"), rows)).splitlines()
    assert len(shown_rows) <= SCREEN
    assert any(line.startswith(f"{MINE}last") for line in shown_rows)
    n_rows = sum(line.startswith(("network ", MINE)) for line in shown_rows)
    assert any(line.startswith(f"{n_rows} of {LONGEST + 1} rows") for line in shown_rows)
