"""When an objective counts as flat: blocks of 50 epochs, standard errors of ten-epoch blocks, worked by hand."""

import pytest

from bench.judge.flatness import flatness, flatness_of
from tests.close import close
from tests.synthetic import record


def fit(parts, kl=10_000.0, before=()):
    """Return data terms and KLs of a fit whose ten-epoch blocks have these mean ELBOs, less -20,000."""
    elbo = [-20_000.0 + part for part in parts for _ in range(10)]
    return [*before, *(-one - kl for one in elbo)], [kl] * (len(elbo) + len(before))


STILL = [0, 10, 20, 30, 40]  # mean 20, variance 1000 / 4 = 250


def test_the_change_and_its_standard_error():
    """(250 + 250) / 2 = 250; sqrt(250 x 2 / 5) = 10. The means differ by 15: less than 20 and than 50."""
    found = flatness(*fit([*STILL, *(15 + one for one in STILL)]))
    assert (found.change, found.error) == close((15, 10))
    assert (found.data, found.kl) == close((20_000 - 10_000 - 55, 10_000))
    assert found.is_flat


@pytest.mark.parametrize(("change", "flat"), [(19.9, True), (20.1, False), (-19.9, True), (-20.1, False)])
def test_less_than_two_standard_errors(change, flat):
    assert flatness(*fit([*STILL, *(change + one for one in STILL)])).is_flat is flat


@pytest.mark.parametrize(("kl", "flat"), [(3_100.0, True), (2_900.0, False)])
def test_less_than_half_a_percent_of_the_kl(kl, flat):
    """A change of 15 nats is .5 % of 3,000."""
    assert flatness(*fit([*STILL, *(15 + one for one in STILL)], kl)).is_flat is flat


def test_a_straight_slope_is_not_flat_however_small_it_is():
    """1 nat an epoch: the blocks' means differ by 50; ten-epoch means rise by 10, variance 250, standard error 10."""
    for slope in (1.0, 1e-3):
        found = flatness([-slope * epoch for epoch in range(100)], [1e6] * 100)
        # tolerance: sums of 100 terms of 1e6, each rounded to 1.2e-10, are off by 2e-8 at most, relative to .05
        assert (found.change, found.error) == pytest.approx((50 * slope, 10 * slope), rel=1e-6)
        assert not found.is_flat


def test_earlier_epochs_do_not_count_and_fewer_than_a_hundred_tell_nothing():
    parts = [*STILL, *STILL]
    data, kl = fit(parts, before=[1e9] * 7)
    assert flatness(data, kl) == flatness(*fit(parts))
    assert flatness(data[-100:], kl[-100:]) == flatness(data, kl)
    assert flatness(data[-99:], kl[-99:]) is None


def epochs(**metrics):
    return [
        {"epoch": epoch, **{f"mnist/train50k/{name}": value for name, value in metrics.items()}}
        for epoch in range(1, 101)
    ]


def test_a_record_has_its_data_term_a_row_and_the_kl_of_one_draw_unless_it_has_a_better_one():
    one_draw = record("blundell_bbb", "published", epochs=epochs(train_nll=0.1, complexity=900.0))
    both = record("blundell_bbb", "published", epochs=epochs(train_nll=0.1, complexity=900.0, kl=901.0))
    assert flatness_of(one_draw, 50_000).data == close(5_000)
    assert flatness_of(one_draw, 50_000).kl == 900
    assert flatness_of(both, 50_000).kl == 901
    for without in (epochs(train_nll=0.1), epochs(complexity=900.0), []):
        assert flatness_of(record("blundell_bbb", "published", epochs=without), 50_000) is None


def test_an_objective_that_does_not_move_at_all_is_not_called_flat():
    """Its standard error is 0, and no change is less: such numbers are no record of a fit with draws."""
    assert not flatness([1.0] * 100, [10.0] * 100).is_flat
