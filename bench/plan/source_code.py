"""Read the files of an approach without importing it: which ones they are, and the published values of its fields.

An import of an approach takes seconds, because it imports the framework. The fields and their defaults stand in the
text of its class.
"""

from __future__ import annotations

import ast
import importlib.util
import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from bench.core.errors import ConfigError
from bench.core.records import RecipeValue
from bench.plan.registry import manifest, manifest_folder, source_of

CONTRACT = "bench.interface"  # its class `Approach` has one field, `epochs`, to which every approach gives the value

_PARSING = threading.Lock()
"""At most one thread parses at a time. In CPython 3.11 all threads share one counter of `ast`'s recursion depth
(python/cpython issue 106905), so that two threads that parse at the same time fail with a SystemError. A pool parses in
many threads."""


def source_files(name: str) -> list[Path]:
    """Return an approach's own file and the files that it imports from its own folder."""
    start, roots = _module(name), _roots(name)
    found: dict[str, Path] = {}
    waiting = [start]
    while waiting:
        module = waiting.pop()
        path = _module_file(module, roots)
        if module in found or path is None:
            continue
        found[module] = path
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in _nodes(path):
            if isinstance(node, ast.ImportFrom):
                base = _imported_from(node, package)
                waiting += [base, *(f"{base}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
    return [found[module] for module in sorted(found)]


def published_values(name: str) -> dict[str, RecipeValue]:
    """Return the fields of an approach with their defaults, in the order of its dataclass.

    Raises:
        ConfigError: a default is no constant, or the text of the class or of one that it extends is not found.
    """
    try:
        return _values(_module(name), manifest(name).class_name, _roots(name))
    except (OSError, RecursionError) as error:
        raise ConfigError(f"the fields of {name} cannot be read from its file: {error}") from error


def _module(name: str) -> str:
    theirs = source_of(name)
    return f"implementations.{name}" if theirs is None else theirs.module


def _roots(name: str) -> dict[str, Path]:
    """Return the folders of the packages where the files of an approach may be, by package."""
    theirs = source_of(name)
    roots = {"implementations": manifest_folder()}
    return roots if theirs is None else {**roots, theirs.module.rpartition(".")[0]: theirs.folder}


def _values(module: str, class_name: str, roots: Mapping[str, Path]) -> dict[str, RecipeValue]:
    if (module, class_name) == (CONTRACT, "Approach"):
        return {}
    path = _module_file(module, roots)
    found = _read_class(b"" if path is None else path.read_bytes(), class_name, module)
    values: dict[str, RecipeValue] = {}
    for base in found.bases:
        values |= _values(*base, roots)
    return values | found.values


class _Class(NamedTuple):
    """What the text of a class says."""

    bases: list[tuple[str, str]]  # module and name of each class that it extends
    values: dict[str, RecipeValue]  # its own fields with their defaults


@lru_cache(maxsize=256)
def _read_class(text: bytes, name: str, module: str) -> _Class:
    """Return what the text of a module says about a class; raises ConfigError."""
    try:
        with _PARSING:
            tree = ast.parse(text)
        places: dict[str, str] = {}  # names of the module, with the module that each comes from
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                origin = _imported_from(node, module.rpartition(".")[0])
                places.update({alias.asname or alias.name: f"{origin}.{alias.name}" for alias in node.names})
        (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
        bases = [_place(ast.unparse(base), places, module) for base in found.bases]
        values = {
            node.target.id: _constant(node.value)
            for node in found.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
            if not ast.unparse(node.annotation).startswith("ClassVar")
        }
    except (SyntaxError, ValueError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"the fields of class {name} cannot be read from the text of {module}: {error}") from error
    return _Class(bases, values)


def _place(name: str, places: Mapping[str, str], module: str) -> tuple[str, str]:
    """Return module and name of a class that a module calls `name`, such as Method or _methods.Method."""
    first, _, rest = name.partition(".")
    place = places.get(first, f"{module}.{first}") + (f".{rest}" if rest else "")
    where, _, class_name = place.rpartition(".")
    return where, class_name


def _constant(node: ast.expr) -> RecipeValue:
    """Return the value of an expression of constants, such as 10, (1, 2) or 255 / 126; raises ValueError."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return float(ast.literal_eval(node.left)) / float(ast.literal_eval(node.right))
    value: RecipeValue = ast.literal_eval(node)
    return value


def _nodes(path: Path) -> Iterator[ast.AST]:
    try:
        with _PARSING:
            tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):  # the import of the file raises it again, and the records keep it
        return
    yield from ast.walk(tree)


def _module_file(module: str, roots: Mapping[str, Path]) -> Path | None:
    for package, folder in roots.items():
        if module.startswith(f"{package}."):
            path = folder.joinpath(*module[len(package) + 1 :].split("."))
            return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
    return None


def _imported_from(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name after `from`, in a file of `package`; '' if it has more dots than there are packages."""
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return ""
