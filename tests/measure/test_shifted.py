"""Protocol shift on turned and moved digits; protocol of blundell2015: who predicts, what is pruned, which epochs."""

import math

import numpy as np
import pytest
import torch

from bench.interface import Categorical, Marginal, Posterior, Split
from bench.measure import protocols
from bench.measure.blundell2015 import Blundell2015
from bench.measure.metrics.epochs import HELD_OUT, TEST, chosen_epochs
from bench.measure.metrics.shifts import MEASURED, MOST_ROWS, STEPS, area, area_key, step_key
from bench.measure.protocols import protocol_of
from bench.measure.shifted import rotated, spread_rows, translated
from bench.plan.recipes import PROFILES
from bench.plan.registry import manifest
from tests.close import DOUBLE, close

IMAGES = np.random.default_rng(0).random((6, 28, 28), dtype=np.float32)


@pytest.mark.parametrize("quarters", range(5))
def test_right_angles_move_pixels_to_the_bit(quarters):
    """All turns by right angles are those of `np.rot90`, without any rounding."""
    np.testing.assert_array_equal(rotated(IMAGES, 90 * quarters), np.rot90(IMAGES, quarters, axes=(1, 2)))


def test_a_turned_pixel_is_interpolated_between_four():
    """The pixel in row 8, column 19 lies 5.5 to the right of the centre (13.5, 13.5), and 5.5 above it.

    A turn by 45 degrees to the left moves it there from 5.5 sqrt 2 = 7.778 to the right: row 13.5, column 21.278. Of
    the four pixels around that place only (13, 22) is lit; its weight is .5 x .278.
    """
    image = np.zeros((1, 28, 28), dtype=np.float32)
    image[0, 13, 22] = 1
    weight = 0.5 * (13.5 + 5.5 * math.sqrt(2) - 21)
    # tolerance: the place and the weight have some tens of roundings in float64. The pixel is stored in float32, with a
    # relative error of at most 2^-24
    assert float(rotated(image, 45)[0, 8, 19]) == pytest.approx(weight, rel=2.0**-24 + DOUBLE, abs=0)


def test_the_four_directions_take_turns_and_background_comes_in():
    """By 2 pixels: right, down, left, up, right, down."""
    found, none = translated(IMAGES, 2), np.zeros((28, 28), dtype=np.float32)
    wanted = [none.copy() for _ in IMAGES]
    for place in (0, 4):
        wanted[place][:, 2:] = IMAGES[place][:, :-2]
    for place in (1, 5):
        wanted[place][2:] = IMAGES[place][:-2]
    wanted[2][:, :-2] = IMAGES[2][:, 2:]
    wanted[3][:-2] = IMAGES[3][2:]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(translated(IMAGES, 0), IMAGES)


def split(n):
    images = torch.zeros(n, 784)
    images[:, 0] = 1  # the upper left corner
    return Split("test10k", images, torch.arange(n) % 10, torch.arange(n))


@pytest.mark.parametrize(("n", "first"), [(10_000, [0, 10, 20]), (2_000, [0, 2, 4]), (128, [0, 1, 2])])
def test_rows_are_spread_over_the_whole_split(n, first):
    found = spread_rows(split(n), MOST_ROWS).rows.tolist()
    assert found[:3] == first
    assert len(found) == min(n, MOST_ROWS)


def test_an_area_is_the_mean_height_of_the_curve():
    """From 0 to 2 the height goes from 1 to 3, mean 2; from 2 to 3 it stays 3: (2 x 2 + 3) / 3."""
    assert area((0, 2, 3), (1.0, 3.0, 3.0)) == 7 / 3


class SureOfTheCorner(Posterior):
    """Gives the label .991 where the upper left pixel is lit, and every digit .1 where it is not."""

    n_draws, noise = 1, "none"

    def predict(self, x, draws, rows):
        sure = torch.full((len(x), 10), math.log(0.001), dtype=torch.float64)
        sure[torch.arange(len(x)), rows % 10] = math.log(0.991)
        lit = (x[:, :1] > 0.5).expand(-1, 10)
        return Categorical(torch.where(lit, sure, torch.full_like(sure, math.log(0.1)))[None])

    def arrays(self):
        return {}


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(protocols, "load_split", lambda name, *_: split(120))
    return protocol_of(manifest("mlp"), "shift", 0, PROFILES["smoke"], None).final(SureOfTheCorner(), [])


def test_every_step_of_a_known_predictor(found):
    """The first turn or move already takes the lit corner away from its place.

    Before it, all answers are right and sure: NLL -ln .991, ECE 1 - .991. After it, all answers are 0, which is right
    for a tenth of the rows, and none is sure: NLL ln 10, ECE |.1 - .1|.
    """
    known = found.metrics
    for kind, steps in STEPS.items():
        assert [known[step_key(kind, 0, name)] for name in MEASURED] == close([1, -math.log(0.991), 0.009, 1])
        for step in steps[1:]:
            values = [known[step_key(kind, step, name)] for name in MEASURED]
            assert values == close([0.1, math.log(10), 0, 0])
    # 12 turns, in the first of which the curve falls from 1 to .1: (.55 + 11 x .1) / 12; 7 moves
    assert known[area_key("rotated", "accuracy")] == close((0.55 + 11 * 0.1) / 12)
    assert known[area_key("translated", "sure@0.99")] == close(0.5 / 7)
    assert found.missing == {}


def test_an_impossible_label_leaves_nll_and_its_area_out(monkeypatch):
    monkeypatch.setattr(protocols, "load_split", lambda name, *_: split(120))

    class Certain(SureOfTheCorner):
        def predict(self, x, draws, rows):
            log_probs = torch.full((1, len(x), 10), -math.inf)
            log_probs[..., 0] = 0
            return Categorical(log_probs)

    found = protocol_of(manifest("mlp"), "shift", 0, PROFILES["smoke"], None).final(Certain(), [])
    assert found.missing[step_key("rotated", 15, "nll")].kind == "label-impossible"
    assert found.missing[area_key("rotated", "nll")].kind == "label-impossible"
    assert area_key("rotated", "nll") not in found.metrics
    assert found.metrics[area_key("rotated", "accuracy")] == close(0.1)


PRUNED_KINDS = ("pruned_error", "pruned_error_of_draws", "noisy_pruned_error_of_draws")


class Asked(Posterior):
    """Notes which of its networks predicts with which draws. Every prediction is class 0."""

    noise = "weights"

    def __init__(self, notes=None, name="drawn", n_draws=None):
        self.notes, self.name, self.n_draws = [] if notes is None else notes, name, n_draws

    def predict(self, x, draws, rows):
        self.notes.append((self.name, draws))
        return Categorical(torch.eye(10)[0].log().expand(len(draws), len(x), 10).clone())

    def arrays(self):
        return {}

    def weights(self):
        # |mu| / sigma is .01, .02, ... 1
        return {"w": Marginal(torch.arange(1, 101) / 100, torch.ones(100), torch.ones(100, dtype=torch.bool))}

    def mean_network(self):
        return Asked(self.notes, f"mean of {self.name}", n_draws=1)

    def masked(self, keep):
        return Asked(self.notes, f"without {int((~keep['w']).sum())} %")

    def masked_with_noise(self, keep, std):
        assert std == close(math.log(2))  # softplus(0)
        return Asked(self.notes, f"without the means of {int((~keep['w']).sum())} %")


@pytest.fixture
def protocol(monkeypatch):
    """Two held-out images, of which class 0 is right for both, and four test images: right for three."""
    made = Blundell2015(manifest("blundell_bbb"), 0, PROFILES["full"], None, torch.device("cpu"))
    labels = {HELD_OUT: [0, 0], TEST: [0, 0, 0, 7]}
    splits = {
        name: Split(name, torch.zeros(len(own), 4), torch.tensor(own), torch.arange(len(own)))
        for name, own in labels.items()
    }
    monkeypatch.setattr(made, "_splits", splits)
    return made


def test_every_fifty_epochs_ten_draws_predict_that_belong_to_no_other_epoch(protocol):
    with_draws = [epoch for epoch in range(1, 151) if len(protocol.epoch(Asked(), epoch)) > 2]
    assert with_draws == [50, 100, 150]
    network = Asked()
    assert protocol.epoch(network, 49) == {f"mnist/{HELD_OUT}/error": 0.0, f"mnist/{TEST}/error": 0.25}
    assert network.notes == [("mean of drawn", range(1))] * 2
    network.notes.clear()
    assert protocol.epoch(network, 100)[f"mnist/{TEST}/error_of_10_draws"] == 0.25
    # 100 draws belong to each epoch: those of epoch 100 begin at 10,000
    assert network.notes == [("mean of drawn", range(1))] * 2 + [("drawn", range(10_000, 10_010))] * 2


def test_a_deterministic_network_has_no_draws(protocol):
    network = Asked(n_draws=1)
    assert set(protocol.epoch(network, 50)) == set(protocol.final(network, []).metrics)
    assert {draws for _, draws in network.notes} == {range(1)}


def test_at_the_end_a_hundred_draws_predict_and_ten_after_each_pruning(protocol):
    network = Asked()
    found = protocol.final(network, []).metrics
    shares = ("0.5", "0.75", "0.95", "0.98")
    pruned = {f"mnist/{TEST}/{kind}@{share}" for share in shares for kind in PRUNED_KINDS}
    assert pruned < set(found)
    assert set(found.values()) == {0.0, 0.25}
    assert network.notes == [
        *[("mean of drawn", range(1))] * 2,
        *[("drawn", range(100))] * 2,
        *(
            asked
            for percent in (50, 75, 95, 98)
            for asked in (
                (f"mean of without {percent} %", range(1)),
                (f"without {percent} %", range(10)),
                (f"without the means of {percent} %", range(10)),
            )
        ),
    ]


def epochs(*pairs):
    return [{f"mnist/{HELD_OUT}/error": held_out, f"mnist/{TEST}/error": test} for held_out, test in pairs]


def test_one_epoch_is_chosen_by_the_held_out_error_and_one_by_the_test_error():
    found = chosen_epochs(epochs((0.03, 0.025), (0.02, 0.021), (0.02, 0.018), (0.025, 0.017)))
    assert found[f"mnist/{TEST}/error_at_chosen_epoch"] == 0.021
    assert found[f"mnist/{TEST}/error_at_best_test_epoch"] == 0.017


def test_without_epochs_nothing_is_chosen():
    assert chosen_epochs([]) == {}
    assert chosen_epochs([{"mnist/train50k/train_nll": 0.1}]) == {}
