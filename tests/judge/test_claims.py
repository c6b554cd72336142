"""Claims: the file's schema, the key of a claim, print intervals."""

from __future__ import annotations

import datetime
import math
import tomllib
from collections import Counter
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.core.errors import ConfigError
from bench.judge.claims import PUBLISHED, in_claim_unit, load_claims, measure, measured_key, print_interval
from bench.plan.registry import ORDER
from tests.judge.claims import BY_ID, CLAIMS, COLUMNS, GOOD, made
from tests.synthetic import record


def write(path: Path, *rows: dict[str, str], header: tuple[str, ...] = COLUMNS) -> Path:
    lines = [",".join(header), *(",".join(f'"{value}"' for value in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# the file


def test_published_csv_has_its_303_claims_with_known_names():
    assert len(CLAIMS) == len(BY_ID) == 303
    assert all(math.isfinite(claim.value) for claim in CLAIMS)
    assert {claim.approach for claim in CLAIMS} <= {*ORDER, "worked_example"}
    assert Counter(claim.source for claim in CLAIMS) == {
        "alsibahi2019": 162,
        "feldman2018": 80,
        "rabanser2017": 37,
        "chopra2018": 17,
        "rabanser2017-first-run": 7,
    }


def test_every_source_of_a_claim_is_described():
    sources = tomllib.loads((PUBLISHED.parent / "sources.toml").read_text(encoding="utf-8"))
    assert set(sources) == {claim.source for claim in CLAIMS}
    for source in sources.values():
        assert set(source) == {"title", "author", "link", "version", "date", "period_libraries", "licence"}
        assert source["link"].startswith("https://")
        assert isinstance(source["date"], datetime.date)
        assert all(text.strip() for name, text in source.items() if name != "date")


def test_a_good_row_is_read_as_it_stands(tmp_path):
    assert load_claims(write(tmp_path / "claims.csv", GOOD)) == [made()]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("stage", "epoch:0"),
        ("stage", "end"),
        ("unit", "percent"),
        ("value", "97 %"),
        ("value", "nan"),
        ("value", "inf"),
        ("precision", "0"),
        ("precision_kind", "guessed"),
    ],
)
def test_a_bad_value_is_one_line_naming_row_and_column(tmp_path, column, value):
    path = write(tmp_path / "claims.csv", GOOD, {**GOOD, "id": "second", column: value})
    with pytest.raises(ConfigError, match=f"row 3, column {column}: '{value}' is not allowed; give ") as caught:
        load_claims(path)
    assert "\n" not in str(caught.value)


def test_a_spread_may_follow_and_needs_runs(tmp_path):
    header = (*COLUMNS, "spread")
    (claim, other) = load_claims(
        write(
            tmp_path / "claims.csv",
            {**GOOD, "n_runs": "5", "spread": "0.001"},
            {**GOOD, "id": "second", "spread": ""},
            header=header,
        )
    )
    assert (claim.spread, claim.n_runs, other.spread) == (0.001, 5, None)
    for spread, runs, column in (("-1", "5", "spread"), ("few", "5", "spread"), ("0.001", "1", "n_runs")):
        path = write(tmp_path / "claims.csv", {**GOOD, "n_runs": runs, "spread": spread}, header=header)
        with pytest.raises(ConfigError, match=f"row 2, column {column}:"):
            load_claims(path)


def test_a_pruned_claim_needs_its_level_in_the_id(tmp_path):
    with pytest.raises(ConfigError, match=r"column id: 'a\.pruned120\.b' is not allowed"):
        load_claims(write(tmp_path / "claims.csv", {**GOOD, "id": "a.pruned120.b", "metric": "pruned_accuracy"}))


def test_ids_are_unique(tmp_path):
    with pytest.raises(ConfigError, match=r"row 3, column id: 'doc\.mlp\.accuracy' appears twice"):
        load_claims(write(tmp_path / "claims.csv", GOOD, GOOD))


def test_a_file_of_other_shape_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"absent\.csv cannot be read: No such file or directory$"):
        load_claims(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match="the first row must name the columns id,source"):
        load_claims(write(tmp_path / "claims.csv", GOOD, header=COLUMNS[::-1]))
    with pytest.raises(ConfigError, match="row 2: 18 columns instead of 17"):
        load_claims(write(tmp_path / "claims.csv", {**GOOD, "extra": "x"}))
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_claims(tmp_path / "binary.csv")


# from a claim to a number


@pytest.mark.parametrize(
    ("claim_id", "where"),
    [
        ("alsibahi2019.fcn.epoch07.train_loss", ("epoch:7", "mnist/train50k/train_loss_sum")),
        ("alsibahi2019.fcn.test_accuracy", ("final", "mnist/heldout10k-of-train/accuracy")),
        ("chopra2018.random_module.first100_correct", ("final", "mnist/100 random images of test10k/fraction_correct")),
        ("chopra2018.random_module.notmnist_refused", ("final", "notmnist459/all 459/refusal_rate")),
        ("feldman2018.bbb.noise_entropy", ("final", "noise_gaussian/1000 images/predictive_entropy")),
        ("feldman2018.toy_mlp.step00000.loss", ("epoch:1", "toy/6 points/train_loss")),
        # 25000 steps of 5000 are five finished intervals: step 25000 is the first of the sixth.
        ("feldman2018.toy_mlp.step25000.loss", ("epoch:6", "toy/6 points/train_loss")),
        # 1990 / 10 = 199 finished intervals.
        ("feldman2018.toy_bbb.step01990.loss", ("epoch:200", "toy/6 points/train_loss")),
        ("feldman2018.toy_mlp.prediction_at_100", ("final", "toy/x=100/prediction")),
        ("feldman2018.worked_example.mu_grad", ("closed form", "mu_grad")),
        ("rabanser2017.mxnet_bbb.pruned050.test_accuracy", ("final", "mnist/test10k/pruned_accuracy@0.5")),
        ("rabanser2017.mxnet_bbb.pruned100.test_accuracy", ("final", "mnist/test10k/pruned_accuracy@1")),
    ],
)
def test_measured_key(claim_id, where):
    assert measured_key(BY_ID[claim_id]) == where


def test_a_step_must_begin_an_epoch():
    with pytest.raises(ConfigError, match="step 7 is not the first of an epoch of toy_bbb"):
        measured_key(made(approach="toy_bbb", stage="step:7"))
    with pytest.raises(ConfigError, match="step 0 is not the first of an epoch of mlp"):
        measured_key(made(stage="step:0"))


def test_entropies_in_bits():
    # The entropy of a fair coin is ln 2 nats, and 1 bit.
    assert in_claim_unit(made(unit="bits"), math.log(2)) == 1.0
    assert in_claim_unit(made(unit="nats"), math.log(2)) == math.log(2)
    claim = BY_ID["feldman2018.bbb.noise_entropy"]
    stored = {"noise_gaussian/1000 images/predictive_entropy": 2 * math.log(2)}
    assert measure(claim, [record("linear_bbb", metrics=stored)]).values == pytest.approx((2.0,), rel=1e-15)


# printed digits


@pytest.mark.parametrize(
    ("changes", "inside", "outside"),
    [
        # Rounded to 4 decimals: half a unit is 0.00005 to both sides.
        ({"value": "0.9714"}, (0.97135, 0.9714, 0.97145), (0.971349, 0.971451)),
        # Truncated by %d to whole percents: 0.89 to below 0.90, which itself would print 90.
        (
            {"value": "0.89", "precision": "0.01", "precision_kind": "truncated"},
            (0.89, 0.895, 0.89999),
            (0.8899999, 0.9),
        ),
        # 363 of 459 = 0.79084967, stored as 0.790850; 362 and 364 of 459 are 0.0022 away.
        (
            {"value": "0.790850", "precision": "0.002178649237472767", "precision_kind": "count"},
            (363 / 459,),
            (362 / 459, 364 / 459, 363.1 / 459),
        ),
        # 10 to 15 %: 0.125 +- 0.025.
        ({"value": "0.125", "precision": "0.025", "precision_kind": "range"}, (0.1, 0.125, 0.15), (0.0999, 0.1501)),
        # float32 resolves 2626 to 2626 * 2^-23 = 0.0003.
        (
            {"value": "2626.47417991", "precision": "0", "precision_kind": "exact"},
            (2626.4742, 2626.47417991),
            (2626.475, 2626.473),
        ),
        # A negative number is rounded to both sides too.
        ({"value": "-13", "precision": "1"}, (-13.5, -12.5), (-13.6, -12.4)),
    ],
)
def test_print_intervals(changes, inside, outside):
    interval = print_interval(made(**changes))
    assert all(value in interval for value in inside)
    assert not any(value in interval for value in outside)


@given(st.floats(-1e4, 1e4), st.integers(0, 6))
def test_a_number_lies_in_the_interval_of_its_own_printing(value, decimals):
    unit = Decimal(1).scaleb(-decimals)
    printed = Decimal(repr(value)).quantize(unit, ROUND_HALF_EVEN)
    assert value in print_interval(made(value=str(printed), precision=str(unit)))
    cut = Decimal(repr(abs(value))).quantize(unit, ROUND_DOWN)
    claim = made(value=str(cut), precision=str(unit), precision_kind="truncated")
    assert abs(value) in print_interval(claim)
