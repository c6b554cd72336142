"""How a child process is read, ended and reported; shell scripts take the place of Python."""

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from bench.core.environment import thread_variables
from bench.core.errors import FitCrashed, OutOfTime
from bench.core.store import Store
from bench.plan import plugins, registry
from bench.plan.cells import Selection, cells
from bench.run import child, process, supervisor
from bench.run.events import Recorded, Tick, Waiting
from bench.run.jobs import WorkJob, plan_job, work_job
from bench.run.options import Options
from bench.run.output import KEPT_BYTES
from bench.run.runner import run
from bench.run.supervisor import supervise
from tests.run.outside import ROOT, TOY, chosen, put
from tests.run.watching import Recorder, interpreter
from tests.stress.processes import PATIENCE_S, is_alive

JOB = plan_job(Selection(approaches=("uniform",)))
TOY_CELLS = cells(Selection(approaches=("toy_mlp",), protocols=("common",), profile="smoke"))


def listen(python, **options):
    return [event for event in supervise(JOB, python, **options) if not isinstance(event, Tick)]


def test_events_are_read_line_by_line_and_the_child_is_ended_after_the_last(tmp_path):
    said = 'echo $$ > pid; read job; printf \'{"kind":"waiting"}\\n{"ki\'; sleep 0.1; printf \'nd":"waiting"}\\n\'; '
    program = interpreter(tmp_path, f'cd {tmp_path}; {said} echo \'{{"kind":"end"}}\'; sleep 600')
    assert listen(program) == [Waiting(), Waiting()]
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("text", "words", "printed"),
    [
        ("kill -SEGV $$", "ended by SIGSEGV", ""),
        ("kill -KILL $$", "SIGKILL; the system does so when memory runs out", ""),
        ("echo 'no module named bench' >&2; exit 3", "exit code 3: no module named bench", "no module named bench"),
        ("echo hello", "a line that is not an event: b'hello'", ""),
        ('echo why >&2; echo \'{"kind":"refused","reason":"other code"}\'', "other code", "why"),
    ],
)
def test_the_error_says_how_a_child_ended_and_has_its_output(tmp_path, text, words, printed):
    with pytest.raises(FitCrashed, match=words) as caught:
        listen(interpreter(tmp_path, text))
    assert caught.value.printed == printed


def test_a_fork_server_that_ends_is_an_error_of_the_fit(tmp_path, monkeypatch):
    context = supervisor.process_context()
    monkeypatch.setattr(supervisor, "process_context", lambda: context)

    def ended(_):
        raise EOFError("unexpected EOF")

    monkeypatch.setattr(context.Process, "start", ended)
    job = work_job(TOY_CELLS[:1], Options(str(tmp_path)))
    with pytest.raises(
        FitCrashed, match=r"process does not start \(unexpected EOF\); this happens where memory is short"
    ):
        list(supervise(job))


def test_a_child_that_closes_its_output_and_goes_on_is_not_waited_for(tmp_path, monkeypatch):
    how_it_ended = supervisor._how_it_ended

    def at_once(process, printed):
        """Do not wait for an end that does not come. Only here: `_end`, called later, has its time."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(supervisor, "GRACE_S", 0)
            return how_it_ended(process, printed)

    monkeypatch.setattr(supervisor, "_how_it_ended", at_once)
    with pytest.raises(FitCrashed, match="closed its output and went on") as caught:
        listen(interpreter(tmp_path, "echo noise >&2; exec >&-; exec sleep 600"))
    assert caught.value.printed == "noise"


def test_only_the_end_of_what_a_child_prints_is_kept(tmp_path):
    with pytest.raises(FitCrashed) as caught:
        listen(interpreter(tmp_path, f"head -c {2 * KEPT_BYTES} /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1"))
    assert len(caught.value.printed) == KEPT_BYTES - 1  # less the last newline
    assert caught.value.printed.endswith("xend")


def test_an_interpreter_that_is_not_there():
    with pytest.raises(FitCrashed, match="/no/python does not start"):
        listen("/no/python")


def test_a_child_that_takes_too_long_is_ended_with_what_it_started(tmp_path, monkeypatch):
    """The clock jumps behind the limit as soon as the child works, so that a busy machine does not matter."""
    working = tmp_path / "working"
    program = interpreter(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; echo busy >&2; touch {working}; wait")
    clock = SimpleNamespace(monotonic=lambda: 2000.0 if working.exists() else 0.0)
    monkeypatch.setattr(supervisor, "time", clock)
    with pytest.raises(OutOfTime, match="not finished within 1000 s; raise --time-limit") as caught:
        listen(program, time_limit_s=1000)
    assert caught.value.printed == "busy"
    assert not is_alive(int((tmp_path / "pid").read_text()))


WAITS = (
    "import os, subprocess as s, sys;"
    "child = s.Popen([sys.executable, '-m', 'bench.run.remote', str(os.getpid())], stdout=s.DEVNULL);"
    "print(child.pid, flush=True); child.wait()"
)


def test_a_child_ends_with_the_process_that_started_it():
    """Its standard input stays open, so that only the end of its parent can end it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with parent:
        started = psutil.Process(int(parent.stdout.readline()))
        assert is_alive(started.pid)
        parent.kill()
        parent.wait()
        started.wait(PATIENCE_S)


IMPORTS = (
    "import os, subprocess as s, sys;"
    "text = 'import os; from bench.run.orphans import import_for; import_for(os.getppid(), [\"slow\"])';"
    "child = s.Popen([sys.executable, '-c', text], stdout=sys.stdout); child.wait()"
)


def test_a_fork_server_that_still_imports_ends_with_its_run(tmp_path):
    (tmp_path / "slow.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen([sys.executable, "-c", IMPORTS], stdout=subprocess.PIPE, text=True, env=environ) as parent:
        server = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        server.wait(PATIENCE_S)


def test_output_of_a_framework_does_not_mix_with_the_events():
    text = (
        "import os; from bench.run import output; lines = os.dup(1); output.keep(2);"
        "print('noise', flush=True); os.system('echo noise'); os.write(lines, b'event')"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (found.stdout, found.stderr) == ("event", "noise\nnoise\n")


def outside(folder, monkeypatch, name, text=""):
    """Put an approach in a folder of its own and return its one cell."""
    put(folder, monkeypatch, name, text)
    return chosen(name, profile="smoke")


@pytest.mark.parametrize(
    ("end", "reason"), [("raise ZeroDivisionError", "ZeroDivisionError"), ("os.abort()", "ended by SIGABRT")]
)
def test_a_failed_cells_record_has_what_its_child_printed(end, reason, tmp_path, monkeypatch, look_again):
    text = f"\ndef _fit(*_):\n    import os\n    print('the last word', flush=True)\n    {end}\nMcDropout.fit = _fit\n"
    chosen = outside(tmp_path, monkeypatch, "noisy", text)
    store = Store(tmp_path / "results")
    watcher = Recorder()
    run(chosen, store, Options(str(store.root), threads=1), watcher, "process")
    (event,) = watcher.of(Recorded)
    (record,) = store.all_records()[0]
    assert reason in event.reason
    assert record.detail.endswith("the last word")


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
    try:
        run(chosen, store, Options(str(store.root), threads=1), watcher, "process", time_limit_s=PATIENCE_S)
    finally:
        psutil.Process(int((tmp_path / "pid").read_text())).kill()
    (event,) = watcher.of(Recorded)
    assert (event.outcome, "exit code 7" in event.reason) == ("failed", True)


def test_a_lock_that_an_approach_makes_leaves_no_warning_at_the_end_of_the_run(tmp_path, monkeypatch, look_again):
    put(tmp_path, monkeypatch, "locking", "\nimport multiprocessing\nLOCK = multiprocessing.RLock()\n", TOY)
    place = ("--recipe", "published", "--protocol", "common", "--profile", "smoke", "--results", str(tmp_path / "r"))
    command = [sys.executable, "-m", "bench", "run", "locking", *place, "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stderr == ""


def test_a_childs_memory_is_bounded_and_the_callers_approaches_are_known_to_it(tmp_path, monkeypatch, look_again):
    (cell,) = outside(tmp_path, monkeypatch, "mine")
    options = Options(str(tmp_path / "results"), memory_mib=123.0)
    bounds, done = [], []
    monkeypatch.setattr(child, "bound_memory", lambda options: bounds.append(options.memory_mib))
    monkeypatch.setattr(process, "work", lambda todo, options, send: done.extend(todo))
    for job in (work_job([cell], options), WorkJob([cell], options, expected=None)):
        monkeypatch.setenv(plugins.VARIABLE, "")
        registry._look.cache_clear()
        child.do(job, lambda event: None)
    assert (bounds, done) == ([123.0] * 2, [cell] * 2)


def test_a_framework_in_a_child_hears_of_its_threads(tmp_path, monkeypatch):
    """MXNet reads the environment when it is imported, and ignores PyTorch's number of threads."""
    heard, names = [], ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MXNET_OMP_MAX_THREADS")
    monkeypatch.setattr(child, "serve", lambda read, pipe: heard.append([os.environ[name] for name in names]))
    monkeypatch.setattr(child, "end_with", lambda *processes: None)
    monkeypatch.setattr(child.multiprocessing, "set_start_method", lambda method, force: None)
    monkeypatch.setattr(child.output, "keep", os.close)
    for name in names:
        monkeypatch.setenv(name, "")
    (tmp_path / "kept").touch()
    job = WorkJob(TOY_CELLS, Options(str(tmp_path), threads=5), expected=None)
    with open(os.devnull, "wb") as pipe:
        child.forked(job, pipe, str(tmp_path / "kept"), os.getpid())
    assert heard == [["5", "5", "5", "2"]]
    assert thread_variables(1)["MXNET_OMP_MAX_THREADS"] == "1"
    assert thread_variables(None) == {}
