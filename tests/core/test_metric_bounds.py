"""What a record and its scores may hold: numbers within bounds, scores of known form, reasons as one safe line."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from bench.cli.main import main
from bench.core.canonical import plain, seal
from bench.core.errors import StoreError
from bench.core.metric_table import unit_of
from bench.core.reasons import LONGEST, Reason, in_words, message_reason
from bench.core.row_scores import KEPT, check_scores, kept
from bench.core.store import Store
from bench.core.text import one_line
from bench.judge.ablation.derived_metrics import folder
from tests.synthetic import read_record, record

RESULTS = Path(__file__).resolve().parents[2] / "results"
BINS = {"lower": [0, 0.5], "upper": [0.5, 1], "count": [3, 4], "confidence": [None, 0.7], "accuracy": [None, 0.5]}
TOY = {"x": [0, 1], "mean": [0, 1], "lower": [0, 1], "upper": [0, 1]}


def test_every_number_of_our_records_has_a_unit_and_lies_within_its_bounds():
    store = Store(RESULTS)
    records, problems = store.all_records()
    derived_metrics, others = folder(store).read_all()
    assert [problem.reason for problem in (*problems, *others)] == []
    kept = [*records, *derived_metrics]
    names = {key for one in kept for metrics in (one.metrics, *(e.metrics for e in one.epochs)) for key in metrics}
    assert [name for name in sorted(names) if unit_of(name) is None] == []


@pytest.mark.parametrize(
    ("key", "name", "high"),
    [
        ("mnist/accuracy", "fraction", 1),
        ("mnist/test10k/pruned_accuracy@0.75", "fraction", 1),
        ("mnist/mean_network/nll", "nats per row", 1e100),
        ("letters/predictive_entropy", "nats per row", math.log(10)),
        (
            "toy/nll",
            "in the unit of its document",
            1e100,
        ),  # of a density, which may be negative, unlike that of classes
    ],
)
def test_the_unit_of_a_key(key, name, high):
    unit = unit_of(key)
    assert unit.name == name
    assert unit.high == pytest.approx(high, abs=0.01)


FORGERIES = {
    "accuracy above 1": {"metrics": {"mnist/accuracy": 1.5}},
    "a negative share": {"metrics": {"letters/auroc_max_probability": -0.01}},
    "more entropy than ten classes have": {"metrics": {"letters/predictive_entropy": 2.4}},  # log 10 = 2.3026
    "a Brier score above 2": {"metrics": {"mnist/brier": 2.1}},
    "a negative NLL": {"metrics": {"mnist/nll": -0.1}},
    "a number whose square overflows": {"metrics": {"mnist/train60k/train_loss": 1e308}},
    "an accuracy above 1 of an epoch": {"epochs": [{"epoch": 1, "seconds": 1.0, "metrics": {"mnist/accuracy": 2}}]},
    "a negative time": {"timings": {"fit_s": -1.0}},
    "a negative epoch": {"epochs": [{"epoch": -1, "seconds": 1.0, "metrics": {}}]},
    "a negative seed": {"seed": -1},
    "no arrays": {"arrays": None},
    "arrays that are text": {"arrays": "none"},
    "a model that is a number": {"model": 3},
    "metrics that are text": {"metrics": {"mnist/accuracy": "high"}},
    "metrics that are a number": {"metrics": 5},
    "a number beyond all floats": {"metrics": {"mnist/accuracy": 10**400}},
    "half a character": {"outcome": "\ud800"},  # JSON can write half of a pair of surrogates; the hash over it fits
    "a number as a reason": {"missing": {"letters": 1}},
    "an unknown kind of reason": {"missing": {"letters": {"kind": "unknown"}}},
    "a reason without its values": {"missing": {"letters": {"kind": "seeds-together", "values": {}}}},
    "a reason with a value of another kind": {"missing": {"letters": {"kind": "resumed", "values": {"n": 1}}}},
    "words as a reason": {"reason": "no memory"},
    "an unknown field": {"timing": {}},
    "a seed that is text": {"seed": "0"},
    "a seed that is true": {"seed": True},
    "epochs by name": {"epochs": {}},
    "an epoch without its fields": {"epochs": [{"loss": 1.0}]},
    "a list of times": {"timings": {"fit_s": []}},
    "provenance without names": {"provenance": []},
    "no device": {"device": None},
    "bins of unequal number": {"arrays": {"mnist/reliability": {**BINS, "count": [3]}}},
    "no bins": {"arrays": {"mnist/reliability": {name: [] for name in BINS}}},
    "bins that end before 1": {"arrays": {"mnist/reliability": {**BINS, "upper": [0.5, 0.9]}}},
    "a confidence above 1": {"arrays": {"mnist/reliability": {**BINS, "confidence": [None, 1.7]}}},
    "half a row": {"arrays": {"mnist/reliability": {**BINS, "count": [3, 0.5]}}},
    "coverage above 1": {"arrays": {"mnist/risk_coverage": {"coverage": [0.5, 1.5], "risk": [0, 0]}}},
    "risk without coverage": {"arrays": {"mnist/risk_coverage": {"coverage": [0.5], "risk": []}}},
    "a curve without points": {"arrays": {"mnist/risk_coverage": {"coverage": [], "risk": []}}},
    "a curve with a missing end": {"arrays": {"toy/near": {**TOY, "upper": [0]}}},
    "votes without rows": {
        "arrays": {"mnist/heldout10k-of-train/first_uncertain": {"rows": [], "votes": [[1, 2]], "scanned": 5}}
    },
    "a row that no file has": {
        "arrays": {"mnist/heldout10k-of-train/first_uncertain": {"rows": [60_000], "votes": [[1]], "scanned": 5}}
    },
    "a percentage above 100": {"arrays": {"mnist/test10k/printed": {"accuracy_percent": 150, "skipped": 3}}},
}


@pytest.mark.parametrize("changes", FORGERIES.values(), ids=FORGERIES)
def test_a_sealed_record_with_an_impossible_field_is_not_read(tmp_path, changes):
    store = Store(tmp_path)
    path = store.write(record("mlp", protocol="common", metrics={"mnist/accuracy": 0.9}))
    path.write_bytes(seal({**json.loads(path.read_text()), **changes}))
    records, problems = store.all_records()
    assert records == []
    (problem,) = problems
    answer = f"{next(iter(changes))}|allowed are numbers|surrogate"
    assert re.search(f"does not have the fields of this version.*({answer})|out of range", problem.reason)
    assert "\n" not in problem.reason


def test_a_huge_seed_makes_no_huge_list(tmp_path, capsys):
    """Three seeds, the last of them 2**62: a table names the three without a list of all seeds between them."""
    for seed in (0, 1, 2**62):
        Store(tmp_path).write(record("mlp", seed=seed, metrics={"mnist/test10k/accuracy": 0.98}))
    assert main(["table", "accuracy", "--results", str(tmp_path), "--baseline", "none"]) == 0
    assert f", {2**62}" in capsys.readouterr().out


ROWS = 40


def of_set(name, digits=True):
    """Return the arrays of one data set, as the common protocol writes them."""
    found = {
        "label": np.full(ROWS, 3 if digits else -1, np.int8),
        "predicted": np.full(ROWS, 3, np.int8),
        "max_probability": np.ones(ROWS, np.float16),
        "log_others": np.full(ROWS, -np.inf, np.float32),
        "predictive_entropy": np.full(ROWS, np.log(10), np.float32),
        "expected_entropy": np.zeros(ROWS, np.float16),
        "votes": np.zeros((ROWS, 10), np.uint8),
        "draws": np.full((5, 4, 10), -np.inf, np.float16),
    }
    if digits:
        found |= {"nll": np.full(ROWS, np.inf, np.float32), "brier": np.full(ROWS, 2, np.float16)}
    return {f"{name}/{kind}": values for kind, values in found.items()}


GOOD = {**of_set("mnist"), **of_set("letters", digits=False)}


def test_what_the_common_protocol_writes_is_accepted():
    """At its bounds: probabilities of 1, an answer that was impossible, the entropy of ten equal probabilities."""
    check_scores(GOOD)
    check_scores({})


def test_older_scores_are_accepted_and_have_nothing_to_keep():
    older = {name: values for name, values in GOOD.items() if not name.endswith("log_others")}
    older |= {name: values.astype(np.float16) for name, values in older.items() if "predictive" in name}
    check_scores(older)
    assert kept(older) == kept({}) == {}


def test_what_is_kept_of_other_seeds_is_a_form_of_its_own():
    found = kept(GOOD)
    assert found.keys() == {f"{name}/{kind}" for name in ("mnist", "letters") for kind in KEPT}
    check_scores(found)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("mnist/votes", np.zeros(ROWS, np.uint8), "has shape [40]; allowed is [rows, classes]"),
        ("mnist/votes", np.zeros((ROWS, 11), np.uint8), "has 11 classes; allowed are 10 to 10"),
        ("mnist/label", np.zeros((2, 2), np.int8), "has shape [2, 2]"),
        ("mnist/label", np.array(3, np.int8), "has shape []"),
        ("mnist/label", np.full(ROWS, 10, np.int8), "not from -1 to 9"),
        ("mnist/label", np.zeros(ROWS, bool), "is of type bool; allowed are whole numbers"),
        ("mnist/predicted", np.zeros(3, np.int8), "of mnist have different numbers of rows"),
        ("mnist/predicted", np.full(ROWS, -1, np.int8), "not from 0 to 9"),
        ("mnist/brier", np.full(ROWS, np.nan, np.float16), "not from -0.01 to 2.01"),
        ("mnist/predictive_entropy", np.array(["x"] * ROWS), "allowed are float16 and float32"),
        ("mnist/predictive_entropy", np.zeros(ROWS, ">f2"), "is of type >f2"),
        ("mnist/predictive_entropy", np.zeros(ROWS), "is of type float64"),
        ("mnist/nll", np.zeros(ROWS, "M8[s]"), "is of type datetime64[s]"),
        ("mnist/nll", np.zeros(ROWS, np.complex64), "is of type complex64"),
        ("mnist/nll", np.zeros(0, np.float32), "has 0 rows; allowed are 1 to 60000"),
        ("letters/max_probability", np.full(ROWS, 1.5, np.float16), "not from 0 to 1.01"),
        ("mnist/draws", np.zeros((2, 3), np.float16), "has shape [2, 3]"),
        ("mnist/draws", np.zeros((5, 0, 10), np.float16), "has 0 kept rows"),
        ("mnist/draws", np.ones((5, 4, 10), np.float16), "not from -inf to 0.01"),
        ("mnist/draws", np.zeros((5, 41, 10), np.float16), "mnist/draws has more rows than mnist/label"),
        ("letters/draws", np.zeros((7, 3, 10), np.float16), "different numbers of draws, 7 and 5"),
        ("clothes/max_probability", np.zeros(ROWS, np.float16), "lacks label, predicted, predictive_entropy"),
        ("mnist/log_others", np.full(ROWS, -0.09, np.float32), "not from -inf to -0.09536"),
        ("mnist/log_others", np.full(ROWS, np.nan, np.float32), "not from -inf"),
        ("clothes/log_others", np.full(ROWS, -1, np.float32), "lacks label, predicted, predictive_entropy"),
        ("clothes/draws", np.zeros((5, 4, 10), np.float16), "lacks label, max_probability"),
        ("mnist/weights", np.zeros(ROWS, np.float16), "an array 'mnist/weights', which no protocol writes"),
        ("label", np.zeros(ROWS, np.int8), "an array 'label'"),
    ],
)
def test_another_form_is_named_and_left_out_although_the_hash_fits(tmp_path, caplog, name, value, why):
    store = Store(tmp_path)
    made = store.write(record("mlp", protocol="common", metrics={"mnist/accuracy": 0.98}), {**GOOD, name: value})
    (kept,) = store.all_records()[0]
    assert store.scores(kept) == {}
    assert why in caplog.text
    assert made.exists()


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
    ("its process was ended by SIGKILL", message_reason("crashed", "its process was ended by SIGKILL")),
]


@pytest.mark.parametrize(("words", "reason"), WORDS)
def test_words_and_reasons(words, reason):
    assert in_words(reason) == words


def test_a_kind_has_its_new_name_when_an_older_record_is_read():
    assert Reason("diverged-as-told", {"message": "loss is nan"}) == message_reason("diverged-by-itself", "loss is nan")


def test_several_reasons_are_one_text_and_none_is_empty():
    assert in_words(Reason("resumed"), None, Reason("other-load")) == (
        "the fit was interrupted and resumed; other load on the machine"
    )
    assert in_words(None) == ""


def test_a_record_of_another_schema_is_refused(tmp_path):
    path = tmp_path / "one.json"
    path.write_bytes(seal({**plain(record("mlp", metrics={"mnist/accuracy": 0.98})), "schema": 4}))
    with pytest.raises(StoreError, match=r"schema 4; this version reads 3: `python -m bench run` makes it again"):
        read_record(path)


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("no file a\udc80", r"no file a\udc80"),
        ("half of \ud83d", r"half of \ud83d"),
        ("\x00 \x1b[2J \x9b \u202e \u2028 \r\n", "\x00 \x1b[2J \x9b \u202e \u2028 \r\n"),
        ("\ud800" * 3 * LONGEST, (r"\ud800" * LONGEST)[:LONGEST] + "..."),
    ],
)
def test_a_record_keeps_the_message_of_any_error(tmp_path, message, stored):
    made = record("mlp", outcome="failed", reason=message_reason("crashed", message))
    path = Store(tmp_path).write(made)
    assert path.read_bytes().count(b"\n") == 1
    assert read_record(path).reason == Reason("crashed", {"message": stored})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain text", "plain text"),
        ("größer als 1 µs", "größer als 1 µs"),
        ("two\n lines\tand a tab ", "two lines and a tab"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("\u202eabc", r"\u202eabc"),  # it would write from right to left
        ("\udc80", r"\udc80"),  # a byte of a file's name that is not UTF-8
    ],
)
def test_any_text_becomes_one_line_that_is_safe_to_print(text, line):
    assert one_line(text) == line


def test_a_long_text_is_cut():
    assert one_line("a" * 10, longest=4) == "aaaa..."
