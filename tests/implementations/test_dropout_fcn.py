"""dropout_fcn: the published loss in closed form, masks, training equal to autograd, draws that belong to rows."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from bench.core.streams import StepNoise, generator, row_bits, stream_seed
from bench.interface import Task
from documents_code import dropout_fcn as document
from implementations import _dense
from implementations._dropout_masks import Masks
from implementations._kernels.layout import Layout
from implementations.dropout_fcn import LOSSES, DropoutFcn, DropoutPosterior, Training, bce_on_log_probs
from tests.close import DOUBLE, close
from tests.golden.fits import TraceContext, in_double
from tests.implementations.made_up import assert_parameters, load, rows

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


def hand_masks(dropouts, layers):
    for dropout, mask in zip(dropouts, layers, strict=True):
        dropout.mask = mask


def plain_network(layout, flat):
    """The document's network with these weights, and its dropout layers."""
    net = load(
        document.network(layout.sizes[0], layout.sizes[1], GivenMask).to(flat.dtype), layout.named(flat).values()
    )
    return net, [module for module in net if isinstance(module, GivenMask)]


def test_loss_of_a_blind_network():
    # p = 1/10: [log 10 + 10 log(1 + 1/10)] / 10 = [2.302585 + 0.953102] / 10 = 0.3255687; times 391 = 127.2974
    loss, gradient = bce_on_log_probs(torch.zeros(4, 10, dtype=torch.float64), torch.tensor([0, 3, 9, 3]))
    assert loss.item() == close((math.log(10) + 10 * math.log(1.1)) / 10)
    assert round(BATCHES * loss.item(), 4) == 127.2974
    # s = (1/10) / (11/10) = 1/11; g_k = 1/11 - y_k over 40; sum g = (10/11 - 1)/40 = -1/440
    # wrong class: 1/440 + 1/4400 = 11/4400; right class: (1/11 - 1)/40 + 1/4400 = -100/4400 + 1/4400
    assert gradient[0, 1].item() == close(11 / 4400)
    assert gradient[0, 0].item() == close(-99 / 4400)


def test_loss_of_a_perfect_network_is_its_floor():
    # p = onehot: [0 + log 2] / 10; times 391 = 27.102: the printed sum can fall no lower
    logits = 100 * torch.eye(10, dtype=torch.float64)
    loss, gradient = bce_on_log_probs(logits, torch.arange(10))
    assert loss.item() == close(math.log(2) / 10)
    assert round(BATCHES * loss.item(), 3) == 27.102
    assert gradient.abs().max().item() == close(0)


@given(seed=st.integers(0, 2**31), rows=st.integers(1, 6), scale=st.floats(0.01, 30), name=st.sampled_from([*LOSSES]))
def test_loss_and_gradient_equal_autograd(seed, rows, scale, name):
    source = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, 10, dtype=torch.float64, generator=source)
    y = torch.randint(10, (rows,), generator=source)
    loss, gradient = LOSSES[name](logits.clone(), y)
    logits.requires_grad_()
    expected = PLAIN_LOSSES[name](torch.log_softmax(logits, 1), y)
    expected.backward()
    assert loss.item() == close(expected.item())
    torch.testing.assert_close(gradient, logits.grad, rtol=DOUBLE, atol=DOUBLE)


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


@pytest.mark.parametrize("loss", [*LOSSES])
def test_twenty_steps_equal_autograd_and_torch_sgd(loss):
    flat = _dense.linear_init(LAYOUT, generator(1, "init"), torch.float64)
    net, dropouts = plain_network(LAYOUT, flat)
    sgd = document.optimizer(net)
    training = Training(DropoutFcn(hidden=(70, 70, 70), loss=loss), LAYOUT, flat)
    noise = StepNoise(1)
    for step in range(20):
        batch = rows(12 if step % 3 else 5, seed=step)
        x, y = batch.x.double(), batch.y
        words = training.masks.random_words(len(y), noise)
        for dropout, mask in zip(dropouts, training.masks.layers(words), strict=True):
            dropout.mask = mask
            assert mask.unique().tolist() == [0, 1 / (1 - dropout.rate)]
        expected, correct = document.training_step(net, sgd, x, y, PLAIN_LOSSES[loss])
        got, right = training.step(x, y, words)
        assert got.item() == close(expected.item())
        assert int(right) == correct
        assert_parameters(net, LAYOUT.named(training.flat).values(), rtol=DOUBLE, atol=DOUBLE)
        if step == 0:  # the momentum starts at zero, so that it now holds the gradient alone
            assert_parameters(net, LAYOUT.named(training.velocity).values(), gradients=True, rtol=DOUBLE, atol=DOUBLE)


def test_trace_is_what_the_document_prints():
    train, task = in_double(rows(40)), Task("classification", 10, 40, LAYOUT.sizes[0])
    context = TraceContext(7)
    recipe = DropoutFcn(epochs=2, hidden=(70, 70, 70), batch_size=16, learning_rate=0.1)
    recipe.fit(train, task, context)
    net, dropouts = plain_network(LAYOUT, _dense.linear_init(LAYOUT, generator(7, "init"), torch.float64))
    sgd, masks = document.optimizer(net), Masks.of(recipe, LAYOUT, torch.zeros(1, dtype=torch.float64))
    for epoch in (1, 2):
        noise = StepNoise(stream_seed(7, "noise", epoch))

        def batches(noise=noise):
            for start in (0, 16, 32):  # in the order of the rows, the last batch of 8
                x, y = train.x[start : start + 16], train.y[start : start + 16]
                hand_masks(dropouts, masks.layers(masks.random_words(len(y), noise)))
                yield x, y

        loss_sum, accuracy = document.train_epoch(net, sgd, batches())
        assert context.traces[epoch]["mnist/train60k/train_loss_sum"] == close(loss_sum)
        assert context.traces[epoch]["mnist/train60k/accuracy"] == accuracy


@pytest.fixture(scope="module")
def posterior():
    flat = _dense.linear_init(LAYOUT, generator(2, "init"), torch.float64, half_width=0.3)
    return DropoutPosterior(LAYOUT, flat, Masks.of(RECIPE, LAYOUT, flat), 0.01, seed=5)


def test_draw_equals_the_plain_network_under_the_row_s_masks(posterior, monkeypatch):
    monkeypatch.setattr(_dense, "ROWS_AT_A_TIME", 7)
    flat = _dense.linear_init(LAYOUT, generator(2, "init"), torch.float64, half_width=0.3)
    net, dropouts = plain_network(LAYOUT, flat)
    masks = Masks.of(RECIPE, LAYOUT, flat)
    x, names = rows(30).x.double(), torch.arange(1000, 1030)
    got = posterior.predict(x, range(3, 5), names).log_probs
    for position, draw in enumerate((3, 4)):
        hand_masks(dropouts, masks.layers(row_bits(5, draw, names, masks.n_words)))
        torch.testing.assert_close(got[position], net(x).detach(), rtol=DOUBLE, atol=DOUBLE)
