"""The rules that refuse, with numbers computed by hand, and the example in the documentation."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.measure.metrics.draws import reduce_draws
from bench.show.predict import rules, show
from bench.show.predict.normalise import normalise
from tests.show.posteriors import TORN
from tools.make_predict_example import pictures

DOCS = Path(__file__).parents[2] / "docs"


def summary_of(*draws):
    return reduce_draws(torch.tensor(draws, dtype=torch.float64)[:, None].log())


def test_worked_rules():
    # Two draws are sure of 0 and three of 1, up to 1e-9: the medians are 0 and 1. The 10 % quantile lies between the
    # two lowest of five values, at rank 0.4 of 0..4, which are 0 for both digits.
    low = 1e-9
    torn = summary_of(*[(1 - low, low)] * 2, *[(low, 1 - low)] * 3)
    median, known = rules.rule_among_all("median", {})
    assert [rule.name for rule in known] == ["median", "strict"]
    assert median.judge(torn, 0) == (1, "")
    _, refused = rules.rule_among_all("strict", {})[0].judge(torn, 0)
    assert refused == "no digit's 10% quantile over the draws is above 0.5; the highest is 0.000, of the digit 0"
    # Entropy of (0.4, 0.6): 0.673 nats, all of it disagreement.
    for name, title in (("entropy", "predictive entropy"), ("mutual-information", "mutual information")):
        # 21 test digits have entropies 0, 0.05, ..., 1, half of it mutual information: 95 % of the digits have an
        # entropy of at most 0.95, and a mutual information of at most 0.475.
        steps = np.arange(21) / 20
        scores = {"mnist/predictive_entropy": steps, "mnist/expected_entropy": steps / 2}
        made = rules.rule_among_all(name, scores)[0]
        assert made.threshold == pytest.approx(0.95 if name == "entropy" else 0.475)
        assert made.judge(torn, 0) == (1, "" if name == "entropy" else f"{title} 0.673 nats is above 0.475")


def test_likely_digits_are_those_that_round_to_something():
    assert show.likely([0.004, 0, 0.996, *[0] * 7]) == "2: 1.00"
    assert show.likely(TORN) == "0: 0.19, 1: 0.19, 2: 0.19"


def test_the_pictures_of_the_example_are_still_read_so(tmp_path):
    images = [normalise(path) for path in pictures(tmp_path)]
    known = json.loads((DOCS / "predict.json").read_text())
    assert [(show.ink(image), *image.size) for image in images] == [
        (image["ink"], image["width"], image["height"]) for image in known
    ]
    assert [set(image.remarks) - set(other["remarks"]) for image, other in zip(images, known, strict=True)] == [
        set() for _ in known
    ]
