"""Other load: worked counts, a real other process, systems without such a count, and what a worker makes of it."""

import subprocess
import sys

import pytest

from bench.core import load
from bench.core.load import OtherLoad
from bench.core.reasons import Reason
from bench.core.store import Store
from bench.plan.cells import Selection, cells
from bench.run import fitting, process
from bench.run.options import Options


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine whose counts the test sets: ticks of 10 ms of /proc/stat, own seconds, the clock."""

    class Machine:
        def set(self, now: float, user: int, own: float, idle: int = 0) -> None:
            monkeypatch.setattr(load.time, "monotonic", lambda: now)
            monkeypatch.setattr(load, "_own_s", lambda: own)
            # user, nice, system, idle, waiting for disks, interrupts (2), taken by other machines, and parts of user
            (tmp_path / "stat").write_text(f"cpu  {user} 30 20 {idle} 7 0 0 50 99 99\ncpu0 1 2 3\n")

    monkeypatch.setattr(load, "_COUNT", tmp_path / "stat")
    monkeypatch.setattr(load.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(load.environment, "load_average", lambda: 50.0)  # which the count makes needless
    return Machine()


def test_others_are_what_the_machine_has_worked_less_our_own(machine):
    # 20 s of work in 10 s, ours 18: others took 2 s, a fifth of a core; from 0.2 x 10 + 0.1 = 2.1 s on it is too much
    for user, reason in [(2000, []), (2009, []), (2011, [load.REASON]), (6000, [load.REASON])]:
        machine.set(now=100.0, user=500, own=5.0)
        other = OtherLoad(threads=2)
        machine.set(now=110.0, user=500 + user, own=5.0 + 18.0, idle=4000)
        assert other.reasons() == reason


def test_moments_too_short_for_the_count_are_not_judged_by_it(machine):
    # one tick on each of eight cores in a millisecond
    machine.set(now=100.0, user=500, own=5.0)
    other = OtherLoad(threads=2)
    machine.set(now=100.001, user=508, own=5.0)
    assert other.reasons() == []


def test_another_process_is_seen():
    other = OtherLoad(threads=1)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            assert other.reasons() == [load.REASON]
        finally:
            process.kill()


@pytest.mark.parametrize("text", [None, "", "cpu 1 2 three", "cpu 1 2 3"])
def test_without_the_count_the_load_average_decides(monkeypatch, tmp_path, text):
    path = tmp_path / "stat"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(load, "_COUNT", path)
    for average, reason in [(2.75, []), (2.76, [load.REASON])]:
        monkeypatch.setattr(load.environment, "load_average", lambda average=average: average)
        assert OtherLoad(threads=2).reasons() == reason


def test_a_record_made_beside_other_work_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(OtherLoad, "reasons", lambda self: [load.REASON])
    (cell,) = cells(Selection(approaches=("toy_mlp",), protocols=("published",), profile="smoke", apart=True))
    process.work([cell], Options(str(tmp_path)), lambda event: None)
    timings = Store(tmp_path).all_records()[0][0].timings
    assert not timings.valid
    assert timings.reasons[-1] == load.REASON


@pytest.mark.parametrize(
    ("training", "measuring", "expected"),
    [
        ([], [], []),
        ([], [load.REASON], [load.REASON]),
        ([load.REASON], [], [load.REASON]),
        ([load.REASON], [load.REASON], [load.REASON]),
        ([Reason("resumed")], [load.REASON], [Reason("resumed"), load.REASON]),
    ],
)
def test_times_count_where_nothing_else_worked_while_training_or_measuring(
    training, measuring, expected, tmp_path, monkeypatch
):
    (cell,) = cells(Selection(approaches=("toy_mlp",), protocols=("published",), profile="smoke", apart=True))
    found = []
    monkeypatch.setattr(fitting, "_why_timings_do_not_count", lambda *of_a_fit: training)
    monkeypatch.setattr(OtherLoad, "reasons", lambda self: found.append(1) or (measuring if len(found) == 2 else []))
    process.work([cell], Options(str(tmp_path)), lambda event: None)
    timings = Store(tmp_path).all_records()[0][0].timings
    assert (timings.reasons, timings.valid) == (expected, not expected)
