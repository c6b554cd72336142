"""Jobs of a queue: the real SLURMCluster, with our own scripts in the place of Slurm's programs."""

import contextlib
import os
import signal
import time

import dask
import psutil
import pytest

from bench.core.errors import BenchError, ConfigError
from bench.core.store import Store
from bench.plan.cells import Selection, cells
from bench.run.events import Started
from bench.run.options import Options
from bench.run.remote.opening import open_executor
from bench.run.runner import run
from tests.run.watching import Recorder, assert_equal, results
from tests.stress.processes import PATIENCE_S

pytest.importorskip("dask_jobqueue")  # before a test changes Dask's configuration, because this import resets it
CELLS = cells(Selection(approaches=("toy_mlp",), recipes=("published",), profile="smoke"))
SBATCH = """cp "$1" {folder}/script  # dask-jobqueue deletes its script at once
setsid sh {folder}/script > {folder}/log 2>&1 < /dev/null &
echo $! > {folder}/job; echo "Submitted batch job $!"
"""
LOOPBACK = next(name for name, found in psutil.net_if_addrs().items() if "127.0.0.1" in {a.address for a in found})
SCANCEL = """kill -- "-$1"
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Return a function that puts programs on PATH; jobs are processes of this machine, killed at the end."""
    folder = tmp_path / "slurm"
    folder.mkdir()

    def install(**programs):
        for name, text in programs.items():
            (folder / name).write_text("#!/bin/sh\n" + text.format(folder=folder))
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        return folder

    with dask.config.set({"jobqueue.slurm.interface": LOOPBACK}):  # else its scheduler listens to the whole network
        yield install
    if (folder / "job").exists():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int((folder / "job").read_text()), signal.SIGKILL)


def test_jobs_give_the_numbers_of_one_process_and_end_with_the_run(slurm, tmp_path):
    folder = slurm(sbatch=SBATCH, scancel=SCANCEL)
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    run(CELLS, here, Options(str(here.root), threads=1), Recorder(), "inline")
    watcher = Recorder()
    options = ("queue=short", "walltime=00:10:00", "account=bayes")
    with contextlib.closing(open_executor("slurm", threads=1, workers=3, job_options=options)) as pool:
        assert pool.width() == 3
        assert pool.client.scheduler.address.startswith("tcp://127.0.0.1:")
        ended = run(CELLS, there, Options(str(there.root)), watcher, pool)
    assert [result.outcome for result in ended] == ["done"] * len(CELLS)
    assert watcher.of(Started)
    assert_equal(results(here), results(there))
    script = (folder / "script").read_text()
    for line in ("-p short", "-A bayes", "-t 00:10:00", "--cpus-per-task=1", "--mem=4G"):
        assert f"#SBATCH {line}\n" in script
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int((folder / "job").read_text())).wait(PATIENCE_S)


def test_a_job_with_a_gpu_asks_for_it_and_offers_it(slurm):
    folder = slurm(sbatch='cp "$1" {folder}/script; echo "Submitted batch job 1"', scancel="")
    with contextlib.closing(open_executor("slurm", "cuda", threads=2)) as pool:
        pool.width()
        while not (folder / "script").exists():
            time.sleep(0.01)
    script = (folder / "script").read_text()
    assert "#SBATCH --gpus-per-node=1\n" in script
    assert "#SBATCH --cpus-per-task=2\n" in script
    assert "--resources GPU=1" in script


def test_a_queue_that_takes_no_job_ends_the_run_with_its_message(slurm, tmp_path):
    slurm(sbatch="echo 'sbatch: error: invalid partition' >&2; exit 1", scancel="")
    store = Store(tmp_path / "results")
    with (
        pytest.raises(BenchError, match="sbatch took no job: sbatch: error: invalid partition; see docs"),
        contextlib.closing(open_executor("slurm", workers=1)) as pool,
    ):
        run(CELLS, store, Options(str(store.root)), Recorder(), pool)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("pbs", [], "executor 'pbs' needs the program qsub, which is not on PATH"),
        ("htcondor", [], "needs the program condor_submit"),
        ("slurm", ["gpu"], "job option 'gpu' has no name and value; give one such as walltime=04:00:00"),
        ("slurm", ["wall=1"], "unknown option of slurm jobs 'wall'; known: account, .*did you mean 'walltime'"),
        ("slurm", ["memory=much"], "memory 'much' of slurm jobs is not a size; give one such as 8GB"),
    ],
)
def test_a_queue_or_option_that_cannot_be_used_is_one_line(name, options, words, slurm):
    slurm(sbatch=SBATCH, scancel=SCANCEL)
    with pytest.raises(ConfigError, match=words) as caught:
        open_executor(name, job_options=options)
    assert "\n" not in str(caught.value)
