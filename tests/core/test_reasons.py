"""Reasons: their words, what is refused as one, and the words of older records taken apart."""

import json

import pytest

from bench.core.errors import StoreError
from bench.core.reasons import Reason, in_words, told
from bench.core.records import Record
from bench.core.sealed import seal
from bench.core.store import read_record
from tests.synthetic import record
from tools.convert_records import convert, reason_of

WORDS = [
    ("the fit was interrupted and resumed", Reason("resumed")),
    ("trained together with 1 other seed", Reason("seeds-together", {"n": 1})),
    ("trained together with 4 other seeds", Reason("seeds-together", {"n": 4})),
    ("profile smoke runs 2 steps an epoch", Reason("short-epochs", {"profile": "smoke", "steps": 2})),
    (
        "mnist/train60k/train_loss is nan in epoch 3; a smaller learning rate may help",
        Reason("diverged", {"metric": "mnist/train60k/train_loss", "value": "nan", "epoch": 3}),
    ),
    (
        "ZeroDivisionError: division by zero (mlp.py:7)",
        Reason("error", {"type": "ZeroDivisionError", "message": "division by zero", "place": "mlp.py:7"}),
    ),
    (
        "DataMissing: no letters here",
        Reason("error", {"type": "DataMissing", "message": "no letters here", "place": ""}),
    ),
    ("its process was ended by SIGKILL", told("crashed", "its process was ended by SIGKILL")),
]


@pytest.mark.parametrize(("words", "reason"), WORDS)
def test_words_and_reasons(words, reason):
    assert in_words(reason) == words
    assert reason_of(words) == reason


def test_several_reasons_are_one_text_and_none_is_empty():
    assert in_words(Reason("resumed"), None, Reason("other-load")) == (
        "the fit was interrupted and resumed; other load on the machine"
    )
    assert in_words(None) == ""


@pytest.mark.parametrize(
    ("kind", "values"),
    [("of no table", {}), ("resumed", {"n": 1}), ("seeds-together", {}), ("seeds-together", {"n": 1, "m": 2})],
)
def test_a_kind_has_its_own_values(kind, values):
    with pytest.raises(ValueError, match="reason"):
        Reason(kind, values)


def test_a_record_of_schema_1_is_converted_and_nothing_else_reads_it(tmp_path):
    """Words become data, numbers stay, and the record has the place that its name says."""
    new = record("mlp", metrics={"mnist/accuracy": 0.98})
    old = {
        **{name: getattr(new, name) for name in ("approach", "recipe", "protocol", "profile", "seed", "device")},
        **{name: getattr(new, name) for name in ("precision", "fit_key", "key", "metrics")},
        "schema": 1,
        "outcome": "done",
        "reason": "",
        "missing": {"mnist/draw_accuracy_std": "one draw: nothing varies", "letters": "python -m bench data fetch"},
        "epochs": [{"epoch": 1, "seconds": 1.5, "mnist/train60k/train_loss": 0.25}],
        "timings": {
            "fit_s": 0,
            "train_images_per_s": None,
            "valid": False,
            "reason": "trained together with 2 other seeds; other load on the machine",
        },
        "provenance": {"cpu": "made-up CPU"},
        "versions": {"recipe": {"published": 1}, "protocol": 2, "metrics": 1},
    }
    path = tmp_path / "one.json"
    path.write_text(json.dumps(seal(old)))
    with pytest.raises(StoreError, match=r"schema 1; this version reads 2: .*tools/convert_records.py"):
        read_record(path)
    assert convert(path, Record)
    assert not convert(path, Record)
    found = read_record(path)
    assert (found.metrics, found.epochs[0].metrics) == (old["metrics"], {"mnist/train60k/train_loss": 0.25})
    assert found.missing == {
        "mnist/draw_accuracy_std": Reason("one-draw"),
        "letters": told("no-data", "python -m bench data fetch"),
    }
    assert found.timings.reasons == [Reason("seeds-together", {"n": 2}), Reason("other-load")]
    assert (found.timings.fit_s, found.timings.valid, found.reason) == (0.0, False, None)
    assert found.versions is not None
    assert found.versions.recipe == {"published": 1}
