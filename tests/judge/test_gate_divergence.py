"""Seeds that diverge: which ones a waiver excuses."""

import json

import pytest

from bench.cli import FAILED, INCOMPLETE
from bench.core.store import Store
from tests.gate_folders import folders, planned_records, write
from tests.judge.test_gate import DIVERGED, DIVERGING, TOY, TOY_DIVERGED, TOY_SEEDS, change, judged, lose

pytestmark = pytest.mark.usefixtures("loaded_once")


def diverging_folders(tmp_path, until="2999-01-01", fresh_seeds="", reference_seed=8):
    """Return a gate file whose waiver names the reference's ninth seed, and folders in which seeds diverged."""
    path, gate, reference, fresh = folders(tmp_path, more=DIVERGING.format(until))
    made = planned_records(gate, gate.cell("toy_bbb/published/common"), range(9))
    write(reference, made[8])
    change(reference, f"toy_bbb/*seed{reference_seed}*", **DIVERGED)
    if fresh_seeds:
        change(fresh, f"toy_bbb/{fresh_seeds}", **DIVERGED)
    return path


def test_a_seed_may_diverge_by_a_waiver(tmp_path, capsys):
    # 1 of 2 fresh seeds beside 1 of 9: of 11 seeds 2 diverged, both in the reference with C(9,2)/C(11,2) = 36/55, so
    # that p = 19/55 = .345, adjusted it is more
    code, bad, found = judged(tmp_path, diverging_folders(tmp_path, fresh_seeds="*seed1001*"), capsys)
    assert (code, bad) == (0, {TOY_DIVERGED: "waived"})
    (row,) = [row for row in found["metrics"] if row["metric"] == "toy/rmse"]
    assert (row["text"], row["k"], row["m"]) == ("1 of 2 fresh seeds diverged", 8, 1)
    (check,) = [check for check in found["checks"] if check["name"] == TOY_DIVERGED]
    assert check["text"].startswith("1 of 2 fresh seeds, 1 of 9 of the reference, adjusted p ")
    assert check["text"].endswith("(until 2999-01-01: a known hole)")
    # unchanged code lets both fresh seeds diverge in (1/9)^2 of the runs
    by_metrics = found["false_alarm_rate_by_metrics"]
    assert found["false_alarm_rate"] == pytest.approx(1 - (1 - by_metrics) * (1 - 1 / 81))


def test_a_waiver_lets_not_all_fresh_seeds_diverge(tmp_path, capsys):
    code, bad, _ = judged(tmp_path, diverging_folders(tmp_path, fresh_seeds="*seed100*"), capsys)
    assert (code, bad) == (FAILED, {TOY: "fail", TOY_DIVERGED: "fail", TOY_SEEDS: "missing"})


def test_more_fresh_seeds_that_diverge_than_the_reference_fail(tmp_path, capsys):
    # 2 of 3 fresh seeds beside 1 of 50: of 53 seeds 3 diverged, of which the fresh ones have two or three with
    # (C(3,2) 50 + 1) / C(53,3) = 151/23426 = .0064, times 6 p-values .039
    options = {"old": "seeds = 2", "new": "", "more": DIVERGING.format("2999-01-01")}
    path, gate, reference, fresh = folders(tmp_path, **options)
    for made in planned_records(gate, gate.cell("toy_bbb/published/common"), range(8, 50)):
        write(reference, made)
    change(reference, "toy_bbb/*seed8__*", **DIVERGED)
    change(fresh, "toy_bbb/*seed1000*", **DIVERGED)
    change(fresh, "toy_bbb/*seed1001*", **DIVERGED)
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (FAILED, {TOY_DIVERGED: "fail"})
    assert any(check["text"].endswith("adjusted p 0.039") for check in found["checks"])


def test_a_waiver_of_diverged_seeds_that_has_ended(tmp_path, capsys):
    path = diverging_folders(tmp_path, until="2020-01-01", fresh_seeds="*seed1001*")
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (INCOMPLETE, {TOY: "missing", TOY_DIVERGED: "missing"})
    assert "their waiver ended on 2020-01-01" in json.dumps(found)


def test_a_waiver_of_diverged_seeds_excuses_no_other_seed_of_the_reference(tmp_path, capsys):
    path = diverging_folders(tmp_path, reference_seed=3)
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


def test_a_waiver_of_diverged_seeds_excuses_no_absence(tmp_path, capsys):
    path = diverging_folders(tmp_path)
    lose(Store(tmp_path / "fresh"))
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


def test_a_diverged_reference_seed_leaves_too_few(tmp_path, capsys):
    path, _, reference, _ = folders(tmp_path, more=DIVERGING.format("2999-01-01").replace("[8]", "[3]"))
    change(reference, "toy_bbb/*seed3*", **DIVERGED)
    assert judged(tmp_path, path, capsys)[:2] == (INCOMPLETE, {TOY: "missing"})


def test_a_waiver_of_diverged_seeds_that_is_not_needed_is_told(tmp_path, capsys):
    path, _, _, _ = folders(tmp_path, more=DIVERGING.format("2999-01-01"))
    code, bad, found = judged(tmp_path, path, capsys)
    assert (code, bad) == (0, {})
    assert any("not needed any more" in note for note in found["notes"])
