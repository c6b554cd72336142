"""Methods of libraries against their formulas by hand: a step of IVON, a network of the sampled Laplace."""

import dataclasses
import sys

import pytest
import torch

from bench.core.streams import normals_
from bench.interface import Task
from implementations._kernels.layout import Layout
from tests.close import DOUBLE, close
from tests.golden.fits import in_double
from tests.implementations.made_up import class_of, context_of, rows

TASK = Task("classification", n_outputs=3, n_train=40, n_inputs=5, hidden=(6,))
LAYOUT = Layout((5, 6, 3))


def logits_of(flat, x):
    (first, bias), (last, last_bias) = LAYOUT.layers(flat)
    return torch.relu(x @ first.T + bias) @ last.T + last_bias


def test_a_step_of_ivon_is_that_of_the_paper():
    """Algorithm 1 of Shen et al. 2024: N = 40, h = .3, d = 1 / (40 .5^2) = .1 make sigma 1 / sqrt(40 (h + d)) = .25."""
    recipe = class_of("ivon")(epochs=1, batch_size=40, prior_std=0.5, learning_rate=0.2, hess_init=0.3, beta2=0.9)
    train, context = in_double(rows(40, 5, n_outputs=3)), context_of(3, torch.float64)
    start, end = (dataclasses.replace(recipe, epochs=n).fit(train, TASK, context).arrays() for n in (0, 1))
    torch.testing.assert_close(start["sigma"], torch.full_like(start["mu"], 0.25), rtol=DOUBLE, atol=0)
    torch.manual_seed(context.stream("noise", 1))
    noise = 0.25 * torch.randn(LAYOUT.n_weights, dtype=torch.float64)
    weights = (start["mu"] + noise).requires_grad_()
    loss = torch.nn.functional.cross_entropy(logits_of(weights, train.x), train.y)
    (gradient,) = torch.autograd.grad(loss, weights)
    found = gradient * noise / 0.25**2
    h = 0.9 * 0.3 + 0.1 * found + 0.1**2 / 2 * (0.3 - found) ** 2 / (0.3 + 0.1)
    mu = start["mu"] - 0.2 * (0.3 + 0.1) * (gradient + 0.1 * start["mu"]) / (h + 0.1)
    torch.testing.assert_close(end["sigma"], 1 / (40 * (h + 0.1)).sqrt(), rtol=DOUBLE, atol=0)
    torch.testing.assert_close(end["mu"], mu, rtol=DOUBLE, atol=DOUBLE)


@pytest.mark.usefixtures("float64")
def test_a_draw_of_the_sampled_laplace_is_the_network_of_the_normal_of_its_precision():
    """A draw is w* + A^(-1/2) z, where A has a block for each tensor: the product of its factors, plus its prior."""
    approach = class_of("laplace")(weights="all_sampled")
    source = torch.Generator().manual_seed(0)
    shapes = [part.shape for layer in LAYOUT.layers(torch.zeros(LAYOUT.n_weights)) for part in layer]
    arrays = {"network": torch.randn(LAYOUT.n_weights, generator=source), "prior": torch.tensor([1.0, 2.0, 3.0, 4.0])}
    blocks = []
    for index, shape in enumerate(shapes):
        roots = [torch.randn(n, n, generator=source) for n in shape]
        factors = [root @ root.T for root in roots]
        arrays |= {f"factors/{index}/{side}": factor for side, factor in enumerate(factors)}
        whole = torch.kron(*factors) if len(factors) == 2 else factors[0]
        blocks.append(whole + arrays["prior"][index] * torch.eye(len(whole)))
    precisions, axes = torch.linalg.eigh(torch.block_diag(*blocks))
    normals = normals_(torch.empty(LAYOUT.n_weights), 5, "draw", 2)
    flat = arrays["network"] + axes @ (axes.T @ normals / precisions.sqrt())
    x = torch.randn(7, 5, generator=source)
    answer = approach.rebuild(arrays, TASK, 5).predict(x, range(2, 3), torch.arange(7))
    wanted = torch.log_softmax(logits_of(flat, x), 1)
    torch.testing.assert_close(answer.log_probs[0], wanted, rtol=DOUBLE, atol=DOUBLE)


def test_a_sampled_laplace_trains_as_the_linearised_one():
    train = rows(40, 5, n_outputs=3)
    fits = [
        class_of("laplace")(epochs=1, weights=name).fit(train, TASK, context_of(0, torch.float32))
        for name in ("all", "all_sampled")
    ]
    linearised, sampled = (one.arrays() for one in fits)
    assert all(torch.equal(linearised[name], value) for name, value in sampled.items())
    answers = [one.predict(train.x, range(2), train.rows).log_probs for one in fits]
    assert not torch.equal(*answers)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("noise", "covariance"), [(True, "dense"), (False, "dense"), (True, "diagonal")])
def test_the_loss_of_vbll_is_its_bound_and_the_kl_of_the_last_layer_under_the_tasks_prior(noise, covariance):
    """The library leaves -1/2 a weight out of the KL; 2.5 log det - trace / 2 of its precision is the noise's."""
    task = dataclasses.replace(TASK, weight_decay=0.1)  # a prior variance of 1 / (40 .1) = .25
    recipe, context = class_of("vbll")(epochs=0, logit_noise=noise, covariance=covariance), context_of(3, torch.float64)
    learner = vars(sys.modules[type(recipe).__module__])["LastLayer"](recipe, task, context)
    layer, train = learner.net[1], in_double(rows(9, 5, n_outputs=3))
    with torch.no_grad():
        for value in layer.parameters():
            value.add_(0.3 if value.dim() > 1 else 0.0)
    sd, mean, root = layer.noise_logdiag.exp(), layer.W_mean, layer.W().chol_covariance
    inputs = torch.cat([learner.net[0](train.x), torch.ones(9, 1)], 1)
    logits, spread = inputs @ mean.T, torch.einsum("bi,kij->bkj", inputs, root).square().sum(2)
    bound = torch.nn.functional.cross_entropy(logits + (spread + sd.square()) / 2, train.y)
    bound += (spread + sd.square()).gather(1, train.y[:, None]).mean() / 2  # only the sum has the variances
    kl = (
        torch.distributions.kl_divergence(
            torch.distributions.MultivariateNormal(mean, scale_tril=root),
            torch.distributions.MultivariateNormal(torch.zeros(7), 0.25 * torch.eye(7)),
        ).sum()
        + 21 / 2
    )
    penalty = (2.5 * -2 * sd.log() - sd**-2 / 2).sum() if noise else 0.0
    decay = 0.1 / 2 * sum(value.square().sum() for value in learner.net[0].parameters())
    wanted = bound + (kl - penalty) / 40 + decay
    assert learner.loss(train.x, train.y).item() == close(wanted.item())


@pytest.mark.parametrize("covariance", ["dense", "diagonal"])
def test_a_draw_of_vbll_has_the_roots_of_its_covariances(covariance):
    train = in_double(rows(40, 5, n_outputs=3))
    posterior = class_of("vbll")(epochs=1, covariance=covariance).fit(train, TASK, context_of(3, torch.float64))
    arrays = posterior.arrays()
    normals = normals_(torch.empty(3, 7, dtype=torch.float64), 3, "draw", 4)
    roots = arrays["root"] if covariance == "dense" else torch.diag_embed(arrays["root"])
    change = torch.stack([root @ one for root, one in zip(roots, normals, strict=True)])
    (first, mean), (first_drawn, drawn) = (
        (layers[0], torch.cat([part.view(3, -1) for part in layers[1]], 1))
        for layers in map(LAYOUT.layers, (arrays["network"], posterior.network(4)))
    )
    torch.testing.assert_close(drawn, mean + change, rtol=DOUBLE, atol=DOUBLE)
    assert all(map(torch.equal, first, first_drawn))
