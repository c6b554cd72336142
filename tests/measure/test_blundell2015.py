"""The protocol of blundell2015: which networks predict and when, what is pruned, and which epochs are chosen."""

import math

import pytest
import torch

from bench.interface import Categorical, Marginal, Posterior, Split
from bench.measure.blundell2015 import Blundell2015
from bench.measure.metrics.epochs import HELD_OUT, TEST, chosen_epochs
from bench.plan.recipes import PROFILES
from bench.plan.registry import manifest
from tests.close import close

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
