"""Show a run as lines of JSON, for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

import msgspec

from bench.plan.trained_runs import TrainedRun
from bench.run.events import Event, Tick


class JsonLines:
    """Writes every event as a line of JSON, for machines; a `bench.run.runner.Watcher`."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def begin(self, groups: list[list[TrainedRun]], done: int) -> None:
        """See `Watcher`."""
        self._titles = {trained_run.key: trained_run.title() for group in groups for trained_run in group}
        self._write({"kind": "begin", "done": done, "to_do": len(self._titles)})

    def event(self, group: Sequence[TrainedRun], event: Event) -> None:
        """See `Watcher`."""
        if isinstance(event, Tick):
            return
        about: dict[str, object] = {}
        if group:
            key = getattr(event, "key", group[0].key)
            about = {"trained run": self._titles.get(key, key), "fit": group[0].fit_key}
        self._write({**about, **msgspec.to_builtins(event)})

    def finish(self) -> None:
        """See `Watcher`."""
        self._write({"kind": "finish"})

    def _write(self, fields: Mapping[str, object]) -> None:
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()
