"""`posterior`: make, list and check the reference posteriors, and draw their diagnostics."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench.cli import FAILED, INCOMPLETE
from bench.cli.options import existing_folder, given_folder, given_path, say, warn, whole
from bench.core.errors import ConfigError, StoreError
from bench.core.files import write_atomically
from bench.core.project import OWN, RESULTS
from bench.core.text import THREE, WHOLE, Digits, duration
from bench.posterior.columns import Column, Lines, is_given
from bench.posterior.reference import (
    ALL,
    EVERY,
    FOLDER,
    LEVELS,
    TOTAL_VARIATION,
    Reference,
    apart,
    find,
    folder_of,
    read,
    refusals,
)
from bench.posterior.tasks import Task, all_tasks, task_named
from bench.show.figures.posterior import drawn
from bench.show.figures.style import printed, style
from bench.show.table import Entry, Number, Table
from bench.show.tables.columns import columns_table
from bench.show.terminal import text

COLUMNS = ("task", "state", "R-hat", "ESS", "acceptance", "floor", "expected")
EXPLANATION = (
    "R-hat: 99.9 % of the split R-hats of what is predicted lie below it. ESS: median effective sample size of four "
    "chains; both of the worse chain set. floor: how far the two chain sets are apart on the test rows, in total "
    "variation (TV) or, in a regression, Wasserstein-1 (W1, the target's unit). expected: time to make it on two quiet "
    "cores."
)
CHECK_COLUMNS = ("set", "metric", "new chain", "mean of eight", "floor")
CHECKED = (
    "How far the new chain is from the reference; how far one of its eight chains is from the seven others, in the "
    "mean; and how far its two sets of four are apart. Of agreement: what 1 exceeds it by."
)
MOST_APART = 2.0  # times as far as the eight
FORMATS = (".svg", ".png")
EVERY_S = 10.0  # between two lines of progress


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = (
        "Without TASK, it lists the tasks. A reference has two independent sets of four chains, which decide whether "
        "it is accepted and give its floor. The same command goes on after a kill."
    )
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="make the references of these tasks")
    parser.add_argument("--all", action="store_true", help="make every reference that is not there")
    parser.add_argument("--check", metavar="TASK", help="draw a chain more; show its distance beside the floor")
    parser.add_argument("--seed", type=_seed, default=2, metavar="N", help="of --check (default: 2)")
    text = "show how far trained methods are; `run --group posterior-TASK` trains them"
    parser.add_argument("--methods", metavar="TASK", help=text)
    parser.add_argument("--figure", type=given_path, metavar="FILE", help="draw the diagnostics of TASK, .svg or .png")
    text = f"folder of the references (default: ./{OWN}; what it lacks is read from the shipped ones)"
    parser.add_argument("--results", type=given_folder, metavar="DIR", help=text)
    parser.add_argument("--data-dir", type=existing_folder, help="folder with the data sets, looked at first")
    parser.set_defaults(action=_posterior)


def _seed(text: str) -> int:
    try:
        if (value := whole(text)) >= 0:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is no seed; give a number from 0")


def _posterior(given: argparse.Namespace) -> int:
    if sum((bool(given.tasks), given.all, given.check is not None, given.methods is not None)) > 1:
        raise ConfigError("give one of: names of tasks, --all, --check TASK, --methods TASK")
    tasks = {name: task_named(name) for name in given.tasks}
    if given.figure is not None:
        return _draw(given, tasks)
    if given.check is not None:
        return _check(given, task_named(given.check))
    if given.methods is not None:
        column = _column(given.methods, given)
        print(text(columns_table(column, _beside_shipped(column))))
        return 0
    if tasks or given.all:
        return _make(given, tasks or all_tasks())
    print(text(_listing(all_tasks(), given.results)))
    return 0


def run_group(arguments: argparse.Namespace) -> int:
    """Train the methods of a task for `run --group posterior-TASK`, with the options of `run`; print the table."""
    from bench.cli.uci import refuse_others  # here: what is stored needs neither
    from bench.posterior.training import expected, train_all

    refuse_others(arguments, "approaches", "approach_path", "seeds", "data_dir", "quiet")
    name = arguments.group.removeprefix("posterior-")
    column = Column.of(name, task_named(name), arguments.results, arguments.data_dir)
    tell = _nothing if arguments.quiet else say
    seconds, unknown = expected(column, arguments.approaches, arguments.seeds)
    known = f"{duration(seconds)} of CPU expected" if seconds else "no time is known"
    tell(f"{name}: {known}" + (f"; without one: {'; '.join(unknown)}" if seconds and unknown else ""))
    found = train_all(column, arguments.approaches, tell, arguments.seeds)
    print(text(columns_table(column, found)))
    done = {key for key, one in found.items() if not one.why}
    wanted = itertools.product(arguments.approaches or column.methods, arguments.seeds)
    return 0 if done.issuperset(wanted) else INCOMPLETE


def _column(name: str, given: argparse.Namespace) -> Column:
    """Return the column to read: the user's, or the one that comes with the suite."""
    results = given.results or folder_of(f"{name}-methods.jsonl").parent
    return Column.of(name, task_named(name), results, given.data_dir)


def _beside_shipped(column: Column) -> Lines:
    """Return the lines of a column; those of models that are trained already, beside the shipped methods."""
    found = column.stored(warn)
    if not any(is_given(name) for name, _ in found):
        return found
    own, shipped = {name for name, _ in found}, dataclasses.replace(column, path=RESULTS / FOLDER / column.path.name)
    return found | {key: one for key, one in shipped.stored(_nothing).items() if key[0] not in own}


def _nothing(text: str) -> None:
    """Say nothing."""


def _listing(tasks: Mapping[str, Task], results: Path | None) -> Table:
    rows: list[list[Entry]] = []
    remarks = [f"{name}: {task.title}" for name, task in tasks.items()]
    for name, task in tasks.items():
        state: str = "not made"
        numbers: list[Entry] = [None] * (len(COLUMNS) - 3)
        try:
            found = read(folder_of(f"{name}.json", results), name, task)
        except StoreError as error:
            state, found = "unusable", None
            remarks.append(f"{name} is unusable: {error}")
        if found is not None:
            why, numbers = refusals(found), _numbers(found)
            state = "refused" if why else "accepted"
            remarks += [f"{name} is refused: {one}" for one in why]
        rows.append([name, state, *numbers, duration(60 * task.minutes)])
    return Table("posterior", "Reference posteriors", EXPLANATION, COLUMNS, rows, remarks)


def _numbers(reference: Reference) -> list[Entry]:
    """Return R-hat, ESS and acceptance of the worse chain set, and the floor."""
    both = reference.about.chain_sets
    rhat = max(one.rhat[ALL][LEVELS.index(0.999)] for one in both)
    ess = min(one.ess[ALL][LEVELS.index(0.5)] for one in both)
    accepted = [part for one in both for part in one.acceptance]
    rows, metric = reference.main
    return [
        Number(rhat, Digits(decimals=3)),
        Number(ess, WHOLE),
        f"{min(accepted):.2f} to {max(accepted):.2f}",
        f"{'TV' if metric == TOTAL_VARIATION else 'W1'} {THREE.text(reference.floor[rows][metric])}",
    ]


def _make(given: argparse.Namespace, tasks: Mapping[str, Task]) -> int:
    from bench.posterior.making import make  # here: it compiles the sampler's loops

    folder = Path(given.results or OWN) / FOLDER
    made = {name: found for name, task in tasks.items() if (found := read(folder, name, task)) is not None}
    for name, reference in made.items():
        say(f"{name}: {_state(reference)}; it is there. To make it anew, remove {folder / name}.json")
    to_do = {name: task for name, task in tasks.items() if name not in made}
    if to_do:
        expected = duration(60 * sum(task.minutes for task in to_do.values()))
        say(f"to make: {', '.join(to_do)}; expected on two quiet cores: {expected}")
    for name, task in to_do.items():
        say(f"{name}: {_state(make(name, task, folder, given.data_dir, _Progress(name)))}; {folder / name}.json")
    return 0


def _state(reference: Reference) -> str:
    """Return whether a reference is accepted, or why not."""
    return "; ".join(("refused", *why)) if (why := refusals(reference)) else "accepted"


def _check(given: argparse.Namespace, task: Task) -> int:
    from bench.posterior.making import one_more_chain  # as above

    name = given.check
    reference = find(name, task, given.results)
    work = Path(given.results or OWN) / FOLDER
    new = Reference(reference.about, one_more_chain(name, task, given.seed, work, given.data_dir, _Progress(name)))
    found, spread = apart(new, [0], reference, EVERY), reference.spread()
    every = (found, spread, reference.floor)
    lines: list[list[Entry]] = [
        [rows, metric, *(Number(each[rows][metric], THREE) for each in every)]
        for rows, metrics in found.items()
        for metric in metrics
    ]
    print(text(Table("check", f"{name}: one more chain, of seed {given.seed}", CHECKED, CHECK_COLUMNS, lines)))
    judged, metric = reference.main
    times = found[judged][metric] / spread[judged][metric]
    say(f"{metric} on {judged}: {times:.2f} times as far as the eight chains; up to {MOST_APART:.0f} times passes")
    return 0 if times <= MOST_APART else FAILED


def _draw(given: argparse.Namespace, tasks: Mapping[str, Task]) -> int:
    if len(tasks) != 1 or given.figure.suffix not in FORMATS:
        raise ConfigError(f"--figure needs one TASK and a file that ends with {' or '.join(FORMATS)}")
    ((name, task),) = tasks.items()
    reference = find(name, task, given.results)
    with style():
        write_atomically(given.figure, printed(drawn(name, reference), given.figure.suffix.removeprefix(".")))
    say(str(given.figure))
    return 0


class _Progress:
    """Prints how far the chains of a task are, and about how long they still take."""

    def __init__(self, name: str) -> None:
        self._name, self._what = name, ""
        self._began = self._said = (0.0, 0)  # seconds, iterations

    def __call__(self, what: str, done: int, every: int) -> None:
        now = time.monotonic()
        if what != self._what:  # the first call may be of chains that go on
            self._what, self._began, self._said = what, (now, done), (now - EVERY_S, 0)
        if now - self._said[0] < EVERY_S and done < every:
            return
        self._said = (now, done)
        new = done - self._began[1]
        left = (
            f", about {duration((now - self._began[0]) / new * (every - done))} left"
            if new > 0 and done < every
            else ""
        )
        print(f"{self._name}: {what}, {done} of {every}{left}", file=sys.stderr, flush=True)
