"""The results as a frame: every number of every record to the bit, a reason for each that is missing, nothing stale."""

import math

import msgspec
import pytest

from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.judge.samples import gather, metric
from bench.plan.freshness import is_stale
from bench.show.frame import COLUMNS, TrainedRuns, folder_frame, frame_of
from tests.synthetic import record
from tests.tables import inputs


def test_the_frame_of_the_shipped_records_has_their_numbers_to_the_bit():
    records, _ = Store(RESULTS).all_records()
    fresh = {one.key: one for one in records if not is_stale(one)}
    frame = folder_frame(RESULTS)
    assert tuple(frame.columns) == COLUMNS
    assert set(frame.source) == {"shipped"}
    found: dict[str, dict[str, float]] = {}
    for key, name, value in zip(frame.key, frame.metric, frame.value, strict=True):
        assert name not in found.setdefault(key, {})
        found[key][name] = value
    assert set(found) == set(fresh)
    for key, one in fresh.items():
        expected = dict(one.metrics) if one.outcome == "done" else {}
        measured = {name: found[key][name].hex() for name, value in expected.items() if value is not None}
        assert measured == {name: float(value).hex() for name, value in expected.items() if value is not None}
        timings = msgspec.structs.asdict(one.timings) if one.outcome == "done" else {}
        times = {
            name: value for name, value in timings.items() if name not in ("valid", "reasons") and value is not None
        }
        assert {name: found[key][f"timings/{name}"] for name in times} == times
        assert all(math.isnan(found[key][name]) for name in {*one.missing} - {*one.metrics, "pruning"})


def test_samples_of_the_frame_are_those_of_the_records():
    shipped, _ = Store(RESULTS).all_records()
    results = inputs([one for one in shipped if one.conditions == ("full", "cpu", "float32")]).results
    trained_runs = TrainedRuns(frame_of(results.records, lambda _: "own"))
    names = {name for one in results.records for name in (*one.metrics, *one.missing)} | {"mnist/nosuch"}
    some = sorted(names - {"pruning"})[::7]
    for trained_run in {one.combination for one in results.records}:
        records = results.trained_run(*trained_run)
        for name in some:
            expected, found = (
                gather(records, lambda one, name=name: metric(one, name)),
                trained_runs.sample(*trained_run, name),
            )
            assert (found, found.sources) == (expected, expected.sources)


def test_what_is_missing_has_its_reason(tmp_path):
    store = Store(tmp_path)
    store.write(record("mlp", seed=0, key="a" * 64, metrics={"mnist/accuracy": 0.5, "mnist/nll": None}))
    store.write(record("mlp", seed=1, key="b" * 64, metrics={}, outcome="diverged", reason="loss is nan"))
    old = record("mlp", seed=2, key="c" * 64, metrics={"mnist/accuracy": 0.7})
    store.write(msgspec.structs.replace(old, versions=None))
    frame = folder_frame(tmp_path)
    assert set(frame.source) == {"own"}
    assert set(frame.seed) == {0, 1}  # the record of other code is left out
    (diverged,) = frame[frame.seed == 1].itertuples()
    assert (diverged.metric, diverged.missing, diverged.reason, diverged.is_fault) == (
        "",
        "diverged",
        "loss is nan",
        True,
    )
    (nll,) = frame[frame.metric == "mnist/nll"].itertuples()
    assert (nll.missing, nll.reason) == ("not finite", "the measured 'mnist/nll' is not a finite number")
    assert math.isnan(nll.value)
    assert folder_frame(tmp_path, profile="smoke").empty


def test_no_folder_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="not a folder"):
        folder_frame(tmp_path / "none")
