"""The approaches: manifests read without importing a framework, classes imported only when used."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.errors import ConfigError, MissingFramework, unknown_name
from bench.interface import Approach

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ORDER = (
    "dropout_fcn",
    "pyro_hidden_layer",
    "pyro_random_module",
    "mlp",
    "linear_bbb",
    "mxnet_bbb",
    "toy_mlp",
    "toy_bbb",
    "uniform",
)
"""The documents in order of the tables, then the baselines; approaches not named here follow by name."""

CAPABILITIES = ("weights", "masked", "mean_network", "log_density_ratio", "fit_many")


@dataclass(frozen=True)
class Change:
    """A named change of a recipe: a correction of a mistake, or a variant of interest."""

    name: str
    kind: str  # "correction" or "variant"
    title: str
    why: str
    values: Mapping[str, Any]  # fields of the approach's dataclass and their values
    in_all: bool = False  # a variant that `run --all` trains


@dataclass(frozen=True)
class RecipeSpec:
    """A recipe of the manifest: which rows it trains on and which corrections it makes."""

    split: str
    corrections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """What is known of an approach without importing its framework."""

    name: str
    title: str
    document: str
    class_name: str
    task: str
    requires: tuple[str, ...]
    extra: str
    noise: str
    capabilities: tuple[str, ...]
    recipes: Mapping[str, RecipeSpec]
    changes: Mapping[str, Change]
    cpu_float32_only: str = ""  # why neither a device nor a precision can be chosen, '' if they can

    def missing_framework(self) -> str:
        """Return why the approach cannot run here, or '' if it can."""
        absent = [name for name in self.requires if importlib.util.find_spec(name) is None]
        if not absent:
            return ""
        names = ", ".join(absent)
        return f"{self.name} needs {names}, which is not installed: pip install 'bnn-uncertainty-bench[{self.extra}]'"


def manifest_folder() -> Path:
    """Return the folder of the approaches and their manifests; raises ConfigError if it is not importable."""
    spec = importlib.util.find_spec("implementations")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("package 'implementations' is not importable; install the project with pip install -e .")
    return Path(next(iter(spec.submodule_search_locations)))


_REQUIRED = {"title", "class", "task", "noise", "recipes"}
_KEYS = _REQUIRED | {"document", "requires", "extra", "capabilities", "corrections", "variants", "cpu_float32_only"}


def parse_manifest(path: Path) -> Manifest:
    """Read one manifest; raises ConfigError that names the file and the field."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"manifest {path.name} cannot be read: {' '.join(str(error).split())}") from error
    try:
        return _parsed(path, raw)
    except (KeyError, TypeError, AttributeError) as error:  # a value of another type than is asked for
        what = f"no {error}" if isinstance(error, KeyError) else error
        raise ConfigError(f"manifest {path.name} has not the form of a manifest: {what}") from error


def _parsed(path: Path, raw: Mapping[str, Any]) -> Manifest:
    unknown = set(raw) - _KEYS
    missing = _REQUIRED - set(raw)
    if unknown or missing:
        raise ConfigError(f"manifest {path.name}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    changes: dict[str, Change] = {}
    for section, kind in (("corrections", "correction"), ("variants", "variant")):
        for name, body in raw.get(section, {}).items():
            try:
                changes[name] = Change(name, kind, body["title"], body["why"], body["set"], body.get("in_all", False))
            except (KeyError, TypeError) as error:
                raise ConfigError(f"manifest {path.name}: {kind} '{name}' needs title, why and set") from error
    recipes = {}
    for name, body in raw["recipes"].items():
        recipes[name] = RecipeSpec(body["split"], tuple(body.get("corrections", ())))
        for correction in recipes[name].corrections:
            if correction not in changes:
                raise unknown_name(f"correction in {path.name}", correction, changes)
    for capability in raw.get("capabilities", ()):
        if capability not in CAPABILITIES:
            raise unknown_name(f"capability in {path.name}", capability, CAPABILITIES)
    return Manifest(
        name=path.stem,
        title=raw["title"],
        document=raw.get("document", ""),
        class_name=raw["class"],
        task=raw["task"],
        requires=tuple(raw.get("requires", ())),
        extra=raw.get("extra", ""),
        noise=raw["noise"],
        capabilities=tuple(raw.get("capabilities", ())),
        recipes=recipes,
        changes=changes,
        cpu_float32_only=raw.get("cpu_float32_only", ""),
    )


@cache
def manifests() -> dict[str, Manifest]:
    """Return all manifests by name, in the order of the tables."""
    found = {path.stem: path for path in manifest_folder().glob("*.toml")}
    names = [name for name in ORDER if name in found] + sorted(set(found) - set(ORDER))
    return {name: parse_manifest(found[name]) for name in names}


def manifest(name: str) -> Manifest:
    """Return one manifest; an unknown name is an error that suggests the nearest."""
    known = manifests()
    if name not in known:
        raise unknown_name("approach", name, known)
    return known[name]


def load_class(name: str) -> type[Approach]:
    """Import an approach's class; raises MissingFramework if what it needs is not installed."""
    entry = manifest(name)
    reason = entry.missing_framework()
    if reason:
        raise MissingFramework(reason)
    module = importlib.import_module(f"implementations.{name}")
    found = getattr(module, entry.class_name, None)
    if not (isinstance(found, type) and issubclass(found, Approach)):
        raise ConfigError(
            f"manifest {name}.toml names class '{entry.class_name}', which implementations/{name}.py lacks"
        )
    return found


def source_files(name: str) -> list[Path]:
    """Return the files whose text decides what the approach computes: its own and those it imports from here."""
    folder = manifest_folder()
    found: dict[str, Path] = {}
    waiting = [f"implementations.{name}"]
    while waiting:
        module = waiting.pop()
        path = folder.joinpath(*module.split(".")[1:]).with_suffix(".py")
        if module in found or not path.is_file():
            continue
        found[module] = path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("implementations"):
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [found[module] for module in sorted(found)]
