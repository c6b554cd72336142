"""Which diverged seeds a waiver excuses."""

import json

import pytest

from bench.cli import FAILED, INCOMPLETE
from bench.core.store import Store
from tests.gate_folders import folders, planned_records, write
from tests.judge.test_gate import TOY, TOY_CELL, TOY_SEEDS, WAIVER, change, judged, lose

pytestmark = pytest.mark.usefixtures("loaded_once")

DIVERGED = {"outcome": "diverged", "reason": "loss is nan"}
DIVERGING = WAIVER.replace("until", "diverged = [8]\nuntil")  # the ninth seed of the reference
TOY_DIVERGED = f"diverged seeds {TOY_CELL}"


def diverging_folders(
    tmp_path, until="2999-01-01", fresh_seeds="", reference_seed=8, waived=8, n_reference=9, **options
):
    """Return a gate file with a waiver of one seed, and folders in which a reference seed and fresh ones diverged."""
    more = DIVERGING.format(until).replace("[8]", f"[{waived}]")
    path, gate, reference, fresh = folders(tmp_path, more=more, **options)
    for made in planned_records(gate, gate.cell(TOY_CELL), range(7, n_reference)):
        write(reference, made)
    for store, seeds in ((reference, reference_seed), (fresh, fresh_seeds)):
        if seeds:
            change(store, f"toy_bbb/*seed{seeds}__*", **DIVERGED)
    return path


def test_a_seed_may_diverge_by_a_waiver(tmp_path, capsys):
    # 1 of 2 fresh seeds beside 1 of 9: of 11 seeds 2 diverged, both in the reference with C(9,2)/C(11,2) = 36/55, so
    # that p = 19/55 = .345, adjusted it is more
    code, bad, found = judged(tmp_path, diverging_folders(tmp_path, fresh_seeds="1001"), capsys)
    assert (code, bad) == (0, {TOY_DIVERGED: "waived"})
    (row,) = [row for row in found["metrics"] if row["metric"] == "toy/rmse"]
    assert (row["text"], row["k"], row["m"]) == ("1 of 2 fresh seeds diverged", 8, 1)
    (check,) = [check for check in found["checks"] if check["name"] == TOY_DIVERGED]
    assert check["text"].startswith("1 of 2 fresh seeds, 1 of 9 of the reference, adjusted p ")
    assert check["text"].endswith("(until 2999-01-01: a known hole)")
    # unchanged code lets both fresh seeds diverge in (1/9)^2 of the runs
    by_metrics = found["false_alarm_rate_by_metrics"]
    assert found["false_alarm_rate"] == pytest.approx(1 - (1 - by_metrics) * (1 - 1 / 81))


# 2 of 3 fresh seeds beside 1 of 50: of 53 seeds 3 diverged, of which the fresh ones have two or three with
# (C(3,2) 50 + 1) / C(53,3) = 151/23426 = .0064, times 6 p-values .039
TWO_OF_THREE = {"old": "seeds = 2", "new": "", "n_reference": 50, "fresh_seeds": "100[01]"}


@pytest.mark.parametrize(
    ("options", "code", "bad", "words"),
    [
        ({"reference_seed": None}, 0, {}, "not needed any more"),
        ({"fresh_seeds": "100*"}, FAILED, {TOY: "fail", TOY_DIVERGED: "fail", TOY_SEEDS: "missing"}, ""),
        (TWO_OF_THREE, FAILED, {TOY_DIVERGED: "fail"}, "adjusted p 0.039"),
        (
            {"fresh_seeds": "1001", "until": "2020-01-01"},
            INCOMPLETE,
            {TOY: "missing", TOY_DIVERGED: "missing"},
            "their waiver ended on 2020-01-01",
        ),
        ({"reference_seed": 3}, INCOMPLETE, {TOY: "missing"}, ""),
        ({"reference_seed": 3, "waived": 3, "n_reference": 8}, INCOMPLETE, {TOY: "missing"}, ""),
    ],
    ids=["not needed", "all fresh seeds", "more than the reference", "ended", "another seed", "leaves too few"],
)
def test_what_a_waiver_of_diverged_seeds_excuses(tmp_path, options, code, bad, words, capsys):
    *said, found = judged(tmp_path, diverging_folders(tmp_path, **options), capsys)
    assert said == [code, bad]
    assert words in json.dumps(found)


def test_a_waiver_of_diverged_seeds_excuses_no_absence(tmp_path, capsys):
    path = diverging_folders(tmp_path)
    lose(Store(tmp_path / "fresh"))
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})
