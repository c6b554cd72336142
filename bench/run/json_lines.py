"""Show a run as lines of JSON, for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

import msgspec

from bench.plan.cells import Cell
from bench.run.events import Event, Tick


class JsonLines:
    """Writes every event as a line of JSON, for machines; a `bench.run.runner.Watcher`."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def begin(self, groups: list[list[Cell]], done: int) -> None:
        """See `Watcher`."""
        self._titles = {cell.key: cell.title() for group in groups for cell in group}
        self._write({"kind": "begin", "done": done, "to_do": len(self._titles)})

    def event(self, group: Sequence[Cell], event: Event) -> None:
        """See `Watcher`."""
        if isinstance(event, Tick):
            return
        about: dict[str, object] = {}
        if group:
            key = getattr(event, "key", group[0].key)
            about = {"cell": self._titles.get(key, key), "fit": group[0].fit_key}
        self._write({**about, **msgspec.to_builtins(event)})

    def finish(self) -> None:
        """See `Watcher`."""
        self._write({"kind": "finish"})

    def _write(self, fields: Mapping[str, object]) -> None:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()
