"""What the protocols and derived metrics make of a posterior: of a fitted one, and of one that is the same everywhere.

`Planned` predicts by hashes of draw, row and class, so that its metrics hold to the last digits on every machine. It
shows what the definitions of metrics and protocols do; a fitted posterior shows that they ask it for the right things.
"""

import functools

import numpy as np
import torch

from bench.interface import Categorical, Gaussian, Marginal, Posterior
from bench.judge.ablation.readers import read_keys
from bench.measure.protocols import Common, protocol_of
from bench.plan.registry import manifest
from tests.golden.fits import SEED, budget, fitted
from tests.golden.numbers import Trace, signs, uniform

ORDERED = ("/auroc_", "/aupr_", "/fpr95_")
"""Metrics of the order of rows. Where a fitted network is sure, its entropies are zero up to rounding, which then makes
the order. `Planned` shows what these metrics do."""

DERIVED_METRICS = (
    *(
        f"{data}/{name}"
        for data in ("mnist", "letters")
        for name in (
            "normalised_geometric_entropy",
            "refusal_rate@0.3",
            "draw_entropy",
            "draw_auroc",
            "draw_refusal_rate",
            "mean_network_entropy",
            "mean_network_auroc",
            "mean_network_refusal_rate",
        )
    ),
    *(
        f"mnist/{name}"
        for name in (
            "geometric_accuracy",
            "geometric_nll",
            "geometric_ece",
            "selective_accuracy@0.3",
            "draw_nll",
            "draw_ece",
            "mean_network_nll",
            "mean_network_ece",
            "pruned_used_accuracy@0.5",
        )
    ),
    "weights/mean@0",
    "weights/std@0",
)


def _protocol(name, protocol):
    """Return a protocol of the tiny profile; letters stand in for notMNIST, which not every machine has."""
    found = protocol_of(manifest(name), protocol, SEED, budget(), None, dtype=torch.float64)
    load = found.ood
    found.ood = lambda data: load("letters" if data == "notmnist459" else data)
    return found


def protocol_trace(name, protocol):
    """Return the metrics of the published fit of seed 0 by a protocol, without those of each row."""
    (one,) = fitted(name, "published")
    found = Trace()
    _measured(found, _protocol(name, protocol), one.posterior, one.context.traces)
    return found


def derived_metrics_trace(name):
    """Return every derived metric of the published fit of seed 0."""
    (one,) = fitted(name, "published")
    found = Trace()
    _read(found, one.posterior, name)
    return found


def planned_trace(name, protocol):
    """Return everything that a protocol makes of a `Planned` posterior as that approach's would be."""
    entry = manifest(name)
    found = Trace()
    deterministic = entry.noise == "none"
    posterior = Planned(entry.task, entry.noise, deterministic)
    _measured(found, _protocol(name, protocol), posterior, {}, arrays=True)
    return found


def planned_derived_metrics_trace(name):
    """Return every derived metric of a `Planned` posterior as that approach's would be."""
    entry = manifest(name)
    found = Trace()
    _read(found, Planned(entry.task, entry.noise, entry.noise == "none"), name)
    return found


def _read(found, posterior, name):
    metrics, missing = read_keys(
        posterior, Common(manifest(name), SEED, budget(), None, dtype=torch.float64), DERIVED_METRICS
    )
    for key, value in metrics.items():
        found.number(f"derived/{key}", value)
    found.exact["derived_metrics/missing"] = sorted(missing)


def _measured(found, protocol, posterior, traces, arrays=False):
    """Add what a protocol finds after the epochs and at the end; `arrays`: also of each row."""
    torch.set_flush_denormal(True)
    try:
        epochs = []
        for epoch in sorted(traces) or [1]:
            measured = protocol.epoch(posterior, epoch)
            epochs.append({**traces.get(epoch, {}), **measured})
            for key, value in measured.items():
                found.number(f"epoch{epoch}/{key}", value)
        measurement = protocol.final(posterior, epochs)
    finally:
        torch.set_flush_denormal(False)
    for key, value in measurement.metrics.items():
        if arrays or not any(part in key for part in ORDERED):
            found.number(key, value)
    found.exact["missing"] = sorted(measurement.missing)
    if not arrays:
        return
    for key, value in measurement.arrays.items():
        for part, numbers in _leaves(value, key):
            _summed(found, f"arrays/{part}", np.array(numbers, dtype=np.float64))
    for key, value in measurement.scores.items():
        # It was stored in half precision when the traces were written; no number of a record depends on that.
        given = value.astype(np.float16) if key.endswith("/predictive_entropy") else value
        _summed(found, f"scores/{key}", np.asarray(given, dtype=np.float64).ravel())


def _leaves(value, name):
    """Yield the numbers in a nested structure, those of a list together, by name."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, f"{name}/{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{name}/{index}")
    elif isinstance(value, list):
        flat = np.ravel(np.array([[np.nan] if one is None else one for one in value], dtype=object))
        yield name, [float(one) for one in np.hstack([np.ravel(one) for one in flat])] if len(flat) else []
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, [float(value)]


def _summed(found, key, values):
    finite = np.nan_to_num(values, nan=-1.0, posinf=1e4, neginf=-1e4)
    found.array(key, finite)
    found.exact[f"{key}/length"] = len(values)


class Planned(Posterior):
    """A posterior whose every number is a hash: nothing is trained, and no rounding of a machine matters."""

    def __init__(self, task, noise, deterministic=False, kind=0, kept=1.0):
        self._task, self._kind, self._kept = task, kind, kept
        self._deterministic = deterministic
        self.noise = "none" if deterministic else noise
        self.n_draws = 1 if deterministic else None

    def predict(self, x, draws, rows):
        shape = (10,) if self._task == "mnist" else (1,)
        place = rows.numpy().astype(np.uint64)[:, None] * np.uint64(16) + np.arange(*shape, dtype=np.uint64)
        own = uniform(place + np.uint64(self._kind * 2**40)) * 6 * self._kept
        sure = 1 + 3 * uniform(rows.numpy().astype(np.uint64) + np.uint64(77))[:, None]
        seen = x.double().numpy() @ _weights(x.shape[1], *shape)
        drawn = [uniform(place + np.uint64((draw + 1) * 2**44)) * 4 for draw in draws]
        logits = np.stack([(own + seen + (0 if self.noise == "none" else one)) * sure for one in drawn])
        if self._task == "mnist":
            return Categorical(torch.log_softmax(torch.from_numpy(logits), dim=2))
        mean = torch.from_numpy(logits)
        return Gaussian(mean, torch.full_like(mean, 0.01))

    def arrays(self):
        return {}

    def weights(self):
        found = {}
        for index, (key, size) in enumerate({"one": (20, 30), "two": (30,), "three": (30, 10)}.items()):
            place = np.arange(int(np.prod(size)), dtype=np.uint64) + np.uint64(1000 * index)
            mean = torch.from_numpy(uniform(place) - 0.5).view(size)
            std = torch.from_numpy(0.1 + uniform(place + np.uint64(2**33))).view(size)
            used = torch.full(size, key != "two")
            found[key] = Marginal(mean, None if self._deterministic and self._kind == 0 else std, used)
        return found

    def masked(self, keep):
        share = float(np.mean([float(mask.double().mean()) for mask in keep.values()]))
        kept = sum(float(mask.double().numpy().ravel() @ signs(mask.numel())) for mask in keep.values())
        return Planned(self._task, self.noise, self._deterministic, 5 + round(abs(kept)), 0.2 + 0.8 * share)

    def mean_network(self):
        return Planned(self._task, "none", True, self._kind + 1, self._kept)

    def per_row(self):
        return self if self.noise != "weights" else Planned(self._task, "shared", False, self._kind + 2, self._kept)

    def log_density_ratio(self, draws):
        return torch.from_numpy(uniform(np.array(draws, dtype=np.uint64)) * 1e5)


@functools.cache
def _weights(n_in, n_out):
    return (uniform(np.arange(n_in * n_out, dtype=np.uint64) + np.uint64(2**50)).reshape(n_in, n_out) - 0.5) * 0.3
