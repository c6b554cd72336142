"""The corpus in Pyro: a mean-field guide with parameters of its own, and scales by poutine."""

import pyro
import torch
from pyro import distributions, poutine
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from torch.nn import functional

from tests.judge.corpus.objectives import DTYPE, FAULTS, Drawn, PyroEntry

SITES = ("w1", "w2")


def pyro_entry(fault, seed):
    """Return model and guide with a fault (None: right), drawn from a seed."""
    drawn = Drawn(seed)
    batch, n_in, hidden, n_out = drawn.whole(8, 32), drawn.whole(3, 8), drawn.whole(4, 8), drawn.whole(3, 5)
    n_train = batch * drawn.whole(5, 400)
    prior = drawn.log_uniform(0.3, 0.7) if drawn.whole(0, 1) else drawn.log_uniform(1.5, 3.0)
    shapes = {"w1": (n_in, hidden), "w2": (hidden, n_out)}
    means = {name: drawn.normal(*shape) * 0.5 for name, shape in shapes.items()}
    raws = {name: -2.0 + 0.1 * drawn.normal(*shape) for name, shape in shapes.items()}
    stated = prior**2 if fault == "variance for standard deviation" else prior
    share = {"half of the KL": 0.5, "whole KL in each batch": n_train / batch, "wrong sign": -1.0}.get(fault, 1.0)

    def weight(name):
        return share * batch / n_train * (5.0 if fault == "one tensor counts five times" and name == "w2" else 1.0)

    def guide(x, y):
        for name, shape in shapes.items():
            mean = pyro.param(f"{name}_mu", means[name].clone())
            sigma = functional.softplus(pyro.param(f"{name}_rho", raws[name].clone()))
            if fault == "sigma detached":
                sigma = sigma.detach()
            with poutine.scale(scale=abs(weight(name))):
                pyro.sample(name, distributions.Normal(mean, sigma).to_event(len(shape)))

    def model(x, y):
        drawn_weights = {}
        for name, shape in shapes.items():
            centre = torch.zeros(shape, dtype=DTYPE)
            with poutine.scale(scale=abs(weight(name))):
                drawn_weights[name] = pyro.sample(name, distributions.Normal(centre, stated).to_event(len(shape)))
        logits = torch.tanh(x @ drawn_weights["w1"]) @ drawn_weights["w2"]
        with pyro.plate("data", len(x)):
            pyro.sample("y", distributions.Categorical(logits=logits), obs=y)

    batches = [(drawn.normal(batch, n_in), torch.randint(n_out, (batch,), generator=drawn.source)) for _ in range(3)]
    estimator = TraceMeanField_ELBO() if drawn.whole(0, 1) else Trace_ELBO()
    name = f"pyro {fault or 'right'} {seed}"
    return PyroEntry(name, FAULTS[fault] if fault else None, model, guide, batches, n_train, prior, estimator)
