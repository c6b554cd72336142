"""The protocols of the source documents on posteriors with known predictions."""

import math

import torch

from bench.interface import Split
from bench.judge.claims import load_claims, measured_key
from bench.measure import measuring, protocols
from bench.plan.registry import manifest
from tests.close import close
from tests.measure.oracle import N_ROWS, Oracle, make


def test_chopra2018_redraws_networks_for_each_batch(rows, monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_SIZE", 20)
    oracle = Oracle()
    found = make("pyro_random_module", "published").final(oracle, [])
    asked = [draws for draws, _ in oracle.asked]
    assert asked[:3] == [range(10), range(10, 20), range(20, 30)]  # ten networks when forced
    assert [len(draws) for draws in asked[3:6]] == [100, 100, 100]
    assert len(set(asked[3:6])) == 3
    assert found.metrics["mnist/test10k/accuracy"] == 1
    assert found.metrics["mnist/test10k/refusal_rate"] == 0
    assert found.metrics["mnist/100 random images of test10k/fraction_correct"] == 1
    assert "notmnist459/all 459/refusal_rate" in found.missing


def test_chopra2018_feeds_letters_lying_on_their_side(rows, monkeypatch):
    fed = []

    class Looks(Oracle):
        def predict(self, x, draws, rows):
            fed.append(x.clone())
            return super().predict(x, draws, rows)

    image = torch.arange(784.0) / 784
    monkeypatch.setattr(
        protocols, "load_ood", lambda *_: Split("n", image.repeat(3, 1), torch.full((3,), -1), torch.arange(3))
    )
    make("pyro_random_module", "published").final(Looks(), [])
    lying, upright = fed[-2], fed[-1]
    assert torch.equal(upright[0], image)
    assert torch.equal(lying[0].reshape(28, 28), image.reshape(28, 28).T)


def test_feldman2018_loss_adds_the_density_ratio_over_the_batches(rows):
    found = make("linear_bbb", "published").epoch(Oracle(), 1)
    # One batch of 50 rows, each -ln 0.91, and the training split has 50 rows here: KL / (50 / 128).
    expected = -math.log(0.91) * N_ROWS + 46875.0 / (N_ROWS / 128)
    assert found["mnist/test10k/test_loss"] == close(expected)
    assert found["mnist/test10k/accuracy"] == 1


def test_rabanser2017_measures_the_mean_network(rows):
    oracle = Oracle()
    found = make("mxnet_bbb", "published").epoch(oracle, 1)
    assert oracle.asked == []  # no draw of the posterior itself
    assert found == {"mnist/train60k/accuracy": 1, "mnist/test10k/accuracy": 1}


def test_alsibahi2019_takes_one_draw_an_image(rows):
    oracle = Oracle()
    found = make("dropout_fcn", "published").final(oracle, [])
    assert oracle.asked[0] == (range(1), N_ROWS)
    assert found.metrics["mnist/heldout10k-of-train/accuracy"] == 1
    assert found.metrics["mnist/heldout10k-of-train/disagreement_rate"] == 0


def test_the_last_epoch_is_the_final_number(rows):
    epochs = [{"mnist/test10k/accuracy": 0.3}, {"mnist/test10k/accuracy": 0.5}]
    found = make("mlp", "published").final(Oracle().mean_network(), epochs)
    assert found.metrics["mnist/test10k/accuracy"] == 0.5


def test_every_final_claim_has_a_number_in_its_protocol(rows):
    """The published protocols use exactly the keys of the claims, and never take the fast path."""

    class NoFastPath(Oracle):
        def per_row(self):
            raise AssertionError

    for name in ("dropout_fcn", "pyro_random_module", "mlp", "linear_bbb", "mxnet_bbb"):
        protocol = make(name, "published")
        posterior = NoFastPath() if manifest(name).noise != "none" else Oracle().mean_network()
        found = protocol.final(posterior, [protocol.epoch(posterior, 1)])
        wanted = {
            key for stage, key in (measured_key(c) for c in load_claims() if c.approach == name) if stage == "final"
        }
        assert wanted <= set(found.metrics) | set(found.missing), name
