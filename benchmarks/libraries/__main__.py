"""Command line: python -m benchmarks.libraries [LIBRARY ...]; needs the extra `libraries` and a quiet machine.

Prints a table as Markdown. `--quick` measures very little: it shows that everything runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys

from bench.cli.main import Parser, guarded
from bench.cli.options import count, say
from bench.core.errors import MissingFramework, check_known
from bench.show.tables.render import render
from benchmarks.libraries.loops import LOOPS
from benchmarks.libraries.measure import LIBRARIES, Amounts, run

QUICK = Amounts(rounds=2, block_s=0.01, predict_rounds=2, draws=3, images=200)
MODULES = {"torchbnn": "torchbnn", "bayesian-torch": "bayesian_torch", "posteriors": "posteriors", "pyro-ppl": "pyro"}


def main() -> int:
    """Measure and print the table; return the exit code."""
    parser = Parser(
        prog="python -m benchmarks.libraries",
        description="Our code beside other people's libraries.",
        allow_abbrev=False,
    )
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"default: {', '.join(LIBRARIES)}")
    parser.add_argument("--rounds", type=count, default=Amounts.rounds, help=f"default: {Amounts.rounds}")
    parser.add_argument("--predict-rounds", type=count, default=Amounts.predict_rounds, metavar="N", help="of answers")
    parser.add_argument("--threads", type=count, help="default: all cores")
    parser.add_argument("--quick", action="store_true", help="shows that everything runs; the times mean nothing")
    return guarded(lambda: _made(parser.parse_args()))


def _made(given: argparse.Namespace) -> int:
    chosen = given.libraries or list(LIBRARIES)
    for name in chosen:
        check_known("library", LOOPS, name)
        if importlib.util.find_spec(MODULES[LOOPS[name][0]]) is None:
            raise MissingFramework(
                f"{name} is not installed; python -m pip install -c constraints.txt -e '.[libraries]'"
            )
    amounts = QUICK if given.quick else Amounts(rounds=given.rounds, predict_rounds=given.predict_rounds)
    sys.stdout.write(render(run(chosen, amounts, given.threads, say), "md"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
