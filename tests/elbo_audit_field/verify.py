"""Check the truths of the cases without the audit.

Of PyTorch, JAX and TensorFlow cases that give `pieces` (the summed NLL and the KL, written a second time, with the same
draws): at eight settings of the parameters, the loss is fitted by a * NLL + c * KL + constant. Where it is such a
combination, c / a times the batches of an epoch is how often the KL counts. Where the case claims no number, the loss
has to be no such combination.

Of Pyro and NumPyro cases, the scales in the traces of model and guide say how often the latent sites count beside the
observed ones. A case's own `check` gives pairs of numbers that have to agree: a gradient, a sum over all pairs of rows,
a loss with two seeds.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.elbo_audit_field.case import Case

SETTINGS = 8
EPOCH_TOLERANCE = 1e-3  # 60,000 / 128 is 468.75 and not 469 batches: 0.0005; single precision adds less
SPANNED = 1e-4  # largest residual over the spread of the losses: single precision leaves some 1e-6
MISFIT = 1e-3  # a mistake leaves more than this
CHECKED = 1e-4  # a `check` sums at most 900 terms in single precision: 900 roundings of 6e-8 are 5.4e-5


@dataclasses.dataclass
class Adapter:
    """What a framework does: set the parameters to one of several settings, seed the draws, and give a value."""

    perturb: Callable[[int], None]
    value: Callable[..., np.ndarray]


def fit(adapter: Adapter, loss: Any, pieces: Any, batch: tuple) -> tuple[float, float, float]:
    """Return a, c and the residual's share of the spread, of loss = a * NLL + c * KL + constant."""
    rows, losses = [], []
    for setting in range(SETTINGS):
        adapter.perturb(setting)
        losses.append(adapter.value(loss, batch))
        rows.append([*adapter.value(pieces, batch), 1.0])
    design, target = np.array(rows, dtype=np.float64), np.array(losses, dtype=np.float64)
    scale = np.abs(design).max(0)
    solution, *_ = np.linalg.lstsq(design / scale, target, rcond=None)
    residual = target - design / scale @ solution
    a, c, _ = solution / scale
    return a, c, float(np.abs(residual).max() / target.std())


def counted(adapter: Adapter, arguments: dict, pieces: Any) -> tuple[float, float]:
    """Return how often the KL counts in an epoch, by the mean over the batches, and the largest residual."""
    fits = [fit(adapter, arguments["loss"], pieces, batch) for batch in arguments["batches"]]
    times = [
        c / a * arguments["n_train"] / len(batch[0])
        for (a, c, _), batch in zip(fits, arguments["batches"], strict=True)
    ]
    return float(np.mean(times)), max(residual for *_, residual in fits)


def adapter_of(framework: str, arguments: dict) -> Adapter:
    """Return the adapter of a framework for the arguments of one case."""
    return {"torch": torch_adapter, "jax": jax_adapter, "tfp": tfp_adapter}[framework](arguments)


def torch_adapter(arguments: dict) -> Adapter:
    import torch

    parameters = [tensor for _, tensor in arguments["parameters"]]
    start = [tensor.detach().clone() for tensor in parameters]

    def perturb(setting: int) -> None:
        generator = torch.Generator().manual_seed(setting)
        with torch.no_grad():
            for tensor, first in zip(parameters, start, strict=True):
                tensor.copy_(first + 0.3 * torch.randn(first.shape, generator=generator))

    def value(function: Any, batch: tuple) -> np.ndarray:
        torch.manual_seed(77)
        result = function(*batch)
        both = result if isinstance(result, tuple) else (result,)
        return np.array([float(each.detach()) for each in both]).squeeze()

    return Adapter(perturb, value)


def jax_adapter(arguments: dict) -> Adapter:
    import jax

    start, current = arguments["parameters"], [arguments["parameters"]]

    def perturb(setting: int) -> None:
        leaves, tree = jax.tree.flatten(start)
        keys = jax.random.split(jax.random.PRNGKey(setting), len(leaves))
        moved = [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
        current[0] = jax.tree.unflatten(tree, moved)

    def value(function: Any, batch: tuple) -> np.ndarray:
        return np.array(function(current[0], batch, jax.random.PRNGKey(77)), dtype=np.float64)

    return Adapter(perturb, value)


def tfp_adapter(arguments: dict) -> Adapter:
    import tensorflow as tf

    variables = arguments["variables"]
    start = [variable.numpy() for variable in variables]

    def perturb(setting: int) -> None:
        rng = np.random.default_rng(setting)
        for variable, first in zip(variables, start, strict=True):
            variable.assign(first + 0.3 * rng.normal(size=first.shape))

    def value(function: Any, batch: tuple) -> np.ndarray:
        tf.random.set_seed(77)
        return np.array(function(*batch), dtype=np.float64)

    return Adapter(perturb, value)


def epoch_counts(model_sites: list, guide_sites: list, arguments: dict, factor: float) -> list[float]:
    """Return how often log p and log q of each latent site count in an epoch beside the rows.

    Sites are (scale, is observed); a likelihood written as a factor is the observed site, and `factor` is what it is
    multiplied by besides its scale.
    """
    (rows,) = {scale for scale, observed in model_sites if observed}
    latent = [scale for scale, observed in model_sites if not observed] + [scale for scale, _ in guide_sites]
    epoch = arguments["n_train"] / len(arguments["batches"][0][0])
    return [scale / (rows * factor) * epoch for scale in latent]


def pyro_counts(arguments: dict, factor: float) -> list[float]:
    """Return the counts of a Pyro case at its first batch."""
    from pyro import poutine

    batch = arguments["batches"][0]
    guide = poutine.trace(arguments["guide"]).get_trace(*batch)
    model = poutine.trace(poutine.replay(arguments["model"], guide)).get_trace(*batch)

    def sites(trace: Any) -> list:
        samples = [site for site in trace.nodes.values() if site["type"] == "sample"]
        random = [s for s in samples if type(s["fn"]).__name__ not in ("_Subsample", "Delta")]
        return [(float(s["scale"]), s["is_observed"]) for s in random]

    return epoch_counts(sites(model), sites(guide), arguments, factor)


def numpyro_counts(arguments: dict, factor: float) -> list[float]:
    """Return the counts of a NumPyro case at its first batch."""
    from numpyro import handlers

    batch = arguments["batches"][0]
    guide = handlers.trace(handlers.seed(arguments["guide"], 1)).get_trace(*batch)
    model = handlers.trace(handlers.seed(handlers.replay(arguments["model"], guide), 2)).get_trace(*batch)

    def sites(trace: dict) -> list:
        samples = [site for site in trace.values() if site["type"] == "sample"]
        random = [s for s in samples if type(s["fn"]).__name__ != "Delta"]
        return [(float(1.0 if s["scale"] is None else s["scale"]), s["is_observed"]) for s in random]

    return epoch_counts(sites(model), sites(guide), arguments, factor)


def losses(framework: str, arguments: dict) -> list[float]:
    """Return the loss at each batch, as built."""
    if framework == "pyro":
        guide, model, elbo = arguments["guide"], arguments["model"], arguments["loss"]
        return [elbo.differentiable_loss(model, guide, *batch).item() for batch in arguments["batches"]]
    if framework == "numpyro":
        import jax
        from numpyro.infer import SVI
        from numpyro.optim import Adam

        svi = SVI(arguments["model"], arguments["guide"], Adam(1e-3), arguments["loss"])
        state = svi.init(jax.random.PRNGKey(0), *arguments["batches"][0])
        return [float(svi.evaluate(state, *batch)) for batch in arguments["batches"]]
    adapter = adapter_of(framework, arguments)
    return [float(adapter.value(arguments["loss"], batch)) for batch in arguments["batches"]]


def close(value: float, expected: float, share: float) -> bool:
    # tolerance: the caller's share, EPOCH_TOLERANCE or CHECKED, both derived above
    return abs(value - expected) <= share * max(abs(expected), 1e-6)


def problems(each: Case) -> tuple[list[str], list[str]]:
    """Build a case; return what contradicts its truth, and what was shown of it."""
    arguments, evidence = each.with_evidence()
    wrong, shown = [], []
    values = losses(each.framework, arguments)
    if not np.isfinite(values).all():
        wrong.append(f"losses are not finite: {values}")
    for label, value, expected, *tolerance in evidence.get("check", list)():
        # tolerance: five standard errors where the case gives them for a mean of draws, else CHECKED
        fits = abs(value - expected) <= tolerance[0] if tolerance else close(value, expected, CHECKED)
        (shown if fits else wrong).append(f"{label}: {value:.6g}, expected {expected:.6g}")
    if each.framework in ("pyro", "numpyro"):
        if each.kl_per_epoch is not None:
            count = pyro_counts if each.framework == "pyro" else numpyro_counts
            counts = count(arguments, evidence.get("likelihood_factor", 1.0))
            fits = bool(counts) and all(close(times, each.kl_per_epoch, EPOCH_TOLERANCE) for times in counts)
            (shown if fits else wrong).append(
                f"each of {len(counts)} sites counts {min(counts):.6g} to {max(counts):.6g}"
            )
    elif "pieces" in evidence:
        times, residual = counted(adapter_of(each.framework, arguments), arguments, evidence["pieces"])
        spanned = residual < SPANNED
        if each.kl_per_epoch is not None:
            fits = spanned and close(times, each.kl_per_epoch, EPOCH_TOLERANCE)
            (shown if fits else wrong).append(f"the KL counts {times:.6g} times, residual {residual:.1e}")
        elif each.mistake != "gradient":
            fits = residual > MISFIT
            (shown if fits else wrong).append(f"no a * NLL + c * KL: residual {residual:.1e}")
    return wrong, shown
