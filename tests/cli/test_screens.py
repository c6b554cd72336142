"""Screens: short forms of the gate and of long tables, the line of a silent command, colours."""

import contextlib
import io
import os
import pty
import re
import sys
import threading

import pytest
from rich.cells import cell_len

from bench.cli import FAILED, INCOMPLETE, waiting
from bench.cli.main import main, parse
from bench.cli.table import _chosen, _printed
from bench.cli.waiting import Line, doing, watched
from bench.core.errors import ConfigError
from bench.judge.stats.rule import OUTCOMES
from bench.show.outcomes import tone
from bench.show.table import Table
from bench.show.terminal import LONGEST, SCREEN, TONES, page, text, toned
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


@pytest.mark.parametrize("silent", [1.9, 2.0])
def test_a_line_appears_after_two_seconds_and_is_erased_before_anything_is_printed(silent, monkeypatch):
    now, out = [10.0], io.StringIO()
    monkeypatch.setenv("COLUMNS", "80")
    line = Line("report", out, clock=lambda: now[0])
    doing("drawing figure 3 of 16")
    now[0] += silent
    line.look()
    shown = "\rreport: drawing figure 3 of 16, 2 s" if silent >= 2 else ""
    assert out.getvalue() == shown
    monkeypatch.setenv("COLUMNS", "12")  # no line is folded, and none is longer than what is erased
    doing("")
    now[0] += 2
    line.look()
    cut = "\rreport: wor"
    assert out.getvalue() == shown + cut.ljust(max(len(shown), len(cut)))
    assert line.erased(lambda: out.write("answer")) == len("answer")
    assert out.getvalue().endswith(f"\r{' ' * (max(len(shown), len(cut)) - 1)}\ranswer")
    before = out.getvalue()
    line.look()  # something was just printed
    assert out.getvalue() == before


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("words", "is_shown"), [(["list"], True), (["gate"], False), (["ablation", "--run"], False)])
def test_a_silent_command_has_a_line_on_a_terminal(words, is_shown, monkeypatch):
    screen, shown = Terminal(), threading.Event()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(waiting, "SILENT_S", 0.0)
    monkeypatch.setattr(waiting, "EVERY_S", 0.001)
    look = Line.look
    monkeypatch.setattr(Line, "look", lambda line: (look(line), shown.set()))

    def action():
        assert not is_shown or shown.wait(60)
        sys.stderr.write("warning\n")
        return 3

    assert watched(words, action) == 3
    assert sys.stderr is screen
    said = screen.getvalue()
    assert ("list: working, 0 s" in said) == is_shown
    if is_shown:  # erased before the warning, and at the end
        assert said.partition("warning\n")[0].endswith("\r")
        assert said.endswith(("\r", "warning\n"))
    else:
        assert said == "warning\n"


def test_no_line_where_errors_are_no_terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    assert watched(["list"], lambda: int(sys.stderr is screen)) == 1


ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(monkeypatch, *command):
    """Return the code of a command and what it prints on a terminal."""
    leader, follower = pty.openpty()
    read = bytearray()

    def keep():  # while the command prints, as a terminal holds little that nobody reads
        with contextlib.suppress(OSError):  # the end of a terminal whose other side is closed
            while got := os.read(leader, 65536):
                read.extend(got)

    reader = threading.Thread(target=keep)
    reader.start()
    with os.fdopen(follower, "w", encoding="utf-8") as screen, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        code = main(command)
    reader.join()
    os.close(leader)
    return code, read.decode().replace("\r\n", "\n")


@pytest.fixture
def gate(tmp_path):
    path, gate, _, _ = folders(tmp_path)
    fresh = fresh_folder(tmp_path / "fresh", gate, shift=0.2)
    return ["gate", "--gate", str(path), "--baseline", str(tmp_path / "baseline"), "--fresh", str(fresh.root)]


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
@pytest.mark.parametrize("more", [[], ["--all"]])
def test_outcomes_are_coloured_on_a_terminal_alone(gate, variables, is_coloured, more, monkeypatch, capsys):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm", "COLUMNS": "80"} | variables).items():
        monkeypatch.setenv(name, value)
    assert main([*gate, *more]) == FAILED
    piped = capsys.readouterr().out
    assert ESCAPE.search(piped) is None
    code, shown = on_a_terminal(monkeypatch, *gate, *more)
    assert code == FAILED
    assert ESCAPE.sub("", shown) == piped  # the same words at the same places
    assert ("\x1b[31mgate NOT PASSED\x1b[0m" in shown) == is_coloured
    assert ("\x1b[31mfail\x1b[0m" in shown) == is_coloured
    assert ("\x1b[32mpass\x1b[0m" in shown) == is_coloured
    assert (ESCAPE.search(shown) is not None) == is_coloured


@pytest.mark.parametrize(
    ("line", "coloured"),
    [
        *((f"name  .9 .91 [.9 to .92] 1.00 {outcome}", [outcome]) for outcome in OUTCOMES),
        ("Of 9 numbers, 5 are confirmed, for 4 no single run can tell, none is contradicted", []),
        ("each answer takes 100 passes", []),
        ("serious     fails           kl-scale", ["fails"]),
        ("mine: my_cnn  0.98", ["mine: my_cnn"]),
        ("0.98 mine", ["mine"]),
        ("a line about mines", []),
    ],
)
def test_an_outcome_is_coloured_where_it_stands_alone(line, coloured):
    shown = toned(line)
    assert shown.plain == line
    assert [line[span.start : span.end] for span in shown.spans] == coloured


def test_the_screen_and_the_page_take_an_outcome_alike():
    assert {outcome: TONES[outcome] for outcome in OUTCOMES} == {outcome: tone(outcome) for outcome in OUTCOMES}


# long tables


def printed(table, *options):
    arguments = parse(["table", table.name, *options])
    return _printed(_chosen(table, arguments), arguments)


@pytest.mark.parametrize("more", [[], ["--all"], ["--format", "csv"], ["--column", "p"]])
def test_a_screen_of_verdicts_has_the_end_results_and_files_every_number(more, shipped, tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    out = printed(tables["verdicts"], *more)
    every, ends = ({one.claim.id for one in group} for group in (shipped.judgement.verdicts, shipped.judgement.ends))
    assert len(ends) < len(every) == len(tables["verdicts"].rows)
    is_short = more in ([], ["--column", "p"])
    names = {re.split("[ ,]", line)[0] for line in out.splitlines()}
    assert names & every == (ends if is_short else every)
    assert (f"{len(ends)} of {len(every)} rows (end results; " in out) == is_short


def test_every_table_is_a_screen_and_all_shows_every_row(tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for name, table in tables.items():
        out, whole = printed(table), printed(table, "--all")
        assert out.count("\n") < LONGEST, name
        assert max(map(cell_len, out.splitlines())) <= 100
        assert whole == text(table)
        said = " ".join(out.split())
        assert "--all every row" in said or "--data-set NAME or all" in said or out == whole, name


@pytest.mark.parametrize(("options", "rows"), [([], "mnist/"), (["--data-set", "letters"], "letters/")])
def test_metrics_are_in_columns_digits_first(options, rows, tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    lines = printed(tables["metrics"], *options).splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("metric "))
    assert lines[head].split() == list(tables["metrics"].columns)
    end = lines.index("", head)
    assert {line.partition("/")[0] + "/" for line in lines[head + 2 : end]} == {rows}
    assert end - head - 2 == sum(str(row[0]).startswith(rows) for row in tables["metrics"].rows)


def test_a_row_is_chosen_by_its_text(tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    pruning = tables["pruning"]
    lines = printed(pruning, "--row", "mlp published ", "--all").splitlines()
    assert sum(line.startswith("mlp ") for line in lines) == sum(
        row[:2] == ["mlp", "published"] for row in pruning.rows
    )
    assert not any(line.startswith("linear_bbb ") for line in lines)
    with pytest.raises(ConfigError, match="no row of table pruning has the text 'nonsense'; --all shows every row"):
        printed(pruning, "--row", "nonsense")


def long_table(names, **more):
    rows = [[name, "same", name[-1], f"{place:_>40}"] for place, name in enumerate(names)]
    remarks = [f"{names[0]}: first", f"{names[-1]}: last", "of all: stays"]
    return Table("t", "T", "Caption.", ("name", "kind", "letter", "spare"), rows, remarks, **more)


def test_a_page_has_the_users_rows_says_what_is_alike_and_leaves_out_remarks_on_other_rows(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    names = [*(f"row{place}" for place in range(LONGEST)), "mine: z"]
    main = long_table(names, main=lambda row: row[0] == "row1", main_says="some")
    lines = page(main).splitlines()
    assert lines[1].startswith(f"2 of {len(names)} rows (some). ")
    assert "The same in all: kind same." in " ".join(lines[1:4])
    assert [line.split()[0] for line in lines if line.startswith(("row", "mine"))] == ["row1", "mine:", "mine:"]
    assert lines[-2:] == ["mine: z: last", "of all: stays"]
    few = page(long_table(names, main=lambda row: row[0] == "", main_says="none")).splitlines()
    assert len(few) > 4
    assert few[-1] == "of all: stays"
    shown = [line.split()[0] for line in page(long_table(names[:-1])).splitlines() if line.startswith("row")]
    assert shown[:-1] == names[: len(shown) - 1]  # the last one is the remark on the first row
    assert len(page(long_table(names[:-1])).splitlines()) == SCREEN
    short = long_table(names[:5])
    assert page(short) == text(short)


def test_a_wide_column_gives_way_before_a_row_takes_two_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "45")
    table = long_table([f"row{place}" for place in range(LONGEST)], spare=("spare",))
    lines = page(table).splitlines()
    assert [line for line in lines if line.startswith("name")] == ["name   letter"]
    assert 'Left out: "spare". --wide shows all columns.' in " ".join(" ".join(lines).split())
