"""Long campaigns: trained runs in a loop with a kill a minute; several runs on one folder, one of them killed.

Nothing may be lost, nothing may grow; every trained run is done once.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.core import locks
from bench.core.errors import BenchError
from tests.stress import processes
from tests.stress.processes import Run

KILL_EVERY_S = 60.0  # on average
VICTIMS = ("child", "child", "all")
WARM_ROUNDS = 2  # of a process, before its memory counts
GROWTH_MIB = 64.0  # from which memory is not flat: far less than one results folder in memory, and more than noise
LOOK_S = 0.5

Say = Callable[[str], None]


@dataclass
class Soak:
    """The figures of a soak."""

    approaches: list[str] = field(default_factory=list)
    profile: str = ""
    seconds: float = 0.0
    rounds: int = 0
    trained_runs: int = 0
    kills: int = 0
    of_children: int = 0
    run_mib: list[float] = field(default_factory=list)  # resident memory of the run after each round
    growth_mib: float = 0.0  # most that one process's run grew from its warm rounds to its last
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the figures in words."""
        memory = f"{self.run_mib[0]:.0f} to {self.run_mib[-1]:.0f} MiB" if self.run_mib else "not measured"
        return [
            f"{self.seconds / 60:.0f} minutes, {self.rounds} rounds of {', '.join(self.approaches)} in profile "
            f"{self.profile}, {self.trained_runs} trained runs, {self.kills} kills "
            f"({self.of_children} of a child process): memory "
            f"of the run {memory}, grown by at most {self.growth_mib:.0f} MiB"
        ]


def soak(seconds: float, approaches: Sequence[str], profile: str, seed: int, say: Say) -> Soak:
    """Loop for so many seconds; the faults say what was lost, what differs between rounds and what grew."""
    found, rng, begin = Soak(list(approaches), profile), random.Random(f"soak/{seed}"), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-soak-") as name:
        watched = _Watched(Path(name), found, rng, say)
        while time.monotonic() - begin < seconds:
            watched.live(begin + seconds)
    if found.rounds == 0:
        found.faults.append("not one round was completed; give more seconds or fewer approaches")
    if found.growth_mib > GROWTH_MIB:
        found.faults.append(f"a run's memory grew by {found.growth_mib:.0f} MiB")
    found.seconds = time.monotonic() - begin
    return found


class _Watched:
    """The looping process, started anew whenever it was killed, and what its rounds left."""

    def __init__(self, folder: Path, found: Soak, rng: random.Random, say: Say) -> None:
        self._folder, self._found, self._rng, self._say = folder, found, rng, say
        self._first: processes.Contents | None = None

    def live(self, deadline: float) -> None:
        """Watch one life of the process, to its killing or the deadline."""
        found = self._found
        arguments = ["-m", "tests.stress.looping", str(self._folder), found.profile, *found.approaches]
        memory: list[float] = []
        with Run(arguments) as run:
            next_kill = time.monotonic() + self._pause()
            seen = 0
            while time.monotonic() < deadline:
                if run.process.poll() is not None:
                    raise BenchError(f"the loop ended by itself: {run.errors()[-500:]}")
                for event in run.events[seen:]:
                    seen += 1
                    self._take(event, memory)
                if time.monotonic() > next_kill:
                    victim = self._rng.choice(VICTIMS)
                    if run.kill(victim):
                        found.kills += 1
                        found.of_children += victim == "child"
                        next_kill = time.monotonic() + self._pause()
                        if victim == "all":
                            break
                time.sleep(LOOK_S)
            if "Traceback" in run.errors():
                found.faults.append(f"a traceback: {run.errors()[-300:]}")
        found.growth_mib = max([found.growth_mib, *(mib - memory[WARM_ROUNDS] for mib in memory[WARM_ROUNDS + 1 :])])

    def _pause(self) -> float:
        return KILL_EVERY_S * self._rng.uniform(0.5, 1.5)

    def _take(self, event: dict[str, Any], memory: list[float]) -> None:
        found = self._found
        if event["kind"] != "round":
            return
        root = self._folder / str(event["round"])
        found.rounds += 1
        found.trained_runs += event["trained runs"]
        found.run_mib.append(round(event["run_mib"], 1))
        memory.append(event["run_mib"] + event["servers_mib"])
        found.faults += processes.faults(root)
        now = processes.contents(root)
        self._first = self._first or now
        different = processes.differences(self._first, now)
        found.faults += [f"round {event['round']}: {name} differs from the first round" for name in different]
        if event["round"]:
            shutil.rmtree(self._folder / str(event["round"] - 1), ignore_errors=True)
        self._say(f"round {found.rounds}: {found.kills} kills, {event['run_mib']:.0f} MiB, {len(found.faults)} faults")


TRAINED_RUNS = ("toy_bbb", "toy_mlp", "--profile", "smoke", "--seeds", "3", "--apart")
N_RUNS = 3


@dataclass
class Together:
    """The figures of a trial."""

    runs: int = 0
    killed: int = 0
    trained_runs: int = 0
    done_by: list[int] = field(default_factory=list)  # trained runs that each run has done
    done_twice: int = 0
    named: int = 0  # working processes that the locks' notes named, as `status` shows them
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the figures in words."""
        return [
            f"{self.runs} runs on one folder, {self.killed} of them killed: {self.trained_runs} trained runs "
            f"({', '.join(map(str, self.done_by))}), {self.done_twice} done twice; the locks named {self.named} of "
            f"the processes ({self.seconds:.0f} s)"
        ]


def run_together() -> Together:
    """Let `N_RUNS` processes share the trained runs of one folder, and kill the first of them when it has begun."""
    found, begin = Together(runs=N_RUNS), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-together-") as folder:
        root = Path(folder)
        arguments = ["-m", "bench", "run", *TRAINED_RUNS, "--threads", "1", "--json", "--results", folder]
        runs = [Run(arguments) for _ in range(N_RUNS)]
        try:
            if runs[0].wait_for(lambda event: event["kind"] == "start") is not None:
                notes = [locks.holder(root, path.stem) for path in (root / locks.FOLDER).glob("*.json")]
                named = {note.pid for note in notes if note is not None}
                found.named = len(named)
                strangers = named - {run.pid for run in runs}
                found.faults += [f"a lock's note names process {pid}, which is none of the runs" for pid in strangers]
                found.killed = int(runs[0].kill("all"))
            codes = [run.wait() for run in runs]
            found.faults += [f"a run ended with code {code}" for code in codes[1:] if code]
            found.faults += [f"a traceback: {run.errors()[-300:]}" for run in runs if "Traceback" in run.errors()]
            _count(found, runs)
        finally:
            for run in runs:
                run.close()
        found.faults += processes.faults(root)
    found.seconds = time.perf_counter() - begin
    return found


def _count(found: Together, runs: list[Run]) -> None:
    done = [[event["key"] for event in run.events if _is_done(event)] for run in runs]
    times = Counter(key for keys in done for key in keys)
    found.done_by = [len(keys) for keys in done]
    found.trained_runs = len(times)
    found.done_twice = sum(count > 1 for count in times.values())
    if found.done_twice:
        found.faults.append(f"{found.done_twice} trained runs were done twice")
    expected = max(event["done"] + event["to_do"] for run in runs for event in run.events if event["kind"] == "begin")
    # The run that was killed may have written a record and not reported it.
    if not expected - 1 <= found.trained_runs <= expected:
        found.faults.append(f"{found.trained_runs} of {expected} trained runs were done")


def _is_done(event: dict[str, Any]) -> bool:
    return event["kind"] == "record" and event["outcome"] == "done" and not event.get("was_there", False)
