"""What a record says of its making: times on a CPU and a GPU, the machine's speed, other load, and the commit."""

import subprocess
from types import SimpleNamespace

import pytest
import torch

from bench.core import environment, timing
from bench.core.environment import OtherLoad
from bench.core.reasons import Reason
from bench.core.store import Store
from bench.plan.trained_runs import Selection, trained_runs
from bench.run import fitting, process
from bench.run.events import Options


def test_repeats_stop_at_their_number_or_at_the_limit(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def work():
        calls.append(now[0])
        now[0] += 2.0

    assert timing.repeat_seconds(work, torch.device("cpu"), 3, limit_s=9) == [2.0] * 3
    assert len(calls) == 4  # one to warm up
    assert timing.repeat_seconds(work, torch.device("cpu"), 9, limit_s=0) == [2.0]


def test_cores_are_counted_where_no_affinity_is_known(monkeypatch):
    assert environment.usable_threads() == len(environment.os.sched_getaffinity(0))
    monkeypatch.delattr(environment.os, "sched_getaffinity")  # as on macOS
    assert environment.usable_threads() == environment.os.cpu_count()


class FakeEvent:
    """Stands in for an event of a GPU; 5 ms pass between two of them."""

    def __init__(self, enable_timing):
        assert enable_timing
        self.log = []

    def record(self, stream):
        self.log.append(stream)

    def elapsed_time(self, end):
        assert self.log == end.log == ["the current stream"]
        return 5.0


def test_a_gpu_is_timed_by_its_own_events_after_its_queue_is_empty(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the current stream")
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    device = torch.device("cuda:0")
    assert timing.repeat_seconds(lambda: None, device, 4, limit_s=9) == [0.005] * 4
    assert waited == [device] * 8  # before and after each of the four


def test_the_rate_of_products_is_plausible_and_leaves_the_threads_alone():
    before = torch.get_num_threads()
    rate = timing.matmul_rate(torch.device("cpu"), 1)
    assert torch.get_num_threads() == before
    assert 1e8 < rate < 1e14
    assert rate == float(f"{rate:.3g}")
    assert timing.matmul_rate(torch.device("cpu"), 1) is rate  # measured once


@pytest.fixture
def machine(monkeypatch):
    """A machine whose counts the test sets: seconds of work and idleness, own seconds, the clock."""

    class Machine:
        def set(self, now: float, user: float, own: float, idle: float = 0.0) -> None:
            monkeypatch.setattr(environment.time, "monotonic", lambda: now)
            monkeypatch.setattr(environment, "_own_s", lambda: own)
            times = SimpleNamespace(user=user, nice=0.3, system=0.2, idle=idle, iowait=0.07, steal=0.5, guest=0.99)
            monkeypatch.setattr(environment.psutil, "cpu_times", lambda: times)

    monkeypatch.setattr(environment, "load_average", lambda: 50.0)  # not used where there is a count
    return Machine()


def test_others_are_what_the_machine_has_worked_less_our_own(machine):
    # 20 s of work in 10 s, 18 s of it ours: others worked 2 s, a fifth of a core. The limit is 0.2 x 10 + 0.1 = 2.1 s.
    for user, reason in [(20.0, []), (20.09, []), (20.11, [environment.REASON]), (60.0, [environment.REASON])]:
        machine.set(now=100.0, user=5.0, own=5.0)
        other = OtherLoad(threads=2)
        machine.set(now=110.0, user=5.0 + user, own=5.0 + 18.0, idle=40.0)
        assert other.reasons() == reason


def test_moments_too_short_for_the_count_are_not_judged_by_it(machine):
    # one tick on each of eight cores in a millisecond
    machine.set(now=100.0, user=5.0, own=5.0)
    other = OtherLoad(threads=2)
    machine.set(now=100.001, user=5.08, own=5.0)
    assert other.reasons() == []


def test_the_machine_has_worked_what_a_process_has_worked():
    before, own_before = environment.machine_worked_s(), environment._own_s()
    while environment._own_s() < own_before + 0.3:
        pass
    assert environment.machine_worked_s() - before > 0.3 - environment.COARSE_S


def test_without_the_count_the_load_average_decides(monkeypatch):
    def unknown():
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr(environment.psutil, "cpu_times", unknown)
    for average, reason in [(2.75, []), (2.76, [environment.REASON])]:
        monkeypatch.setattr(environment, "load_average", lambda average=average: average)
        assert OtherLoad(threads=2).reasons() == reason


@pytest.mark.parametrize(
    ("training", "measuring", "expected"),
    [
        ([], [], []),
        ([], [environment.REASON], [environment.REASON]),
        ([environment.REASON], [environment.REASON], [environment.REASON]),
        ([Reason("resumed")], [environment.REASON], [Reason("resumed"), environment.REASON]),
    ],
)
def test_times_count_where_nothing_else_worked_while_training_or_measuring(
    training, measuring, expected, tmp_path, monkeypatch
):
    (trained_run,) = trained_runs(
        Selection(approaches=("toy_mlp",), protocols=("published",), profile="smoke", apart=True)
    )
    found = []
    monkeypatch.setattr(fitting, "_why_timings_do_not_count", lambda *of_a_fit: training)
    monkeypatch.setattr(OtherLoad, "reasons", lambda self: found.append(1) or (measuring if len(found) == 2 else []))
    process.work([trained_run], Options(str(tmp_path)), lambda event: None)
    timings = Store(tmp_path).all_records()[0][0].timings
    assert (timings.reasons, timings.valid) == (expected, not expected)


@pytest.mark.parametrize(
    ("worked_s", "threads", "expected"),
    [
        (0.6, 2, 2.0),  # 0.6 s of work in 0.3 s: two cores, and none is left for two threads
        (0.3, 1, None),  # one core, and the other is free for one thread
        (0.48, 1, 1.6),  # 0.6 of a core less than one thread needs
        (0.03, 2, None),  # what the system itself does
    ],
)
def test_a_machine_is_busy_if_others_leave_too_few_cores(worked_s, threads, expected, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(environment.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(environment.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(environment.psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(environment, "machine_worked_s", lambda: 7.0 if now[0] == 100.0 else 7.0 + worked_s)
    found = environment.busy_cores(threads)
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_machine_without_a_count_is_not_called_busy(monkeypatch):
    monkeypatch.setattr(environment, "machine_worked_s", lambda: None)
    assert environment.busy_cores(1) is None


def test_sources_inside_another_repository_have_no_commit(tmp_path, monkeypatch):
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    inside = tmp_path / "unpacked"
    inside.mkdir()
    found = {}
    for top in (tmp_path, inside):
        monkeypatch.setattr(environment, "TOP", top)
        environment.code_state.cache_clear()
        found[top] = environment.code_state().commit
    environment.code_state.cache_clear()
    assert len(found[tmp_path]) == 40
    assert found[inside] == ""


def test_a_wheel_says_whether_its_clone_differed_from_the_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "IS_CLONE", False)
    monkeypatch.setattr(environment, "COMMIT", tmp_path / "commit.txt")
    found = []
    for text in ("0123abc", "0123abc+", ""):
        environment.COMMIT.write_text(text)
        found.append(environment.code_state.__wrapped__())
    assert found == [("0123abc", False), ("0123abc", True), ("", False)]
