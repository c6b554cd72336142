"""What an approach reports is checked before it is stored, and an event is a line of JSON, whatever its texts hold."""

import msgspec
import pytest

from bench.core.reasons import LONGEST, in_words, message_reason
from bench.core.records import LONGEST_DETAIL
from bench.core.store import Store
from bench.run.events import EpochEnded, Options, Recorded, Tick, decode, encode, losses
from bench.run.recording import existing
from bench.run.runner import run
from tests.run.toys import Recorder, chosen, put

CHANGED = """
_fit = McDropout.fit


def fit(self, train, task, ctx):
    report = ctx.epoch_end
    ctx.epoch_end = lambda epoch, trace, *rest: report({epoch}, {trace}, *rest)
    return _fit(self, train, task, ctx)


McDropout.fit = fit
"""
FAILING = """
def fit(self, train, task, ctx):
    raise ValueError("a\\n" * 1_000_000 + "b" * 12_000_000)


McDropout.fit = fit
"""


def stored(tmp_path, monkeypatch, text):
    """Run an approach of this code, and return the record that a reader gets of its one trained run."""
    put(tmp_path, monkeypatch, "reports", text)
    store = Store(tmp_path / "results")
    trained_runs = chosen("reports", profile="faults", seeds=(0,))
    (result,) = run(trained_runs, store, Options(str(store.root), threads=1), Recorder(), "inline")
    (record,), problems = store.all_records()
    assert problems == []
    assert record == existing(trained_runs[0], store)
    assert record.outcome == result.outcome
    return record


def changed(epoch="epoch", trace="trace"):
    return CHANGED.format(epoch=epoch, trace=trace)


def test_a_report_that_is_not_changed_is_stored(tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed())
    assert [epoch.epoch for epoch in record.epochs] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        ("10**30", "epoch 1000000000000000000000000000000 after 0"),
        ("6", "epoch 6 after 0"),  # the approach has five
        ("0", "epoch 0 after 0"),
        ("6 - epoch", "epoch 4 after 5"),
        ("1", "epoch 1 after 1"),
    ],
)
def test_an_impossible_epoch_ends_the_fit_with_one_line(epoch, found, tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed(epoch))
    assert record.outcome == "failed"
    assert f"epoch_end was called with {found}; epochs are whole numbers" in in_words(record.reason)


@pytest.mark.parametrize("epoch", ["1.5", "'1'", "None"])
def test_an_epoch_that_is_no_whole_number_ends_the_fit(epoch, tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed(epoch))
    assert record.outcome == "failed"
    assert in_words(record.reason).startswith("TypeError")


def test_a_metric_with_an_endless_name_is_not_written_and_the_record_says_why(tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, changed(trace='{"x" * 12_000_000: 1.0}'))
    assert record.outcome == "failed"
    assert "cannot be written" in in_words(record.reason)


def test_a_long_message_and_a_long_traceback_are_cut(tmp_path, monkeypatch):
    record = stored(tmp_path, monkeypatch, FAILING)
    assert in_words(record.reason).startswith("ValueError: a")
    assert len(record.detail) <= LONGEST_DETAIL
    assert len(in_words(message_reason("crashed", "x" * 12_000_000))) == LONGEST + len("...")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Tick(), b'{"kind":"tick"}'),
        (
            EpochEnded(1, 9, losses({"loss": float("nan")}), 2),
            b'{"kind":"epoch","epoch":1,"of":9,"trace":{"loss":null}',
        ),
        (Recorded("k", "failed", "two\nlines\x1b[2J"), b'"reason":"two\\nlines\\u001b[2J"'),
    ],
)
def test_an_event_is_one_line_and_comes_back(event, line):
    assert line in encode(event)
    assert b"\n" not in encode(event)
    assert decode(encode(event)) == event


def test_a_file_name_that_is_not_utf_8_does_not_stop_an_event():
    assert decode(encode(Recorded("k", "failed", "no file a\udc80"))).reason == r"no file a\udc80"


@pytest.mark.parametrize("line", [b"hello", b"[1]", b'{"kind":"other"}', b'{"kind":"start"}', b""])
def test_a_line_that_is_not_an_event_is_refused(line):
    with pytest.raises(msgspec.DecodeError):
        decode(line)
