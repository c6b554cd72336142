"""Shows mistakes of the documents by running their code: python -m documents_code [CHECK ...] [--write].

Runs each check and prints what it showed. `--write` keeps the outcomes in bench/judge/audit/shown.json, which
`python -m bench audit documents` reads. Exit code 1 if a check shows no mistake, 3 if a framework is missing; the
stored outcomes of its checks then stay.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

import msgspec

from bench.cli import FAILED, INCOMPLETE
from bench.cli.main import Parser, guarded
from bench.core.errors import check_known
from bench.core.files import write_atomically
from bench.judge.audit.documents import SHOWN, ShownMistake, shown_mistakes
from documents_code import shown
from documents_code.shown import Check


def checks() -> tuple[dict[str, Check], list[str]]:
    """Return the checks that can run here by name, and the missing frameworks of the other checks."""
    found, missing = dict(shown.CHECKS), []
    for framework in ("pyro", "mxnet"):
        if find_spec(framework) is None:
            missing.append(framework)
        else:
            found |= import_module(f"documents_code.shown_{framework}").CHECKS
    return found, missing


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks, print and keep what they show; return the exit code."""
    parser = Parser(prog="python -m documents_code", description="Which mistakes running shows.", allow_abbrev=False)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default: all that can run here")
    parser.add_argument("--write", action="store_true", help=f"keep what was shown in {SHOWN.name}")
    return guarded(lambda: _main(parser.parse_args(argv)))


def _main(given: argparse.Namespace) -> int:
    known, missing = checks()
    check_known("check", known, *given.checks)
    found = {}
    for name in given.checks or known:
        found[name] = shown.run(name, known[name])
        sys.stdout.write(f"{found[name].outcome:<10} {name}: {found[name].detail}\n")
    if given.write:
        write(found)
    for framework in missing:
        sys.stderr.write(f"warning: {framework} is not installed; its checks did not run\n")
    if any(each.outcome != "found" for each in found.values()):
        return FAILED
    return INCOMPLETE if missing and not given.checks else 0


def write(found: Mapping[str, ShownMistake]) -> None:
    """Store outcomes; they replace older ones of the same checks."""
    kept = {**(shown_mistakes() if SHOWN.exists() else {}), **found}
    content = msgspec.json.encode(kept, order="sorted")
    write_atomically(SHOWN, msgspec.json.format(content, indent=1) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
