"""The single-update example of feldman2018 against its printed digits."""

import csv
import math
from pathlib import Path

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
        assert round(ours[metric] / last_digit) == round(value / last_digit), metric


def test_the_four_printed_digits_of_epsilon_are_not_enough() -> None:
    # d(rho grad)/d(epsilon) is about 100, so that rounding epsilon by 3.45e-5 moves it by more than 0.001
    assert abs(worked_example(1.9070)["rho_grad"] - printed_values()["rho_grad"][0]) > 0.001


@given(st.floats(-3, 3, width=32))
def test_gradients_are_the_closed_forms(epsilon: float) -> None:
    # w = mu + s e, s = log(1 + e^2) = 2.126928. L = -log s - e^2/2 + w^2/2 + (3 - 2 w)^2 / (2 * 0.25) + constants, so
    # dL/dw = w - 8 (3 - 2 w) = 17 w - 24 = dL/dmu, and dL/drho = (e dL/dw - 1/s) / (1 + e^-2);
    # the last factor is 0.880797.
    ours = worked_example(epsilon)
    s, slope = math.log1p(math.exp(2)), 1 / (1 + math.exp(-2))
    w = 0.5 + s * epsilon
    of_mu = 17 * w - 24
    of_rho = (epsilon * of_mu - 1 / s) * slope
    # Each bound adds up what the roundings of single precision, u of a result, leave in the result.
    u = 1.001 * 2.0**-24  # and the products of two roundings
    # 1 + e^2 has a rounding of each of its terms and of the sum, .88 u + u; its logarithm, with its own, 4.1 u = 2 u s
    of_w = 3 * u * s * abs(epsilon) + u * abs(w)
    # products with 2 and quotients by 1/4 are exact; 3 - 2 w is rounded, and so is the difference
    bound = 17 * of_w + 8 * u * abs(3 - 2 * w) + u * abs(of_mu)
    # tolerance: `bound`
    assert abs(ours["mu_grad"] - of_mu) <= bound
    top = abs(epsilon) * bound + u * abs(epsilon * of_mu) + 3 * u / s + u * abs(epsilon * of_mu - 1 / s)
    # tolerance: `top`, then 1 + e^-2 (a rounding of a term and of the sum) and the quotient
    assert abs(ours["rho_grad"] - of_rho) <= slope * top + 3 * u * abs(of_rho)
    step = 0.01 * ours["rho_grad"]
    # tolerance: roundings of the number 0.01, of the product and of the difference
    assert abs(ours["new_rho"] - (2 - step)) <= 2 * u * abs(step) + u * abs(2 - step)
