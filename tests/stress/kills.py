"""Killing real runs at random moments: what survives, what is lost, and whether the numbers are those of a calm run."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cli.main import parse
from bench.cli.options import select
from bench.core.errors import BenchError
from bench.core.store import Store
from bench.plan.seed_batches import fit_keys
from bench.run.events import Options
from bench.run.progress import Progress
from bench.run.runner import run
from tests.stress import processes
from tests.stress.processes import PATIENCE_S, Run

OPTIONS = (
    *("--recipe", "published", "--seeds", "3", "--apart", "--profile", "faults"),
    *("--threads", "1", "--checkpoint-every", "0"),
)
VICTIMS = ("child", "child", "child", "child", "run", "child", "child", "all")  # in turn
MOMENTS = ("any", "any", "any", "write")  # any moment of a fit; or as soon as a file is being written
WATCH_S = 0.0005  # between two looks for a file that is being written
LONGER = 1.15  # than the mean: a few kills come late in the longest fits or after a fit's last record

Say = Callable[[str], None]


@dataclass
class Kills:
    """The figures of a campaign."""

    kills: int = 0
    of_children: int = 0
    in_training: int = 0
    in_measuring: int = 0
    while_writing: int = 0  # that left an unfinished file
    rounds: int = 0  # results folders that were completed, each after several kills
    identical: int = 0  # of them, with every number as in the calm run, to the bit
    finished_epochs_lost: int = 0  # most by any kill, of epochs that the run had reported
    longest_orphan_s: float = 0.0  # most time for which a child process outlived its run
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the figures in words."""
        return [
            f"{self.kills} of real runs at random moments, {self.of_children} of a child process, the rest of the run; "
            f"{self.in_training} in training, {self.in_measuring} in measuring, {self.while_writing} in a file's "
            "writing",
            f"{self.identical} of {self.rounds} results folders completed with every number of the calm run, to the "
            f"bit; finished epochs lost by one kill: at most {self.finished_epochs_lost}; child processes outlived "
            f"their run by at most {self.longest_orphan_s:.2f} s ({self.seconds:.0f} s)",
        ]


def kill_runs(n_kills: int, seed: int, say: Say, approaches: Sequence[str]) -> Kills:
    """Kill runs `n_kills` times and complete what they began; the faults say what did not survive."""
    found, rng, begin = Kills(), random.Random(f"kills/{seed}"), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-kills-") as folder:
        calm = Path(folder) / "calm"
        mean_s = _calm_run(approaches, calm)
        expected = processes.contents(calm)
        while found.kills < n_kills:
            campaign = _Round(approaches, Path(folder) / f"round{found.rounds}", mean_s, rng, found)
            campaign.complete(n_kills)
            found.rounds += 1
            wrong = processes.differences(expected, processes.contents(campaign.root))
            found.identical += not wrong
            found.faults += [f"round {found.rounds}: {name} differs from the calm run" for name in wrong]
            say(f"{found.kills} kills, {found.rounds} rounds, {len(found.faults)} faults")
    if found.finished_epochs_lost > 1:  # the last epoch has no checkpoint: its posterior follows in a moment
        found.faults.append(f"a kill cost {found.finished_epochs_lost} finished epochs")
    found.seconds = time.perf_counter() - begin
    return found


def _calm_run(approaches: Sequence[str], root: Path) -> float:
    """Run undisturbed, in this process, and return the mean seconds of a fit and its measuring."""
    arguments = parse(["run", *approaches, *OPTIONS, "--results", str(root)])
    chosen, begin = select(arguments), time.perf_counter()
    options = Options(str(root), threads=arguments.threads, checkpoint_every_s=arguments.checkpoint_every)
    results = run(chosen, Store(root), options, Progress({}, quiet=True), "inline")
    for result in results:
        if result.outcome != "done":
            raise BenchError(f"{result.trained_run.title()} is not even done without kills: {result.reason}")
    return (time.perf_counter() - begin) / len(fit_keys(chosen))


class _Round:
    """One results folder that is completed in spite of kills."""

    def __init__(self, approaches: Sequence[str], root: Path, mean_s: float, rng: random.Random, found: Kills) -> None:
        self.root, self._approaches, self._mean_s, self._rng, self._found = root, approaches, mean_s, rng, found
        self._interrupted: set[str] = set()  # fits that a kill left a checkpoint of
        self._killed = 0  # times in the present call

    def complete(self, n_kills: int) -> None:
        """Run until every trained run is done, killing while kills are left."""
        code = -1
        while code:
            with Run(["-m", "bench", "run", *self._approaches, *OPTIONS, "--json", "--results", str(self.root)]) as run:
                self._killed, place = 0, 0
                while place is not None and self._found.kills < n_kills:
                    place = run.wait_for(lambda event: event["kind"] == "start", place)
                    if place is not None:
                        place = self._kill(run)
                code = run.wait()
                if "Traceback" in run.errors():
                    self._found.faults.append(f"a traceback: {run.errors()[-300:]}")
                failed = _failed_fits(run.events)
                if (code > 0 and not failed) or len(failed) > self._killed:
                    raise BenchError(f"what nobody killed ended with code {code}: {run.errors()[-500:]}")
            self._found.faults += processes.faults(self.root)
        self._check_marks()

    def _kill(self, run: Run) -> int | None:
        """Kill at a random moment; return from which event on the run's next fit begins, None if the run has ended."""
        found = self._found
        victim = VICTIMS[found.kills % len(VICTIMS)]
        before = processes.unfinished(self.root)
        self._wait_for_the_moment(run)
        n_before, last = len(run.events), run.events[-1]
        if not run.kill(victim):
            return n_before  # the child process had just ended, or everything
        found.kills += 1
        self._killed += 1
        found.of_children += victim == "child"
        found.in_measuring += last["kind"] == "measure"
        found.in_training += last["kind"] in ("start", "epoch")
        if victim == "child":
            after = run.wait_for(lambda event: event["kind"] in ("start", "finish"), n_before)
            fits = _failed_fits(run.events[n_before:])
        else:
            after = None
            run.process.wait(PATIENCE_S)
            found.longest_orphan_s = max(found.longest_orphan_s, run.outlived_s())
            run.wait()
            fits = {event["fit"] for event in run.events if "fit" in event}
        found.while_writing += bool(processes.unfinished(self.root) - before)
        for fit in fits:
            self._count_lost(run, fit)
        return after

    def _wait_for_the_moment(self, run: Run) -> None:
        end = time.monotonic() + self._rng.uniform(0, LONGER * self._mean_s)
        writing = self._rng.choice(MOMENTS) == "write"
        known = processes.unfinished(self.root)
        while time.monotonic() < end and run.process.poll() is None:
            if writing and processes.unfinished(self.root) - known:
                return
            time.sleep(WATCH_S if writing else max(0.0, min(0.05, end - time.monotonic())))

    def _count_lost(self, run: Run, fit: str) -> None:
        """Compare the epochs that the run has reported with those that a resumed fit need not train again."""
        store = Store(self.root)
        reported = max((e["epoch"] for e in run.events if e["kind"] == "epoch" and e["fit"] == fit), default=0)
        checkpoint = store.read_tensors(store.fit_path(fit, "checkpoint"))
        if store.fit_path(fit, "posterior").exists():
            return
        kept = 0 if checkpoint is None else checkpoint[1]["epoch"]
        if checkpoint is not None:
            self._interrupted.add(fit)
        self._found.finished_epochs_lost = max(self._found.finished_epochs_lost, reported - kept)

    def _check_marks(self) -> None:
        marked = processes.resumed(self.root)
        for fit in self._interrupted - marked:
            self._found.faults.append(f"fit {fit[:8]} was resumed, and its times do not say so")
        for fit in marked - self._interrupted:
            self._found.faults.append(f"fit {fit[:8]} was not resumed, but its times say so")


def _failed_fits(events: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the fits of records that failed: a kill of their process is the only reason known here."""
    return {event["fit"] for event in events if event["kind"] == "record" and event["outcome"] == "failed"}
