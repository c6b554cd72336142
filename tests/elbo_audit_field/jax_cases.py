"""Objectives in plain JAX, four right and four with one mistake each."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from tests.elbo_audit_field.case import case, labelled, measured


def gaussian(rng, *shape, scale=0.2):
    """Return means from a seed, single precision."""
    return jnp.asarray(scale * rng.normal(size=shape), dtype=jnp.float32)


def textbook_kl(mu, sigma, prior_sd):
    """Return KL(N(mu, sigma) || N(0, prior_sd)), summed, for the verification."""
    return jnp.sum(jnp.log(prior_sd / sigma) + (sigma**2 + mu**2) / (2 * prior_sd**2) - 0.5)


@case("jax_vmapped_samples", "jax", right=True, kl_per_epoch=1.0, truth="mean over rows and KL / N: the KL counts once")
def vmapped_samples():
    """A classifier with five vmapped posterior samples, a mean loss and the KL over the number of rows."""
    # B * loss = mean over the samples of the summed NLL + KL * B / N; the B add up to N = 3,000.
    rng = np.random.default_rng(1)
    params = {
        "mu": {"w1": gaussian(rng, 6, 12), "b1": jnp.zeros(12), "w2": gaussian(rng, 12, 4), "b2": jnp.zeros(4)},
    }
    params["rho"] = jax.tree.map(lambda m: jnp.full_like(m, -3.0), params["mu"])

    def sample(params, key):
        leaves, tree = jax.tree.flatten(params["mu"])
        keys = jax.tree.unflatten(tree, list(jax.random.split(key, len(leaves))))
        draw = lambda m, r, k: m + jax.nn.softplus(r) * jax.random.normal(k, m.shape)  # noqa: E731
        return jax.tree.map(draw, params["mu"], params["rho"], keys)

    def row_nll(params, batch, key):
        x, y = batch
        weights = sample(params, key)
        logits = jax.nn.relu(x @ weights["w1"] + weights["b1"]) @ weights["w2"] + weights["b2"]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]

    def nll(params, batch, key):
        return jax.vmap(lambda k: row_nll(params, batch, k).sum())(jax.random.split(key, 5)).mean()

    def kl(params):
        one = lambda m, r: textbook_kl(m, jax.nn.softplus(r), 1.0)  # noqa: E731
        return sum(jax.tree.leaves(jax.tree.map(one, params["mu"], params["rho"])))

    def loss(params, batch, key):
        keys = jax.random.split(key, 5)
        mean_nll = jnp.mean(jax.vmap(row_nll, in_axes=(None, None, 0))(params, batch, keys))
        sigma2 = jax.tree.map(lambda r: jax.nn.softplus(r) ** 2, params["rho"])
        terms = jax.tree.map(lambda m, s2: 0.5 * jnp.sum(s2 + m**2 - 1 - jnp.log(s2)), params["mu"], sigma2)
        return mean_nll + jax.tree.reduce(jnp.add, terms) / 3000

    batches = labelled([100, 100, 100], 6, 4, 21)
    given = dict(loss=loss, parameters=params, batches=batches, n_train=3000, nll=nll, kl=kl)
    return given | dict(pieces=lambda p, b, k: (nll(p, b, k), kl(p)))


@case("jax_local_reparameterisation", "jax", right=True, kl_per_epoch=1.0, truth="N / B * NLL + KL: the KL counts once")
def local_reparameterisation():
    """Local reparameterisation and a noise that depends on the input: the second output is its log variance."""
    # N / B = 20 times the summed Gaussian NLL, and one KL with a prior sd of its own for each layer, 1 and 0.5.
    rng = np.random.default_rng(2)
    params = {
        "layer1": {"mean": gaussian(rng, 3, 10), "log_sigma": jnp.full((3, 10), -2.5), "bias": jnp.zeros(10)},
        "layer2": {"mean": gaussian(rng, 10, 2), "log_sigma": jnp.full((10, 2), -2.5), "bias": jnp.zeros(2)},
    }
    priors = {"layer1": 1.0, "layer2": 0.5}

    def layer(p, x, key):
        mean = x @ p["mean"] + p["bias"]
        var = (x**2) @ jnp.exp(2 * p["log_sigma"])
        return mean + jnp.sqrt(var + 1e-10) * jax.random.normal(key, mean.shape)

    def nll(params, batch, key):
        x, y = batch
        k1, k2 = jax.random.split(key)
        mean, log_var = jnp.split(layer(params["layer2"], jnp.tanh(layer(params["layer1"], x, k1)), k2), 2, axis=1)
        return 0.5 * jnp.sum(log_var + (y - mean) ** 2 / jnp.exp(log_var) + jnp.log(2 * jnp.pi))

    def kl(params):
        total = 0.0
        for name, p in params.items():
            s2, p2 = jnp.exp(2 * p["log_sigma"]), priors[name] ** 2
            total += 0.5 * jnp.sum((s2 + p["mean"] ** 2) / p2 - 1.0 - 2 * p["log_sigma"] + jnp.log(p2))
        return total

    def loss(params, batch, key):
        return 1000 / batch[0].shape[0] * nll(params, batch, key) + kl(params)

    def pieces(params, batch, key):
        parts = [textbook_kl(p["mean"], jnp.exp(p["log_sigma"]), priors[name]) for name, p in params.items()]
        return nll(params, batch, key), sum(parts)

    batches = measured([50, 50, 50], 3, 1, 22)
    given = dict(loss=loss, parameters=params, batches=batches, n_train=1000, nll=nll, kl=kl)
    return given | dict(pieces=pieces)


@case("jax_cholesky_posterior", "jax", right=True, kl_per_epoch=1.0, truth="KL over the 8 batches: it counts once")
def cholesky_posterior():
    """Binary logistic regression with a Cholesky factor, exp on its diagonal, and the closed KL to N(0, 9 I)."""
    # 480 rows in batches of 60: eight batches, each with KL / 8.
    params = {"m": jnp.zeros(6), "L": 0.1 * jnp.tril(jnp.ones((6, 6)), -1) - 1.0 * jnp.eye(6)}

    def chol(params):
        return jnp.tril(params["L"], -1) + jnp.diag(jnp.exp(jnp.diag(params["L"])))

    def kl(params):
        low, d, v = chol(params), 6, 9.0
        trace, quad = jnp.sum(low**2) / v, jnp.sum(params["m"] ** 2) / v
        return 0.5 * (trace + quad - d + d * jnp.log(v)) - jnp.sum(jnp.diag(params["L"]))

    def nll(params, batch, key):
        x, y = batch
        w = params["m"] + chol(params) @ jax.random.normal(key, (6,))
        return jnp.sum(jnp.logaddexp(0.0, x @ w) - y * (x @ w))

    def loss(params, batch, key):
        return nll(params, batch, key) + kl(params) / 8

    def pieces(params, batch, key):
        cov = chol(params) @ chol(params).T
        ratio = jnp.linalg.slogdet(9.0 * jnp.eye(6))[1] - jnp.linalg.slogdet(cov)[1]
        return nll(params, batch, key), 0.5 * (jnp.trace(cov) / 9 + params["m"] @ params["m"] / 9 - 6 + ratio)

    batches = labelled([60, 60, 60], 6, 2, 23)
    return dict(loss=loss, parameters=params, batches=batches, n_train=480, nll=nll, kl=kl, pieces=pieces)


@case("jax_sampled_mixture_prior", "jax", right=True, kl_per_epoch=1.0, truth="(log q - log p) / 50 in 50 batches")
def sampled_mixture_prior():
    """A flat vector of weights, a scale mixture as the prior, log q - log p of the draw, summed cross-entropy."""
    # 2,000 rows in batches of 40: 50 batches, each with 1/50 of a one-draw estimate of the KL.
    rng = np.random.default_rng(4)
    count = 5 * 8 + 8 * 3
    params = {"mu": gaussian(rng, count), "rho": jnp.full(count, -2.0)}

    def draw(params, key):
        sigma = jnp.log1p(jnp.exp(params["rho"]))
        return params["mu"] + sigma * jax.random.normal(key, (count,)), sigma

    def data_nll(w, batch):
        x, y = batch
        log_p = jax.nn.log_softmax(jnp.tanh(x @ w[:40].reshape(5, 8)) @ w[40:].reshape(8, 3))
        return -jnp.sum(log_p * jax.nn.one_hot(y, 3))

    def loss(params, batch, key):
        w, sigma = draw(params, key)
        log_q = norm.logpdf(w, params["mu"], sigma).sum()
        log_p = jnp.logaddexp(jnp.log(0.25) + norm.logpdf(w, 0, 1.0), jnp.log(0.75) + norm.logpdf(w, 0, 0.2)).sum()
        return (log_q - log_p) / 50 + data_nll(w, batch)

    def pieces(params, batch, key):
        w, sigma = draw(params, key)
        log_q = jnp.sum(-0.5 * ((w - params["mu"]) / sigma) ** 2 - jnp.log(sigma) - 0.5 * jnp.log(2 * jnp.pi))
        density = (0.25 * jnp.exp(-(w**2) / 2) + 0.75 / 0.2 * jnp.exp(-(w**2) / 0.08)) / jnp.sqrt(2 * jnp.pi)
        return data_nll(w, batch), log_q - jnp.sum(jnp.log(density))

    batches = labelled([40, 40, 40], 5, 3, 24)
    return dict(loss=loss, parameters=params, batches=batches, n_train=2000, pieces=pieces)


def small_net(rng, n_in, hidden, n_out):
    """Return mean and log sd of two layers without biases."""
    mu = {"w1": gaussian(rng, n_in, hidden), "w2": gaussian(rng, hidden, n_out)}
    return {"mu": mu, "logsigma": jax.tree.map(lambda m: jnp.full_like(m, -3.0), mu)}


def forward(params, x, key):
    """Return the outputs of one draw of the small network."""
    k1, k2 = jax.random.split(key)
    mu, ls = params["mu"], params["logsigma"]
    w1 = mu["w1"] + jnp.exp(ls["w1"]) * jax.random.normal(k1, mu["w1"].shape)
    w2 = mu["w2"] + jnp.exp(ls["w2"]) * jax.random.normal(k2, mu["w2"].shape)
    return jnp.tanh(x @ w1) @ w2


def small_kl(params, prior_sd=1.0):
    """Return the KL of the small network's weights."""
    return sum(textbook_kl(params["mu"][n], jnp.exp(params["logsigma"][n]), prior_sd) for n in ("w1", "w2"))


def class_nll(params, batch, key):
    """Return the summed cross-entropy of one draw."""
    log_p = jax.nn.log_softmax(forward(params, batch[0], key))
    return -jnp.sum(jnp.take_along_axis(log_p, batch[1][:, None], axis=1))


@case(
    "jax_softmax_twice",
    "jax",
    right=False,
    mistake="likelihood",
    truth="the network's probabilities are taken as logits: log_softmax(softmax(z)) is the likelihood of another model",
)
def softmax_twice():
    """The network ends in a softmax, and the loss takes its outputs as logits."""
    # Probabilities lie in [0, 1], so the class probabilities that are scored lie between e^0 / (e + 2) and e / (e + 2).
    params = small_net(np.random.default_rng(5), 6, 10, 3)

    def loss(params, batch, key):
        x, y = batch
        probs = jax.nn.softmax(forward(params, x, key))
        ce = -jnp.sum(jax.nn.one_hot(y, 3) * jax.nn.log_softmax(probs), axis=-1)
        return ce.mean() + small_kl(params) / 1500

    batches = labelled([75, 75, 75], 6, 3, 25)
    given = dict(loss=loss, parameters=params, batches=batches, n_train=1500, nll=class_nll, kl=small_kl)
    return given | dict(pieces=lambda p, b, k: (class_nll(p, b, k), small_kl(p)))


@case(
    "jax_one_key_for_all_steps",
    "jax",
    right=False,
    mistake="noise",
    truth="each step draws from PRNGKey(0): the noise of the weights never changes",
)
def one_key_for_all_steps():
    """The loss has a key as an argument and makes another one, PRNGKey(0), inside."""
    # With eps fixed, mu + sigma * eps is a point: the likelihood part is no expectation under q.
    params = small_net(np.random.default_rng(6), 4, 8, 2)

    def loss(params, batch, key):
        x, y = batch
        key = jax.random.PRNGKey(0)
        pred = forward(params, x, key)
        return -norm.logpdf(y, pred, 0.2).sum() * 600 / x.shape[0] + small_kl(params)

    batches = measured([60, 60, 60], 4, 2, 26, 0.2)

    def check():
        one, other = (float(loss(params, batches[0], jax.random.PRNGKey(seed))) for seed in (1, 2))
        return [("the loss with two keys", one, other)]

    return dict(loss=loss, parameters=params, batches=batches, n_train=600, kl=small_kl, check=check)


@case(
    "jax_reverse_kl",
    "jax",
    right=False,
    mistake="another KL",
    truth="the arguments are swapped: the loss has KL(p || q), not KL(q || p)",
)
def reverse_kl():
    """A function for the KL of two Gaussians, called with the prior first."""
    # KL(p || q) = log(sigma) + (1 + mu^2) / (2 sigma^2) - 1/2: about 200 a weight at sigma 0.05; it pushes sigma up.
    params = small_net(np.random.default_rng(7), 5, 9, 3)

    def kl_gaussians(mu1, sigma1, mu2, sigma2):
        return jnp.sum(jnp.log(sigma2 / sigma1) + (sigma1**2 + (mu1 - mu2) ** 2) / (2 * sigma2**2) - 0.5)

    def kl(params):
        pairs = [(params["mu"][n], jnp.exp(params["logsigma"][n])) for n in ("w1", "w2")]
        return sum(kl_gaussians(0.0, 1.0, mu, sigma) for mu, sigma in pairs)

    def loss(params, batch, key):
        return class_nll(params, batch, key) + kl(params) / 12

    def check():
        mu, s = params["mu"]["w1"], jnp.exp(params["logsigma"]["w1"])
        p, q = np.zeros(mu.shape), np.asarray(mu, dtype=np.float64)
        swapped = np.sum(np.log(np.asarray(s)) + (1 + (p - q) ** 2) / (2 * np.asarray(s) ** 2) - 0.5)
        return [("KL(p || q) of layer 1", float(kl_gaussians(0.0, 1.0, mu, s)), float(swapped))]

    batches = labelled([50, 50, 50], 5, 3, 27)
    given = dict(loss=loss, parameters=params, batches=batches, n_train=600, nll=class_nll, kl=kl, check=check)
    return given | dict(pieces=lambda p, b, k: (class_nll(p, b, k), small_kl(p)))


@case(
    "jax_kl_subtracted",
    "jax",
    right=False,
    mistake="weight",
    kl_per_epoch=-1.0,
    mends=-1.0,
    truth="the KL is subtracted: it counts -1 times",
)
def kl_subtracted():
    """-(log likelihood + KL / N): the ELBO's minus sign is lost, and the KL is rewarded."""
    # -ELBO = NLL - (-KL) = NLL + KL; here the mean of -log p minus KL / N.
    params = small_net(np.random.default_rng(8), 8, 10, 4)

    def loss(params, batch, key):
        log_lik = -class_nll(params, batch, key) / batch[0].shape[0]
        return -(log_lik + small_kl(params) / 4000)

    batches = labelled([80, 80, 80], 8, 4, 28)
    given = dict(loss=loss, parameters=params, batches=batches, n_train=4000, nll=class_nll, kl=small_kl)
    return given | dict(pieces=lambda p, b, k: (class_nll(p, b, k), small_kl(p)))
