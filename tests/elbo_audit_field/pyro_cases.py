"""Right objectives in Pyro."""

import pyro
import pyro.distributions as dist
import torch
import torch.nn.functional as F
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal, AutoLowRankMultivariateNormal, AutoNormal
from pyro.nn import PyroModule, PyroSample
from torch import nn
from torch.distributions import constraints

from tests.elbo_audit_field.case import case, labelled, measured
from tests.elbo_audit_field.torch_cases import tensors


def fresh(seed):
    """Clear the parameter store and seed the draws."""
    pyro.clear_param_store()
    pyro.set_rng_seed(seed)


class RegressionNet(PyroModule):
    """The regression network of the tutorials: PyroSample weights, a uniform noise scale, a plate over the rows."""

    def __init__(self, n_in, hidden, n_rows):
        super().__init__()
        self.n_rows = n_rows
        self.fc1 = PyroModule[nn.Linear](n_in, hidden)
        self.fc1.weight = PyroSample(dist.Normal(0.0, 1.0).expand([hidden, n_in]).to_event(2))
        self.fc1.bias = PyroSample(dist.Normal(0.0, 10.0).expand([hidden]).to_event(1))
        self.fc2 = PyroModule[nn.Linear](hidden, 1)
        self.fc2.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, hidden]).to_event(2))
        self.fc2.bias = PyroSample(dist.Normal(0.0, 10.0).expand([1]).to_event(1))

    def forward(self, x, y=None):
        sigma = pyro.sample("sigma", dist.Uniform(0.0, 2.0))
        mean = self.fc2(torch.tanh(self.fc1(x))).squeeze(-1)
        with pyro.plate("data", self.n_rows, subsample_size=x.shape[0]):
            pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
        return mean


@case("pyro_module_plate_subsample", "pyro", right=True, kl_per_epoch=1.0, truth="the plate scales the rows by N / B")
def module_plate_subsample():
    """PyroModule regression with AutoDiagonalNormal; the plate knows the number of rows and gets a batch of them."""
    # The observed site has scale 500 / 50 = 10, all latent sites have 1: each step estimates the whole ELBO.
    fresh(1)
    model = RegressionNet(3, 8, 500)
    batches = [(x, y.squeeze(1)) for x, y in tensors(measured([50, 50, 50], 3, 1, 1))]
    return dict(model=model, guide=AutoDiagonalNormal(model), batches=batches, n_train=500, loss=Trace_ELBO())


@case("pyro_scaled_rows", "pyro", right=True, kl_per_epoch=1.0, truth="poutine.scale gives the rows N / B, once")
def scaled_rows():
    """Logistic regression with three classes; poutine.scale around the observed rows, AutoNormal as the guide."""
    # Scale 2,400 / 80 = 30 for the rows, 1 for w and b.
    fresh(2)

    def model(x, y):
        w = pyro.sample("w", dist.Normal(torch.zeros(6, 3), 1.0).to_event(2))
        b = pyro.sample("b", dist.Normal(torch.zeros(3), 1.0).to_event(1))
        with poutine.scale(scale=2400 / x.size(0)), pyro.plate("rows", x.size(0)):
            pyro.sample("y", dist.Categorical(logits=x @ w + b), obs=y)

    batches = tensors(labelled([80, 80, 80], 6, 3, 2))
    return dict(model=model, guide=AutoNormal(model, init_scale=0.05), batches=batches, n_train=2400, loss=Trace_ELBO())


@case("pyro_all_scaled_by_rows", "pyro", right=True, kl_per_epoch=1.0, truth="the whole ELBO over N: a constant factor")
def all_scaled_by_rows():
    """The model and the guide, both under poutine.scale(1 / N), so that losses are per row."""
    # Every site has 1 / 900 as a factor, the observed one 1 / 900 * 900 / 45 = 1 / 45: the ratio is N / B, as is right.
    fresh(3)
    n = 900

    def model(x, y):
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(4, 9), 0.5).to_event(2))
        w2 = pyro.sample("w2", dist.Normal(torch.zeros(9, 2), 0.5).to_event(2))
        with pyro.plate("data", n, subsample_size=len(x)):
            pyro.sample("obs", dist.Normal(torch.relu(x @ w1) @ w2, 0.2).to_event(1), obs=y)

    def guide(x, y):
        for name, shape in (("w1", (4, 9)), ("w2", (9, 2))):
            loc = pyro.param(f"{name}_loc", lambda shape=shape: 0.2 * torch.randn(shape))
            log_scale = pyro.param(f"{name}_log_scale", lambda shape=shape: torch.full(shape, -3.0))
            pyro.sample(name, dist.Normal(loc, log_scale.exp()).to_event(2))

    batches = tensors(measured([45, 45, 45], 4, 2, 3, 0.2))
    both = [poutine.scale(each, scale=1.0 / n) for each in (model, guide)]
    return dict(model=both[0], guide=both[1], batches=batches, n_train=n, loss=Trace_ELBO())


@case(
    "pyro_latents_scaled_down", "pyro", right=True, kl_per_epoch=1.0, truth="log p and log q of weights have B / N each"
)
def latents_scaled_down():
    """Weights under poutine.scale(B / N) in model and guide, unscaled rows, softplus scales, analytic KL."""
    # 1,500 / 100 = 15 batches, each with 1/15 of both log p and log q.
    fresh(4)

    def model(x, y):
        with poutine.scale(scale=len(x) / 1500):
            w1 = pyro.sample("w1", dist.Normal(torch.zeros(5, 12), 1.0).to_event(2))
            w2 = pyro.sample("w2", dist.Normal(torch.zeros(12, 4), 1.0).to_event(2))
        logits = F.leaky_relu(x @ w1) @ w2
        with pyro.plate("data", len(x)):
            pyro.sample("y", dist.Categorical(logits=logits), obs=y)

    def guide(x, y):
        m1 = pyro.param("m1", lambda: 0.1 * torch.randn(5, 12))
        r1 = pyro.param("r1", lambda: torch.full((5, 12), -3.0))
        m2 = pyro.param("m2", lambda: 0.1 * torch.randn(12, 4))
        r2 = pyro.param("r2", lambda: torch.full((12, 4), -3.0))
        with poutine.scale(scale=len(x) / 1500):
            pyro.sample("w1", dist.Normal(m1, F.softplus(r1)).to_event(2))
            pyro.sample("w2", dist.Normal(m2, F.softplus(r2)).to_event(2))

    batches = tensors(labelled([100, 100, 100], 5, 4, 4))
    return dict(model=model, guide=guide, batches=batches, n_train=1500, loss=TraceMeanField_ELBO())


@case("pyro_low_rank_guide", "pyro", right=True, kl_per_epoch=1.0, truth="the plate scales the rows by N / B")
def low_rank_guide():
    """Binary logistic regression with a low-rank Gaussian guide; the last batch is smaller."""
    # Scale N / B for the rows: 230 / 60 and 230 / 50; the batches' shares B / N of the data add up to 1.
    fresh(5)

    def model(x, y):
        coef = pyro.sample("coef", dist.Normal(torch.zeros(7), 2.0).to_event(1))
        intercept = pyro.sample("intercept", dist.Normal(0.0, 5.0))
        with pyro.plate("data", 230, subsample_size=x.shape[0]):
            pyro.sample("y", dist.Bernoulli(logits=x @ coef + intercept), obs=y)

    guide = AutoLowRankMultivariateNormal(model, rank=2)
    batches = [(x, y.float()) for x, y in tensors(labelled([60, 60, 60, 50], 7, 2, 5))]
    return dict(model=model, guide=guide, batches=batches, n_train=230, loss=Trace_ELBO())


@case("pyro_hierarchical_prior", "pyro", right=True, kl_per_epoch=1.0, truth="weights and their scale count once")
def hierarchical_prior():
    """The prior's scale is latent too (half-Cauchy, log-normal guide), shared by both layers."""
    # All latent sites have scale 1 in model and guide, the rows 640 / 64 = 10.
    fresh(6)

    def model(x, y):
        tau = pyro.sample("tau", dist.HalfCauchy(1.0))
        w1 = pyro.sample("w1", dist.Normal(torch.zeros(3, 8), tau).to_event(2))
        w2 = pyro.sample("w2", dist.Normal(torch.zeros(8, 1), tau).to_event(2))
        mean = (torch.tanh(x @ w1) @ w2).squeeze(-1)
        with pyro.plate("data", 640, subsample_size=64):
            pyro.sample("obs", dist.Normal(mean, 0.1), obs=y)

    def guide(x, y):
        tau_loc = pyro.param("tau_loc", torch.tensor(-0.5))
        tau_scale = pyro.param("tau_scale", torch.tensor(0.1), constraint=constraints.positive)
        pyro.sample("tau", dist.LogNormal(tau_loc, tau_scale))
        for name, shape in (("w1", (3, 8)), ("w2", (8, 1))):
            loc = pyro.param(name + "_loc", lambda shape=shape: 0.3 * torch.randn(shape))
            scale = pyro.param(name + "_scale", torch.full(shape, 0.05), constraint=constraints.positive)
            pyro.sample(name, dist.Normal(loc, scale).to_event(2))

    batches = [(x, y.squeeze(1)) for x, y in tensors(measured([64, 64, 64], 3, 1, 6))]
    return dict(model=model, guide=guide, batches=batches, n_train=640, loss=Trace_ELBO())


@case("pyro_several_particles", "pyro", right=True, kl_per_epoch=1.0, truth="the plate scales the rows by N / B")
def several_particles():
    """Three outputs of one event, a Gamma precision, four particles, AutoNormal."""
    # The rows are events of three outputs, so one row is one factor of the likelihood, at 1,000 / 40 = 25.
    fresh(7)

    def model(x, y):
        precision = pyro.sample("precision", dist.Gamma(6.0, 6.0))
        w = pyro.sample("w", dist.Normal(0.0, 1.0).expand([5, 3]).to_event(2))
        with pyro.plate("data", 1000, subsample_size=x.shape[0]):
            pyro.sample("obs", dist.Normal(torch.sin(x @ w), precision**-0.5).to_event(1), obs=y)

    batches = tensors(measured([40, 40, 40], 5, 3, 7, 0.5))
    loss = Trace_ELBO(num_particles=4)
    return dict(model=model, guide=AutoNormal(model), batches=batches, n_train=1000, loss=loss)
