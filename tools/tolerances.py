"""List every tolerance of the tests: `python -m tools.tolerances [FOLDER ...]` prints file, line, kind and code.

A tolerance is a call of `approx`, `assert_close`, `allclose` and the like, or a comparison of an absolute value with a
bound. Its kind is

exact    the relative and the absolute tolerance are both 0
derived  a comment that begins with `tolerance:` says where it comes from: on a line of the statement, right above it,
         or at the module's constant that states it
none     neither

`close` and `DOUBLE` of `tests/close.py` are derived there, once.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.core.project import TOP

TESTS = TOP / "tests"
CALLS = {
    *("approx", "assert_close", "allclose", "isclose", "assert_allclose"),
    *("assert_almost_equal", "assert_array_almost_equal"),
}
SIZES = {"abs", "absolute", "fabs", "norm"}
ARGUMENTS = {"rel", "abs", "rtol", "atol"}
MARK = "# tolerance:"


@dataclass(frozen=True)
class Tolerance:
    """One place that allows two numbers to differ."""

    file: str  # relative to the repository
    line: int
    kind: str  # exact, derived or none
    code: str  # the line


def tolerances(path: Path) -> list[Tolerance]:
    """Return the tolerances of a file of Python."""
    text = path.read_text()
    lines = text.splitlines()
    tree = ast.parse(text)
    name = path.relative_to(TOP).as_posix() if path.is_relative_to(TOP) else path.name
    derived = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_explained(node, lines)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if any(isinstance(node, ast.ImportFrom) and node.module == "tests.close" for node in tree.body):
        derived.add("DOUBLE")
    found = {}
    for statement, node in _places(tree):
        known = _is_explained(statement, lines) or _names(node) & derived
        kind = "exact" if _is_exact(node) else "derived" if known else "none"
        place = (node.lineno, node.col_offset)
        found[place] = Tolerance(name, node.lineno, kind, lines[node.lineno - 1].strip())
    return [found[place] for place in sorted(found)]


def _places(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.Call | ast.Compare]]:
    """Yield each tolerance with the smallest statement around it."""
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt):
            continue
        for node in _of_statement(statement):
            if isinstance(node, ast.Call) and _called(node) in CALLS:
                yield statement, node
            if isinstance(node, ast.Compare) and _compares_a_size(node):
                yield statement, node


def _of_statement(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement that are in no statement inside it."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        yield node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _compares_a_size(node: ast.Compare) -> bool:
    """Return whether an absolute value is compared with an upper bound."""
    sides = [node.left, *node.comparators]
    for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if not isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            continue
        small = left if isinstance(operator, ast.Lt | ast.LtE) else right
        if any(isinstance(one, ast.Call) and _called(one) in SIZES for one in ast.walk(small)):
            return True
    return False


def _is_exact(node: ast.Call | ast.Compare) -> bool:
    """Return whether a call states both tolerances as 0."""
    if isinstance(node, ast.Compare):
        return False
    given = [one.value for one in node.keywords if one.arg in ARGUMENTS]
    return len(given) == 2 and all(isinstance(one, ast.Constant) and one.value == 0 for one in given)


def _names(node: ast.Call | ast.Compare) -> set[str]:
    """Return the names in the tolerance: a call's arguments for it, a comparison's sides."""
    if isinstance(node, ast.Call):
        parts: list[ast.AST] = [one.value for one in node.keywords if one.arg in ARGUMENTS]
    else:
        parts = [node.left, *node.comparators]
    return {one.id for part in parts for one in ast.walk(part) if isinstance(one, ast.Name)}


def _is_explained(statement: ast.stmt, lines: list[str]) -> bool:
    """Return whether a comment that begins with `tolerance:` is in a statement's own lines or right above it."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    if any(MARK in line for line in lines[statement.lineno - 1 : last]):
        return True
    place = statement.lineno - 2
    while place >= 0 and lines[place].lstrip().startswith("#"):
        if lines[place].lstrip().startswith(MARK):
            return True
        place -= 1
    return False


def all_tolerances(*folders: Path) -> list[Tolerance]:
    """Return the tolerances of all tests in files or folders, by default in `tests`."""
    files = [file for each in folders or (TESTS,) for file in (sorted(each.rglob("*.py")) if each.is_dir() else [each])]
    return [one for file in files for one in tolerances(file)]


def main() -> None:
    """Print the list and the count of each kind."""
    found = all_tolerances(*(Path(given).resolve() for given in sys.argv[1:]))
    for one in found:
        print(f"{one.file}:{one.line}\t{one.kind}\t{one.code}")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(Counter(one.kind for one in found).items())))


if __name__ == "__main__":
    main()
