"""`ladder`: how much each correction, each way of measuring and each control changes the numbers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from bench.cli import INCOMPLETE, options, reading
from bench.cli.inputs import material_of, warn_of_problems
from bench.cli.on_request import add_training_on_request, train_on_request
from bench.core.errors import ConfigError, unknown_name
from bench.core.store import Store
from bench.core.text import one_line, visible
from bench.judge.ladder.answer import find
from bench.judge.ladder.effects import effects
from bench.judge.ladder.rungs import Ladder
from bench.judge.ladder.selection import cells_of, chosen
from bench.plan.cells import Selection
from bench.run.executors import check_device
from bench.show.material import Material
from bench.show.tables.answer import answer_table, conclusions
from bench.show.tables.files import write_tables
from bench.show.tables.ladder import as_lines, ladder_table
from bench.show.tables.render import render

ALL = "all"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help="see `python -m bench list`")
    parser.add_argument("--all", action="store_true", help="every approach that has a ladder")
    options.add_record_options(parser)
    options.add_wide(parser)
    add_training_on_request(parser)
    parser.add_argument("--seeds", type=options.seeds, metavar="N", help="with --run: a count or a list (default: 3)")
    parser.add_argument("--data-set", help=f"data set to show besides mnist, or {ALL} (default: the approach's first)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write ladder_APPROACH to RESULTS/tables, all data sets")
    parser.set_defaults(action=_ladder)


def _ladder(arguments: argparse.Namespace) -> int:
    reading.check_conditions(arguments)
    reading.refuse_other_tasks(arguments)
    if arguments.run or arguments.write:
        reading.refuse_to_write(arguments, "--results DIR")
    if arguments.seeds is not None and not arguments.run:
        raise ConfigError("--seeds is for --run, which trains what is missing; leave it out")
    arguments.seeds = arguments.seeds or (0, 1, 2)
    if arguments.all == bool(arguments.approaches):
        raise ConfigError("give either --all or names of approaches (see `python -m bench list`), not both")
    ladders = chosen(arguments.approaches)
    for one in ladders:
        if arguments.data_set not in (None, ALL, *one.ood):
            raise unknown_name(f"data set of the ladder of {one.approach}", arguments.data_set, (ALL, *one.ood))
    reading.say_if_shipped(arguments)
    code = _make(ladders, arguments) if arguments.run else 0
    material = material_of(arguments)
    warn_of_problems(material)
    _show(ladders, material, arguments)
    return INCOMPLETE if material.problems else code


def _make(ladders: Sequence[Ladder], arguments: argparse.Namespace) -> int:
    """Train and measure what the ladders lack, then compute from the fits the numbers that no record has."""
    from bench.judge.ladder.taking import read_missing  # not at the top: it imports PyTorch, which needs seconds

    check_device(arguments.device)
    conditions = {"profile": arguments.profile, "device": arguments.device, "precision": arguments.precision}
    needed = cells_of(ladders, Selection(seeds=arguments.seeds, **conditions), material_of(arguments).paper)
    code = train_on_request(needed, arguments)
    records = [record for record in material_of(arguments).results.records if record.seed in arguments.seeds]
    store = Store(arguments.results)

    def tell(text: str) -> None:
        if not arguments.quiet:
            print(visible(text), file=sys.stderr)

    reasons = [reason for one in ladders for reason in read_missing(one, records, store, arguments.data_dir, tell)]
    for reason in reasons:
        print(f"not read: {one_line(reason)}", file=sys.stderr)
    return INCOMPLETE if reasons else code


def _show(ladders: Sequence[Ladder], material: Material, arguments: argparse.Namespace) -> None:
    lines = []
    for one in ladders:
        numbers = material.of_approach(one.approach).numbers
        found = effects(one, numbers)
        answer = find(one.question, numbers, material.claims) if one.question else None
        if arguments.write:
            made = ladder_table(one, found, numbers, one.ood)
            write_tables([made], reading.folder(arguments, "tables"), below=arguments.results)
        if arguments.json:
            said = conclusions(answer) if answer else []
            lines.append({"approach": one.approach, "rungs": as_lines(one, found), "answer": said})
            continue
        named = (arguments.data_set,) if arguments.data_set else one.ood[:1]
        data_sets = one.ood if arguments.data_set == ALL else named
        print(render(ladder_table(one, found, numbers, data_sets)))
        print(f"\n{render(answer_table(one.approach, answer, material.results))}\n" if answer else "")
    if arguments.json:
        print(json.dumps(lines, indent=1))
