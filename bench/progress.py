"""What a run shows while it works: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from bench.canonical import plain
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


class JsonLines:
    """Writes every event as a line of JSON, for machines; a `bench.runner.Watcher`."""

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
        self._epoch_started = self._last_plain = time.monotonic()
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
            self._epoch_started = time.monotonic()
        elif kind == "measure":
            self._detail = "measuring"
        elif kind == "waiting":
            self._current, self._detail = group[0].title(), "another process works on it"
        elif kind == "epoch":
            self._epoch(group, event)
        elif kind == "record":
            self._record(event)
            return
        elif kind == "warning":
            self._line(f"warning: {event['message']}")
            return
        self._show()

    def _epoch(self, group: Sequence[Cell], event: dict[str, Any]) -> None:
        now = time.monotonic()
        left = (event["of"] - event["epoch"]) * (now - self._epoch_started)
        self._epoch_started = now
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
        text = duration(sum(known)) if known or not unknown else "an unknown time"
        return f"{text} and {unknown} cells of unknown length" if unknown and known else text

    def _show(self) -> None:
        if self._quiet:
            return
        line = f"[{self._done + 1}/{self._total}] {self._current}: {self._detail}; in all {self._remaining()} left"
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
