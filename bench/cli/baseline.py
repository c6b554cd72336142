"""`baseline`: the trained runs of the baseline distributions, by stage: show which are missing, or make them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import NamedTuple

from bench.cli import INCOMPLETE
from bench.cli.options import add_results, add_wide, seeds
from bench.cli.reading import refuse_to_write, say_if_shipped
from bench.cli.run import add_training_on_request, train_on_request
from bench.core.errors import check_known
from bench.core.precision import check_device
from bench.core.reasons import in_words
from bench.core.store import Store
from bench.core.text import counted, duration
from bench.judge.gate.baseline import STAGES, RecipeToDo, in_cost_order, trained_runs_of_stage
from bench.plan.costs import estimates, speed_here
from bench.plan.trained_runs import Selection, TrainedRun
from bench.run.executors import is_remote, threads_of_a_fit
from bench.run.recording import final
from bench.show.table import Table
from bench.show.terminal import shown

NAMES = tuple(STAGES)


class StageLine(NamedTuple):
    """A line of the command's output: a whole stage, or one of its recipes that has missing trained runs."""

    stage: str
    what: str
    seeds: str
    to_do: int  # trained runs
    expected_s: float | None


FIELDS = ("stage", "what", "seeds", "to do", "expected_s")  # names of the fields of `StageLine` in JSON


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{', '.join(NAMES)} (default: all, in this order)")
    add_training_on_request(parser)
    parser.add_argument("--seeds", type=seeds, default=(), metavar="N", help="a count or a list (default: the stage's)")
    add_results(parser)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    add_wide(parser)
    parser.add_argument("--json", action="store_true", help="print JSON; not with --run")
    parser.set_defaults(action=_baseline)


def _baseline(arguments: argparse.Namespace) -> int:
    check_known("stage", NAMES, *arguments.stages)
    if arguments.run:
        refuse_to_write(arguments, "--results DIR")
    say_if_shipped(arguments)
    if not is_remote(arguments.executor):
        check_device(arguments.device)
    code, lines = 0, []
    for name in arguments.stages or NAMES:
        chosen, left = _left(name, arguments)
        if not arguments.run:
            lines += _lines(name, chosen, left)
        elif left:
            print(f"stage {name}: {_how_long(left, arguments.workers or 1)}", file=sys.stderr)
            code = (
                train_on_request([trained_run for recipe in left for trained_run in recipe.trained_runs], arguments)
                or code
            )
    if arguments.run:
        return code
    if arguments.json:
        print(json.dumps([dict(zip(FIELDS, line, strict=True)) for line in lines], indent=1))
    else:
        rows = [(*line[:3], str(line.to_do), duration(line.expected_s) if line.to_do else "") for line in lines]
        print(shown(Table("baseline", "", "", ("stage", "what", "seeds", "trained runs to do", "expected"), rows)))
    return INCOMPLETE if any(line.to_do for line in lines) else 0


def _left(name: str, arguments: argparse.Namespace) -> tuple[list[TrainedRun], list[RecipeToDo]]:
    """Return all trained runs of a stage, and its recipes with missing trained runs in the order of their cost."""
    chosen = trained_runs_of_stage(STAGES[name], Selection(seeds=arguments.seeds, device=arguments.device))
    store = Store(arguments.results)
    to_do = [trained_run for trained_run in chosen if final(trained_run, store, arguments.data_dir) is None]
    a_fits_threads = threads_of_a_fit(arguments.executor, arguments.threads, arguments.workers)
    if not to_do:
        return chosen, []
    known, _ = store.records_of(trained_run.approach for trained_run in to_do)
    return chosen, in_cost_order(to_do, estimates(to_do, known, speed_here(arguments.device, a_fits_threads)))


def _lines(name: str, chosen: list[TrainedRun], left: list[RecipeToDo]) -> list[StageLine]:
    n_left = sum(len(recipe.trained_runs) for recipe in left)
    what = f"{STAGES[name].title}: {len(chosen) - n_left} of {counted(len(chosen), 'trained run')} are there"
    known = [recipe.seconds for recipe in left if recipe.seconds is not None]
    expected = sum(known) if len(known) == len(left) else None
    lines = [StageLine(name, what, "", n_left, expected)]
    for recipe in left:
        skip, numbers = (
            recipe.trained_runs[0].skip,
            " ".join(map(str, sorted({trained_run.seed for trained_run in recipe.trained_runs}))),
        )
        what = recipe.title + (f": {in_words(skip)}" if skip else "")
        lines.append(StageLine(name, what, numbers, len(recipe.trained_runs), recipe.seconds))
    return lines


def _how_long(left: list[RecipeToDo], at_once: int) -> str:
    known = [recipe.seconds for recipe in left if recipe.seconds is not None]
    unknown = len(left) - len(known)
    trained_runs = counted(sum(len(recipe.trained_runs) for recipe in left), "trained run")
    text = f"{trained_runs} to do, expected {duration(sum(known) / at_once)}"
    return f"{text}; no estimate for {unknown} recipes" if unknown else text
