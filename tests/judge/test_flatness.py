"""When an objective counts as flat, worked by hand; what is said of the fits after Blundell et al. 2015."""

import pytest

from bench.judge.flatness import flatness, terms_of
from bench.judge.stats.papers import load_papers, paper_claims, paper_verdicts
from bench.show.tables.blundell2015 import blundell_table
from bench.show.tables.blundell2015_answer import can_it_be_reproduced, in_one_line
from bench.show.tables.blundell2015_objective import objective
from tests.close import close
from tests.judge.claims import results
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
    assert terms_of(one_draw, 50_000) == (close([5_000] * 100), [900] * 100)
    assert terms_of(both, 50_000)[1] == [901] * 100
    for without in (epochs(train_nll=0.1), epochs(complexity=900.0)):
        assert terms_of(record("blundell_bbb", "published", epochs=without), 50_000) is None


def test_an_objective_that_does_not_move_at_all_is_not_called_flat():
    """Its standard error is 0, and no change is less: such numbers are no record of a fit with draws."""
    assert not flatness([1.0] * 100, [10.0] * 100).is_flat


# --- sentences about fits ---------------------------------------------------------------------------------------------


def fits(recipe, kls, change=0.0, n_fits=2):
    """Return fits of 201 epochs; these are the KLs of epochs 1, 101 and 201. The last 50 ELBOs are higher by `change`.

    The data term is 5,000 nats, and scatters so that ten-epoch blocks have the means of `STILL`.
    """
    kl = [kls[0]] * 100 + [kls[1]] * 100 + [kls[2]]
    kl[101:200] = [kls[2]] * 99
    scatter = [0.0] * 101 + [-part for part in (*STILL, *(change + one for one in STILL)) for _ in range(10)]
    epochs = [
        {
            "epoch": epoch,
            "mnist/train50k/train_nll": (5_000 + noise) / 50_000,
            "mnist/train50k/kl": one,
            "mnist/test10k/error": 0.03 if epoch > 101 else 0.5,
        }
        for epoch, (one, noise) in enumerate(zip(kl, scatter, strict=True), start=1)
    ]
    errors = {"mnist/test10k/error": 0.028, "mnist/test10k/error_of_draws": 0.029}
    return [record("blundell_bbb", recipe, seed=seed, metrics=errors, epochs=epochs) for seed in range(n_fits)]


def test_the_sentences_begin_with_the_objective_of_the_published_recipe():
    """50,000 log 10 = 115,129. The last data term is 5,000 - 100 - 40."""
    made = results(fits("published", (200_000.0, 180_000.0, 150_000.0), change=100.0))
    first, own = objective(made)
    assert first == (
        "As published, the objective has not converged: with 400 units the ELBO is flat at the end of 0 of 2 fits. "
        "After 201 epochs the KL is 150,000 nats and the data term 4,860 (a network that guesses has 115,129 nats in "
        "all); in the last 100 epochs the KL changed by -30,000 nats, in the 100 before by -20,000."
    )
    assert own.startswith("Fits with a learning rate of its own for rho have not run yet")
    assert can_it_be_reproduced(made)[:2] == [first, own]
    assert in_one_line(made).startswith("As published, the objective has not converged: with 400 units the ELBO is ")


def test_a_flat_objective_is_called_converged_and_one_flat_fit_of_two_is_not():
    flat = fits("published", (10_000.0,) * 3)
    (said, _) = objective(results(flat))
    assert said.startswith(
        "As published, the objective has converged: with 400 units the ELBO is flat at the end of 2 of 2 fits."
    )
    assert "guesses" not in said
    mixed = [flat[0], fits("published", (10_000.0,) * 3, change=100.0)[1]]
    assert (
        "has not converged in every fit: with 400 units the ELBO is flat at the end of 1 of 2 fits"
        in objective(results(mixed))[0]
    )


def test_fits_with_an_own_rate_for_rho_say_whether_they_are_flat_and_how_they_err():
    published = fits("published", (200_000.0, 180_000.0, 150_000.0))
    own = fits("published+gaussian-prior+own-rates", (10_000.0,) * 3)
    assert objective(results(published, own))[1] == (
        "With a learning rate of its own for rho: one Gaussian, flat in 2 of 2 fits, KL 10,000 and data term 4,960 "
        "nats, mistakes 2.80 % (means), 2.90 % (draws) and 3.00 % (last-100)."
    )


def test_the_table_says_the_rule_and_a_line_for_each_recipe():
    table = blundell_table(results(fits("published", (10_000.0,) * 3, change=15.0)))
    assert (
        "differ by less than 2 standard errors, made from blocks of 10 epochs, and by less than 0.5 % of"
        in table.caption
    )
    assert (
        "ELBO of the scale mixture, 400 units: flat in 2 of 2 fits; the last two blocks differ by 15 nats (standard "
        "error 10); at the end the data term is 4,945, the KL 10,000 (means of the fits)."
    ) in table.notes


def test_records_without_a_kl_or_with_few_epochs_say_nothing():
    short = [record("blundell_bbb", "published", epochs=epochs(train_nll=0.1, kl=5.0)[:99])]
    for made in (results(), results(short), results([record("blundell_bbb", "published", epochs=epochs(kl=5.0))])):
        assert objective(made) == []
        assert not [note for note in blundell_table(made).notes if note.startswith("ELBO")]


def test_the_mean_of_the_last_100_epochs_is_an_interpretation():
    claim = next(one for one in paper_claims(load_papers()) if one.paper.id == "blundell2015.t1.bbb_mixture.400")
    made = results(fits("published", (10_000.0,) * 3, n_fits=5))
    found = {one.interpretation: one.verdict.sample for one in paper_verdicts([claim], made)}
    assert found["last-100"].values == close((0.03,) * 5)
    assert found["means"].values == (0.028,) * 5
    few = [record("blundell_bbb", "published", epochs=epochs(kl=5.0)[:99], metrics={"mnist/test10k/error": 0.02})]
    assert not {one.interpretation: one.verdict.sample for one in paper_verdicts([claim], results(few))}["last-100"].n
