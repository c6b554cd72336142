"""`compare`: two results folders, paired by run and seed; with `--verify`, one folder's metrics and its scores."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench.cli import FAILED, INCOMPLETE
from bench.cli.options import add_wide, given_path, warn
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.core.text import counted
from bench.judge.compare.differences import MAIN_METRICS, differences, lacking, row_test
from bench.judge.compare.pairing import (
    CONDITIONS,
    Side,
    differing_conditions,
    inside_of,
    made,
    only_in,
    pair_records,
    take_common,
    unfinished,
)
from bench.judge.compare.verified import verify
from bench.show.screens import compare as render
from bench.show.screens.compare import Comparison
from bench.show.terminal import shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = "Compares two results folders, paired by trained run and seed: B minus A, with intervals."
    parser.epilog = (
        "Exit codes: 0 everything that both folders have was compared; 2 a folder or option cannot be used, "
        "or nothing is in common; 3 some records lack a metric that others have, have no numbers, or cannot be read. "
        "With --verify: 0 every metric that could be computed again is the same; 1 one differs; 2 no record has "
        "scores; 3 some records cannot be read."
    )
    parser.add_argument("a", type=given_path, metavar="A", help="a results folder")
    parser.add_argument("b", type=given_path, nargs="?", metavar="B", help="another one (default: the shipped records)")
    parser.add_argument(
        "--verify", action="store_true", help="compute A's metrics again from its stored scores, to find edited numbers"
    )
    for name in CONDITIONS:
        parser.add_argument(
            f"--{name}", metavar="NAME", help="which records, if a folder has several; X,Y if A and B differ"
        )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="PATTERN",
        help="only these metrics, such as 'mnist/*' (default: the main ones)",
    )
    add_wide(parser)
    parser.add_argument("--format", choices=("text", "md"), default="text", help="how to print it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_compare)


def _verify(root: Path) -> int:
    """Compute the metrics of a folder again from its scores, print what differs, and return the exit code."""
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder; give a results folder")
    store = Store(root)
    records, problems = store.all_records()
    for problem in problems:
        warn(problem.reason)
    found = verify(records, store)
    if not found.scored:
        raise ConfigError(f"none of the {counted(found.records, 'finished record')} in {root} has scores to verify")
    for line in found.differing:
        print(shown(line))
    if found.left_out:
        print(shown(f"not determined by the scores of every record: {', '.join(sorted(found.left_out))}"))
    print(
        f"{found.scored:,} of {counted(found.records, 'finished record')} have scores; "
        f"{counted(found.metrics, 'metric')} computed again, {len(found.differing):,} differ"
    )
    if found.differing:
        return FAILED
    return INCOMPLETE if problems else 0


def _compare(arguments: argparse.Namespace) -> int:
    if arguments.verify:
        if arguments.b is not None:
            raise ConfigError("B does not apply to --verify, which checks all records of A; leave it out")
        for name in ("json", "metric", "format", *CONDITIONS):
            if getattr(arguments, name) not in (None, False, "text"):
                raise ConfigError(f"--{name} does not apply to --verify, which checks all records of A; leave it out")
        return _verify(arguments.a)
    found = _comparison(arguments)
    if arguments.json:
        print(json.dumps(render.as_json(found), indent=1))
    else:
        print(render.markdown(found) if arguments.format == "md" else render.text(found))
    return INCOMPLETE if found.problems or found.lacking else 0


def _comparison(arguments: argparse.Namespace) -> Comparison:
    a, b = _sides(arguments)
    pairs = pair_records(a, b)
    patterns = arguments.metric or MAIN_METRICS
    found, lacks = differences(pairs, patterns), lacking(pairs, patterns)
    if not found and not lacks:
        raise ConfigError(f"no common metric fits {', '.join(patterns)}; try --metric '*'")
    single = [trained_run for trained_run in pairs if len(trained_run.seeds) == 1]
    rows = [
        row_test(
            trained_run.trained_run,
            trained_run.seeds[0],
            a.store.scores(trained_run.a[0]),
            b.store.scores(trained_run.b[0]),
            inside_of(trained_run.a[0]),
        )
        for trained_run in single
    ]
    return Comparison(
        made=(made(a, "A"), made(b, "B")),
        conditions=differing_conditions(a, b, pairs),
        differences=found,
        lacking=lacks,
        rows=[row for row in rows if row is not None],
        only_a=only_in(a, b),
        only_b=only_in(b, a),
        problems=[*a.problems, *b.problems, *unfinished(a, b), *unfinished(b, a)],
    )


def _sides(arguments: argparse.Namespace) -> tuple[Side, Side]:
    """Read both folders. An option with a comma has a value for A and one for B."""
    wanted: list[dict[str, str | None]] = [{}, {}]
    for name in CONDITIONS:
        given: str | None = getattr(arguments, name)
        parts = (given or "").split(",")
        if len(parts) > 2:
            raise ConfigError(f"--{name} {given} has {len(parts)} values; give one for both folders, or two: A's,B's")
        for side, part in zip(wanted, (parts[0], parts[-1]), strict=True):
            side[name] = part.strip() or None
    a, b = arguments.a, RESULTS if arguments.b is None else arguments.b
    for path in (a, b):
        if not path.is_dir():
            raise ConfigError(f"{path} is not a folder; give a results folder")
    stores = Store(a), Store(b)
    take_common(stores, wanted)
    return Side.read(stores[0], wanted[0], "A"), Side.read(stores[1], wanted[1], "B")
