"""Find approaches from outside the suite: in folders that a variable names, and in installed packages.

A folder holds NAME.py and NAME.toml, as `implementations` does. There are two ways to register it:
- $BNN_BENCH_APPROACHES (or `--approach-path`): folders or NAME.py files, separated as in $PATH, also for children.
- an entry point of group `bnn_bench.approaches`, whose value is the package that holds the two files.

Finding an approach imports but the parents of an entry point's package; one not found is a source with an error.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from bench.core.errors import BrokenApproach
from bench.core.files import reason

VARIABLE = "BNN_BENCH_APPROACHES"
GROUP = "bnn_bench.approaches"
EMPTY = "it holds no NAME.py with NAME.toml beside it"


@dataclass(frozen=True)
class ApproachSource:
    """One approach from outside the suite, or why it cannot be found."""

    name: str
    folder: Path
    module: str  # dotted name of NAME.py
    where: str  # file, folder or entry point, for people
    error: str = ""


def path() -> str:
    """Return the value of $BNN_BENCH_APPROACHES."""
    return os.environ.get(VARIABLE, "")


def add_to_path(place: str) -> None:
    """Append a folder or NAME.py to $BNN_BENCH_APPROACHES, for this process and those that it starts."""
    parts = [part for part in path().split(os.pathsep) if part]
    absolute = os.path.abspath(os.path.expanduser(place))
    if absolute not in parts:
        os.environ[VARIABLE] = os.pathsep.join([*parts, absolute])


def sources(search: str) -> list[ApproachSource]:
    """Return the approaches of each folder or file of `search`, then those of entry points; each part by name."""
    found: list[ApproachSource] = []
    for part in filter(None, search.split(os.pathsep)):
        found += in_place(Path(part))
    return found + list(_announced())


def load(source: ApproachSource) -> types.ModuleType:
    """Import NAME.py; raises BrokenApproach for every error in the file."""
    package = source.module.rpartition(".")[0]
    if package.startswith(_PRIVATE) and package not in sys.modules:
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(source.folder)]
    try:
        if b"torchvision" in (source.folder / f"{source.name}.py").read_bytes():
            from bench.data.torchvision_shim import make_importable  # here: few approaches need it

            make_importable()
        return importlib.import_module(source.module)
    except BaseException as error:  # a user's file may even call sys.exit
        if isinstance(error, KeyboardInterrupt):
            raise
        line = _line_of(error, source.folder)
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BrokenApproach(f"{source.name} ({source.where}) cannot be imported: {text}{line}") from error


_PRIVATE = "_bnn_bench_approaches_"  # a package whose name begins so is made for each folder


def in_place(place: Path) -> list[ApproachSource]:
    """Return the approaches of a folder, or the one of a file NAME.py or NAME.toml."""
    try:
        if place.suffix in (".py", ".toml"):
            return [_source(place.parent, place.stem, _package(place.parent), str(place))]
        names = _names_in(place)
        error = "" if names else EMPTY if place.is_dir() else "no such folder"
    except OSError as problem:
        names, error = [], reason(problem)
    if error:
        name = place.stem if place.suffix in (".py", ".toml") else place.name or str(place)
        return [ApproachSource(name, place, "", str(place), error)]
    return [_source(place, name, _package(place), str(place)) for name in names]


def _names_in(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.toml") if file.with_suffix(".py").is_file())


def _package(folder: Path) -> str:
    return _PRIVATE + hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:12]


def _source(folder: Path, name: str, package: str, where: str) -> ApproachSource:
    error = ""
    absent = [file.name for suffix in (".py", ".toml") if not (file := folder / f"{name}{suffix}").is_file()]
    if absent:
        error = f"there is no {' and no '.join(absent)} in {folder}; an approach is NAME.py with NAME.toml beside it"
    elif not name.isidentifier():
        error = f"'{name}' is no Python name; rename both files, such as my_approach"
    return ApproachSource(name, folder, f"{package}.{name}", where, error)


def _announced() -> Iterator[ApproachSource]:
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        where = f"entry point {entry.name} = {entry.value}"
        try:
            spec = importlib.util.find_spec(entry.value)
            if spec is None or not spec.submodule_search_locations:
                raise ModuleNotFoundError(f"{entry.value} is no package")
        except BaseException as error:  # a package may even call sys.exit when it is imported
            if isinstance(error, KeyboardInterrupt):
                raise
            yield ApproachSource(entry.name, Path(), "", where, f"{type(error).__name__}: {error}".splitlines()[0])
            continue
        for place in spec.submodule_search_locations:
            names = _names_in(Path(place))
            if not names:
                yield ApproachSource(entry.name, Path(place), "", where, EMPTY)
            for name in names:
                yield _source(Path(place), name, entry.value, where)


def _line_of(error: BaseException, folder: Path) -> str:
    """Return the line in the approach's own files where the error occurred."""
    steps = [(step.filename, step.lineno) for step in traceback.extract_tb(error.__traceback__)]
    steps = [(file, line) for file, line in steps if folder in Path(file).parents]
    if isinstance(error, SyntaxError) and error.filename:
        steps.append((error.filename, error.lineno))
    return f" ({Path(steps[-1][0]).name}:{steps[-1][1]})" if steps else ""
