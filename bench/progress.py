"""What a run shows while it works: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from bench.plan import Cell, Estimate

PLAIN_EVERY_S = 15.0


def duration(seconds: float | None) -> str:
    """Return a duration as people write it: 48 s, 12 min, 1 h 05 min."""
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def _first_of_each_fit(group: Sequence[Cell]) -> set[str]:
    """Return the keys of the cells that stand for the training of their fit."""
    return {cell.key for cell in {cell.fit_key: cell for cell in reversed(group)}.values()}


class Progress:
    """Shows the cells of a run; a `bench.runner.Watcher`."""

    def __init__(self, estimates: Mapping[str, Estimate], quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty() and os.environ.get("TERM") != "dumb" and not quiet
        self._quiet = quiet
        self._estimates = estimates
        self._titles: dict[str, str] = {}
        self._left: dict[str, float | None] = {}
        self._total = self._done = 0
        self._current = ""
        self._detail = ""
        self._last_plain = time.monotonic()
        self._epoch_started: dict[str, float] = {}  # by first cell of a group, as several may be at work
        self._fits = 1  # at work at a time
        self._fit_left: float | None = None

    def begin(self, groups: list[list[Cell]], done: int) -> None:
        """See `Watcher`."""
        cells = [cell for group in groups for cell in group]
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
        self._line(f"{self._total} cells, {done} done already, {len(cells)} to do; expected {self._remaining()}")

    def event(self, group: Sequence[Cell], event: dict[str, Any]) -> None:
        """See `Watcher`."""
        kind = event["kind"]
        if kind == "start":
            self._current, self._detail = self._titles[event["key"]], "starting"
            self._epoch_started[group[0].key] = time.monotonic()
        elif kind == "measure":
            self._current, self._detail = self._titles[event["key"]], "measuring"
        elif kind == "fleet":
            self._fits = max(1, event["fits"])
        elif kind == "again":
            self._line(f"{group[0].title()}: its worker died; begins anew on {event['host']}")
        elif kind == "waiting":
            self._current, self._detail = group[0].title(), "another process works on it"
        elif kind == "epoch":
            self._epoch(group, event)
        elif kind == "record":
            self._record(event)
            return
        self._show()

    def _epoch(self, group: Sequence[Cell], event: dict[str, Any]) -> None:
        now = time.monotonic()
        left = (event["of"] - event["epoch"]) * (now - self._epoch_started.get(group[0].key, now))
        self._epoch_started[group[0].key] = now
        self._current = group[0].title()
        shown = ", ".join(f"{name.rsplit('/', 1)[1]} {value:.5g}" for name, value in event["trace"].items())
        together = f"{event['seeds']} seeds together, " if event["seeds"] > 1 else ""
        self._detail = f"{together}epoch {event['epoch']}/{event['of']}, {shown}, training {duration(left)} more"
        first = _first_of_each_fit(group)
        for key in first & self._left.keys():
            cost = self._estimates.get(key)
            share = left / len(first)
            self._left[key] = share + cost.measure_s if cost is not None and cost.measure_s is not None else None

    def _record(self, event: dict[str, Any]) -> None:
        self._done += 1
        self._left.pop(event["key"], None)
        reason = f": {event['reason']}" if event["reason"] else ""
        title = self._titles.get(event["key"], event["key"][:8])
        self._line(f"[{self._done}/{self._total}] {title}: {event['outcome']}{reason}")

    def _remaining(self) -> str:
        known = [value for value in self._left.values() if value is not None]
        unknown = len(self._left) - len(known)
        text = duration(sum(known) / self._fits) if known or not unknown else "an unknown time"
        return f"{text} and {unknown} cells of unknown length" if unknown and known else text

    def _show(self) -> None:
        if self._quiet:
            return
        many = f"{self._fits} fits at a time; " if self._fits > 1 else ""
        what = f"{self._current}: {self._detail}" if self._current else "waiting for a worker"
        line = f"[{self._done + 1}/{self._total}] {many}{what}; in all {self._remaining()} left"
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[2K" + line[:width])
            self._stream.flush()
        elif time.monotonic() - self._last_plain > PLAIN_EVERY_S:
            self._last_plain = time.monotonic()
            self._stream.write(line + "\n")
            self._stream.flush()

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        self._stream.write(("\r\x1b[2K" if self._live else "") + text + "\n")
        self._stream.flush()

    def finish(self) -> None:
        """See `Watcher`."""
        if self._live:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
