"""Protocols, common and of the documents, on posteriors with known predictions: draws, and names of numbers."""

import math

import pytest
import torch

from bench.core.errors import ConfigError, ContractViolation, DataMissing
from bench.core.streams import generator
from bench.data.manifest import OOD_NAMES
from bench.interface import Categorical, Gaussian, Posterior, Split
from bench.judge.claims import load_claims, measured_key
from bench.measure import feldman2018, measuring, protocols
from bench.measure.measuring import block_rows, check_fit, predict_split, shuffled_batches
from bench.measure.protocols import protocol_of
from bench.plan.registry import manifest
from tests.close import DOUBLE, close
from tests.synthetic import N_ROWS, SMOKE, Oracle, make


@pytest.fixture
def rows(monkeypatch):
    """Replace every data set by fifty rows whose label is in the first pixel, and return these rows."""
    y = torch.arange(N_ROWS) % 10
    x = torch.zeros(N_ROWS, 784)
    x[:, 0] = y / 10

    def split(name, *_):
        return Split(name, x, y, torch.arange(N_ROWS))

    def outside(name, *_):
        if name == "notmnist459":
            raise DataMissing("not there; fetch it")
        return Split(name, x, torch.full((N_ROWS,), -1), torch.arange(N_ROWS))

    for module in (protocols, feldman2018):
        monkeypatch.setattr(module, "load_split", split)
    monkeypatch.setattr(protocols, "load_ood", outside)
    return split("test10k")


@pytest.fixture
def common(rows):
    return make("linear_bbb", "common").final(Oracle(), [])


def test_common_numbers_of_a_known_predictor(common):
    # one bin: confidence 0.91, accuracy 1; (1 - 0.91)^2 + 9 x 0.01^2 = 0.009. In and out of distribution are the same
    # rows: no score tells them apart
    wanted = {"accuracy": 1, "nll": -math.log(0.91), "ece": 0.09, "brier": 0.009, "mutual_information": 0}
    wanted |= {"draw_accuracy_std": 0, "refusal_rate": 0}
    found = {name: common.metrics[f"mnist/{name}"] for name in wanted}
    assert found == close(wanted)
    assert common.metrics["letters/auroc_predictive_entropy"] == 0.5
    assert common.missing["notmnist459"].values == {"message": "not there; fetch it"}
    assert common.timings["predict_draws"] == SMOKE.draws


def test_common_measures_every_pruning_level(common):
    levels = [(row["fraction"], row["network"]) for row in common.arrays["pruning"]["rows"]]
    assert [level for level, network in levels if network == "mean"] == [0, 0.1, 0.25, 0.5, 0.75, 0.95, 0.98, 0.99, 1]
    assert [level for level, network in levels if network == "30 draws"] == [0, 0.5, 0.75, 0.95]


def test_raw_draws_and_losses_of_each_row_are_kept(common):
    scores = common.scores
    assert scores["mnist/draws"].shape == (SMOKE.draws, protocols.KEPT_ROWS, 10)
    assert scores["letters/max_probability"].shape == (N_ROWS,)
    # tolerance: each loss is stored with a relative error of at most 2^-24 in float32 and 2^-11 in float16
    for name, stored in (("nll", 2.0**-24), ("brier", 2.0**-11)):
        kept = scores[f"mnist/{name}"].mean(dtype=float)
        assert kept == pytest.approx(common.metrics[f"mnist/{name}"], rel=stored + DOUBLE, abs=0), name
    assert "letters/nll" not in scores  # no label, no loss


def test_common_takes_the_fast_path_where_rows_count_alone(rows):
    """Those are out-of-distribution sets and pruning with draws. The spread over draws needs whole networks."""

    class Fast(Oracle):
        noise = "shared"

    class Whole(Oracle):
        fast = Fast()

        def per_row(self):
            return self.fast

    posterior = Whole()
    found = make("linear_bbb", "common").final(posterior, [])
    draws = range(SMOKE.draws)
    assert posterior.asked[0] == (draws, N_ROWS)
    assert all(n_rows == 1 for asked, n_rows in posterior.asked[1:])  # the latency; means are another network
    # four sets are there, and four pruning levels of test set and noise
    assert [asked for asked, _ in posterior.fast.asked[:4]] == [draws] * 4
    assert len(posterior.fast.asked) == 4 + 2 * 4
    assert found.metrics["mnist/draw_accuracy_std"] == 0
    assert found.arrays["noise"]["mnist"] == "weights"
    assert {found.arrays["noise"][name] for name in OOD_NAMES} == {"shared"}
    assert {row.get("noise") for row in found.arrays["pruning"]["rows"]} == {None, "shared"}


class OnDevice(Oracle):
    """Notes on which device the inputs are. It computes on the CPU, because "meta" tensors have no numbers."""

    def __init__(self):
        super().__init__()
        self.places = set()

    def predict(self, x, draws, rows):
        self.places.add((x.device.type, rows.device.type))
        return super().predict(torch.zeros(x.shape), draws, rows)

    def mean_network(self):
        self.n_draws = 1
        return self

    def masked(self, keep):
        assert {mask.device.type for mask in keep.values()} == {"cpu"}
        return self


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("linear_bbb", "common"),
        ("dropout_fcn", "published"),
        ("pyro_random_module", "published"),
        ("mlp", "published"),
        ("linear_bbb", "published"),
        ("mxnet_bbb", "published"),
    ],
)
def test_every_question_is_asked_on_the_device(rows, name, protocol):
    """Device "meta" takes the place of a GPU: an input that stays on the CPU is noticed."""
    posterior = OnDevice()
    chosen = protocol_of(manifest(name), protocol, 0, SMOKE, None, torch.device("meta"))
    chosen.epoch(posterior, 1)
    chosen.final(posterior, [])
    assert posterior.places == {("meta", "cpu")}


def test_a_deterministic_network_is_asked_for_one_draw(rows):
    network = Oracle().mean_network()
    make("mlp", "common").final(network, [])
    assert {draws for draws, _ in network.asked} == {range(1)}


def test_toys_report_the_band_near_and_far():
    class Band(Posterior):
        n_draws = None
        noise = "weights"

        def predict(self, x, draws, rows):
            # draw d predicts d for every x: the 2.5 and 97.5 percentiles of 0, 1, 2, 3 are 0.075 and 2.925
            mean = torch.tensor([float(draw) for draw in draws]).reshape(-1, 1, 1).expand(-1, len(x), 1)
            return Gaussian(mean, torch.full_like(mean, 0.01))

        def arrays(self):
            return {}

    found = make("toy_bbb", "common").final(Band(), [])
    assert found.metrics["toy/band_width_near"] == close(2.85)
    assert found.metrics["toy/band_width_far"] == close(2.85)


def test_an_approach_without_a_document_has_no_published_protocol():
    with pytest.raises(ConfigError, match="no document"):
        make("uniform", "published")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda n: None, "Wrong.predict returned NoneType; it must return Categorical"),
        (lambda n: Categorical(torch.zeros(1, n, 10)), "Wrong.predict returned 1 draws; it must return 3"),
        (lambda n: Categorical(torch.zeros(3, n, 9)), "Wrong.predict returned 9 classes; it must return 10"),
        (lambda n: Categorical(torch.zeros(n, 10)), "it must return \\[draws, rows, classes\\]"),
        (lambda n: Categorical(torch.zeros(3, n, 10, requires_grad=True)), "requires grad; predict under"),
    ],
)
def test_a_posterior_that_answers_something_else_is_named(rows, answer, words):
    class Wrong(Oracle):
        def predict(self, x, draws, rows):
            return answer(len(x))

    with pytest.raises(ContractViolation, match=words):
        predict_split(Wrong(), rows, range(3))


def test_a_fit_that_returns_nothing_is_told():
    with pytest.raises(ContractViolation, match=r"^Oracle.fit returned None; it must return a Posterior$"):
        check_fit(None, Oracle())


def test_blocks_bound_the_memory_and_do_not_change_the_numbers(rows, monkeypatch):
    import bench.measure.measuring

    whole = predict_split(Oracle(), rows, range(3))
    monkeypatch.setattr(bench.measure.measuring, "WEIGHT_NOISE_ROWS", 7)
    blocks = predict_split(Oracle(), rows, range(3))
    assert (whole.summary.mean_probs == blocks.summary.mean_probs).all()
    assert (whole.hits == blocks.hits).all()
    # 1,000 draws of 10 classes: at most 20 million log-probabilities at a time
    monkeypatch.setattr(bench.measure.measuring, "WEIGHT_NOISE_ROWS", 10_000)
    assert block_rows(Oracle(), 1_000) == 2_000


def test_shuffled_batches_hold_every_row_once(rows):
    batches = shuffled_batches(rows, 0)
    assert sorted(torch.cat([batch.rows for batch in batches]).tolist()) == list(range(N_ROWS))
    assert not torch.equal(batches[0].rows, torch.arange(N_ROWS))
    assert torch.equal(
        torch.cat([batch.rows for batch in batches]), torch.randperm(N_ROWS, generator=generator(0, "test-order"))
    )


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
