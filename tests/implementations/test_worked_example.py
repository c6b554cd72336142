"""The single-update example of feldman2018 against its printed digits."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implementations.worked_example import worked_example

PUBLISHED = Path(__file__).parents[2] / "results" / "reference" / "published.csv"


def printed_values() -> dict[str, tuple[float, float]]:
    """Return metric -> (printed value, size of its last printed digit)."""
    with PUBLISHED.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["id"].startswith("feldman2018.worked_example.")]
    return {row["metric"]: (float(row["value"]), float(row["precision"])) for row in rows}


def test_every_printed_number_is_met_to_its_last_digit() -> None:
    printed = printed_values()
    ours = worked_example()
    assert set(ours) == set(printed)
    assert len(printed) == 9
    for metric, (value, last_digit) in printed.items():
        # half a unit of the last digit, and the rounding of single precision (2^-24, a few operations)
        assert ours[metric] == pytest.approx(value, abs=last_digit / 2 + abs(value) * 2**-21), metric


def test_the_four_printed_digits_of_epsilon_are_not_enough() -> None:
    # d(rho grad)/d(epsilon) is about 100, so that rounding epsilon by 3.45e-5 moves it by more than 0.001
    assert abs(worked_example(1.9070)["rho_grad"] - printed_values()["rho_grad"][0]) > 0.001


@given(st.floats(-3, 3))
def test_gradients_are_the_closed_forms(epsilon: float) -> None:
    # w = mu + s e, s = log(1 + e^2) = 2.126928. L = -log s - e^2/2 + w^2/2 + (3 - 2 w)^2 / (2 * 0.25) + constants, so
    # dL/dw = w - 8 (3 - 2 w) = 17 w - 24 = dL/dmu, and dL/drho = (e dL/dw - 1/s) / (1 + e^-2);
    # the last factor is 0.880797.
    ours = worked_example(epsilon)
    w = 0.5 + 2.1269280 * epsilon
    assert ours["mu_grad"] == pytest.approx(17 * w - 24, abs=1e-4)
    assert ours["rho_grad"] == pytest.approx((epsilon * (17 * w - 24) - 1 / 2.1269280) * 0.8807971, abs=3e-4)
    assert ours["new_rho"] == pytest.approx(2 - 0.01 * ours["rho_grad"], abs=1e-5)
