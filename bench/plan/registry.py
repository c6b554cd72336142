"""The registered approaches. Manifests are read without importing a framework; a class is imported when it is used.

The approaches of `implementations` come first. `bench.plan.plugins` finds those from outside the suite. An approach
that cannot be read is listed with its error (`broken`) and does not affect the others.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.core.errors import BenchError, BrokenApproach, ConfigError, MissingFramework, check_known, unknown_name
from bench.plan import plugins
from bench.plan.manifests import DOCUMENTS, GROUPS, ApproachGroup, ApproachManifest, read_manifest
from bench.plan.plugins import ApproachSource

if TYPE_CHECKING:
    from bench.interface import Approach  # here: it imports torch, and most commands read manifests alone

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
"""The order of approaches in tables: by document, then the baselines. All others follow by name."""


def manifest_folder() -> Path:
    """Return the folder of the suite's own approaches; raises ConfigError if it is not importable."""
    spec = importlib.util.find_spec("implementations")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("package 'implementations' cannot be imported; pip install -c constraints.txt -e .")
    return Path(next(iter(spec.submodule_search_locations)))


@dataclass(frozen=True)
class _Found:
    manifests: dict[str, ApproachManifest]
    sources: dict[str, ApproachSource]  # of the approaches from outside
    broken: tuple[ApproachSource, ...]  # each with its error


def _found() -> _Found:
    return _look(plugins.path())


@cache
def _look(path: str) -> _Found:
    """Find all approaches, if `path` is the value of $BNN_BENCH_APPROACHES."""
    inside = {file.stem: file for file in manifest_folder().glob("*.toml")}
    ordered = [name for name in ORDER if name in inside] + sorted(set(inside) - set(ORDER))
    known = {name: read_manifest(inside[name]) for name in ordered}
    sources: dict[str, ApproachSource] = {}
    broken: list[ApproachSource] = []
    for source in plugins.sources(path):
        try:
            if source.error:
                raise BrokenApproach(source.error)
            if source.name in known:
                owner = sources[source.name].where if source.name in sources else "an approach of this suite"
                raise BrokenApproach(f"the name is taken by {owner}; rename both files")
            known[source.name] = read_manifest(source.folder / f"{source.name}.toml", source.module)
            sources[source.name] = source
        except BenchError as error:
            broken.append(replace(source, error=str(error)))
    return _Found(known, sources, tuple(broken))


def manifests() -> dict[str, ApproachManifest]:
    """Return all manifests by name, in the order of the tables; approaches from outside are last."""
    return _found().manifests


def of_group(group: str) -> dict[str, ApproachManifest]:
    """Return the manifests of one group by name, in the order of the tables; raises ConfigError."""
    check_known("group", GROUPS, group)
    return {name: entry for name, entry in manifests().items() if entry.group == group}


def group_of(approach: str) -> ApproachGroup:
    """Return the group of an approach; the group of the documents for an unknown approach."""
    entry = manifests().get(approach)
    return DOCUMENTS if entry is None else entry.group


def source_of(name: str) -> ApproachSource | None:
    """Return where a user's approach was found; None for an approach of this suite."""
    return _found().sources.get(name)


def broken() -> tuple[ApproachSource, ...]:
    """Return the approaches that were found but cannot be read."""
    return _found().broken


def refused_for_its_name(name: str) -> ApproachSource | None:
    """Return the approach from outside that cannot be used because an approach of this suite has its name."""
    found = _found()
    if name not in found.manifests or name in found.sources:
        return None
    return next((each for each in found.broken if each.name == name), None)


def manifest(name: str) -> ApproachManifest:
    """Return one manifest; an unknown name is an error that suggests the nearest."""
    known = manifests()
    if name not in known:
        for each in broken():
            if each.name == name:
                raise BrokenApproach(f"approach {name} ({each.where}) cannot be used: {each.error}")
        raise unknown_name("approach", name, known)
    return known[name]


def load_class(name: str) -> type[Approach]:
    """Import an approach's class.

    Raises:
        MissingFramework: a package that the approach needs is not installed.
        BrokenApproach: an approach from outside cannot be imported or lacks its class.
        ConfigError: an approach of this suite lacks the class that its manifest names.
    """
    from bench.interface import Approach  # here: it imports torch, and most commands read manifests alone

    entry = manifest(name)
    reason = entry.missing_framework()
    if reason:
        raise MissingFramework(reason)
    theirs = source_of(name)
    module = importlib.import_module(f"implementations.{name}") if theirs is None else plugins.load(theirs)
    found = getattr(module, entry.class_name, None)
    if not (isinstance(found, type) and issubclass(found, Approach)):
        file = f"implementations/{name}.py" if theirs is None else str(theirs.folder / f"{name}.py")
        text = f"manifest {name}.toml names class '{entry.class_name}', which {file} lacks as a subclass of Approach"
        raise ConfigError(text) if theirs is None else BrokenApproach(text)
    return found
