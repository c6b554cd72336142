"""Draw `docs/architecture.md`'s diagram from the imports: `python -m tools.architecture` writes it, `--check` compares.

An arrow from A to B says that a file of package A imports a file of package B. Arrows that other arrows imply (A to B
to C) are left out, so that the picture shows the order and not every import.
"""

from __future__ import annotations

import sys

import grimp

from bench.core.files import write_atomically
from bench.core.project import TOP
from bench.show.tables.files import with_block

PAGE = TOP / "docs" / "architecture.md"
MARKS = ("<!-- diagram -->\n", "\n<!-- end of diagram -->")
NAMES = {"api": "api.py", "interface": "interface.py"}


def arrows() -> set[tuple[str, str]]:
    """Return pairs of packages; the first package imports the second."""
    graph = grimp.build_graph("bench", "elbo_audit", "implementations")
    found: set[tuple[str, str]] = set()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = (_package(module), _package(other))
            if pair[0] and pair[1] and pair[0] != pair[1]:
                found.add(pair)
    return found


def _package(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "bench":
        return parts[0]
    return parts[1] if len(parts) > 1 and not parts[1].startswith("__") else ""


def shown(pairs: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the arrows that no path of other arrows implies."""
    return sorted(pair for pair in pairs if not _reaches(*pair, pairs - {pair}))


def _reaches(start: str, goal: str, pairs: set[tuple[str, str]]) -> bool:
    """Return whether a path leads from start to goal; arrows go in no circle, which `lint-imports` checks."""
    return any(second == goal or _reaches(second, goal, pairs) for first, second in pairs if first == start)


def diagram() -> str:
    """Return the diagram as a Mermaid block."""
    pairs = arrows()
    packages = sorted({package for pair in pairs for package in pair})
    lines = [f'    {package}["{NAMES.get(package, package)}"]' for package in packages]
    lines += [f"    {first} --> {second}" for first, second in shown(pairs)]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def page() -> bytes:
    """Return the page with today's diagram."""
    return with_block(PAGE, *MARKS, diagram())


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it; return the exit code."""
    if arguments == ["--check"]:
        if page() == PAGE.read_bytes():
            return 0
        page_name = PAGE.relative_to(TOP)
        sys.stderr.write(f"{page_name} does not show today's imports; write it again: python -m tools.architecture\n")
        return 1
    write_atomically(PAGE, page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
