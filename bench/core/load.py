"""What other processes took of the processors while something was timed.

A load average cannot tell: its minute before a fit holds what the fit before left, and on several cores one process
more stays under any margin. The system's own count of working time, less that of this process and of the children that
it has waited for, holds nothing else.
"""

from __future__ import annotations

import resource
import time

import psutil

from bench.core import environment
from bench.core.reasons import OTHER_LOAD, Reason

OTHERS_MARGIN = 0.2  # of one core: ten times what the system takes for itself and a run's parent for its events
COARSE_S = 0.1  # both counts move in ticks of 10 ms, for each core
LOAD_MARGIN = 0.75  # load beyond the own threads, where the system has no such count
WATCH_S = 0.3
BUSY_MARGIN = 0.5  # of one core: more makes the work of a thread visibly slower
REASON = Reason(OTHER_LOAD)
_WORKING = ("user", "nice", "system", "irq", "softirq", "steal")  # kinds of time that are not idle; guests are in user


class OtherLoad:
    """Looks at the machine when it is made, and again when asked."""

    def __init__(self, threads: int) -> None:
        """Begin; `threads` are those of the work, which its load average may reach."""
        self._threads = threads
        self._load_before = environment.load_average()
        self._start = time.monotonic()
        self._others_before = _others_s()

    def reasons(self) -> list[Reason]:
        """Return why times since the beginning do not count; none where they do."""
        others_s, elapsed_s = _others_s(), time.monotonic() - self._start
        if others_s is None or self._others_before is None:
            load = max(self._load_before, environment.load_average())
            return [REASON] if load > self._threads + LOAD_MARGIN else []
        return [REASON] if others_s - self._others_before > OTHERS_MARGIN * elapsed_s + COARSE_S else []


def busy_cores(threads: int, watch_s: float = WATCH_S) -> float | None:
    """Return how many cores other processes keep busy, if too few are left for `threads`; None if not, or not known.

    This process waits meanwhile, so that what works is not this process.
    """
    before, start = machine_worked_s(), time.monotonic()
    time.sleep(watch_s)
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
    except (OSError, ValueError, RuntimeError):  # such as a container without /proc/stat
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
