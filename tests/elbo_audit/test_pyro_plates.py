"""Observed sites of Pyro: plates that subsample, masks, and rows that broadcast."""

import pytest
import torch

import elbo_audit
from elbo_audit.errors import AuditError

pyro = pytest.importorskip("pyro")
from pyro import distributions, poutine  # noqa: E402 - after the check that Pyro is there
from pyro.infer import Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO  # noqa: E402 - likewise
from pyro.infer.autoguide import AutoNormal  # noqa: E402 - likewise

N_TRAIN, BATCH = 600, 60
SOURCE = torch.Generator().manual_seed(9)
X, Y = torch.randn(N_TRAIN, 4, generator=SOURCE), torch.randn(N_TRAIN, generator=SOURCE)
BATCHES = list(zip(X.split(BATCH)[:3], Y.split(BATCH)[:3], strict=True))
# tolerance: the audit's own, of the KL's weight
NEAR = 0.05
# tolerance: losses near 1,000 in float32 (6e-8), whose differences over batches are near 10: 1e-5 of the slope
SLOPE = 1e-4
KEEP = torch.arange(BATCH) % 3 > 0


@pytest.fixture(autouse=True)
def _own_store():
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def weights(prior=1.0):
    return pyro.sample("w", distributions.Normal(torch.zeros(4), prior).to_event(1))


def rows(x):
    return pyro.plate("data", N_TRAIN, subsample=torch.arange(len(x)))


def audit(model, batches=BATCHES, loss=None, n_train=N_TRAIN):
    loss = loss or TraceMeanField_ELBO()
    return elbo_audit.audit_pyro(model, AutoNormal(model), batches, n_train, loss=loss)


def in_a_plate(x, y):
    w = weights()
    with rows(x):
        pyro.sample("y", distributions.Normal((x @ w)[:, None], 1.0).to_event(1), obs=y)


def without_a_plate(x, y):
    w = weights()
    with poutine.scale(scale=N_TRAIN / BATCH):
        pyro.sample("y", distributions.Normal((x @ w)[:, None], 1.0).to_event(2), obs=y)


def of_two_sites(x, y):
    w = weights()
    with rows(x):
        pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)
        label = (y > 0).float()
        pyro.sample("label", distributions.Bernoulli(logits=(x @ w)[:, None]).mask(True).to_event(1), obs=label)


def each_output_for_one_number(x, y):
    w = weights()
    with rows(x):
        pyro.sample("y", distributions.Normal(x * w, 1.0).to_event(1), obs=y[:, None])


@pytest.mark.parametrize(
    ("model", "n_terms"),  # 60 x 60, and 60 x 4
    [(in_a_plate, "3,600"), (without_a_plate, "3,600"), (of_two_sites, "3,600"), (each_output_for_one_number, "240")],
)
def test_rows_that_broadcast_fail(model, n_terms):
    report = audit(model)
    assert report.of("wrong-likelihood").outcome == "fails"
    assert f"{n_terms} terms for 60 numbers" in report.of("wrong-likelihood").detail
    assert report.of("kl-scale").outcome == "not measured"


def several_outputs(x, y):
    w = weights()
    with rows(x):
        pyro.sample("y", distributions.Normal((x @ w)[:, None], 1.0).expand([len(x), 2]).to_event(1), obs=x[:, :2])


def dependent_outputs(x, y):
    w = weights()
    with rows(x):
        mean = torch.stack([x @ w, x[:, 0]], 1)
        pyro.sample("y", distributions.MultivariateNormal(mean, torch.eye(2)), obs=x[:, :2])


def one_hot(x, y):
    w = weights()
    with rows(x):
        label = torch.eye(2)[(y > 0).long()]
        pyro.sample("y", distributions.OneHotCategorical(logits=torch.stack([x @ w, -x @ w], 1)), obs=label)


def one_number_for_all_rows(x, y):
    w = weights()
    with rows(x):
        pyro.sample("residual", distributions.Normal(x @ w - y, 1.0), obs=torch.tensor(0.0))


@pytest.mark.parametrize("model", [several_outputs, dependent_outputs, one_hot, one_number_for_all_rows])
def test_rows_of_several_numbers_are_no_broadcast(model):
    assert audit(model).ok


def masked(x, y):
    w = weights()
    with poutine.mask(mask=KEEP), rows(x):
        pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)


def masked_distribution(x, y):
    w = weights()
    with rows(x):
        pyro.sample("y", distributions.Normal(x @ w, 1.0).mask(KEEP), obs=y)


def one_site_without_weight(x, y):
    w = weights()
    with rows(x):
        pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)
        with poutine.mask(mask=False):
            pyro.sample("other", distributions.Normal(x @ w, 0.1), obs=y + 5.0)


@pytest.mark.parametrize("model", [masked, masked_distribution, one_site_without_weight])
def test_a_mask_is_part_of_the_likelihood(model):
    report = audit(model)
    assert report.ok, str(report)
    assert report.numbers["data_weight"] == pytest.approx(N_TRAIN / BATCH, rel=SLOPE)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=NEAR)


def subsampling(scale=1.0, size=N_TRAIN, prior=1.0):
    def model(x, y):
        w = weights(prior)
        with poutine.scale(scale=scale), pyro.plate("data", size, subsample_size=BATCH) as i:
            pyro.sample("y", distributions.Normal(x[i] @ w, 1.0), obs=y[i])

    return model


@pytest.mark.parametrize(
    ("batches", "loss"),
    [
        ([(X, Y)] * 3, TraceMeanField_ELBO),
        ([(X, Y)], TraceMeanField_ELBO),
        ([(X, Y), (X + 1, Y), (X, Y - 1)], TraceMeanField_ELBO),
        ([(X, Y)] * 3, Trace_ELBO),
    ],
)
def test_a_model_that_subsamples_the_data_set_is_an_elbo(batches, loss):
    # A step is (N / B) NLL of its B rows + KL.
    report = audit(subsampling(), batches, loss())
    assert report.ok, str(report)
    assert report.numbers["data_weight"] == pytest.approx(N_TRAIN / BATCH, rel=SLOPE)
    error = report.of("kl-scale").measured["standard error"]
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=NEAR + 2 * error)  # tolerance: as the audit's rule


def without_arguments():
    w = weights()
    with pyro.plate("data", N_TRAIN, subsample_size=BATCH):
        x, y = (pyro.subsample(part, event_dim=n) for part, n in ((X, 1), (Y, 0)))
        pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)


def row_by_row(x, y):
    w = weights()
    for i in pyro.plate("data", N_TRAIN, subsample_size=6):
        pyro.sample(f"y {i}", distributions.Normal(x[i] @ w, 1.0), obs=y[i])


def with_given_rows(x, y, index):
    w = weights()
    with pyro.plate("data", N_TRAIN, subsample=index):
        pyro.sample("y", distributions.Normal(x[index] @ w, 1.0), obs=y[index])


@pytest.mark.parametrize(
    ("model", "batches", "n_rows"),
    [
        (without_arguments, [()] * 3, BATCH),
        (row_by_row, [(X, Y)] * 3, 6),
        (with_given_rows, [(X, Y, torch.arange(40) + 40 * k) for k in range(3)], 40),
    ],
)
def test_the_rows_of_a_step_are_those_of_the_plate(model, batches, n_rows):
    report = audit(model, batches)
    assert report.ok, str(report)
    assert report.numbers["data_weight"] == pytest.approx(N_TRAIN / n_rows, rel=SLOPE)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, abs=NEAR)


@pytest.mark.parametrize("times", [1, 2])
def test_a_scale_without_a_constraint_is_read_as_the_gradient_says(times):
    def model(x, y):
        with poutine.scale(scale=times):
            w = weights()
        with rows(x):
            pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)

    def guide(x, y):
        loc, log_scale = pyro.param("w_loc", torch.ones(4)), pyro.param("w_scale", torch.full((4,), -2.0))
        with poutine.scale(scale=times):
            pyro.sample("w", distributions.Normal(loc, log_scale.exp()).to_event(1))

    report = elbo_audit.audit_pyro(model, guide, BATCHES, N_TRAIN, loss=TraceMeanField_ELBO())
    assert report.ok == (times == 1), str(report)
    assert "sigma is exp of w_scale" in report.of("kl-scale").detail


def test_a_plate_that_subsamples_with_a_scale_beside_it_fails():
    report = audit(subsampling(scale=N_TRAIN / BATCH), [(X, Y)] * 3)
    assert report.numbers["kl_per_epoch"] == pytest.approx(BATCH / N_TRAIN, rel=NEAR)
    assert report.of("kl-scale").outcome == "fails"


def test_a_plate_of_another_size_than_the_data_set_is_named():
    report = audit(subsampling(size=N_TRAIN // 2), [(X, Y)] * 3)
    assert report.of("kl-scale").outcome == "fails"
    assert report.of("kl-scale").detail.startswith("the plate 'data' has 300 rows, n_train is 600")
    assert report.numbers["kl_per_epoch"] == pytest.approx(2, rel=NEAR)  # (N / B) / (N / 2 B)


def test_two_plates_that_subsample_are_refused():
    def model(x, y):
        w = weights()
        for name in ("one", "two"):
            with pyro.plate(name, N_TRAIN, subsample_size=BATCH) as i:
                pyro.sample(f"y {name}", distributions.Normal(x[i] @ w, 1.0), obs=y[i])

    with pytest.raises(AuditError, match="in 2 plates that subsample, 'one', 'two'"):
        audit(model, [(X, Y)] * 3)


def test_an_index_beside_the_rows_is_one_more_argument():
    def model(x, y, index):
        w = weights()
        with rows(x):
            pyro.sample("y", distributions.Normal(x @ w + 0.1 * index.float().cos(), 1.0), obs=y)

    assert audit(model, [(x, y, torch.arange(BATCH) + k) for k, (x, y) in enumerate(BATCHES)]).ok


@pytest.mark.filterwarnings("ignore:TraceEnum_ELBO found no sample sites")
def test_an_estimator_that_guesses_its_nesting_is_called_once_before():
    report = audit(subsampling(), [(X, Y)] * 3, TraceEnum_ELBO())
    assert report.ok, str(report)
    assert report.of("kl-scale").outcome == "passes"


def given_rows(plate, scale=1.0):
    def model(x, y):
        w = weights()
        with poutine.scale(scale=scale), plate():
            pyro.sample("y", distributions.Normal(x @ w, 1.0), obs=y)

    return model


def test_the_advice_for_a_likelihood_without_its_scale_is_the_plate_or_the_scale_and_mends_it():
    report = audit(given_rows(lambda: pyro.plate("data", BATCH)))
    words = report.of("kl-scale").detail
    plate = f'pyro.plate("data", {N_TRAIN}, subsample_size={BATCH})'
    assert f"{plate}, or in poutine.scale(scale={N_TRAIN / BATCH:.6g})" in words
    assert "divide" not in words
    for mended in (given_rows(lambda: eval(plate)), given_rows(lambda: pyro.plate("data", BATCH), N_TRAIN / BATCH)):
        assert audit(mended).ok
