"""Show a run: bars on a terminal, sometimes a plain line in a pipe or a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich import progress as bars
from rich.console import Console
from rich.table import Column
from rich.text import Text

from bench.core.text import counted, duration, one_line
from bench.plan.costs import CostEstimate
from bench.plan.trained_runs import TrainedRun
from bench.run.events import EpochEnded, Event, Measuring, Noted, Recorded, Started, Waiting, Warned

PLAIN_EVERY_S = 15.0  # least time between two plain lines about running fits
REDRAWS_A_SECOND = 4
BAR_COLUMNS = 12
UNKNOWN = CostEstimate(None, None, "")
STYLES = {"done": "green", "failed": "red", "out-of-time": "red"}  # of outcomes; all others are yellow


def console_of(stream: TextIO) -> Console:
    """Return a console that writes text without markup or wrapping; rich decides about colours."""
    return Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)


def is_screen(console: Console) -> bool:
    """Return whether lines can be redrawn. In a pipe they cannot, even if FORCE_COLOR is set."""
    return console.file.isatty() and not console.is_dumb_terminal


def outcome_text(outcome: str) -> Text:
    """Return an outcome in its colour."""
    return Text(outcome, STYLES.get(outcome, "yellow"))


@dataclass
class _ShownFit:
    """A running fit, with its trained runs."""

    title: str
    open: set[str]  # keys of its trained runs that have no record yet
    epoch_started: float
    bar: bars.TaskID | None  # on a terminal
    began: float
    trained_run_started: float  # when the previous trained run ended, or the fit began
    keys: frozenset[str] = frozenset()  # of all trained runs that it measures in this run
    is_all_new: bool = True  # every record so far was made in this run, and is done
    detail: str = "starting"
    printed: str = ""  # the detail in its last plain line
    is_waiting: bool = False  # another process works on it


class Progress:
    """Shows the trained runs of a run, of which several may be done at once; a `bench.run.runner.Watcher`."""

    def __init__(
        self, estimates: Mapping[str, CostEstimate], quiet: bool = False, stream: TextIO | None = None, at_once: int = 1
    ) -> None:
        """Show a run that does `at_once` fits at a time; `estimates` has the expected costs by key."""
        self._console = console_of(stream or sys.stderr)
        self._quiet = quiet
        self._bars = None if quiet or not is_screen(self._console) else _bars(self._console)
        self._time = _TimeLeft(estimates, at_once)
        self._titles: dict[str, str] = {}
        self._notes: set[str] = set()  # that were said
        self._groups: list[list[TrainedRun]] = []
        self._fits: dict[int, _ShownFit] = {}  # running fits, by the index of their group
        self._total = self._done = self._bad = 0
        self._all: bars.TaskID | None = None  # the bar of the run
        self._started = self._last_line = time.monotonic()

    def begin(self, groups: list[list[TrainedRun]], done: int) -> None:
        """See `Watcher`."""
        self._groups = list(groups)  # a copy, because the runner empties the list
        self._titles = {trained_run.key: trained_run.title() for group in groups for trained_run in group}
        self._total, self._done = len(self._titles) + done, done
        self._time.begin(groups)
        self._started = self._last_line = time.monotonic()
        expected = self._time.text("expected {}", [])
        self._line(
            Text(f"{counted(self._total, 'trained run')}, {done} done already, {len(self._titles)} to do; {expected}")
        )
        if self._bars is not None and groups:
            self._bars.start()
            self._all = self._bars.add_task("", total=self._total, completed=done, detail="")
        self._show()

    def event(self, group: Sequence[TrainedRun], event: Event) -> None:
        """See `Watcher`."""
        self._time.subtract_passed(self._fits.values())
        if not group:  # all fits are silent
            self._show()
            return
        fit = self._fit(group[0])
        fit.is_waiting = isinstance(event, Waiting)
        if isinstance(event, Started):
            title = self._titles[event.key]
            if (fit.title, fit.detail) != (title, "starting"):
                fit.printed = ""
            fit.title, fit.detail = title, "starting"
            fit.epoch_started = time.monotonic()
        elif isinstance(event, Measuring):
            fit.detail = "measuring"
        elif isinstance(event, Waiting):
            fit.title, fit.detail = group[0].title(), "another process works on it"
        elif isinstance(event, EpochEnded):
            self._epoch(group, fit, event)
        elif isinstance(event, Recorded):
            self._record(fit, event)
        elif isinstance(event, Warned):
            self._line(Text(f"warning: {one_line(event.message)}"))
        elif isinstance(event, Noted) and event.message not in self._notes:
            self._notes.add(event.message)
            self._line(Text(one_line(event.message)))
        self._show()

    def finish(self) -> None:
        """Remove the bars; may be called again."""
        if self._bars is not None:
            self._bars.stop()

    def _fit(self, trained_run: TrainedRun) -> _ShownFit:
        place = next(place for place, group in enumerate(self._groups) if trained_run in group)
        if place not in self._fits:
            unfinished = {other.key for other in self._groups[place]} & self._time.open
            bar = None if self._bars is None else self._bars.add_task("", total=None, detail="")
            now = time.monotonic()
            self._fits[place] = _ShownFit(trained_run.title(), unfinished, now, bar, now, now, frozenset(unfinished))
        return self._fits[place]

    def _epoch(self, group: Sequence[TrainedRun], fit: _ShownFit, event: EpochEnded) -> None:
        now = time.monotonic()
        left_s = (event.of - event.epoch) * (now - fit.epoch_started)
        fit.epoch_started = now
        together = f"{event.seeds} seeds together, " if event.seeds > 1 else ""
        losses = [
            f"{name.rsplit('/', 1)[-1]} {'not finite' if value is None else f'{value:.5g}'}"
            for name, value in event.trace.items()
        ]
        parts = [f"{together}epoch {event.epoch}/{event.of}", f"training {duration(left_s)} more", *losses]
        fit.detail = one_line(", ".join(parts))
        if self._bars is not None and fit.bar is not None:
            self._bars.update(fit.bar, total=event.of, completed=event.epoch)
        self._time.train(group, left_s)

    def _record(self, fit: _ShownFit, event: Recorded) -> None:
        self._done += 1
        self._bad += event.outcome != "done"
        self._time.end(event.key)
        fit.open.discard(event.key)
        fit.is_all_new &= event.outcome == "done" and not event.was_there
        if not fit.open and fit.is_all_new:
            self._time.learn(fit.keys, time.monotonic() - fit.began)
        for place, other in list(self._fits.items()):
            if not other.open:
                del self._fits[place]
                if self._bars is not None and other.bar is not None:
                    self._bars.remove_task(other.bar)
        title = self._titles.get(event.key, event.key[:8])
        more = f": {one_line(event.reason)}" if event.reason else ""
        if event.outcome == "done" and not event.was_there:
            result = f", {event.result}" if event.result else ""
            more = f" in {duration(time.monotonic() - fit.trained_run_started)}{result}{more}"
        fit.trained_run_started = time.monotonic()
        self._line(Text.assemble(f"[{self._done}/{self._total}] {title}: ", outcome_text(event.outcome), more))

    def _show(self) -> None:
        if self._bars is not None:
            self._draw(self._bars)
            return
        now = time.monotonic()
        if now - self._last_line < PLAIN_EVERY_S:
            return
        self._last_line = now
        left = self._time.text("{} left in total", self._fits.values())
        for fit in self._fits.values():
            if fit.detail != fit.printed:
                fit.printed = fit.detail
                self._line(Text(f"[{self._done + 1}/{self._total}] {fit.title}: {fit.detail}; {left}"))

    def _draw(self, shown: bars.Progress) -> None:
        if self._all is None:
            return
        bad = f"{self._bad} not done, " if self._bad else ""
        left = self._time.text("{} left", self._fits.values())
        detail = f"{bad}{duration(time.monotonic() - self._started)} so far, {left}"
        shown.update(self._all, description=f"[{self._done}/{self._total}]", completed=self._done, detail=detail)
        for fit in self._fits.values():
            if fit.bar is not None:
                shown.update(fit.bar, description=fit.title, detail=fit.detail)

    def _line(self, text: Text) -> None:
        if not self._quiet:
            self._console.print(text)


def _bars(console: Console) -> bars.Progress:
    """Return a display with one bar for the run and one for each fit; the bars disappear when it stops."""
    return bars.Progress(
        bars.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        bars.BarColumn(BAR_COLUMNS),
        bars.TextColumn("{task.fields[detail]}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        console=console,
        refresh_per_second=REDRAWS_A_SECOND,
        transient=True,
        expand=True,
        redirect_stdout=sys.stdout.isatty(),  # if output goes to a file, it must go on doing so
    )


class _TimeLeft:
    """The time that the open trained runs, which have no record yet, are expected to take.

    For a running fit, the time comes from its epochs. For every other fit it is the estimate, multiplied by a ratio:
    the time that the finished fits of this run took, divided by their estimates.
    """

    def __init__(self, estimates: Mapping[str, CostEstimate], at_once: int) -> None:
        self._estimates, self._at_once = estimates, at_once
        self._left: dict[str, float | None] = {}  # by the key of each open trained run; None: no estimate
        self._estimated: dict[str, float | None] = {}  # the estimate of each trained run, as it was at the beginning
        self._finished_s = self._finished_estimated_s = 0.0  # measured and estimated time of the finished fits
        self._n_groups = 1
        self._now = time.monotonic()

    @property
    def open(self) -> set[str]:
        """The keys of the trained runs without a record."""
        return set(self._left)

    def begin(self, groups: Sequence[Sequence[TrainedRun]]) -> None:
        """Take the estimates of the trained runs; that of each fit's first trained run includes the training."""
        self._now, self._n_groups = time.monotonic(), max(1, len(groups))
        for group in groups:
            first = _first_of_each_fit(group)
            for trained_run in group:
                cost = self._estimates.get(trained_run.key, UNKNOWN)
                fit_s = cost.fit_s if trained_run.key in first or cost.fit_s is None else 0.0
                self._left[trained_run.key] = self._estimated[trained_run.key] = _sum(fit_s, cost.measure_s)

    def train(self, group: Sequence[TrainedRun], left_s: float) -> None:
        """Replace the estimated training time of a seed batch by `left_s`, which its epochs give."""
        first = _first_of_each_fit(group)
        for key in first & self._left.keys():
            self._left[key] = _sum(left_s / len(first), self._estimates.get(key, UNKNOWN).measure_s)

    def end(self, key: str) -> None:
        """Forget a trained run, because it has a record."""
        self._left.pop(key, None)

    def learn(self, keys: Iterable[str], seconds: float) -> None:
        """Compare the seconds of a finished fit's trained runs together with their estimates, if all have one."""
        estimated = [self._estimated.get(key) for key in keys]
        known = [value for value in estimated if value is not None]
        if known and len(known) == len(estimated):
            self._finished_s += seconds
            self._finished_estimated_s += sum(known)

    def subtract_passed(self, fits: Iterable[_ShownFit]) -> None:
        """Subtract the time since the last call from the remaining time of each running fit."""
        passed, self._now = time.monotonic() - self._now, time.monotonic()
        for fit in fits:
            spent = passed
            for key in sorted(fit.open):
                known = self._left.get(key)
                if known is not None:
                    self._left[key] = max(known - spent, 0.0)
                    spent = max(spent - known, 0.0)

    def text(self, form: str, fits: Iterable[_ShownFit]) -> str:
        """Return the remaining time as text, in the place of {} in `form`; `fits`: the running ones."""
        running = list(fits)
        begun = {key for fit in running for key in fit.open}
        ratio = self._finished_s / self._finished_estimated_s if self._finished_estimated_s else 1.0
        known = [value * (1 if key in begun else ratio) for key, value in self._left.items() if value is not None]
        n_unknown = len(self._left) - len(known)
        if n_unknown and not known:
            return "no estimate yet"
        at_work = sum(not fit.is_waiting for fit in running)
        at_once = at_work or max(min(self._at_once, self._n_groups), 1)
        more = f" and {counted(n_unknown, 'trained run')} of unknown length" if n_unknown else ""
        return form.format(duration(sum(known) / at_once) + more)


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _first_of_each_fit(group: Sequence[TrainedRun]) -> set[str]:
    """Return the key of the first trained run of each fit, whose estimate includes the training."""
    return {first.key for first in {one.fit_key: one for one in reversed(group)}.values()}
