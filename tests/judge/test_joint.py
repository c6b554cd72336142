"""The joint p-value on real records, compared with an independent computation."""

import json
from pathlib import Path

import pytest

from bench.judge.samples import Samples
from bench.judge.stats.joint import DUPLICATES, joint_p
from bench.judge.stats.rule import on_scale
from tests.judge.claims import BY_ID

# What the five seeds of commit a76c72c measured of each end result, read from its records.
VALUES = json.loads((Path(__file__).parent / "end_results_a76c72c.json").read_text())


def joint_claims(document, without=tuple(DUPLICATES)):
    return [
        (BY_ID[name].approach, on_scale(BY_ID[name], Samples.of(tuple(values))))
        for name, values in VALUES.items()
        if BY_ID[name].source == document and name not in without
    ]


@pytest.mark.parametrize(
    ("document", "independent"),
    [
        ("alsibahi2019", 0.14),
        ("chopra2018", 0.55),
        ("feldman2018", 0.94),
        ("rabanser2017", 0.80),
        ("rabanser2017-first-run", 0.46),
    ],
)
def test_an_independent_computation_agrees(document, independent):
    # It shrank correlations by .3 and gave two digits. 20,000 simulations have a standard error of .0035 at most.
    assert joint_p(document, joint_claims(document), shrinkage=0.3) == pytest.approx(independent, abs=0.02)


def test_what_counts_as_a_duplicate_matters():
    """The joint p lies between .10 and .54, depending on which of these claims count."""
    prose = [name for name in DUPLICATES if ".prose." in name]
    found = []
    for left_out in ("correct", "incorrect", "undecided"):
        without = [*prose, f"chopra2018.random_module.first100_{left_out}"]
        found.append(joint_p("chopra2018", joint_claims("chopra2018", without), shrinkage=0.3))
    assert found == pytest.approx([0.14, 0.34, 0.10], abs=0.02)


def test_duplicates_are_claims():
    assert set(DUPLICATES) <= set(VALUES)
