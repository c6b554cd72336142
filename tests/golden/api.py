"""The names of the suite that a trace needs, wherever a commit keeps them.

`tools/trace_commit.py` runs the trace inside commits that made records. Modules have moved since.
"""

import importlib
from pathlib import Path

import bench

ROOT = Path(bench.__file__).resolve().parents[1]


def _find(name, *modules):
    """Return attribute `name` of the first module that exists and has it; raises ImportError if none has.

    Only modules beside this `bench` count: another installed copy may have modules that this commit lacks.
    """
    for module in modules:
        place = ROOT.joinpath(*module.split("."))
        if place.with_suffix(".py").is_file() or place.joinpath("__init__.py").is_file():
            found = importlib.import_module(module)
            if hasattr(found, name):
                return getattr(found, name)
    raise ImportError(f"{name} is in none of {', '.join(modules)}")


def _optional(name, *modules):
    """Return what `_find` does, or None where this commit does not have it yet."""
    try:
        return _find(name, *modules)
    except ImportError:
        return None


Categorical = _find("Categorical", "bench.interface")
Context = _find("Context", "bench.interface")
Gaussian = _find("Gaussian", "bench.interface")
Marginal = _find("Marginal", "bench.interface")
Posterior = _find("Posterior", "bench.interface")
Split = _find("Split", "bench.interface")
Task = _find("Task", "bench.interface")
Unsupported = _find("Unsupported", "bench.core.errors", "bench.errors")

fill_normals = _find("fill_normals", "bench.core.noise", "bench.noise")
fill_words = _find("fill_words", "bench.core.noise", "bench.noise")
stream_seed = _find("stream_seed", "bench.core.streams", "bench.streams")
generator = _find("generator", "bench.core.streams", "bench.streams")
matrix_products = _find("matrix_products", "bench.core.products", "bench.products", "bench.precision")

load_split = _find("load_split", "bench.data.splits")
load_shared = _find("load_shared", "bench.data.splits")
load_ood = _find("load_ood", "bench.data.splits")
toy_split = _find("toy_split", "bench.data.splits")
OOD_NAMES = _find("OOD_NAMES", "bench.data.manifest")

manifest = _find("manifest", "bench.plan.registry", "bench.registry")
manifests = _find("manifests", "bench.plan.registry", "bench.registry")
Profile = _find("Profile", "bench.plan.recipes", "bench.recipes")
build = _find("build", "bench.plan.recipes", "bench.recipes")
resolve = _find("resolve", "bench.plan.recipes", "bench.recipes")
recipe_names = _find("recipe_names", "bench.plan.recipes", "bench.recipes")

protocol_of = _find("protocol_of", "bench.measure.published_protocols", "bench.measure.documents", "bench.documents")
Common = _find("Common", "bench.measure.protocols", "bench.protocols")
draws_of = _find("draws_of", "bench.measure.measuring", "bench.measuring", "bench.protocols")

READERS_AT = ("bench.measure.readers", "bench.judge.ladder.readers", "bench.ladder.readers")
read_keys = _optional("read_keys", *READERS_AT)
