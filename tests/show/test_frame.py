"""Records as a frame: a row a metric, nothing stale, nothing unfinished."""

import math

import msgspec
import pytest

from bench.core.errors import ConfigError
from bench.core.store import Store
from bench.show.frame import COLUMNS, records_frame
from tests.synthetic import record


def test_a_row_for_each_metric_of_each_finished_fresh_record(tmp_path):
    store = Store(tmp_path)
    store.write(record("mlp", seed=0, key="a" * 64, metrics={"mnist/accuracy": 0.5, "mnist/nll": None}))
    store.write(record("mlp", seed=1, key="b" * 64, metrics={}, outcome="failed", reason="it fell"))
    old = record("mlp", seed=2, key="c" * 64, metrics={"mnist/accuracy": 0.7})
    store.write(msgspec.structs.replace(old, versions=None))
    frame = records_frame(tmp_path)
    assert tuple(frame.columns) == COLUMNS
    assert list(zip(frame.seed, frame.metric, strict=True)) == [(0, "mnist/accuracy"), (0, "mnist/nll")]
    assert frame.value[0] == 0.5
    assert math.isnan(frame.value[1])
    assert records_frame(tmp_path, profile="smoke").empty


def test_no_folder_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="not a folder"):
        records_frame(tmp_path / "none")
