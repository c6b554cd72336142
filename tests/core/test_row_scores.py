"""The form of per-row scores: what the common protocol writes is accepted, anything else is named and left out."""

import numpy as np
import pytest

from bench.core.row_scores import check_scores
from bench.core.store import Store
from tests.core.stores import record

ROWS = 40


def of_set(name, digits=True):
    """Return the arrays of one data set, as the common protocol writes them."""
    found = {
        "label": np.full(ROWS, 3 if digits else -1, np.int8),
        "predicted": np.full(ROWS, 3, np.int8),
        "max_probability": np.ones(ROWS, np.float16),
        "predictive_entropy": np.full(ROWS, np.log(10), np.float16),
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
        ("clothes/draws", np.zeros((5, 4, 10), np.float16), "lacks label, max_probability"),
        ("mnist/weights", np.zeros(ROWS, np.float16), "an array 'mnist/weights', which no protocol writes"),
        ("label", np.zeros(ROWS, np.int8), "an array 'label'"),
    ],
)
def test_another_form_is_named_and_left_out_although_the_hash_fits(tmp_path, caplog, name, value, why):
    store = Store(tmp_path)
    made = store.write(record(), {**GOOD, name: value})
    (kept,) = store.all_records()[0]
    assert store.scores(kept) == {}
    assert why in caplog.text
    assert made.exists()
