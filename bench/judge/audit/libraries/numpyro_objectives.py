"""The example of NumPyro: what NUTS samples from, -log p(rows, weights).

There is no posterior with parameters, and so no KL. What can be counted is the prior: how often it counts while the
data count once.
"""

from __future__ import annotations

from itertools import pairwise

from bench.judge.audit.libraries import library
from bench.judge.audit.libraries.examples import HUNDRED
from bench.judge.audit.libraries.foreign import ForeignObjective, Rows, numbers

INSTALL = "numpyro"
SIZES = (3, 5, 5, 1)


def nuts(corrected: bool) -> ForeignObjective:
    """Return -log p of all rows and of the weights, as NumPyro sums it from a model of the example's form."""
    del corrected  # no change is needed
    jit = library("jax", INSTALL).jit  # as NUTS does
    jnp, random = library("jax.numpy", INSTALL), library("jax.random", INSTALL)
    numpyro, distributions = library("numpyro", INSTALL), library("numpyro.distributions", INSTALL)
    log_density = library("numpyro.infer.util", INSTALL).log_density
    trace, substitute = (getattr(library("numpyro.handlers", INSTALL), name) for name in ("trace", "substitute"))

    def model(x: Rows, y: Rows) -> None:
        hidden = x
        for index, (n_in, n_out) in enumerate(pairwise(SIZES)):
            hidden = hidden if index == 0 else jnp.tanh(hidden)
            normal = distributions.Normal(jnp.zeros((n_in, n_out)), 1.0).to_event(2)
            hidden = hidden @ numpyro.sample(f"weights{index}", normal)
        precision = numpyro.sample("precision", distributions.Gamma(3.0, 1.0))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", distributions.Normal(hidden, precision**-0.5).to_event(1), obs=y)

    def loss(weights: object, x: Rows, y: Rows) -> object:
        return -log_density(model, (x, y), {}, weights)[0]

    def by_site(weights: object, x: Rows, y: Rows) -> dict[str, object]:
        sites = trace(substitute(model, weights)).get_trace(x, y)
        chosen = {name: site for name, site in sites.items() if site["type"] == "sample"}
        return {name: -site["fn"].log_prob(site["value"]).sum() for name, site in chosen.items()}

    def nll(weights: object, x: Rows, y: Rows) -> object:
        return by_site(weights, x, y)["y"]

    def prior(weights: object) -> object:
        values = by_site(weights, *batches[0])
        return jnp.stack([value for name, value in values.items() if name != "y"]).sum()

    batches = numbers(SIZES[0], HUNDRED)
    keys = random.split(random.PRNGKey(0), len(SIZES) - 1)
    weights = {
        f"weights{index}": random.normal(key, shape)
        for index, (key, shape) in enumerate(zip(keys, pairwise(SIZES), strict=True))
    }
    return ForeignObjective(weights | {"precision": jnp.array(3.0)}, jit(loss), jit(nll), batches, jit(prior))
