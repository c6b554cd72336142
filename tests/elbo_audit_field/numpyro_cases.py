"""Objectives in NumPyro, four right and three with one mistake each."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.infer import Trace_ELBO, TraceMeanField_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal, AutoNormal

from tests.elbo_audit_field.case import case, labelled, measured


@case("numpyro_plate_subsample", "numpyro", right=True, kl_per_epoch=1.0, truth="the plate scales the rows by N / B")
def plate_subsample():
    """A network with AutoNormal; the plate gets the number of rows and the batch's size."""

    # Observed scale 2,000 / 100 = 20, latent 1.
    def model(x, y):
        w1 = numpyro.sample("w1", dist.Normal(jnp.zeros((6, 9)), 1.0).to_event(2))
        b1 = numpyro.sample("b1", dist.Normal(jnp.zeros(9), 1.0).to_event(1))
        w2 = numpyro.sample("w2", dist.Normal(jnp.zeros((9, 3)), 1.0).to_event(2))
        logits = jax.nn.relu(x @ w1 + b1) @ w2
        with numpyro.plate("data", 2000, subsample_size=100):
            numpyro.sample("obs", dist.Categorical(logits=logits), obs=y)

    batches = labelled([100, 100, 100], 6, 3, 31)
    return dict(model=model, guide=AutoNormal(model), batches=batches, n_train=2000, loss=Trace_ELBO(), params=None)


@case("numpyro_scaled_rows", "numpyro", right=True, kl_per_epoch=1.0, truth="handlers.scale gives the rows N / B, once")
def scaled_rows():
    """handlers.scale(N / B) around the rows; a guide by hand with exp(log_sigma); a point estimate of the noise."""

    # 750 / 50 = 15 for the rows. The noise sd is a parameter of the model without a prior.
    def model(x, y):
        w1 = numpyro.sample("w1", dist.Normal(0, 1).expand([3, 8]).to_event(2))
        w2 = numpyro.sample("w2", dist.Normal(0, 1).expand([8, 1]).to_event(2))
        noise = numpyro.param("noise", 0.3, constraint=constraints.positive)
        with handlers.scale(scale=750 / x.shape[0]):
            numpyro.sample("y", dist.Normal(jnp.tanh(x @ w1) @ w2, noise).to_event(1), obs=y)

    def guide(x, y):
        for i, shape in enumerate([(3, 8), (8, 1)], start=1):
            mu = numpyro.param(f"mu{i}", lambda key, shape=shape: 0.2 * jax.random.normal(key, shape))
            log_sigma = numpyro.param(f"log_sigma{i}", jnp.full(shape, -3.0))
            numpyro.sample(f"w{i}", dist.Normal(mu, jnp.exp(log_sigma)).to_event(2))

    batches = measured([50, 50, 50], 3, 1, 32, 0.3)
    return dict(model=model, guide=guide, batches=batches, n_train=750, loss=Trace_ELBO(), params=None)


@case("numpyro_full_covariance", "numpyro", right=True, kl_per_epoch=1.0, truth="the plate scales the rows by N / B")
def full_covariance():
    """Poisson regression with AutoMultivariateNormal; the last batch is smaller."""

    # Scales 190 / 50 and 190 / 40: each step estimates the whole ELBO, and B / N add up to 1 over the batches.
    def model(x, y):
        beta = numpyro.sample("beta", dist.Normal(0.0, 0.5).expand([4]).to_event(1))
        alpha = numpyro.sample("alpha", dist.Normal(0.0, 2.0))
        with numpyro.plate("data", 190, subsample_size=x.shape[0]):
            numpyro.sample("count", dist.Poisson(jnp.exp(x @ beta + alpha)), obs=y)

    batches = [(x, y) for x, y in labelled([50, 50, 50, 40], 4, 5, 33)]
    guide = AutoMultivariateNormal(model, init_scale=0.05)
    return dict(model=model, guide=guide, batches=batches, n_train=190, loss=Trace_ELBO(), params=None)


@case("numpyro_non_centred", "numpyro", right=True, kl_per_epoch=1.0, truth="all latent sites count once")
def non_centred():
    """A latent scale times standard normal weights, two outputs, two particles, analytic KL where there is one."""

    # Latent sites tau, z and bias have scale 1, the rows 1,200 / 60 = 20.
    def model(x, y):
        tau = numpyro.sample("tau", dist.LogNormal(-1.0, 0.5))
        z = numpyro.sample("z", dist.Normal(jnp.zeros((5, 2)), 1.0).to_event(2))
        bias = numpyro.sample("bias", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
        with numpyro.plate("rows", 1200, subsample_size=len(x)):
            numpyro.sample("obs", dist.Normal(jnp.sin(x @ (tau * z) + bias), 0.4).to_event(1), obs=y)

    def guide(x, y):
        t = numpyro.param("t", jnp.array(-1.0)), numpyro.param("t_scale", 0.1, constraint=constraints.positive)
        numpyro.sample("tau", dist.LogNormal(*t))
        z_loc, z_rho = numpyro.param("z_loc", 0.1 * jnp.ones((5, 2))), numpyro.param("z_rho", jnp.full((5, 2), -2.0))
        numpyro.sample("z", dist.Normal(z_loc, jax.nn.softplus(z_rho)).to_event(2))
        b_loc, b_rho = numpyro.param("b_loc", jnp.zeros(2)), numpyro.param("b_rho", jnp.full(2, -2.0))
        numpyro.sample("bias", dist.Normal(b_loc, jax.nn.softplus(b_rho)).to_event(1))

    batches = measured([60, 60, 60], 5, 2, 34, 0.4)
    loss = TraceMeanField_ELBO(num_particles=2)
    return dict(model=model, guide=guide, batches=batches, n_train=1200, loss=loss, params=None)


def normal_guide(shapes):
    """Return a mean-field guide with positive scales for named shapes."""

    def guide(x, y):
        for number, (name, shape) in enumerate(shapes.items()):
            start = 0.2 * jax.random.normal(jax.random.PRNGKey(number), shape)
            loc = numpyro.param(name + "_loc", start)
            scale = numpyro.param(name + "_scale", jnp.full(shape, 0.05), constraint=constraints.positive)
            numpyro.sample(name, dist.Normal(loc, scale).to_event(2))

    return guide


@case(
    "numpyro_everything_scaled",
    "numpyro",
    right=False,
    mistake="weight",
    kl_per_epoch=25.0,
    mends=0.04,
    truth="the KL counts 25 times an epoch: scale(B / N) is around the rows too, so it is no share of the KL",
)
def everything_scaled():
    """handlers.scale(B / N) around the whole model and guide, in the place of the weights alone."""

    # All sites have 100 / 2,500; a common factor changes nothing: each of 25 steps weighs the KL like its rows.
    def net(x, y):
        w1 = numpyro.sample("w1", dist.Normal(jnp.zeros((7, 8)), 1.0).to_event(2))
        w2 = numpyro.sample("w2", dist.Normal(jnp.zeros((8, 3)), 1.0).to_event(2))
        numpyro.sample("obs", dist.Categorical(logits=jnp.tanh(x @ w1) @ w2), obs=y)

    model = handlers.scale(net, scale=100 / 2500)
    guide = handlers.scale(normal_guide({"w1": (7, 8), "w2": (8, 3)}), scale=100 / 2500)
    batches = labelled([100, 100, 100], 7, 3, 35)
    return dict(model=model, guide=guide, batches=batches, n_train=2500, loss=Trace_ELBO(), params=None)


@case(
    "numpyro_noise_as_the_latent",
    "numpyro",
    right=False,
    mistake="missing KL",
    truth="w2 = loc + scale * eps with eps ~ N(0, 1) in model and guide: the KL of eps is 0, w2 has no prior",
)
def noise_as_the_latent():
    """The last layer is reparameterised by hand in the model, and only its noise is a site."""

    # log p(eps) and log q(eps) cancel; loc2 and log_scale2 are in the likelihood alone: the layer's KL counts 0 times.
    def model(x, y):
        w1 = numpyro.sample("w1", dist.Normal(jnp.zeros((4, 9)), 1.0).to_event(2))
        eps = numpyro.sample("eps", dist.Normal(jnp.zeros((9, 2)), 1.0).to_event(2))
        loc2 = numpyro.param("loc2", 0.1 * jnp.ones((9, 2)))
        log_scale2 = numpyro.param("log_scale2", jnp.full((9, 2), -3.0))
        mean = jnp.tanh(x @ w1) @ (loc2 + jnp.exp(log_scale2) * eps)
        with numpyro.plate("data", 800, subsample_size=len(x)):
            numpyro.sample("obs", dist.Normal(mean, 0.3).to_event(1), obs=y)

    first = normal_guide({"w1": (4, 9)})

    def guide(x, y):
        first(x, y)
        numpyro.sample("eps", dist.Normal(jnp.zeros((9, 2)), 1.0).to_event(2))

    batches = measured([80, 80, 80], 4, 2, 36, 0.3)

    def check():
        traced = handlers.trace(handlers.seed(guide, 0)).get_trace(*batches[0])
        played = handlers.trace(handlers.seed(handlers.replay(model, traced), 1)).get_trace(*batches[0])
        sites = [each["eps"]["fn"].log_prob(each["eps"]["value"]) for each in (traced, played)]
        return [("log q - log p of eps", float(sites[0] - sites[1]), 0.0)]

    return dict(model=model, guide=guide, batches=batches, n_train=800, loss=Trace_ELBO(), params=None, check=check)


@case(
    "numpyro_mean_over_outputs",
    "numpyro",
    right=False,
    mistake="likelihood",
    kl_per_epoch=3.0,
    mends=1 / 3,
    truth="log p is a mean over the 3 outputs and not their sum: beside it the KL counts 3 times",
)
def mean_over_outputs():
    """numpyro.factor with N times the mean of log p over rows and outputs [B, 3]."""

    # N * mean over [B, 3] = N / B * (sum over rows and outputs) / 3: a third of the likelihood, one KL a step.
    def model(x, y):
        w1 = numpyro.sample("w1", dist.Normal(jnp.zeros((5, 8)), 1.0).to_event(2))
        w2 = numpyro.sample("w2", dist.Normal(jnp.zeros((8, 3)), 1.0).to_event(2))
        log_lik = dist.Normal(jnp.tanh(x @ w1) @ w2, 0.2).log_prob(y)
        numpyro.factor("log_lik", 900 * jnp.mean(log_lik))

    guide = normal_guide({"w1": (5, 8), "w2": (8, 3)})
    batches = measured([90, 90, 90], 5, 3, 37, 0.2)

    def check():
        traced = handlers.trace(handlers.seed(guide, 0)).get_trace(*batches[0])
        played = handlers.trace(handlers.seed(handlers.replay(model, traced), 1)).get_trace(*batches[0])
        factor = float(played["log_lik"]["fn"].log_prob(played["log_lik"]["value"]))
        x, y = batches[0]
        outputs = jnp.tanh(x @ traced["w1"]["value"]) @ traced["w2"]["value"]
        summed = dist.Normal(outputs, 0.2).to_event(1).log_prob(y).sum()
        return [("a third of N / B * log p", factor, float(900 / 90 * summed / 3))]

    given = dict(model=model, guide=guide, batches=batches, n_train=900, loss=Trace_ELBO(), params=None)
    return given | dict(check=check, likelihood_factor=10 / 3)
