"""Dropout networks in one computation: every step and pass against plain PyTorch in float64 with the same masks."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from bench.core.noise import plain_words
from bench.core.streams import stream_seed
from bench.uci.dropout import Batch, Network, Parts, State, in_pieces, keras_decay
from bench.uci.dropout_loops import EPSILON, ROWS

U = 2.0**-24  # relative rounding of float32


def data(seed, parts, n, d):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((parts, n, d))
    return Parts.of([(one, one[:, 0] - 0.5 * one[:, -1] ** 2) for one in x])


def words(seed, name, stream, row, n):
    return plain_words(stream_seed(seed, name, *stream), torch.tensor([row]), n)[0].numpy().astype("<u4")


def multipliers(seed, name, network, row, units, count):
    """Multipliers of a block, float64 [units, count]."""
    dropped = round(network.rate * 2**16)
    bits = words(seed, name, network.stream, row, units * ROWS // 2).view("<u2").reshape(units, ROWS)[:, :count]
    return torch.tensor((bits >= dropped) * (65536 / (65536 - dropped)))


def order(seed, network, epoch, n):
    found = list(range(n))
    drawn = words(seed, "shuffles", network.stream, epoch, n)
    for i in range(n - 1, 0, -1):
        other = int(drawn[i]) * (i + 1) >> 32
        found[i], found[other] = found[other], found[i]
    return found


def split(parameters, d):
    """W, b1, w2 and b2 of a vector, float64."""
    h = (len(parameters) - 1) // (d + 2)
    value = torch.as_tensor(parameters).double()
    return value[: h * d].view(h, d), value[h * d : h * (d + 1)], value[h * (d + 1) : -1], value[-1]


def output(parameters, x, masks):
    """f [B] of x [d, B] and the units before ReLU [h, B], for multipliers [d + h, B]."""
    d = len(x)
    first, bias, second, last = split(parameters, d)
    before = first @ (x * masks[:d]) + bias[:, None]
    return second @ (before.clamp(min=0) * masks[d:]) + last, before


def largest(parameters, x, y, masks, decay):
    """The sum of the sizes of all terms of each gradient, and of each unit before ReLU."""
    x, y, d = x.abs(), y.abs(), len(x)
    first, bias, second, last = (one.abs() for one in split(parameters, d))
    dropped = x * masks[:d]
    before = first @ dropped + bias[:, None]
    hidden = before * masks[d:]
    slope = 2 / len(y) * (second @ hidden + last + y)
    flow = slope * second[:, None] * masks[d:]
    parts = (flow @ dropped.T + 2 * decay * first, flow.sum(1), hidden @ slope + 2 * decay * second, slope.sum())
    return torch.cat([part.reshape(-1) for part in parts]), before


@settings(max_examples=25)
@given(
    d=st.integers(1, 9),
    hidden=st.integers(1, 12),
    n=st.integers(1, 300),
    rate=st.sampled_from([0.0, 0.005, 0.1, 0.5]),
    decay=st.sampled_from([0.0, 0.01]),
    seed=st.integers(0, 1000),
)
def test_every_step_is_that_of_plain_pytorch(d, hidden, n, rate, decay, seed):
    networks = [Network(1, (0, 3), rate, decay), Network(0, (5,), 0.05, decay)]
    parts = data(seed, 2, n, d)
    batch = Batch(networks, parts, hidden, seed)
    # a unit without inputs is at its bias, where a zero would leave ReLU's slope open
    batch.parameters[:, hidden * d : hidden * (d + 1)] = np.random.default_rng(seed).normal(0, 0.1, (2, hidden))
    for step in range(2 * batch.steps_an_epoch):
        before = [one.copy() for one in (batch.parameters, batch.first, batch.second)]
        batch.train(1)
        for e, network in enumerate(networks):
            rows = order(seed, network, step // batch.steps_an_epoch, n)
            rows = rows[step % batch.steps_an_epoch * ROWS :][:ROWS]
            x, y = (torch.tensor(one[network.part][rows]).double() for one in parts)
            masks = multipliers(seed, "dropout masks", network, step, d + hidden, len(rows))
            parameters = torch.tensor(before[0][e]).double().requires_grad_()
            f, units = output(parameters, x.T, masks)
            first, _, second, _ = split(parameters, d)
            loss = ((f - y) ** 2).mean() + network.decay * (first.square().sum() + second.square().sum())
            (gradient,) = torch.autograd.grad(loss, parameters)
            terms, size = largest(before[0][e], x.T, y, masks, network.decay)
            assume(bool((units.abs() > (d + 4) * U * size).all()))  # else rounding may turn a ReLU on or off
            compare(batch, before, e, step + 1, gradient.numpy(), terms.numpy(), d + hidden + ROWS + 16)


def compare(batch, before, e, t, gradient, terms, roundings):
    """Compare moments and parameters after step t with Adam's for the exact gradient."""
    wrong = roundings * U * terms
    old, m, v = (one[e].astype(np.float64) for one in before)
    # tolerance: sums of d, h and 128 terms and a dozen products, each rounded once: roundings x U x sum of the sizes
    assert np.all(np.abs(batch.first[e] - (0.9 * m + 0.1 * gradient)) <= 0.1 * wrong + 4 * U * (np.abs(m) + terms))
    square = 0.001 * (2 * np.abs(gradient) * wrong + wrong**2) + 4 * U * (v + terms**2)
    # tolerance: the square of a gradient that is wrong by `wrong`; four roundings of each term
    assert np.all(np.abs(batch.second[e] - (0.999 * v + 0.001 * gradient**2)) <= square)
    m, v = batch.first[e].astype(np.float64), batch.second[e].astype(np.float64)
    update = 0.001 / (1 - 0.9**t) * m / (np.sqrt(v) / math.sqrt(1 - 0.999**t) + EPSILON)
    # tolerance: of given moments, an update of eight roundings, and one of the parameter
    assert np.all(np.abs(batch.parameters[e] - (old - update)) <= 8 * U * np.abs(update) + U * np.abs(old))


def test_a_network_does_not_depend_on_the_others_nor_on_threads_nor_on_pauses():
    networks = [Network(s, (s, k), 0.05 * k, 1e-4) for s in range(3) for k in range(3)]
    parts = data(0, 3, 200, 5)
    batch, paused, threads = (Batch(networks, parts, 7, 4) for _ in range(3))
    batch.train(9)
    paused.train(3)
    paused.train(6)
    threads.train(9, threads=2)
    alone = Batch(networks[4:5], parts, 7, 4)
    alone.train(9)
    for name in ("parameters", "first", "second"):
        whole = getattr(batch, name)
        assert np.array_equal(whole, getattr(paused, name))
        assert np.array_equal(whole, getattr(threads, name))
        assert np.array_equal(whole[4:5], getattr(alone, name))
    precision = np.full((9, 1), 2.0)
    one, two = (each.predict(parts, precision, 150, threads=k) for each, k in ((batch, 1), (threads, 2)))
    assert np.array_equal(one.mean, two.mean)
    only = alone.predict(parts, precision[:1], 150)
    assert np.array_equal(one.log_density[4:5], only.log_density)
    assert not np.array_equal(one.mean[0], one.mean[1])


def test_initial_weights_are_glorots_and_differ():
    batch = Batch([Network(0, (k,), 0.1, 0.0) for k in range(40)], data(0, 1, 10, 4), 50, 1)
    first, second = batch.parameters[:, :200], batch.parameters[:, 250:300]
    for weights, fans in ((first, 54), (second, 51)):
        limit = math.sqrt(6 / fans)
        # tolerance: 2,000 uniform numbers all miss the outer hundredth with probability .99^2000 = 2e-9
        assert 0.99 * limit < np.abs(weights).max() <= np.float32(limit)
        # tolerance: five standard errors of the mean
        assert abs(weights.mean()) < 5 * limit / math.sqrt(3 * weights.size)
    assert not batch.parameters[:, 200:250].any()
    assert len(np.unique(first)) > 0.99 * first.size


@pytest.mark.parametrize("passes", [1, 130])
def test_passes_are_those_of_plain_pytorch(passes):
    d, hidden, n, seed = 3, 6, 5, 11
    networks = [Network(1, (7,), 0.3, 0.0), Network(0, (2,), 0.005, 0.0)]
    points = data(1, 2, n, d)
    batch = Batch(networks, data(2, 2, 20, d), hidden, seed)
    batch.train(3)
    precision = np.array([[0.5, 3.0], [400.0, 1.0]])
    found = batch.predict(points, precision, passes, keep=True)
    blocks = math.ceil(passes / ROWS)
    for e, network in enumerate(networks):
        for i in range(n):
            x = torch.tensor(points.x[network.part, i]).double()[:, None].expand(d, ROWS)
            masks = [multipliers(seed, "passes", network, i * blocks + b, d + hidden, ROWS) for b in range(blocks)]
            f = torch.cat([output(batch.parameters[e], x, one)[0] for one in masks])[:passes].numpy()
            size = max(output(np.abs(batch.parameters[e]), x.abs(), one)[0].max().item() for one in masks)
            wrong = (d + hidden + 8) * U * size
            # tolerance: sums of d and h terms and a few products, each rounded once
            assert np.abs(found.draws[e, :, i] - f).max() <= wrong
            kept = found.draws[e, :, i].astype(np.float64)
            # tolerance: float64 sums of at most 130 numbers
            np.testing.assert_allclose(found.mean[e, i], kept.mean(), rtol=1e-12, atol=1e-14)
            # tolerance: as above, and the squared distance from the first pass is at most 100 times the variance
            np.testing.assert_allclose(found.variance[e, i], kept.var(), rtol=1e-10, atol=1e-14)
            assert found.first[e, i] == kept[0]
            y = np.float64(points.y[network.part, i])
            for c, p in enumerate(precision[e]):
                terms = 0.5 * math.log(p / (2 * math.pi)) - 0.5 * p * (y - kept) ** 2
                expected = np.logaddexp.reduce(terms) - math.log(passes)
                assert found.log_density[e, i, c] == pytest.approx(expected, rel=1e-11)  # tolerance: as above


def test_without_dropout_all_passes_are_the_network_itself():
    points = data(1, 1, 5, 3)
    batch = Batch([Network(0, (7,), 0.4, 0.0)], points, 6, 0)
    off = batch.predict(points, np.ones((1, 1)), 1, dropout=False)
    whole = torch.ones(9, 5, dtype=torch.float64)
    f, _ = output(batch.parameters[0], torch.tensor(points.x[0]).double().T, whole)
    np.testing.assert_allclose(off.mean[0], f, rtol=0, atol=20 * U * 10)  # tolerance: 17 sums of terms below 10
    far = batch.predict(points, np.full((1, 1), 1e9), 2)
    assert np.isfinite(far.log_density).all()


def test_a_mask_has_the_rate_and_keeps_the_mean():
    batch = Batch([Network(0, (7,), 0.1, 0.0)], data(1, 1, 5, 1), 1, 0)
    batch.parameters[:] = [[1.0, 0.0, 1.0, 0.0]]
    points = Parts(np.ones((1, 1, 1), np.float32), np.zeros((1, 1), np.float32))
    draws = batch.predict(points, np.ones((1, 1)), 200_000, keep=True).draws.ravel()
    kept = 1 - round(0.1 * 2**16) / 2**16
    assert set(np.unique(draws)) == {0.0, np.float32(np.float32(1 / kept) ** 2)}
    error = math.sqrt(kept**2 * (1 - kept**2) / 200_000)
    # tolerance: five standard errors
    assert abs(np.mean(draws > 0) - kept**2) < 5 * error
    assert len({tuple(draws[b * ROWS : (b + 1) * ROWS]) for b in range(20)}) == 20


def test_the_decay_is_that_of_the_code_of_2018():
    assert keras_decay(0.05, 0.1, 455) == pytest.approx(1e-4 * 0.95 / (2 * 455 * 0.1), rel=1e-15)  # tolerance: rounding


def test_ctrl_c_waits_for_the_pieces_at_work_alone(monkeypatch):
    begun, go, real = [], threading.Event(), ThreadPoolExecutor.shutdown

    def shutdown(pool, wait=True, *, cancel_futures=False):
        real(pool, wait=False, cancel_futures=cancel_futures)
        go.set()
        real(pool, wait=wait)

    def work(begin, end):
        begun.append(begin)
        if begin == 0:
            raise KeyboardInterrupt
        assert go.wait(60)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    with pytest.raises(KeyboardInterrupt):
        in_pieces(work, 100, 2)
    assert len(begun) <= 3  # the first, the other thread's, and what the first one's thread took up next


def test_a_state_of_another_definition_is_not_taken_up(tmp_path):
    parts, said, path = data(0, 2, 50, 3), [], tmp_path / "a.state"
    batch, same, other = (Batch([Network(0, (0,), 0.1, 0.0)], parts, 5, 0) for _ in range(3))
    state = State(path, "one", batch, said.append)
    batch.train(3)
    state.save()
    State(path, "one", same, said.append).restore()
    State(path, "another", other, said.append).restore()
    assert (same.step, other.step, len(said)) == (3, 0, 1)
