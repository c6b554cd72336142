"""The pieces that need a GPU: done pieces stay done, one that ran out of time goes on, unknown ones are refused."""

import json
import sys
import time

import pytest

from bench.cli import INCOMPLETE
from benchmarks.gpu import __main__ as day
from benchmarks.gpu.__main__ import Piece, pieces


def code(text):
    return (sys.executable, "-c", text)


def call(monkeypatch, tmp_path, made, *words):
    monkeypatch.setattr(day, "pieces", lambda device, results, small: made)
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--results", str(tmp_path), *words])
    return day.main()


def test_a_piece_that_is_done_is_not_done_again_and_one_that_failed_is(monkeypatch, tmp_path, capsys):
    made = [
        Piece("a/1", "good", code(f"open({str(tmp_path / 'ran')!r}, 'a').write('x')")),
        Piece("a/2", "bad", code("import sys; print('why'); sys.exit(3)")),
    ]
    assert call(monkeypatch, tmp_path, made) == INCOMPLETE
    assert call(monkeypatch, tmp_path, made) == INCOMPLETE
    assert (tmp_path / "ran").read_text() == "x"
    assert (tmp_path / "gpu" / "a-2.log").read_text() == "why\nwhy\n"
    assert "not done: a/2; the same command goes on with them" in capsys.readouterr().err
    assert call(monkeypatch, tmp_path, made, "a/1") == 0


def test_a_piece_that_is_out_of_time_is_told_to_stop_and_goes_on_later(monkeypatch, tmp_path):
    started, file = tmp_path / "started", tmp_path / "checkpoint"
    text = (
        "import signal, sys, pathlib\n"
        f"started, file = pathlib.Path({str(started)!r}), pathlib.Path({str(file)!r})\n"
        "if file.exists(): sys.exit(0)\n"
        "signal.signal(signal.SIGINT, lambda *_: (file.write_text('half'), sys.exit(130)))\n"
        "started.touch()\n"
        "signal.pause()"
    )
    made = [Piece("slow/1", "waits", code(text))]
    wait, over = day.subprocess.Popen.wait, []

    def ends_when_it_waits(process, timeout=None):
        if over:
            return wait(process)
        over.append(timeout)
        while not started.exists():
            time.sleep(0.01)
        raise day.subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(day.subprocess.Popen, "wait", ends_when_it_waits)
    assert call(monkeypatch, tmp_path, made) == INCOMPLETE
    assert json.loads((tmp_path / "gpu" / "pieces-cpu.json").read_text())["slow/1"].get("exit_code") is None
    assert file.read_text() == "half"
    assert call(monkeypatch, tmp_path, made) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [(["nope"], "unknown piece 'nope'"), (["--device", "tpu"], "known: cpu, cuda"), (["--minutes", "x"], "x")],
)
def test_what_is_wrong_ends_in_one_line(words, message, monkeypatch, tmp_path, capsys):
    assert call(monkeypatch, tmp_path, pieces("cpu", tmp_path, small=True), *words) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_file_of_states_says_what_to_do(monkeypatch, tmp_path, capsys):
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "pieces-cpu.json").write_text('{"a/1": 7}')
    assert call(monkeypatch, tmp_path, [Piece("a/1", "good", code(""))]) == 2
    assert "remove it, and every piece runs again" in capsys.readouterr().err
