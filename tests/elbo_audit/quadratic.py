"""A regression whose loss and gradient are written out in NumPy. As a program, it audits one without any framework.

y = x w + noise of variance 1, w ~ N(0, 1), q(w) = N(mu, sigma^2) with sigma = log(1 + exp(rho)). With w = mu + sigma e
and the residual r = x w - y: NLL = r'r / 2, d NLL / d mu = x'r, d NLL / d rho = x'r e sigmoid(rho). KL is the sum of
(sigma^2 + mu^2 - 1) / 2 - log sigma, d KL / d mu = mu, d KL / d rho = (sigma - 1 / sigma) sigmoid(rho).
"""

import json
import sys

import numpy as np

N_TRAIN, ROWS, WEIGHTS = 1000, 10, 5


def batches():
    source = np.random.default_rng(1)
    return [(source.standard_normal((ROWS, WEIGHTS)), source.standard_normal(ROWS)) for _ in range(3)]


def parameters(kind=np.float64):
    return {"w_mu": np.array([0.3, -0.2, 0.5, 0.1, 0.7], kind), "w_rho": np.linspace(-2, 0, WEIGHTS, dtype=kind)}


def kl(values, seed=0):
    mu, sigma = values["w_mu"], np.logaddexp(0, values["w_rho"])
    slope = 1 / (1 + np.exp(-values["w_rho"]))
    value = ((sigma**2 + mu**2 - 1) / 2 - np.log(sigma)).sum()
    return value, {"w_mu": mu, "w_rho": (sigma - 1 / sigma) * slope}


def nll(values, batch, seed):
    x, y = batch
    noise = np.random.default_rng(seed).standard_normal(WEIGHTS).astype(values["w_mu"].dtype)
    rest = x @ (values["w_mu"] + np.logaddexp(0, values["w_rho"]) * noise) - y
    by_weight = x.T @ rest
    return rest @ rest / 2, {"w_mu": by_weight, "w_rho": by_weight * noise / (1 + np.exp(-values["w_rho"]))}


def loss_with(weight):
    """Return a loss and gradient that count the KL `weight` times in an epoch."""

    def loss(values, batch, seed):
        (data, by_data), (whole, by_kl) = nll(values, batch, seed), kl(values)
        share = weight * ROWS / N_TRAIN
        return data + share * whole, {name: by_data[name] + share * by_kl[name] for name in values}

    return loss


class Blocked:
    """Lets no framework be imported."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "pyro", "scipy", "jax", "tensorflow", "msgspec", "pandas", "bench"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)


def main():
    sys.meta_path.insert(0, Blocked())
    import elbo_audit

    names, refused = {}, []
    exec("from elbo_audit import *", names)
    for name in sorted(set(elbo_audit.__all__) - {"AuditError", "ElboReport", "MissingLibrary"}):
        try:
            names[name]()
        except elbo_audit.MissingLibrary as error:
            refused.append(str(error))
        except TypeError:  # it is there, and wants arguments
            continue
    report = elbo_audit.audit(loss_with(3.0), parameters(), batches(), N_TRAIN, nll=nll, prior_std=1.0)
    failed = [finding.rule for finding in report.findings if finding.outcome == "fails"]
    sys.stdout.write(json.dumps({"numbers": report.numbers, "fails": failed, "text": str(report), "refused": refused}))


if __name__ == "__main__":
    main()
