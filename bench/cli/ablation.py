"""`ablation`: how much each correction, each way of measuring and each control changes the numbers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from bench.cli import INCOMPLETE, options, reading
from bench.cli.inputs import inputs_of, warn_of_problems
from bench.cli.run import add_training_on_request, train_on_request
from bench.core.errors import ConfigError, check_known
from bench.core.precision import check_device
from bench.core.store import Store
from bench.core.text import one_line, visible
from bench.judge.ablation.answer import find
from bench.judge.ablation.definition import chosen, trained_runs_of
from bench.judge.ablation.effects import effects
from bench.judge.ablation.single_changes import MNIST, Ablation
from bench.plan.registry import group_of
from bench.plan.trained_runs import Selection
from bench.show.inputs import Inputs
from bench.show.table import DATA_SET
from bench.show.tables.ablation import ablation_table, as_lines, mistakes_table
from bench.show.tables.answer import answer_table, conclusions
from bench.show.tables.files import write_tables
from bench.show.terminal import brief, shown

ALL = "all"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help="command list names them")
    parser.add_argument(
        "--all", action="store_true", help="the corrections of all approaches of the documents, in short"
    )
    options.add_record_options(parser)
    reading.add_baseline(parser)
    options.add_wide(parser)
    add_training_on_request(parser)
    parser.add_argument("--seeds", type=options.seeds, metavar="N", help="with --run: a count or a list (default: 3)")
    parser.add_argument("--data-set", help=f"data set to show besides {MNIST}, or {ALL} (with --all: each table)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write ablation_APPROACH to RESULTS/tables, all data sets")
    parser.set_defaults(action=_ablation)


def _ablation(arguments: argparse.Namespace) -> int:
    reading.check_conditions(arguments)
    reading.refuse_other_tasks(arguments)
    if arguments.run:
        reading.refuse_to_write(arguments, "--results DIR")
    if arguments.seeds is not None and not arguments.run:
        raise ConfigError("--seeds is for --run, which trains what is missing; leave it out")
    arguments.seeds = arguments.seeds or (0, 1, 2)
    if arguments.all and arguments.approaches:
        raise ConfigError("give either --all or names of approaches (see `python -m bench list`), not both")
    if not (arguments.all or arguments.approaches):
        raise ConfigError("no approach given: name one (`python -m bench list` names all), or --all")
    ablations = chosen(arguments.approaches)
    for one in ablations:
        if arguments.data_set is not None:
            check_known(f"data set of the ablation of {one.approach}", (ALL, MNIST, *one.ood), arguments.data_set)
    reading.say_if_shipped(arguments)
    code = _make(ablations, arguments) if arguments.run else 0
    inputs = inputs_of(arguments, approaches={one.approach for one in ablations})
    warn_of_problems(inputs)
    _show(ablations, inputs, arguments)
    return INCOMPLETE if inputs.problems else code


def _make(ablations: Sequence[Ablation], arguments: argparse.Namespace) -> int:
    """Train and measure what the ablations lack, then compute from the fits the numbers that no record has.

    The baseline has no fits to compute from, so the user's records alone count.
    """
    from bench.judge.ablation.taking import read_missing  # not at the top: it imports PyTorch, which needs seconds

    check_device(arguments.device)
    conditions = {"profile": arguments.profile, "device": arguments.device, "precision": arguments.precision}
    needed = trained_runs_of(
        ablations, Selection(seeds=arguments.seeds, **conditions), Inputs(arguments.results, **conditions).paper
    )
    code = train_on_request(needed, arguments)
    own = Inputs(arguments.results, **conditions).results
    records = [record for record in own.records if record.seed in arguments.seeds]
    store = Store(arguments.results)

    def tell(text: str) -> None:
        if not arguments.quiet:
            print(visible(text), file=sys.stderr)

    reasons = [reason for one in ablations for reason in read_missing(one, records, store, arguments.data_dir, tell)]
    for reason in reasons:
        print(f"not read: {one_line(reason)}", file=sys.stderr)
    return INCOMPLETE if reasons else code


def _show(ablations: Sequence[Ablation], inputs: Inputs, arguments: argparse.Namespace) -> None:
    lines = []
    is_short = arguments.all and arguments.data_set is None
    if is_short and not arguments.json:
        print(brief(mistakes_table(inputs)))
    for one in ablations:
        of_group = inputs.of(group_of(one.approach))
        numbers = of_group.numbers
        found = effects(one, numbers)
        answer = find(one.question, numbers, inputs.claims) if one.question else None
        if arguments.write:
            made = ablation_table(one, found, numbers, one.ood)
            write_tables([made], reading.folder(arguments, "tables"), below=reading.own_folder(arguments))
        said = conclusions(answer) if answer else []
        lines.append({"approach": one.approach, "single changes": as_lines(one, found), "answer": said})
        if arguments.json:
            continue
        if answer:
            table = replace(answer_table(one.approach, answer, inputs.results), remarks=())
            print(shown("", table.title, *said) if is_short else brief(table, said) + "\n")
        if not is_short:
            asked = arguments.data_set or (answer.claim.dataset if answer else MNIST)  # an answer with its lines
            data_sets = [name for name in one.ood if asked in (ALL, name)]
            others = [name for name in one.ood if name not in data_sets]
            here = " and ".join((MNIST, *data_sets))
            more = [f"Data set {here}; --data-set NAME or {ALL} adds others: {', '.join(others)}."] if others else []
            table = of_group.with_baseline.marked(ablation_table(one, found, numbers, data_sets))
            print(brief(table if data_sets else table.without((DATA_SET,)), () if arguments.data_set else more) + "\n")
    if arguments.json:
        print(json.dumps(lines, indent=1))
    elif is_short:
        print(shown("", "`ablation NAME` shows all changes of an approach, and the steps to a reported number."))
