"""Objectives in Pyro with one mistake each."""

import pyro
import pyro.distributions as dist
import torch
import torch.nn.functional as F
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal, AutoNormal
from torch.distributions import constraints

from tests.elbo_audit_field.case import case, labelled, measured
from tests.elbo_audit_field.pyro_cases import fresh
from tests.elbo_audit_field.torch_cases import tensors


def trace_pair(guide, model, batch):
    """Return a trace of the guide and that of the model with the same draws, with log probabilities."""
    guide_trace = poutine.trace(guide).get_trace(*batch)
    model_trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace(*batch)
    for each in (guide_trace, model_trace):
        each.compute_log_prob()
    return guide_trace, model_trace


@case(
    "pyro_plate_of_the_batch",
    "pyro",
    right=False,
    mistake="weight",
    kl_per_epoch=30.0,
    mends=1 / 30,
    truth="the KL counts 30 times an epoch: the plate has the batch's size, so the rows have scale 1",
)
def plate_of_the_batch():
    """A plate over the rows of the batch, as for the whole data, trained in batches of 100 of 3,000 rows."""
    # Each of 3,000 / 100 = 30 steps has the KL whole and the NLL of its own rows only.
    fresh(11)

    def model(x, y):
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(6, 10), 1.0).to_event(2))
        w2 = pyro.sample("w2", dist.Normal(torch.zeros(10, 3), 1.0).to_event(2))
        with pyro.plate("data", x.shape[0]):
            pyro.sample("obs", dist.Categorical(logits=torch.relu(x @ w1) @ w2), obs=y)

    batches = tensors(labelled([100, 100, 100], 6, 3, 11))
    return dict(model=model, guide=AutoDiagonalNormal(model), batches=batches, n_train=3000, loss=Trace_ELBO())


@case(
    "pyro_rows_scaled_twice",
    "pyro",
    right=False,
    mistake="weight",
    kl_per_epoch=0.05,
    mends=20.0,
    truth="the rows are scaled by N / B = 20 twice, so the KL counts 1/20 times",
)
def rows_scaled_twice():
    """A plate that knows N and subsamples, and poutine.scale(N / B) around it as well."""
    # Scale 400 of the rows where 20 is right: 1,000 / 50 = 20.
    fresh(12)

    def model(x, y):
        w = pyro.sample("w", dist.Normal(torch.zeros(4, 2), 1.0).to_event(2))
        sigma = pyro.sample("sigma", dist.LogNormal(-1.0, 0.5))
        with poutine.scale(scale=1000 / len(x)), pyro.plate("data", 1000, subsample_size=len(x)):
            pyro.sample("obs", dist.Normal(torch.tanh(x @ w), sigma).to_event(1), obs=y)

    batches = tensors(measured([50, 50, 50], 4, 2, 12, 0.3))
    return dict(model=model, guide=AutoNormal(model), batches=batches, n_train=1000, loss=Trace_ELBO())


@case(
    "pyro_prior_scaled_guide_not",
    "pyro",
    right=False,
    mistake="entropy",
    truth="log p has B / N and log q has 1: the entropy counts 16 times an epoch, the prior once",
)
def prior_scaled_guide_not():
    """The weights' prior under poutine.scale(B / N); the guide has no such scale."""
    # 1,600 / 100 = 16 batches: 16 * 1/16 = 1 for log p, 16 for log q.
    fresh(13)

    def model(x, y):
        with poutine.scale(scale=len(x) / 1600):
            w1 = pyro.sample("w1", dist.Normal(torch.zeros(5, 8), 1.0).to_event(2))
            w2 = pyro.sample("w2", dist.Normal(torch.zeros(8, 2), 1.0).to_event(2))
        with pyro.plate("data", len(x)):
            pyro.sample("obs", dist.Categorical(logits=torch.tanh(x @ w1) @ w2), obs=y)

    batches = tensors(labelled([100, 100, 100], 5, 2, 13))

    def guide(x, y):
        for name, shape in (("w1", (5, 8)), ("w2", (8, 2))):
            loc = pyro.param(f"{name}.loc", lambda shape=shape: 0.1 * torch.randn(shape))
            scale = pyro.param(f"{name}.scale", torch.full(shape, 0.05), constraint=constraints.positive)
            pyro.sample(name, dist.Normal(loc, scale).to_event(2))

    def check():
        guide_trace, model_trace = trace_pair(guide, model, batches[0])
        ratio = guide_trace.nodes["w1"]["scale"] / model_trace.nodes["w1"]["scale"]
        return [("log q counts 16 times as often as log p", ratio, 16.0)]

    return dict(model=model, guide=guide, batches=batches, n_train=1600, loss=Trace_ELBO(), check=check)


@case(
    "pyro_detached_scale",
    "pyro",
    right=False,
    mistake="gradient",
    truth="the guide's scale is detached: its parameter has no gradient and stays 0.05",
)
def detached_scale():
    """The guide detaches its scales, left over from a warm-up of the means."""
    # The value of the loss is that of the ELBO; d loss / d scale is 0 (no path), where the ELBO's is not.
    fresh(14)

    def model(x, y):
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(3, 9), 1.0).to_event(2))
        w2 = pyro.sample("w2", dist.Normal(torch.zeros(9, 1), 1.0).to_event(2))
        with pyro.plate("data", 600, subsample_size=len(x)):
            pyro.sample("obs", dist.Normal((torch.tanh(x @ w1) @ w2).squeeze(-1), 0.2), obs=y)

    def guide(x, y):
        for name, shape in (("w1", (3, 9)), ("w2", (9, 1))):
            loc = pyro.param(name + "_mu", lambda shape=shape: 0.2 * torch.randn(shape))
            sigma = pyro.param(name + "_sigma", torch.full(shape, 0.05), constraint=constraints.positive)
            pyro.sample(name, dist.Normal(loc, sigma.detach()).to_event(2))

    batches = [(x, y.squeeze(1)) for x, y in tensors(measured([60, 60, 60], 3, 1, 14, 0.2))]

    def check():
        loss = Trace_ELBO().differentiable_loss(model, guide, *batches[0])
        raw = [pyro.get_param_store()._params[f"{name}_sigma"] for name in ("w1", "w2")]
        gradients = torch.autograd.grad(loss, raw, allow_unused=True)
        return [("gradients of scales", float(sum(each is not None for each in gradients)), 0.0)]

    return dict(model=model, guide=guide, batches=batches, n_train=600, loss=Trace_ELBO(), check=check)


@case(
    "pyro_rows_broadcast",
    "pyro",
    right=False,
    mistake="rows",
    truth="to_event(1) hides that [B, 1] and [B] broadcast: each row's mean is scored with all B targets",
)
def rows_broadcast():
    """Means [B, 1] under to_event(1), which silences the shape error, with targets [B]."""
    # log p of row i is the sum over j of N(y_j; mean_i, 0.3): B = 30 times as many terms, and of the wrong pairs.
    fresh(15)

    def model(x, y):
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(4, 7), 1.0).to_event(2))
        w2 = pyro.sample("w2", dist.Normal(torch.zeros(7, 1), 1.0).to_event(2))
        mean = torch.relu(x @ w1) @ w2
        with pyro.plate("data", 300, subsample_size=x.shape[0]):
            pyro.sample("obs", dist.Normal(mean, 0.3).to_event(1), obs=y)

    guide = AutoNormal(model)
    batches = [(x, y.squeeze(1)) for x, y in tensors(measured([30, 30, 30], 4, 1, 15, 0.3))]

    def check():
        guide_trace, model_trace = trace_pair(guide, model, batches[0])
        x, y = batches[0]
        w1, w2 = (guide_trace.nodes[name]["value"] for name in ("w1", "w2"))
        pairs = dist.Normal(torch.relu(x @ w1) @ w2, 0.3).log_prob(y[None, :].expand(30, 30)).sum()
        return [("log p of all pairs", model_trace.nodes["obs"]["log_prob_sum"].item(), 10 * pairs.item())]

    return dict(model=model, guide=guide, batches=batches, n_train=300, loss=Trace_ELBO(), check=check)


@case(
    "pyro_factor_of_mean_loss",
    "pyro",
    right=False,
    mistake="weight",
    kl_per_epoch=1200.0,
    mends=1 / 1200,
    truth="the KL counts N = 1,200 times an epoch: the factor is the mean over the batch and the KL is whole",
)
def factor_of_mean_loss():
    """pyro.factor with the mean cross-entropy of torch in the place of an observed site."""
    # 60 * step = summed NLL + 60 * KL, and there are 1,200 / 60 = 20 steps: 20 * 60 = 1,200.
    fresh(16)

    def model(x, y):
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(6, 8), 1.0).to_event(2))
        w2 = pyro.sample("w2", dist.Normal(torch.zeros(8, 4), 1.0).to_event(2))
        logits = F.relu(x @ w1) @ w2
        pyro.factor("nll", -F.cross_entropy(logits, y))

    guide = AutoNormal(model)
    batches = tensors(labelled([60, 60, 60], 6, 4, 16))

    def check():
        guide_trace, model_trace = trace_pair(guide, model, batches[0])
        w1, w2 = (guide_trace.nodes[name]["value"] for name in ("w1", "w2"))
        x, y = batches[0]
        summed = dist.Categorical(logits=F.relu(x @ w1) @ w2).log_prob(y).sum()
        return [("60 times the factor", 60 * model_trace.nodes["nll"]["log_prob_sum"].item(), summed.item())]

    return dict(model=model, guide=guide, batches=batches, n_train=1200, loss=Trace_ELBO(), check=check) | dict(
        likelihood_factor=1 / 60
    )


@case(
    "pyro_layer_masked_out",
    "pyro",
    right=False,
    mistake="missing KL",
    truth="the second layer's log p and log q are masked: its KL counts 0 times, the first layer's once",
)
def layer_masked_out():
    """poutine.mask(False) around the second layer in model and guide, left from a test without its prior."""
    # A masked site's log probability is 0, so neither prior nor entropy of w2 is in the loss.
    fresh(17)

    def model(x, y):
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(5, 9), 0.7).to_event(2))
        with poutine.mask(mask=False):
            w2 = pyro.sample("w2", dist.Normal(torch.zeros(9, 3), 0.7).to_event(2))
        with pyro.plate("data", 900, subsample_size=len(x)):
            pyro.sample("obs", dist.Categorical(logits=torch.tanh(x @ w1) @ w2), obs=y)

    def guide(x, y):
        loc1 = pyro.param("loc1", lambda: 0.2 * torch.randn(5, 9))
        loc2 = pyro.param("loc2", lambda: 0.2 * torch.randn(9, 3))
        s1, s2 = pyro.param("log_s1", torch.full((5, 9), -3.0)), pyro.param("log_s2", torch.full((9, 3), -3.0))
        pyro.sample("w1", dist.Normal(loc1, s1.exp()).to_event(2))
        with poutine.mask(mask=False):
            pyro.sample("w2", dist.Normal(loc2, s2.exp()).to_event(2))

    batches = tensors(labelled([90, 90, 90], 5, 3, 17))

    def check():
        both = trace_pair(guide, model, batches[0])
        return [("log p and log q of w2", float(sum(abs(t.nodes["w2"]["log_prob_sum"]) for t in both)), 0.0)]

    return dict(model=model, guide=guide, batches=batches, n_train=900, loss=TraceMeanField_ELBO(), check=check)


@case(
    "pyro_prior_counted_twice",
    "pyro",
    right=False,
    mistake="prior",
    truth="log p(w1) is in the model twice: the prior of w1 is N(0, 0.707) and not N(0, 1)",
)
def prior_counted_twice():
    """A sampled first layer with its prior, and pyro.factor with the same prior once more, 'to regularise'."""
    # N(w; 0, 1)^2 is N(w; 0, 1/2) up to a constant: log p has w^2 where w^2 / 2 is meant; log q counts once.
    fresh(18)

    def model(x, y):
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(4, 10), 1.0).to_event(2))
        w2 = pyro.sample("w2", dist.Normal(torch.zeros(10, 2), 1.0).to_event(2))
        pyro.factor("prior", dist.Normal(0.0, 1.0).log_prob(w1).sum())
        with pyro.plate("data", 500, subsample_size=len(x)):
            pyro.sample("obs", dist.Normal(torch.tanh(x @ w1) @ w2, 0.25).to_event(1), obs=y)

    guide = AutoNormal(model)
    batches = tensors(measured([50, 50, 50], 4, 2, 18, 0.25))

    def check():
        nodes = trace_pair(guide, model, batches[0])[1].nodes
        both = (nodes["w1"]["log_prob_sum"] + nodes["prior"]["log_prob_sum"]).item()
        w1 = nodes["w1"]["value"]
        documented, narrow = dist.Normal(0.0, 1.0), dist.Normal(0.0, 0.5**0.5)
        constant = 2 * documented.log_prob(torch.zeros(4, 10)).sum() - narrow.log_prob(torch.zeros(4, 10)).sum()
        return [("the prior of w1", both, (narrow.log_prob(w1).sum() + constant).item())]

    return dict(model=model, guide=guide, batches=batches, n_train=500, loss=Trace_ELBO(), check=check)
