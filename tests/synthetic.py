"""Records and manifests as the report reads them, with numbers made up by the tests."""

from __future__ import annotations

from typing import Any

from bench.plan.manifests import ApproachManifest, RecipeChange, RecipeSpec

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


def record(approach: str, recipe: str = "published", protocol: str = "published", **changes: Any) -> dict[str, Any]:
    seed = changes.get("seed", 0)
    return {
        "schema": 1,
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
        "reason": "",
        "metrics": {},
        "missing": {},
        "arrays": {},
        "epochs": [],
        "timings": {"valid": True, "reason": ""},
        "model": {},
        "recipe_values": {},
        "corrections": [],
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
