"""Records as one table for a notebook: a row for each metric of each record.

>>> from bench.show.frame import records_frame
>>> frame = records_frame("results", profile="full")
>>> frame[frame.metric == "mnist/accuracy"].groupby(["approach", "recipe"]).value.mean()
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd

from bench.core.errors import ConfigError
from bench.core.store import Store
from bench.plan.freshness import is_stale

COLUMNS = ("approach", "recipe", "protocol", "profile", "device", "precision", "seed", "metric", "value")


def records_frame(results: str | Path, profile: str | None = None) -> pd.DataFrame:
    """Return the metrics of the finished, fresh records of a results folder, as a frame with the columns `COLUMNS`.

    A value is a float in the metric's own unit (`bench.core.metric_table`), NaN where it could not be measured.
    If a cell has several records of one seed, the frame has rows for each. `profile` keeps the records of one profile.
    A damaged record is left out with a warning.

    Raises:
        ConfigError: there is no such folder.
    """
    root = Path(results)
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder; give one that `run` has filled")
    kept, damaged = Store(root).all_records()
    for problem in damaged:
        warnings.warn(problem.reason, stacklevel=2)
    rows = [
        (*(getattr(record, name) for name in COLUMNS[:-2]), metric, value)
        for record in kept
        if record.outcome == "done" and profile in (None, record.profile) and not is_stale(record)
        for metric, value in record.metrics.items()
    ]
    return pd.DataFrame.from_records(rows, columns=COLUMNS).astype({"value": "float64"})
