"""Claims: the file's schema, the way from a claim to a measured number, print intervals, and reasons."""

from __future__ import annotations

import datetime
import math
import subprocess
import sys
from collections import Counter
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.core.csv_rows import columns
from bench.core.errors import ConfigError, StoreError
from bench.judge.claims import (
    PUBLISHED,
    Claim,
    in_claim_unit,
    load_claims,
    match,
    measure,
    measured_key,
    print_interval,
)
from bench.judge.samples import Gap, Sample
from bench.plan.registry import ORDER
from tests.synthetic import record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CLAIMS = load_claims()
COLUMNS = columns(Claim)[:-1]  # those that must be there
BY_ID = {claim.id: claim for claim in CLAIMS}
GOOD = {
    "id": "doc.mlp.accuracy",
    "source": "doc",
    "approach": "mlp",
    "stage": "final",
    "metric": "accuracy",
    "dataset": "mnist",
    "split": "test10k",
    "protocol": "one pass, argmax",
    "unit": "fraction",
    "value": "0.9714",
    "precision": "0.0001",
    "precision_kind": "rounded",
    "margin": "0.005",
    "margin_reason": "declared",
    "n_runs": "1",
    "locator": "log",
    "note": "",
}


def made(**changes: str) -> Claim:
    return msgspec.convert({**GOOD, **changes}, Claim, strict=False)


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
        ("id", " "),
        ("approach", ""),
        ("stage", "epoch:0"),
        ("stage", "end"),
        ("unit", "percent"),
        ("value", "97 %"),
        ("value", "nan"),
        ("value", "inf"),
        ("precision", "0"),
        ("precision", "-0.1"),
        ("precision", ""),
        ("precision_kind", "guessed"),
        ("n_runs", "0"),
        ("n_runs", "1.5"),
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
    with pytest.raises(ConfigError, match=r"row 3, column id: 'doc\.mlp\.accuracy' is there twice"):
        load_claims(write(tmp_path / "claims.csv", GOOD, GOOD))


def test_a_file_of_other_shape_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_claims(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match="the first row must name the columns id,source"):
        load_claims(write(tmp_path / "claims.csv", GOOD, header=COLUMNS[::-1]))
    with pytest.raises(ConfigError, match="row 2: 18 columns instead of 17"):
        load_claims(write(tmp_path / "claims.csv", {**GOOD, "extra": "x"}))
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_claims(tmp_path / "binary.csv")


def test_reading_claims_and_tables_imports_no_framework():
    code = "import sys, bench.judge.claims, bench.show.tables.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PUBLISHED.parents[2], check=False).returncode == 0


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


# matching


def test_every_claim_gets_a_row_in_its_order_with_a_number_or_a_reason():
    for records in ([], [record("mlp"), record("mxnet_bbb", outcome="failed", reason="no memory")]):
        rows = match(CLAIMS, records)
        assert [row.claim.id for row in rows] == list(BY_ID)
        for row in rows:
            assert row.sample.n or row.sample.gap.reason


def test_mean_and_spread_over_seeds():
    key = "mnist/test10k/accuracy"
    records = [record("mlp", seed=seed, metrics={key: value}) for seed, value in ((4, 0.97506), (0, 0.971))]
    (row,) = match([made()], records)
    assert row.sample.values == (0.971, 0.97506)  # in the order of the seeds
    # Mean (0.971 + 0.97506) / 2 = 0.97303; sd sqrt((0.00203^2 + 0.00203^2) / 1) = 0.0028709.
    assert row.sample.mean == pytest.approx(0.97303)
    assert row.sample.sd == pytest.approx(0.0028709, abs=1e-7)


def test_only_the_published_recipe_and_protocol_count():
    key = "mnist/test10k/accuracy"
    others = [
        record("mlp", "corrected", metrics={key: 0.5}),
        record("mlp", "published", "common", metrics={key: 0.5}),
        record("linear_bbb", metrics={key: 0.5}),
    ]
    (row,) = match([made()], others)
    assert row.sample == Sample(gap=Gap("not run", "no record of this cell; python -m bench run makes it"))


def test_a_number_of_an_epoch_comes_from_that_epoch():
    claim = made(stage="epoch:2", split="train60k")
    epochs = [{"epoch": epoch, "seconds": 1.0, "mnist/train60k/accuracy": epoch / 10} for epoch in (1, 2, 3)]
    assert measure(claim, [record("mlp", epochs=epochs)]).values == (0.2,)


@pytest.mark.parametrize(
    ("stage", "changes", "code", "reason"),
    [
        ("final", {"outcome": "diverged", "reason": "loss is nan in epoch 3"}, "diverged", "loss is nan in epoch 3"),
        ("final", {"outcome": "skipped", "reason": "needs mxnet"}, "skipped", "needs mxnet"),
        ("final", {"missing": {"mnist": "get it with data fetch"}}, "no data", "get it with data fetch"),
        ("final", {"missing": {"mnist/test10k/accuracy": "no labels"}}, "n/a", "no labels"),
        ("final", {}, "n/a", "the record has no 'mnist/test10k/accuracy'"),
        (
            "final",
            {"metrics": {"mnist/test10k/accuracy": None}},
            "not finite",
            "the measured 'mnist/test10k/accuracy' is not a finite number",
        ),
        (
            "final",
            {"profile": "epoch1", "metrics": {"mnist/test10k/accuracy": 0.9}},
            "fewer epochs",
            "profile epoch1 does not train to the end; profile full does",
        ),
        (
            "epoch:2",
            {"profile": "epoch1", "epochs": [{"epoch": 1}]},
            "fewer epochs",
            "profile epoch1 trained 1 epoch(s), this number is of epoch 2",
        ),
        (
            "epoch:1",
            {"profile": "smoke", "epochs": [{"epoch": 1, "mnist/test10k/accuracy": 0.1}]},
            "fewer epochs",
            "profile smoke cuts every epoch short; profiles epoch1 and full do not",
        ),
    ],
)
def test_reasons(stage, changes, code, reason):
    (row,) = match([made(stage=stage)], [record("mlp", **changes)])
    assert row.sample.gap == Gap(code, reason, is_fault=code in ("diverged", "not finite"))
    assert row.sample.gap.reason == reason


def test_epoch_one_of_a_short_profile_is_compared():
    epochs = [{"epoch": 1, "mnist/test10k/accuracy": 0.9}]
    assert measure(made(stage="epoch:1"), [record("mlp", profile="epoch1", epochs=epochs)]).values == (0.9,)


def test_a_failed_seed_among_good_ones_is_not_hidden():
    records = [
        record("mlp", seed=0, metrics={"mnist/test10k/accuracy": 0.9}),
        record("mlp", seed=1, outcome="diverged", reason="loss is nan"),
    ]
    (row,) = match([made()], records)
    assert row.sample == Sample(
        (0.9,), Gap("*", "1 of 2 seeds not counted (seed 1 diverged: loss is nan)", is_fault=True)
    )
    assert row.sample.sd is None


def test_one_seed_is_not_counted_twice():
    with pytest.raises(StoreError, match="two records of mlp published x published, seed 3; keep one of a and b"):
        match([made()], [record("mlp", seed=3, key="a"), record("mlp", seed=3, key="b")])


def test_the_worked_example_is_computed_and_prints_as_reported():
    rows = [row for row in match(CLAIMS, []) if row.claim.approach == "worked_example"]
    assert [row.sample.mean in print_interval(row.claim) for row in rows] == [True] * 9


def test_without_the_worked_example_its_claims_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "implementations.worked_example", None)
    sample = measure(BY_ID["feldman2018.worked_example.w"], [])
    assert sample.gap is not None
    assert sample.gap.reason.startswith("the closed form cannot be computed")
