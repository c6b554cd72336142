"""Measure how much processor time other processes used while something was timed.

The load average is too coarse. It covers a minute, so it still contains the previous fit; and on several cores one more
process is within any margin. Instead, this module takes the system's count of working seconds and subtracts the seconds
of this process and of its ended children.
"""

from __future__ import annotations

import resource
import time

import psutil

from bench.core import environment
from bench.core.reasons import OTHER_LOAD, Reason

OTHERS_MARGIN = 0.2  # of one core: ten times what the system itself and the run's parent process take
COARSE_S = 0.1  # tolerance: both counts move in ticks of 10 ms, for each core
LOAD_MARGIN = 0.75  # allowed load average beyond this process's threads, on systems without the count
WATCH_S = 0.3
BUSY_MARGIN = 0.5  # of one core: above it, a thread becomes visibly slower
REASON = Reason(OTHER_LOAD)
_WORKING = ("user", "nice", "system", "irq", "softirq", "steal")  # kinds of time that are not idle; guests are in user


class OtherLoad:
    """Tells whether other processes disturbed the times since it was made."""

    def __init__(self, threads: int) -> None:
        """Begin; `threads` of the timed work may add to the load average."""
        self._threads = threads
        self._load_before = environment.load_average()
        self._start = time.monotonic()
        self._others_before = _others_s()

    def reasons(self) -> list[Reason]:
        """Return why the times since the beginning do not count; [] if they count."""
        others_s, elapsed_s = _others_s(), time.monotonic() - self._start
        if others_s is None or self._others_before is None:
            load = max(self._load_before, environment.load_average())
            return [REASON] if load > self._threads + LOAD_MARGIN else []
        return [REASON] if others_s - self._others_before > OTHERS_MARGIN * elapsed_s + COARSE_S else []


def busy_cores(threads: int) -> float | None:
    """Return how many cores other processes keep busy; None if enough are left for `threads`, or if it is not known.

    This process sleeps while it counts, so that its own work is not counted.
    """
    before, start = machine_worked_s(), time.monotonic()
    time.sleep(WATCH_S)
    after, elapsed_s = machine_worked_s(), time.monotonic() - start
    cores = psutil.cpu_count()
    if before is None or after is None or cores is None:
        return None
    busy = (after - before) / elapsed_s
    return busy if busy > max(0, cores - threads) + BUSY_MARGIN else None


def machine_worked_s() -> float | None:
    """Return the seconds, over all cores, that the machine has worked since it started; None if not known."""
    try:
        times = psutil.cpu_times()
    except (OSError, ValueError, RuntimeError):  # for example in a container without /proc/stat
        return None
    return float(sum(getattr(times, kind, 0.0) for kind in _WORKING))


def _others_s() -> float | None:
    """Return the seconds that other processes have worked since the machine started; None if not known."""
    worked = machine_worked_s()
    return None if worked is None else worked - _own_s()


def _own_s() -> float:
    """Return the seconds, over all cores, that this process and its ended children have worked."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
