"""dropout_fcn: the published loss in closed form, masks, training equal to autograd, draws that belong to rows."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from bench.core.errors import ConfigError, ContractViolation
from bench.core.streams import StepNoise, generator, row_bits, row_noise, stream_seed
from bench.interface import Split, Task
from bench.judge.contract import CheckContext
from benchmarks.documents import dropout_fcn as document
from implementations import _dense
from implementations._kernels.layout import Layout
from implementations.dropout_fcn import LOSSES, DropoutFcn, DropoutPosterior, Masks, Training, bce_on_log_probs

LAYOUT = Layout((20, 70, 70, 70, 10))  # widths that are no multiples of 64: the last word of a row is partly used
RECIPE = DropoutFcn(hidden=(70, 70, 70))
PLAIN_LOSSES = {"bce_on_log_probs": document.published_loss, "cross_entropy": functional.cross_entropy}
BATCHES = 391  # 390 of 128 and one of 80 make alsibahi2019's 50,000 rows


class GivenMask(nn.Module):
    """A dropout layer that multiplies by the mask it was handed."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate
        self.mask = None

    def forward(self, x):
        return x * self.mask


def plain_network(layout, flat):
    """The document's network with these weights, and its dropout layers."""
    net = document.network(layout.sizes[0], layout.sizes[1], GivenMask).to(flat.dtype)
    for parameter, value in zip(net.parameters(), layout.named(flat).values(), strict=True):
        parameter.data.copy_(value)
    return net, [module for module in net if isinstance(module, GivenMask)]


def made_up(n_rows, seed=0):
    source = torch.Generator().manual_seed(seed)
    x = torch.rand(n_rows, LAYOUT.sizes[0], generator=source)
    return Split("train50k", x, torch.randint(10, (n_rows,), generator=source), torch.arange(n_rows))


# --- the published loss ---------------------------------------------------------------------------------------------


def test_loss_of_a_blind_network():
    # p = 1/10: [log 10 + 10 log(1 + 1/10)] / 10 = [2.302585 + 0.953102] / 10 = 0.3255687; times 391 = 127.2974
    loss, gradient = bce_on_log_probs(torch.zeros(4, 10, dtype=torch.float64), torch.tensor([0, 3, 9, 3]))
    assert BATCHES * loss.item() == pytest.approx(127.2974, abs=1e-3)
    # s = (1/10) / (11/10) = 1/11; g_k = 1/11 - y_k over 40; sum g = (10/11 - 1)/40 = -1/440
    # wrong class: 1/440 + 1/4400 = 11/4400; right class: (1/11 - 1)/40 + 1/4400 = -100/4400 + 1/4400
    assert gradient[0, 1].item() == pytest.approx(11 / 4400)
    assert gradient[0, 0].item() == pytest.approx(-99 / 4400)


def test_loss_of_a_perfect_network_is_its_floor():
    # p = onehot: [0 + log 2] / 10; times 391 = 27.102: the printed sum can fall no lower
    logits = 100 * torch.eye(10, dtype=torch.float64)
    loss, gradient = bce_on_log_probs(logits, torch.arange(10))
    assert BATCHES * loss.item() == pytest.approx(27.102, abs=1e-3)
    assert gradient.abs().max().item() < 1e-12


@given(seed=st.integers(0, 2**31), rows=st.integers(1, 6), scale=st.floats(0.01, 30), name=st.sampled_from([*LOSSES]))
def test_loss_and_gradient_equal_autograd(seed, rows, scale, name):
    source = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, 10, dtype=torch.float64, generator=source)
    y = torch.randint(10, (rows,), generator=source)
    loss, gradient = LOSSES[name](logits.clone(), y)
    logits.requires_grad_()
    expected = PLAIN_LOSSES[name](torch.log_softmax(logits, 1), y)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-14)
    assert torch.allclose(gradient, logits.grad, rtol=1e-9, atol=1e-14)


@given(seed=st.integers(0, 2**31), scale=st.floats(0.01, 50))
def test_published_loss_is_between_its_floor_and_a_tenth_of_the_cross_entropy_plus_a_tenth(seed, scale):
    # sum_k log(1 + p_k) is concave on the simplex: log 2 at a corner (its least), 0.953 at the middle (its most)
    source = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(5, 10, dtype=torch.float64, generator=source)
    y = torch.randint(10, (5,), generator=source)
    loss = bce_on_log_probs(logits, y)[0].item()
    tenth = functional.cross_entropy(logits, y).item() / 10
    assert tenth + math.log(2) / 10 - 1e-12 <= loss <= tenth + math.log(1.1) + 1e-12


# --- masks ----------------------------------------------------------------------------------------------------------


def test_a_byte_of_a_mask():
    # the lowest byte of the word is 0b00000101: units 0 and 2 are kept and doubled
    masks = Masks.of(DropoutFcn(hidden=(8,), input_dropout=0.0), Layout((3, 8, 10)), torch.zeros(1))
    pixels, units = masks.layers(torch.tensor([[5]]))
    assert units.tolist() == [[2, 0, 2, 0, 0, 0, 0, 0]]
    assert pixels.tolist() == [[1, 1, 1]]


def test_every_value_of_a_mask_is_as_frequent_as_its_rate_says():
    # all 2^16 shorts once: 2^16 - round(.2 * 2^16) = 52429 of them keep a pixel; all 2^8 bytes once: half of the bits
    shorts = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.int64)
    masks = Masks.of(DropoutFcn(hidden=(2048,)), Layout((2**16, 2048, 10)), torch.zeros(1))
    all_bytes = torch.arange(256).to(torch.uint8).view(torch.int64)
    pixels, units = masks.layers(torch.cat([shorts, all_bytes]).unsqueeze(0))
    assert pixels.unique().tolist() == [0, 1.25]
    assert int((pixels > 0).sum()) == 52429
    assert units.unique().tolist() == [0, 2]
    assert units.mean().item() == 1
    assert masks.n_words == 2**16 // 4 + 2048 // 64


def test_published_row_needs_244_words():
    # 784 pixels x 16 bits = 196 words, 3 x 1024 units x 1 bit = 48 words
    assert Masks.of(DropoutFcn(), Layout((784, 1024, 1024, 1024, 10)), torch.zeros(1)).n_words == 244


def test_random_words_use_all_64_bits():
    # 4,000 fair bits at each place: standard deviation of the share 0.0079, so 0.04 is five of them
    words = StepNoise(1).words_(torch.empty(4000, dtype=torch.int64))
    share = words.unsqueeze(1).bitwise_right_shift(torch.arange(64)).bitwise_and(1).double().mean(0)
    assert (share - 0.5).abs().max().item() < 0.04


# --- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [*LOSSES])
def test_twenty_steps_equal_autograd_and_torch_sgd(loss):
    flat = _dense.linear_init(LAYOUT, generator(1, "init")).double()
    net, dropouts = plain_network(LAYOUT, flat)
    sgd = document.optimizer(net)
    training = Training(DropoutFcn(hidden=(70, 70, 70), loss=loss), LAYOUT, flat)
    noise = StepNoise(1)
    for step in range(20):
        rows = made_up(12 if step % 3 else 5, seed=step)
        x, y = rows.x.double(), rows.y
        words = training.masks.random_words(len(y), noise)
        for dropout, mask in zip(dropouts, training.masks.layers(words), strict=True):
            dropout.mask = mask
            assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - dropout.rate)])
        expected, correct = document.training_step(net, sgd, x, y, PLAIN_LOSSES[loss])
        got, right = training.step(x, y, words)
        assert got.item() == pytest.approx(expected.item(), rel=1e-12)
        assert int(right) == correct
        for parameter, value in zip(net.parameters(), LAYOUT.named(training.flat).values(), strict=True):
            assert torch.allclose(parameter.data, value, rtol=1e-9, atol=1e-13)
        if step == 0:  # the momentum starts at zero, so that it now holds the gradient alone
            for parameter, value in zip(net.parameters(), LAYOUT.named(training.velocity).values(), strict=True):
                assert torch.allclose(parameter.grad, value, rtol=1e-9, atol=1e-14)


def test_published_step_pulls_as_much_as_a_cross_entropy_step_of_a_tenth_of_its_rate():
    # dL/dz = [(p - y) + d/dz sum log(1 + p)] / (10 B): the likelihood's part is a tenth of the cross-entropy's
    logits = torch.randn(6, 10, dtype=torch.float64, generator=generator(0, "init"))
    y = torch.tensor([0, 1, 2, 3, 4, 5])
    free = logits.clone().requires_grad_()
    torch.log1p(torch.softmax(free, 1)).sum(1).mean().backward()
    published, likelihood = bce_on_log_probs(logits, y)[1], _dense.cross_entropy(logits, y)[1]
    assert torch.allclose(published, (likelihood + free.grad) / 10, rtol=1e-10, atol=1e-15)


def test_trace_is_what_the_document_prints():
    train, task = made_up(40), Task("classification", 10, 40, LAYOUT.sizes[0])
    context = CheckContext(seed=7)
    context.steps_per_epoch = None
    recipe = DropoutFcn(epochs=2, hidden=(70, 70, 70), batch_size=16, learning_rate=0.1)
    recipe.fit(train, task, context)
    net, dropouts = plain_network(LAYOUT, _dense.linear_init(LAYOUT, generator(7, "init")))
    sgd, masks = document.optimizer(net), Masks.of(recipe, LAYOUT, torch.zeros(1))
    for epoch in (1, 2):
        noise = StepNoise(stream_seed(7, "noise", epoch))

        def batches(noise=noise):
            for start in (0, 16, 32):  # in the order of the rows, the last batch of 8
                x, y = train.x[start : start + 16], train.y[start : start + 16]
                for dropout, mask in zip(dropouts, masks.layers(masks.random_words(len(y), noise)), strict=True):
                    dropout.mask = mask
                yield x, y

        loss_sum, accuracy = document.train_epoch(net, sgd, batches())
        assert context.traces[epoch]["mnist/train50k/train_loss_sum"] == pytest.approx(loss_sum, rel=1e-5)
        assert context.traces[epoch]["mnist/train50k/accuracy"] == accuracy


def test_shuffle_gives_every_epoch_its_own_order_and_every_row_once():
    # without dropout and without learning, the sum of all batch losses does not depend on the order of the rows;
    # the loss of the first batch alone tells whether the order changed
    train, task = made_up(32), Task("classification", 10, 32, LAYOUT.sizes[0])
    sums = {}
    for shuffle in (False, True):
        context = CheckContext(seed=1)
        context.steps_per_epoch = None
        recipe = DropoutFcn(
            epochs=2, hidden=(70,), shuffle=shuffle, batch_size=8, learning_rate=0, input_dropout=0, hidden_dropout=0
        )
        recipe.fit(train, task, context)
        whole = [context.traces[epoch]["mnist/train50k/train_loss_sum"] for epoch in (1, 2)]
        context.steps_per_epoch = 1
        recipe.fit(train, task, context)
        sums[shuffle] = whole, [context.traces[epoch]["mnist/train50k/train_loss_sum"] for epoch in (1, 2)]
    (plain_whole, plain_first), (whole, first) = sums[False], sums[True]
    assert whole == pytest.approx(plain_whole, rel=1e-6)
    assert plain_first[0] == plain_first[1]
    assert len({plain_first[0], *first}) == 3


# --- prediction -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def posterior():
    flat = _dense.linear_init(LAYOUT, generator(2, "init"), half_width=0.3)
    return DropoutPosterior(LAYOUT, flat, Masks.of(RECIPE, LAYOUT, flat), 0.01, seed=5)


def test_draw_equals_the_plain_network_under_the_row_s_masks(posterior):
    flat = _dense.linear_init(LAYOUT, generator(2, "init"), half_width=0.3)
    net, dropouts = plain_network(LAYOUT, flat)
    masks = Masks.of(RECIPE, LAYOUT, flat)
    x, rows = made_up(30).x, torch.arange(1000, 1030)
    got = posterior.predict(x, range(3, 5), rows).log_probs
    for position, draw in enumerate((3, 4)):
        for dropout, mask in zip(dropouts, masks.layers(row_bits(5, draw, rows, masks.n_words)), strict=True):
            dropout.mask = mask
        assert torch.allclose(got[position].double(), net.double()(x.double()).detach(), atol=1e-5)
        net.float()


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 60), max_size=4), start=st.integers(0, 100), order_seed=st.integers(0, 100))
def test_prediction_does_not_depend_on_blocks_or_order(posterior, cuts, start, order_seed):
    x, rows = made_up(60).x, torch.arange(start, start + 60)
    whole = posterior.predict(x, range(2), rows).log_probs
    edges = [0, *sorted(cuts), 60]
    parts = [posterior.predict(x[a:b], range(2), rows[a:b]).log_probs for a, b in itertools.pairwise(edges)]
    assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-5)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(order_seed))
    assert torch.allclose(posterior.predict(x[order], range(2), rows[order]).log_probs, whole[:, order], atol=1e-5)


def test_more_rows_than_one_forward_pass_takes(posterior, monkeypatch):
    x, rows = made_up(45).x, torch.arange(45)
    whole = posterior.predict(x, range(2), rows).log_probs
    monkeypatch.setattr(_dense, "ROWS_AT_A_TIME", 7)
    assert torch.allclose(posterior.predict(x, range(2), rows).log_probs, whole, atol=1e-5)


@settings(max_examples=25)
@given(rows=st.lists(st.integers(0, 70), min_size=1, max_size=40), draw=st.integers(0, 5))
def test_row_streams_name_the_row(rows, draw):
    """Any list of rows, repeated ones too, gets what the rows get in one consecutive block."""
    everything = torch.arange(71)
    wanted = torch.tensor(rows)
    assert torch.equal(row_bits(3, draw, wanted, 2), row_bits(3, draw, everything, 2)[wanted])
    assert torch.equal(row_noise(3, draw, wanted, 5), row_noise(3, draw, everything, 5)[wanted])


def test_mean_network_is_the_document_s_network_in_evaluation_mode(posterior):
    net = document.network(LAYOUT.sizes[0], LAYOUT.sizes[1])
    values = posterior.arrays().values()
    for parameter, value in zip(net.parameters(), values, strict=True):
        parameter.data.copy_(value)
    x = made_up(9).x
    got = posterior.mean_network().predict(x, range(1), torch.arange(9)).log_probs[0]
    assert torch.allclose(got, net.eval()(x).detach(), atol=1e-6)


def test_masked_weights_are_zero_and_dropout_stays(posterior):
    weights = posterior.weights()
    keep = {name: torch.ones_like(marginal.used) for name, marginal in weights.items()}
    keep["hidden2.weight"][3] = False
    pruned = posterior.masked(keep)
    expected = weights["hidden2.weight"].mean.clone()
    expected[3] = 0
    assert torch.equal(pruned.weights()["hidden2.weight"].mean, expected)
    x, rows = made_up(4).x, torch.arange(4)
    draws = pruned.predict(x, range(2), rows).log_probs
    assert not torch.allclose(draws[0], draws[1])
    assert torch.equal(posterior.weights()["hidden2.weight"].mean, weights["hidden2.weight"].mean)


# --- faults ---------------------------------------------------------------------------------------------------------


def test_unknown_loss_suggests_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'cross_entropy'"):
        DropoutFcn(loss="crossentropy")


@pytest.mark.parametrize("rate", [-0.1, 1.0, math.nan])
def test_rate_that_is_no_probability(rate):
    with pytest.raises(ConfigError, match=r"must be in \[0, 1\)"):
        DropoutFcn(hidden_dropout=rate)


def test_wrong_kind_of_task():
    with pytest.raises(ConfigError, match="classification task and was given a regression one"):
        RECIPE.fit(made_up(4), Task("regression", 1, 4, LAYOUT.sizes[0]), CheckContext(0))


def test_mask_of_another_network(posterior):
    with pytest.raises(ContractViolation, match="keep names"):
        posterior.masked({"hidden9.weight": torch.ones(1, dtype=torch.bool)})
