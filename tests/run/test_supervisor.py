"""How a child process is read, ended and reported; small functions take the place of a fit."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from bench.core.environment import thread_variables
from bench.core.errors import BenchError, FitCrashed, OutOfTime
from bench.core.store import Store
from bench.run import child, supervisor
from bench.run.events import KEPT_BYTES, Options, Recorded, Started, Tick, Waiting
from bench.run.runner import run
from bench.run.supervisor import supervise
from tests.run.toys import ROOT, Recorder, outside
from tests.stress.processes import PATIENCE_S, is_alive


def listen(work, **options):
    return [event for event in supervise(work, **options) if not isinstance(event, Tick)]


def works(send):
    send(Waiting())
    os.write(1, b"noise\n")
    os.system("echo noise")
    send(Started("k"))


def test_events_are_read_line_by_line_and_output_of_a_framework_does_not_mix_with_them(capfd):
    assert listen(works) == [Waiting(), Started("k")]
    assert capfd.readouterr() == ("", "")


def ends_by(number, send):
    os.kill(os.getpid(), number)


def ends_with_words(send):
    os.write(2, b"no module named bench\n")
    os._exit(3)


def writes(line, send):
    """Write a line to every pipe of this process, of which one is that of the events."""
    for number in range(3, 64):
        try:
            os.write(number, line + b"\n")
        except OSError:
            continue


def refuses(send):
    os.write(1, b"why\n")
    raise BenchError("other code")


@pytest.mark.parametrize(
    ("work", "words", "printed"),
    [
        (partial(ends_by, signal.SIGSEGV), "ended by SIGSEGV", ""),
        (partial(ends_by, signal.SIGKILL), "ended by SIGKILL$", ""),
        (partial(ends_by, signal.SIGRTMIN + 1), f"ended by signal {signal.SIGRTMIN + 1}", ""),
        (ends_with_words, "exit code 3: no module named bench", "no module named bench"),
        (partial(writes, b"hello"), "a line that is not an event: b'hello'", ""),
        (refuses, "other code", "why"),
    ],
)
def test_the_error_says_how_a_child_ended_and_has_its_output(work, words, printed):
    with pytest.raises(FitCrashed, match=words) as caught:
        listen(work)
    assert caught.value.printed == printed


def test_only_a_kill_while_linux_counts_one_for_memory_is_said_to_be_for_memory(monkeypatch):
    counts = iter([4, 5])
    monkeypatch.setattr(supervisor, "_killed_for_memory", lambda: next(counts))
    with pytest.raises(FitCrashed, match="ended by SIGKILL: memory ran out"):
        listen(partial(ends_by, signal.SIGKILL))


def test_a_fork_server_that_ends_is_an_error_of_the_fit(monkeypatch):
    context = supervisor.process_context()
    monkeypatch.setattr(supervisor, "process_context", lambda: context)

    def ended(_):
        raise EOFError("unexpected EOF")

    monkeypatch.setattr(context.Process, "start", ended)
    with pytest.raises(
        FitCrashed,
        match=r"does not start \(unexpected EOF\); --executor inline may show why",
    ):
        listen(works)


def closes_its_output(send):
    os.closerange(3, 64)
    time.sleep(600)


def test_a_child_that_closes_its_output_and_goes_on_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(supervisor, "GRACE_S", 0.1)
    with pytest.raises(FitCrashed, match="closed its output and went on"):
        listen(closes_its_output)


def prints_much(send):
    os.write(2, 2 * KEPT_BYTES * b"x" + b"end\n")
    os._exit(1)


def test_only_the_end_of_what_a_child_prints_is_kept():
    with pytest.raises(FitCrashed) as caught:
        listen(prints_much)
    assert len(caught.value.printed) == KEPT_BYTES - 1  # less the last newline
    assert caught.value.printed.endswith("xend")


def leaves_daemons(folder, send):
    """Start a process in this group, and one in a session of its own whose parent has ended; wait for ever."""
    for name in ("group", "daemon"):
        if not os.fork():
            if name == "daemon":
                os.setsid()
                if os.fork():
                    os._exit(0)
            (folder / f"{name}.new").write_text(str(os.getpid()))
            (folder / f"{name}.new").rename(folder / name)
            time.sleep(600)
    os.write(2, b"busy")
    while not all((folder / name).exists() for name in ("group", "daemon")):
        time.sleep(0.01)


def leaves_daemons_and_waits(folder, send):
    leaves_daemons(folder, send)
    (folder / "working").touch()
    time.sleep(600)


def gone(pids):
    """Wait for the end of processes that have got a signal."""
    deadline = time.monotonic() + PATIENCE_S
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(is_alive, pids))


def left(folder):
    return [int((folder / name).read_text()) for name in ("group", "daemon")]


def test_a_child_that_takes_too_long_is_ended_with_what_it_started(tmp_path, monkeypatch):
    """The clock jumps behind the limit as soon as the child works, so that a busy machine does not matter."""
    working = tmp_path / "working"
    clock = SimpleNamespace(monotonic=lambda: 2000.0 if working.exists() else 0.0)
    monkeypatch.setattr(supervisor, "time", clock)
    with pytest.raises(OutOfTime, match="not finished within 1000 s; raise --time-limit") as caught:
        listen(partial(leaves_daemons_and_waits, tmp_path), time_limit_s=1000)
    assert caught.value.printed == "busy"
    assert gone(left(tmp_path))


def test_processes_that_a_fit_has_forked_do_not_outlive_it(tmp_path):
    assert listen(partial(leaves_daemons, tmp_path)) == []
    assert gone(left(tmp_path))


def test_a_signal_to_its_process_group_ends_the_child_alone():
    with pytest.raises(FitCrashed, match="ended by SIGTERM"):
        listen(partial(signals_its_group, signal.SIGTERM))


def signals_its_group(number, send):
    os.killpg(0, number)


STOPPED = """
import os, signal, sys, time
from functools import partial
from bench.run import child
from bench.run.supervisor import supervise
from tests.run.test_supervisor import stops_its_run
child.GRACE_S = 0
try:
    list(supervise(partial(stops_its_run, os.getpid()), time_limit_s=5))
except Exception as error:
    print(type(error).__name__)
"""


def stops_its_run(run, send):
    child.GRACE_S = 0
    os.kill(run, signal.SIGSTOP)
    time.sleep(600)


def test_a_fit_that_stops_its_run_ends_at_the_limit_and_the_run_goes_on():
    command = [sys.executable, "-c", STOPPED]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE_S, check=True)
    assert found.stdout.strip() in ("OutOfTime", "FitCrashed"), found.stderr  # whichever the run sees first


WAITS = """
import sys, time
from tests.run.test_supervisor import says_who_it_is
from bench.run.supervisor import supervise
list(supervise(says_who_it_is))
"""


def says_who_it_is(send):
    (Path(os.environ["WHO"]) / "pid.new").write_text(str(os.getpid()))
    (Path(os.environ["WHO"]) / "pid.new").rename(Path(os.environ["WHO"]) / "pid")
    time.sleep(600)


def test_a_child_ends_with_the_process_that_started_it(tmp_path):
    environ = {**os.environ, "WHO": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", WAITS], cwd=ROOT, env=environ) as parent:
        while not (tmp_path / "pid").exists():
            assert parent.poll() is None
            time.sleep(0.05)
        started = psutil.Process(int((tmp_path / "pid").read_text()))
        parent.kill()
        parent.wait()
        started.wait(PATIENCE_S)


def test_a_fit_that_leaves_a_process_behind_and_ends_is_noticed(tmp_path, monkeypatch, look_again):
    """The process that is left behind holds the pipe of events open, as a daemon of a library would."""
    text = f"""
def _fit(*_):
    import os, time
    left = os.fork()
    if not left:
        time.sleep(600)
    open("{tmp_path}/pid", "w").write(str(left))
    os._exit(7)
McDropout.fit = _fit
"""
    chosen = outside(tmp_path, monkeypatch, "leaving", text)
    store = Store(tmp_path / "results")
    watcher = Recorder()
    run(chosen, store, Options(str(store.root), threads=1), watcher, "process", time_limit_s=PATIENCE_S)
    assert gone([int((tmp_path / "pid").read_text())])
    (event,) = watcher.of(Recorded)
    assert (event.outcome, "exit code 7" in event.reason) == ("failed", True)


def says_its_threads(folder, send):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MXNET_OMP_MAX_THREADS")
    (folder / "said").write_text(" ".join(os.environ[name] for name in names))


def test_a_framework_in_a_child_hears_of_its_threads(tmp_path):
    """MXNet reads the environment when it is imported, and ignores PyTorch's number of threads."""
    listen(partial(says_its_threads, tmp_path), threads=5)
    assert (tmp_path / "said").read_text() == "5 5 5 2"
    assert thread_variables(1)["MXNET_OMP_MAX_THREADS"] == "1"
    assert thread_variables(None) == {}
