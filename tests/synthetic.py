"""Records, manifests and a folder of them as the report reads them, and a posterior, made up by the tests."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import msgspec
import torch

from bench.core.canonical import plain
from bench.core.folder import read_sealed
from bench.core.reasons import Reason, message_reason
from bench.core.records import SCHEMA, Epoch, Record
from bench.core.store import AGAIN, Store
from bench.interface import Categorical, Marginal, Posterior
from bench.measure.protocols import protocol_of
from bench.plan import registry
from bench.plan.freshness import versions_today
from bench.plan.manifests import ApproachManifest, RecipeChange, RecipeSpec
from bench.plan.recipes import PROFILES

SPLIT = {"dropout_fcn": "train50k", "pyro_hidden_layer": "train50k"}
MENDED = {"mended": RecipeChange("title", "why", {})}
DOCUMENTS = {
    "dropout_fcn": "alsibahi2019",
    "pyro_hidden_layer": "alsibahi2019",
    "pyro_random_module": "chopra2018",
    "mlp": "feldman2018",
    "linear_bbb": "feldman2018",
    "mxnet_bbb": "rabanser2017",
    "toy_mlp": "feldman2018",
    "toy_bbb": "feldman2018",
    "uniform": "",
}


def manifest(name: str, document: str = "", corrected: bool = True) -> ApproachManifest:
    recipes = {"published": RecipeSpec(SPLIT.get(name, "train60k"))}
    if corrected:
        recipes["corrected"] = RecipeSpec("train60k", ("mended",))
    return ApproachManifest(
        name=name,
        title=f"title of {name}",
        document=document,
        class_name="Made",
        task="toy" if name.startswith("toy") else "mnist",
        noise="weights",
        recipes=recipes,
        corrections=MENDED if corrected else {},
    )


def manifests() -> dict[str, ApproachManifest]:
    return {
        name: manifest(name, document, corrected=bool(document) and not name.startswith("toy"))
        for name, document in DOCUMENTS.items()
    }


def record(approach: str, recipe: str = "published", protocol: str = "published", **changes: Any) -> Record:
    """Make a record; in `changes`, reasons may be words and epochs flat, as tests write them."""
    seed = changes.get("seed", 0)
    fields = {
        "schema": SCHEMA,
        "key": f"key-{approach}-{recipe}-{protocol}-{seed}",
        "fit_key": "f",
        "approach": approach,
        "recipe": recipe,
        "protocol": protocol,
        "profile": "full",
        "seed": seed,
        "device": "cpu",
        "precision": "float32",
        "outcome": "done",
        "reason": None,
        "metrics": {},
        "missing": {},
        "arrays": {},
        "epochs": [],
        "timings": {"valid": True},
        "versions": versions_today(approach, recipe, protocol),
        "provenance": {
            "started": "2026-01-01T00:00:00+00:00",
            "commit": "0123456789abcdef",
            "dirty": False,
            "versions": {"python": "3.11.9", "torch": "2.13.0", "mxnet": "absent"},
            "cpu": "made-up CPU",
            "threads": 2,
        },
        **changes,
    }
    return msgspec.convert(plain(as_stored(fields)), Record)


def as_stored(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record as a file has them."""
    found = dict(fields)
    found["reason"] = said(found["reason"])
    found["missing"] = {key: said(reason) for key, reason in found["missing"].items()}
    found["arrays"] = _whole(found["arrays"]) if isinstance(found["arrays"], dict) else found["arrays"]
    found["epochs"] = [epoch(entry) if isinstance(entry, dict) else entry for entry in found["epochs"]]
    return found


def _whole(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return arrays whose pruned networks have every field."""
    pruned = arrays.get("pruning")
    if not isinstance(pruned, dict):
        return arrays
    usual = {"accuracy": None, "pruned_of_used": 0.0, "kept": 0, "bytes": 0, "layers": {}}
    return {
        **arrays,
        "pruning": {"score": "|mu|/sigma", **pruned, "rows": [{**usual, **row} for row in pruned["rows"]]},
    }


def said(reason: Reason | str | None) -> Reason | None:
    """Return words as a reason that has no kind of its own."""
    return message_reason("text", reason) if isinstance(reason, str) and reason else reason or None


def epoch(entry: dict[str, Any]) -> Epoch | dict[str, Any]:
    """Return an epoch, given its number, perhaps its seconds, and its metrics."""
    if "metrics" in entry:
        return entry
    metrics = {name: value for name, value in entry.items() if name not in ("epoch", "seconds")}
    return Epoch(epoch=entry.get("epoch", 1), seconds=entry.get("seconds", 0.0), metrics=metrics)


def changed(made: Record, **changes: Any) -> Record:
    """Return a record with other fields, given as `record` takes them."""
    fields = {name: getattr(made, name) for name in made.__struct_fields__ if name not in changes}
    return msgspec.convert(plain(as_stored({**_encoded(fields), **changes})), Record)


def _encoded(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None or name == "reason"}


def read_record(path: Path) -> Record:
    """Read and check one record, wherever it lies."""
    return read_sealed(path, Record, "record", SCHEMA, AGAIN)


HOSTILE = "<script>alert('made up')</script> & \"quoted\" </td> {{ 7 * 7 }} \\input{x} $_%"
SETS = ("noise_uniform", "fashion_mnist", "letters")


def write_records(root: Path, n_seeds: int = 5, reason: str = "no memory") -> list[Record]:
    """Write finished records of every trained run and seed, and one that failed for a reason."""
    made = [keyed for seed in range(n_seeds) for keyed in of_seed(seed)]
    made.append(_keyed(record("mxnet_bbb", "published+odd", "common", outcome="failed", reason=reason)))
    for one in made:
        Store(root).write(one)
    return made


def of_seed(seed: int) -> list[Record]:
    """Return finished records of every trained run, as a full run leaves them."""
    shift = seed / 10_000
    made = []
    for name, entry in manifests().items():
        log = {"mnist/test10k/accuracy": 0.97 + shift, "mnist/heldout10k-of-train/accuracy": 0.9714 + shift}
        if entry.document:
            epochs = [{"epoch": epoch, **log} for epoch in range(1, 51)]
            made.append(record(name, seed=seed, metrics=log, epochs=epochs))
        common = {"mnist/accuracy": 0.98 + shift, "mnist/ece": 0.01 + shift, "mnist/predictive_entropy": 0.1 + shift}
        common |= {f"{name}/predictive_entropy": 1.0 + shift for name in SETS}
        made += [record(name, recipe, "common", seed=seed, metrics=dict(common)) for recipe in entry.recipes]
    return [_keyed(one) for one in made]


def _keyed(made: Record) -> Record:
    return changed(made, key=hashlib.sha256(made.key.encode()).hexdigest())


N_ROWS = 50
SMOKE = PROFILES["smoke"]


class Oracle(Posterior):
    """Every draw gives the label, which is in the first pixel, probability 0.91, and each other class 0.01."""

    n_draws = None
    noise = "weights"

    def __init__(self):
        self.asked = []

    def predict(self, x, draws, rows):
        self.asked.append((draws, len(x)))
        log_probs = torch.full((len(x), 10), math.log(0.01), dtype=torch.float64)
        log_probs[torch.arange(len(x)), (x[:, 0] * 10).round().long() % 10] = math.log(0.91)
        return Categorical(log_probs.expand(len(draws), -1, -1).clone())

    def arrays(self):
        return {}

    def weights(self):
        ones = torch.ones(8)
        return {"w": Marginal(ones, ones, ones.bool())}

    def masked(self, keep):
        return self

    def mean_network(self):
        network = Oracle()
        network.n_draws = 1
        return network

    def log_density_ratio(self, draws):
        return torch.full((len(draws),), 46875.0, dtype=torch.float64)


def make(name, protocol):
    return protocol_of(registry.manifest(name), protocol, 0, SMOKE, None)
