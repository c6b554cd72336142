"""What a kill or damage costs a set of chains; the diagnostics of chains with known autocorrelation."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.core.errors import StoreError
from bench.posterior import distance
from bench.posterior.distance import effective_size, joint_log_loss, split_r_hat, wasserstein
from bench.posterior.gradient import Target
from bench.posterior.hmc import sample
from bench.posterior.network import Network
from tests.close import close

NETWORK = Network(3, 2, 2)
X = torch.linspace(-1, 1, 36).reshape(12, 3)
TARGET = Target(NETWORK, X, torch.arange(12) % 2)
DRAWS, WARMUP = 5, 4


def run(folder, stop_after=None, draws=DRAWS, seed=7, save_s=0.0, target=TARGET):
    """Sample; raise KeyboardInterrupt after so many iterations of this call."""
    done = []

    def progress(iteration, total):
        assert total == WARMUP + draws
        done.append(iteration)
        if len(done) == stop_after:
            raise KeyboardInterrupt

    how = {"chains": 3, "draws": draws, "warmup": WARMUP, "seed": seed, "folder": folder, "save_s": save_s}
    return sample(target, progress=progress, **how), done


def assert_same(found, expected):
    assert torch.equal(found.draws, expected.draws)
    assert torch.equal(found.trace, expected.trace)


@pytest.mark.parametrize("stop_after", [1, WARMUP, WARMUP + 1, WARMUP + DRAWS - 1])
def test_a_killed_sampling_goes_on_to_the_same_bits(stop_after, tmp_path):
    whole, _ = run(None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, stop_after)
    found, done = run(tmp_path)
    assert done == list(range(stop_after + 1, WARMUP + DRAWS + 1))  # all that was saved is not done again
    assert_same(found, whole)


def test_a_kill_between_two_writes_loses_only_what_came_after_the_first(tmp_path, monkeypatch):
    """The draws' file is there, but the state that names it is not; it is replaced."""
    whole, _ = run(None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, WARMUP + 2)
    state = (tmp_path / "state.safetensors").read_bytes()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 1)
    (tmp_path / "state.safetensors").write_bytes(state)
    found, done = run(tmp_path)
    assert done[0] == WARMUP + 3
    assert_same(found, whole)


def test_a_state_is_written_only_after_its_interval(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, WARMUP + 1, save_s=3600.0)
    assert list(tmp_path.iterdir()) == []


def test_a_finished_sampling_is_read_and_can_be_made_longer(tmp_path):
    run(tmp_path)
    assert run(tmp_path)[1] == []
    assert_same(run(tmp_path)[0], run(None)[0])
    found, done = run(tmp_path, draws=DRAWS + 2)
    assert len(done) == 2
    assert_same(found, run(None, draws=DRAWS + 2)[0])
    assert_same(run(tmp_path)[0], run(None)[0])  # and is again short


@pytest.mark.parametrize("name", ["state.safetensors", "draws-0000.safetensors", "draws-0004.safetensors"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-3], lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda _: b""]
)
def test_a_damaged_file_is_named_and_made_again(name, damage, tmp_path, caplog):
    run(tmp_path)
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    found, done = run(tmp_path)
    assert f"{name} cannot be used" in caplog.text
    assert len(caplog.records) == caplog.text.count("the sampling begins anew") == 1
    assert len(done) == WARMUP + DRAWS
    assert_same(found, run(None)[0])
    again, done = run(tmp_path)
    assert done == []
    assert_same(again, found)


@pytest.mark.parametrize("has_another", [True, False])
def test_draws_of_another_time_are_not_mixed_in(has_another, tmp_path, caplog):
    """An intact file of the same sampling in the wrong place, or none."""
    run(tmp_path)
    path = tmp_path / "draws-0001.safetensors"
    path.unlink()
    if has_another:
        path.write_bytes((tmp_path / "draws-0000.safetensors").read_bytes())
    for _ in range(2):
        assert_same(run(tmp_path)[0], run(None)[0])
    (warning,) = caplog.messages
    assert f"{path} is missing, or is not the one" in warning


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 8},
        {"target": Target(NETWORK, X, torch.arange(12) // 6)},
        {"target": Target(NETWORK, X, TARGET.y, temperature=0.5)},
        {"target": Target(Network(3, 2, 2, bias_sds=(1.0, 2.0)), X, TARGET.y)},
    ],
)
def test_a_folder_of_another_sampling_is_refused(changed, tmp_path):
    run(tmp_path)
    with pytest.raises(StoreError, match=r"another sampling .*; remove it or choose another folder"):
        run(tmp_path, **changed)


def ar1(rho, chains, n, numbers, seed):
    """Draws of x_t = rho x_(t-1) + noise, stationary, [C, n, numbers]."""
    source = np.random.default_rng(seed)
    x = source.standard_normal((chains, n, numbers))
    for t in range(1, n):
        x[:, t] = rho * x[:, t - 1] + math.sqrt(1 - rho**2) * x[:, t]
    return torch.from_numpy(x)


def test_r_hat_of_worked_numbers():
    """Halves have the means 1, 1, 5, 5 and the variance 2: all together 2 / 2 + 16 / 3."""
    values = torch.tensor([[0.0, 2.0, 0.0, 2.0], [4.0, 6.0, 4.0, 6.0]])
    assert split_r_hat(values).item() == close(math.sqrt((1 + 16 / 3) / 2))


def test_a_drift_within_one_chain_is_seen():
    drifting = ar1(0.0, 1, 400, 1, 0) + torch.linspace(-2, 2, 400)[None, :, None]
    assert split_r_hat(drifting).item() > 1.2 > split_r_hat(ar1(0.0, 1, 400, 1, 0)).item()


def test_constant_numbers():
    never, by_chain = torch.full((2, 10), 0.1), torch.tensor([[0.0], [1.0]]).expand(2, 10)
    assert split_r_hat(torch.stack([never, by_chain], 2)).tolist() == [1.0, math.inf]
    assert effective_size(never).item() == 20


def plain(values):
    """R-hat and size of one number, values [C, n], by loops over the definitions."""
    n = len(values[0]) // 2
    halves = [half for chain in values for half in (chain[:n], chain[len(chain) - n :])]
    within = sum(half.var(ddof=1) for half in halves) / len(halves)
    together = (n - 1) / n * within + np.var([half.mean() for half in halves], ddof=1)
    correlation = [1.0]
    for lag in range(1, n):
        product = [sum((half[:-lag] - half.mean()) * (half[lag:] - half.mean())) / (n - 1) for half in halves]
        correlation.append(1 - (within - sum(product) / len(halves)) / together)
    total, lowest = 0.0, math.inf
    for first in range(0, n - 1, 2):
        pair = correlation[first] + correlation[first + 1]
        if pair <= 0:
            break
        lowest = min(lowest, pair)
        total += lowest
    size = len(halves) * n
    return math.sqrt(together / within), size / max(2 * total - 1, 1 / math.log10(size))


@given(
    rho=st.floats(-0.95, 0.95),
    chains=st.integers(1, 5),
    n=st.integers(4, 40),
    shift=st.floats(-3, 3),
    seed=st.integers(0, 99),
)
def test_both_are_those_of_plain_loops(rho, chains, n, shift, seed):
    values = ar1(rho, chains, n, 3, seed)
    values[0] += shift
    found = [plain(values[..., number].numpy()) for number in range(3)]
    assert split_r_hat(values).tolist() == close([each[0] for each in found])
    assert effective_size(values).tolist() == close([each[1] for each in found])


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_the_size_of_an_autoregressive_process(rho):
    """It is N (1 - rho) / (1 + rho)."""
    chains, n, numbers = 4, 5000, 50
    size = chains * n
    found = effective_size(ar1(rho, chains, n, numbers, 1)) / size
    # Geyer's sum ends where correlations are those of noise, about N^-1/2, and lacks up to 2 N^-1/2 / (1 + rho).
    lag = 1 if rho == 0 else math.log(size) / (-2 * math.log(abs(rho)))
    variance = 2 * (2 * lag + 1) / size  # relative, of the time summed up to this lag (Sokal 1997, 3.19)
    error = 5 * math.sqrt(variance / numbers) + variance + 2 * size**-0.5 / (1 + rho)
    expected = (1 - rho) / (1 + rho)
    # tolerance: 5 standard errors of the mean (2 to 7 %), what the inverse adds to it (variance), what the sum lacks
    assert abs(found.mean() / expected - 1) < error


def test_few_numbers_at_a_time_are_all_of_them(monkeypatch):
    values = ar1(0.5, 2, 20, 12, 2)
    whole = split_r_hat(values), effective_size(values)
    monkeypatch.setattr("bench.posterior.distance.NUMBERS", 5)
    assert split_r_hat(values.view(2, 20, 3, 4)).flatten().tolist() == close(whole[0].tolist())
    assert effective_size(values.view(2, 20, 3, 4)).flatten().tolist() == close(whole[1].tolist())


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="a chain has 3 draws; at least 4 are judged"):
        split_r_hat(torch.zeros(2, 3))


DRAW = np.random.default_rng(0)


def test_predictives_that_are_known():
    first = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.25, 0.5, 0.25]])
    second = np.array([[0.25, 0.5, 0.25], [0.0, 0.0, 1.0], [0.25, 0.5, 0.25]])
    assert distance.agreement(first, second) == pytest.approx(1 / 3, rel=1e-15)  # tolerance: one rounding
    assert distance.total_variation(first, second) == pytest.approx(
        (0.25 + 1 + 0) / 3, rel=1e-15
    )  # tolerance: one rounding
    assert distance.agreement(first, first) == 1
    assert distance.total_variation(first, first) == 0


@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 4), (3, 7), (200, 30)])
def test_wasserstein_is_that_of_scipy_row_by_row(n, m):
    first, second = DRAW.normal(size=(5, n)), DRAW.normal(1, 2, size=(5, m))
    second[0, 0] = first[0, 0]  # a tie
    known = [stats.wasserstein_distance(a, b) for a, b in zip(first, second, strict=True)]
    assert wasserstein(first, second) == pytest.approx(np.mean(known), rel=1e-12)  # tolerance: sums of 230 roundings
    assert wasserstein(first, first[:, ::-1]) < 1e-15  # tolerance: the steps up to a tie cancel but for a rounding


def test_wasserstein_of_moved_and_widened_normals():
    """Moved by d: d. Widened from sd 1 to s: (s - 1) E|Z|, of which 200 quantiles have all but the tails' share."""
    levels = (np.arange(200) + 0.5) / 200
    quantiles = stats.norm.ppf(levels)[None]
    assert wasserstein(quantiles, quantiles + 0.7) == pytest.approx(0.7, rel=1e-12)  # tolerance: sums of 400 roundings
    # tolerance: the midpoint rule cuts |Z| beyond the level 1 - 1/400: 2 x (phi(2.807) - 2.807 / 400) < .002
    assert wasserstein(quantiles, quantiles * 3) == pytest.approx(2 * np.sqrt(2 / np.pi), abs=2 * 0.002)


def test_joint_log_loss_of_a_point_is_ten_times_the_marginal_one():
    same = np.full((1, 50), np.log(0.3))
    assert joint_log_loss(same) == pytest.approx(-10 * np.log(0.3), rel=1e-12)  # tolerance: means of 2,000 roundings


def test_joint_log_loss_of_two_draws_that_are_each_right_about_all():
    """Two draws: one has likelihood 1 for all labels, the other 1/4. The joint likelihood is (1 + 4^-10) / 2."""
    logs = np.log([[1.0] * 30, [0.25] * 30])
    assert joint_log_loss(logs) == pytest.approx(-np.log((1 + 4.0**-10) / 2), rel=1e-12)  # tolerance: as above
    marginal = np.log(np.exp(logs).mean(0, keepdims=True))
    assert joint_log_loss(marginal) == pytest.approx(-10 * np.log(0.625), rel=1e-12)  # tolerance: as above


def test_joint_log_loss_by_its_definition():
    """All of one batch's points come from two rows; every batch is as likely as its counts say."""
    logs = np.log([[0.9, 0.2], [0.3, 0.8]])

    def batch(n):  # ten points of which n are of row 0
        return -np.log(np.exp(logs[:, 0] * n + logs[:, 1] * (10 - n)).mean())

    # Rows are drawn with replacement: half of the batches have one row alone.
    mixed = sum(stats.binom.pmf(n, 10, 0.5) * batch(n) for n in range(11))
    expected = (batch(10) + batch(0)) / 4 + mixed / 2
    spread = np.sqrt(np.mean([batch(n) ** 2 for n in range(11)]))
    # tolerance: the mean of 2,000 batches, whose sd is at most the root mean square; five standard errors
    assert joint_log_loss(logs) == pytest.approx(expected, abs=5 * spread / np.sqrt(2_000))


def test_mixtures_of_normals():
    mean, sd = DRAW.normal(size=(7, 3)), DRAW.uniform(0.5, 2, size=(7, 1))
    y = np.array([0.0, 1.0, -2.0])
    known = np.log(stats.norm(mean, sd).pdf(y).mean(0))
    found = distance.mixture_log_density(mean, sd, y)
    assert found == pytest.approx(known, rel=1e-12)  # tolerance: sums of seven densities, 1e-15 each
    quantiles = distance.mixture_quantiles(mean, sd, 9)
    reached = stats.norm(mean[..., None], sd[..., None]).cdf(quantiles).mean(0)
    # tolerance: 24 halvings of at most 20 units, times a density below 1
    assert reached == pytest.approx(np.broadcast_to((np.arange(9) + 0.5) / 9, (3, 9)), abs=20 * 2.0**-24)


def test_quantiles_of_one_normal_are_its_own():
    found = distance.mixture_quantiles(np.array([[2.0]]), np.array([[3.0]]), 200)
    known = stats.norm(2, 3).ppf((np.arange(200) + 0.5) / 200)
    assert found[0] == pytest.approx(known, rel=1e-12)  # tolerance: a few roundings
