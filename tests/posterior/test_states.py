"""A sampling that was ended goes on to the same bits; damaged files are made again, foreign ones refused."""

import pytest
import torch

from bench.core.errors import StoreError
from bench.posterior.gradient import Target
from bench.posterior.hmc import sample
from bench.posterior.network import Network


class Killed(Exception):
    pass


NETWORK = Network(3, 2, 2)
X = torch.linspace(-1, 1, 36).reshape(12, 3)
TARGET = Target(NETWORK, X, torch.arange(12) % 2)
DRAWS, WARMUP = 5, 4


def run(folder, stop_after=None, draws=DRAWS, seed=7, save_s=0.0, target=TARGET):
    """Sample; raise `Killed` after so many iterations of this call."""
    done = []

    def progress(iteration, total):
        assert total == WARMUP + draws
        done.append(iteration)
        if len(done) == stop_after:
            raise Killed

    chains = sample(
        *(target,), chains=3, draws=draws, warmup=WARMUP, seed=seed, folder=folder, progress=progress, save_s=save_s
    )
    return chains, done


def assert_same(found, expected):
    assert torch.equal(found.draws, expected.draws)
    for name in ("energy_trace", "acceptance_trace", "divergence_trace", "step_trace", "leapfrog_trace"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.parametrize("stop_after", [1, WARMUP, WARMUP + 1, WARMUP + DRAWS - 1])
def test_a_killed_sampling_goes_on_to_the_same_bits(stop_after, tmp_path):
    whole, _ = run(None)
    with pytest.raises(Killed):
        run(tmp_path, stop_after)
    found, done = run(tmp_path)
    assert done == list(range(stop_after + 1, WARMUP + DRAWS + 1))  # all that was saved is not done again
    assert_same(found, whole)


def test_a_kill_between_two_writes_loses_only_what_came_after_the_first(tmp_path, monkeypatch):
    """The draws' file is there, but the state that names it is not; it is replaced."""
    whole, _ = run(None)
    with pytest.raises(Killed):
        run(tmp_path, WARMUP + 2)
    state = (tmp_path / "state.safetensors").read_bytes()
    with pytest.raises(Killed):
        run(tmp_path, 1)
    (tmp_path / "state.safetensors").write_bytes(state)
    found, done = run(tmp_path)
    assert done[0] == WARMUP + 3
    assert_same(found, whole)


def test_a_state_is_written_only_after_its_interval(tmp_path):
    with pytest.raises(Killed):
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
    assert name in caplog.text
    assert len(done) == WARMUP + DRAWS
    assert_same(found, run(None)[0])
    assert run(tmp_path)[1] == []


def test_draws_of_another_time_are_not_mixed_in(tmp_path):
    """An intact file of the same sampling in the wrong place."""
    run(tmp_path)
    (tmp_path / "draws-0001.safetensors").write_bytes((tmp_path / "draws-0000.safetensors").read_bytes())
    found, _ = run(tmp_path)
    assert_same(found, run(None)[0])


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
