"""What a run shows while it works: a few lines redrawn in place on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from bench.core.canonical import plain
from bench.core.text import duration
from bench.plan.cells import Cell
from bench.plan.costs import CostEstimate

PLAIN_EVERY_S = 15.0
REDRAW_EVERY_S = 0.1  # a toy's epochs end faster than a screen can show
MOST_FITS = 6  # of those that run at once, shown
GREEN, RED, YELLOW = "32", "31", "33"
COLOURS = {"done": GREEN, "failed": RED, "out-of-time": RED}  # of outcomes; all others are yellow
CLEAR_LINE, CLEAR_BELOW = "\x1b[K", "\x1b[J"


def is_screen(stream: TextIO) -> bool:
    """Return whether what is written can be redrawn."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def screen_size(stream: TextIO) -> tuple[int, int]:
    """Return the columns and rows of the terminal that a stream writes to; 80 and 24 where it does not say."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):  # a stream without a file has no size either
        columns = rows = 0
    if not columns or not rows:
        columns, rows = shutil.get_terminal_size()
    return columns, rows


def outcome_text(outcome: str, stream: TextIO) -> str:
    """Return an outcome, in colour on a terminal unless NO_COLOR is set (no-color.org)."""
    if not is_screen(stream) or os.environ.get("NO_COLOR"):
        return outcome
    return f"\x1b[{COLOURS.get(outcome, YELLOW)}m{outcome}\x1b[0m"


def _first_of_each_fit(group: Sequence[Cell]) -> set[str]:
    """Return the keys of the cells that stand for the training of their fit."""
    return {cell.key for cell in {cell.fit_key: cell for cell in reversed(group)}.values()}


class JsonLines:
    """Writes every event as a line of JSON, for machines; a `bench.run.runner.Watcher`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._titles: dict[str, str] = {}

    def begin(self, groups: list[list[Cell]], done: int) -> None:
        """See `Watcher`."""
        self._titles = {cell.key: cell.title() for group in groups for cell in group}
        self._write({"kind": "begin", "done": done, "to_do": len(self._titles)})

    def event(self, group: Sequence[Cell], event: dict[str, Any]) -> None:
        """See `Watcher`."""
        if event["kind"] == "tick":
            return
        about = {}
        if group:
            key = event.get("key", group[0].key)
            about = {"cell": self._titles.get(key, key), "fit": group[0].fit_key}
        self._write({**about, **event})

    def finish(self) -> None:
        """See `Watcher`."""
        self._write({"kind": "finish"})

    def _write(self, event: dict[str, Any]) -> None:
        self._stream.write(json.dumps(plain(event)) + "\n")
        self._stream.flush()


@dataclass
class _Fit:
    """A fit that is being worked on, with its cells."""

    title: str
    open: set[str]  # keys of its cells without a record
    epoch_started: float
    detail: str = "starting"
    is_waiting: bool = False  # for another process


class Progress:
    """Shows the cells of a run; a `bench.run.runner.Watcher`. Fits may run one after the other or several at once."""

    def __init__(
        self,
        estimates: Mapping[str, CostEstimate],
        quiet: bool = False,
        stream: TextIO | None = None,
        at_once: int = 1,
    ) -> None:
        """Show a run whose cells cost what `estimates` say by key, with room for `at_once` fits at a time."""
        self._at_once = at_once
        self._stream = stream or sys.stderr
        self._live = is_screen(self._stream) and not quiet
        self._quiet = quiet
        self._estimates = estimates
        self._titles: dict[str, str] = {}
        self._left: dict[str, float | None] = {}
        self._groups: list[list[Cell]] = []
        self._fits: dict[int, _Fit] = {}  # what is worked on, by the place of its group
        self._total = self._done = self._bad = 0
        self._shown: list[str] = []  # the lines on the terminal that the next ones replace
        self._started = self._estimated = time.monotonic()
        self._last_shown = float("-inf")

    def begin(self, groups: list[list[Cell]], done: int) -> None:
        """See `Watcher`."""
        cells = [cell for group in groups for cell in group]
        self._groups = list(groups)  # whoever runs them takes them off the given one
        self._titles = {cell.key: cell.title() for cell in cells}
        self._total, self._done = len(cells) + done, done
        for group in groups:
            first = _first_of_each_fit(group)
            for cell in group:
                cost = self._estimates.get(cell.key)
                if cost is None or cost.measure_s is None or cost.fit_s is None:
                    self._left[cell.key] = None
                else:
                    self._left[cell.key] = cost.measure_s + (cost.fit_s if cell.key in first else 0.0)
        self._started = self._estimated = self._last_shown = time.monotonic()
        self._line(f"{self._total} cells, {done} done already, {len(cells)} to do; expected {self._remaining()}")

    def event(self, group: Sequence[Cell], event: dict[str, Any]) -> None:
        """See `Watcher`."""
        kind = event["kind"]
        self._pass_time()
        if not group:  # news of the workers, of no fit
            return
        fit = self._fit(group[0])
        fit.is_waiting = kind == "waiting"
        if kind == "start":
            fit.title, fit.detail = self._titles[event["key"]], "starting"
            fit.epoch_started = time.monotonic()
        elif kind == "measure":
            fit.detail = "measuring"
        elif kind == "waiting":
            fit.title, fit.detail = group[0].title(), "another process works on it"
        elif kind == "again":
            fit.detail = f"begins anew on {event['host']}"
            self._line(f"{fit.title}: its worker died; begins anew on {event['host']}")
        elif kind == "epoch":
            self._epoch(group, fit, event)
        elif kind == "record":
            self._record(fit, event)
            return
        elif kind == "warning":
            self._line(f"warning: {event['message']}")
            return
        self._show()

    def finish(self) -> None:
        """Leave the terminal in order; may be called again."""
        self._fits.clear()
        self._draw([])

    def _fit(self, cell: Cell) -> _Fit:
        place = next(place for place, group in enumerate(self._groups) if cell in group)
        if place not in self._fits:
            unfinished = {other.key for other in self._groups[place]} & self._left.keys()
            self._fits[place] = _Fit(cell.title(), unfinished, time.monotonic())
        return self._fits[place]

    def _epoch(self, group: Sequence[Cell], fit: _Fit, event: dict[str, Any]) -> None:
        now = time.monotonic()
        left = (event["of"] - event["epoch"]) * (now - fit.epoch_started)
        fit.epoch_started = now
        shown = ", ".join(f"{name.rsplit('/', 1)[1]} {value:.5g}" for name, value in event["trace"].items())
        together = f"{event['seeds']} seeds together, " if event["seeds"] > 1 else ""
        fit.detail = f"{together}epoch {event['epoch']}/{event['of']}, {shown}, training {duration(left)} more"
        first = _first_of_each_fit(group)
        for key in first & self._left.keys():
            cost = self._estimates.get(key)
            share = left / len(first)
            self._left[key] = share + cost.measure_s if cost is not None and cost.measure_s is not None else None

    def _record(self, fit: _Fit, event: dict[str, Any]) -> None:
        self._done += 1
        self._bad += event["outcome"] != "done"
        self._left.pop(event["key"], None)
        fit.open.discard(event["key"])
        self._fits = {place: other for place, other in self._fits.items() if other.open}
        reason = f": {event['reason']}" if event["reason"] else ""
        title = self._titles.get(event["key"], event["key"][:8])
        self._line(f"[{self._done}/{self._total}] {title}: {outcome_text(event['outcome'], self._stream)}{reason}")

    def _pass_time(self) -> None:
        """Take the time since the last estimate off what the fits at work have left."""
        passed = time.monotonic() - self._estimated
        self._estimated += passed
        for fit in self._fits.values():
            spent = passed
            for key in sorted(fit.open):
                known = self._left.get(key)
                if known is not None:
                    self._left[key] = max(known - spent, 0.0)
                    spent = max(spent - known, 0.0)

    def _remaining(self) -> str:
        known = [value for value in self._left.values() if value is not None]
        unknown = len(self._left) - len(known)
        at_work = sum(not fit.is_waiting for fit in self._fits.values())
        at_once = at_work or max(min(self._at_once, len(self._groups)), 1)
        text = duration(sum(known) / at_once) if known or not unknown else "an unknown time"
        return f"{text} and {unknown} cells of unknown length" if unknown and known else text

    def _show(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last_shown < (REDRAW_EVERY_S if self._live else PLAIN_EVERY_S):
            return
        self._last_shown = now
        if self._live:
            self._draw(self._block())
            return
        for fit in self._fits.values():
            place = f"[{self._done + 1}/{self._total}]"
            self._stream.write(f"{place} {fit.title}: {fit.detail}; in all {self._remaining()} left\n")
        self._stream.flush()

    def _block(self) -> list[str]:
        fits = list(self._fits.values())
        lines = [line for fit in fits[:MOST_FITS] for line in (fit.title, f"    {fit.detail}")]
        if len(fits) > MOST_FITS:
            lines.append(f"and {len(fits) - MOST_FITS} more at once")
        bad = f", {self._bad} not done" if self._bad else ""
        passed = duration(time.monotonic() - self._started)
        return [*lines, f"[{self._done}/{self._total}]{bad}, {passed} so far, {self._remaining()} left"]

    def _draw(self, block: list[str], above: str = "") -> None:
        """Replace the lines of the last call, in one write so that nothing flickers; `above` stays for good."""
        if not self._live:
            return
        columns, rows = screen_size(self._stream)
        block = [line[: columns - 1] for line in block][-(rows - 1) :]
        # A terminal made narrower since has wrapped what was drawn.
        up = sum(max(1, -(-len(line) // columns)) for line in self._shown)
        back = f"\r\x1b[{up}A" if up else ""
        kept = f"{above}{CLEAR_LINE}\n" if above else ""
        self._stream.write(back + kept + "".join(f"{line}{CLEAR_LINE}\n" for line in block) + CLEAR_BELOW)
        self._stream.flush()
        self._shown = block

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        if self._live:
            self._draw(self._block(), above=text)
        else:
            self._stream.write(text + "\n")
            self._stream.flush()
