"""Audit the eighty objectives and print the confusion table: python -m tests.elbo_audit.corpus [--all] [STYLE ...].

--all: every mistake of every style, 362 objectives. With names: only these styles, with the reports of the audit.
Styles whose library is not installed are left out. Exit code 1 if an outcome is not as expected and has no note.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from tests.elbo_audit.corpus.running import GOOD, NOTES, judged, plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit and print what the command line asks for, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.elbo_audit.corpus", description="Audit small objectives.", allow_abbrev=False
    )
    parser.add_argument("styles", nargs="*", metavar="STYLE", help="only these, and what the audit says of them")
    parser.add_argument("--all", action="store_true", help="every mistake of every style")
    given = parser.parse_args(arguments)
    planned = list(plan(given.all))
    known = {style.name for style, _ in planned}
    if absent := set(given.styles) - known:
        parser.error(f"unknown, or without its library: {', '.join(absent)}; known: {', '.join(sorted(known))}")
    counts, open_ends = Counter[tuple[str, str]](), 0
    for style, fault in planned:
        if style.name not in (given.styles or known):
            continue
        cell, objective, answer = judged(style, fault)
        counts["a mistake" if fault else "right", cell] += 1
        if cell not in GOOD:
            note = NOTES.get((style.name, fault or ""), "")
            open_ends += not note
            answer_text = f"fails: {', '.join(answer.fails) or 'none'}; KL an epoch: {answer.kl}"
            print(f"{cell}: {style.name}: {fault}: {answer_text}; {objective.expected}; {note}")
        if given.styles:
            print(f"{cell}: {style.name}: {fault or 'right'}\n{answer.text}")
    for (kind, cell), count in sorted(counts.items()):
        print(f"{kind}: {count} {cell}")
    return int(open_ends > 0)


if __name__ == "__main__":
    sys.exit(main())
