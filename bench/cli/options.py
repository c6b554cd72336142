"""What several commands share: types of options, and the options that choose trained runs and records."""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from pathlib import Path

from bench.core.errors import ConfigError
from bench.core.files import LONGEST, reason
from bench.core.precision import PRECISIONS, check_device, check_device_name, check_gpu
from bench.core.project import OWN, usual_results
from bench.core.text import as_called, one_line, visible
from bench.data.manifest import TASKS
from bench.plan import plugins
from bench.plan.manifests import DOCUMENTS, GROUPS
from bench.plan.recipes import PROFILES, profile, profile_of_task
from bench.plan.registry import refused_for_its_name
from bench.plan.trained_runs import PROTOCOLS, Selection, TrainedRun, trained_runs

MOST_SEEDS = 10_000  # in one call; for every seed, trained runs are in memory
LARGEST_SEED = 2**63 - 1
MOST_THREADS = 1024
MOST_WORKERS = 1000
NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
USUAL = {"profile": "full", "device": "cpu", "precision": "float32"}


def seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of an option: a count (3) or a list (0,4,7). A list of one seed ends with a comma (4,)."""
    try:
        numbers = [whole(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"seeds '{text}' are not numbers; give a count (3) or a list (0,4,7; one seed: 4,)"
        ) from None
    if len(numbers) == 1 and "," not in text:
        if numbers[0] < 1:
            raise argparse.ArgumentTypeError(f"number of seeds {numbers[0]} is below 1; give a count such as 3")
        if numbers[0] > MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"number of seeds {numbers[0]} is above {MOST_SEEDS}")
        return tuple(range(numbers[0]))
    if min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"seed {min(numbers)} is negative; give seeds from 0")
    if max(numbers) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"seed {max(numbers)} is above {LARGEST_SEED}")
    if len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"seeds '{text}' contain a seed twice; give each seed once")
    return tuple(numbers)


def add_wide(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints all columns, and every row on one line, however long."""
    text = "every column, one line per row (default: as much as fits the terminal, or 120 columns in a pipe)"
    parser.add_argument("--wide", action="store_true", help=text)


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def count(text: str) -> int:
    """Return a count of at least 1."""
    try:
        value = whole(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a count; give one such as 4")
    return value


def workers(text: str) -> int:
    """Return a number of fits at a time, from 1 to MOST_WORKERS."""
    value = count(text)
    if value > MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"number of fits at a time {one_line(text, 30)} is above {MOST_WORKERS}")
    return value


def whole(text: str) -> int:
    """Return a whole number in plain digits; raises ValueError. `int` takes other scripts' digits and spaces too."""
    if not re.fullmatch(r"-?[0-9]{1,4000}", text):
        raise ValueError(text)
    return int(text)


def threads(text: str) -> int:
    """Return a number of threads from 1 to MOST_THREADS."""
    try:
        value = whole(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of threads; give one from 1") from None
    if not 1 <= value <= MOST_THREADS:
        what = "below 1" if value < 1 else f"above {MOST_THREADS}"
        raise argparse.ArgumentTypeError(f"number of threads {value} is {what}")
    return value


def seconds(text: str) -> float:
    """Return a duration of 0 or more."""
    return 0.0 if _float(text) == 0 else positive(text)


def positive(text: str) -> float:
    """Return a positive number."""
    value = _float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return value


def _float(text: str) -> float:
    """Return a number, NaN if the text is none."""
    return float(text) if NUMBER.fullmatch(text) else float("nan")


def given_path(text: str) -> Path:
    """Return a path. `~` is the user's folder. An empty text is an error: pathlib would make it the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; give a file or a folder, or leave the option out")
    path = Path(os.path.expanduser(text))  # not `Path.expanduser`, which raises for an unknown user
    try:
        path.stat()
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            raise argparse.ArgumentTypeError(f"{one_line(text, LONGEST)}: {reason(error)}") from error
    return path


def existing_folder(text: str) -> Path:
    """Return the path of a folder that exists."""
    path = given_path(text)
    if not os.path.isdir(path):  # not `path.is_dir()`, which raises if the user may not look at it
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path


def given_folder(text: str) -> Path:
    """Return the path of a folder, which need not exist yet."""
    path = given_path(text)
    if os.path.isfile(path):  # not `path.is_file()`, which raises if the user may not read the parent folder
        raise argparse.ArgumentTypeError(f"{text} is a file; give a results folder")
    return path


def _approach_folder(text: str) -> str:
    """Register a folder of approaches. This happens while options are parsed, before anything reads the registry."""
    plugins.add_to_path(str(existing_folder(text)))
    return text


def add_approach_path(parser: argparse.ArgumentParser) -> None:
    """Add the option that registers a folder with the user's own approaches."""
    parser.add_argument(
        "--approach-path",
        type=_approach_folder,
        metavar="DIR",
        help=f"folder with approaches of your own (or ${plugins.VARIABLE})",
    )


def add_results(parser: argparse.ArgumentParser, reads: bool = True) -> None:
    """Add the option that names the results folder.

    Args:
        parser: gets the option.
        reads: True for a command that reads records. If ./results has none, it reads those that come with the suite.
            A command that makes records never does so.
    """
    default = usual_results() if reads else OWN
    text = f"default: ./{OWN}" + (", or if it has no records, the shipped records" if reads else "")
    parser.add_argument("--results", type=given_folder, default=default, metavar="DIR", help=text)


def add_record_options(parser: argparse.ArgumentParser, reads: bool = True) -> None:
    """Add the options that choose records; `reads`: see `add_results`."""
    add_approach_path(parser)
    add_results(parser, reads)
    parser.add_argument("--profile", default="full", help=f"length of the fits: {', '.join(PROFILES)} (default: full)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    kinds = f"{', '.join(PRECISIONS)} (default: float32); bf16 and tf32 on GPUs"
    parser.add_argument("--precision", default="float32", help=kinds)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose trained runs."""
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help="command list names them")
    parser.add_argument("--all", action="store_true", help="every approach of the documents, and of --approach-path")
    tasks = ("digits", "mnist14-sd1", "boston", "concrete")
    groups = (*GROUPS, "uci", *(f"posterior-{name}" for name in tasks))
    text = f"every approach of a group: {', '.join(groups)}; the last five with `run`; uci takes sets, methods"
    parser.add_argument("--group", choices=groups, metavar="GROUP", help=text)
    parser.add_argument("--recipe", action="append", default=[], help="published, corrected, published+CHANGE")
    parser.add_argument("--protocol", action="append", default=[], help=" or ".join(PROTOCOLS))
    parser.add_argument(
        "--seeds", type=seeds, default=(0,), metavar="N", help="a count (3) or a list (0,4,7; one seed: 4,)"
    )
    parser.add_argument("--apart", action="store_true", help="train each missing seed alone, so that its time counts")
    add_task(parser)
    add_record_options(parser, reads=False)


def add_lacking(parser: argparse.ArgumentParser) -> None:
    """Add the option that counts records as missing if they lack something (docs/freshness.md)."""
    text = "also train again what lacks a metric or stored scores of its rows (default: measure it, if its fit is kept)"
    parser.add_argument("--lacking", action="store_true", help=text)


def add_task(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the task."""
    text = f"what is learnt: {' or '.join(TASKS)} (default: mnist; docs/methods.md)"
    parser.add_argument("--task", default="mnist", help=text)


def take_task(arguments: argparse.Namespace) -> None:
    """Replace the profile by that of the task; a second call changes nothing. Raises ConfigError for unknown tasks."""
    arguments.profile = profile_of_task(arguments.profile, arguments.task)
    arguments.task = "mnist"


def is_of_documents(arguments: argparse.Namespace) -> bool:
    """Return whether the task is MNIST, which the documents learn."""
    return profile(arguments.profile).task == "mnist"


def select(arguments: argparse.Namespace) -> list[TrainedRun]:
    """Return the trained runs that the options of `add_selection` choose; raises ConfigError."""
    take_task(arguments)
    if (arguments.all or arguments.group) and arguments.approaches:
        given = "--all" if arguments.all else "--group"
        raise ConfigError(f"give either {given} or names of approaches, not both")
    if arguments.all and arguments.group:
        raise ConfigError("give either --all or --group, not both; --all is the group of the documents")
    if not (arguments.all or arguments.group or arguments.approaches):
        raise ConfigError("nothing chosen; give --all or names of approaches (see `python -m bench list`)")
    for name in arguments.approaches:
        refused = refused_for_its_name(name)
        if refused is not None:  # the user may mean this approach or the suite's one of the same name
            raise ConfigError(f"approach {name} ({refused.where}) cannot be used: {refused.error}")
    from bench.run.executors import is_remote  # here: commands that only read start nothing

    check_device_name(arguments.device)
    if not is_remote(getattr(arguments, "executor", "process")):  # a cluster does not use this machine's devices
        check_device(arguments.device)
        check_gpu(arguments.precision, arguments.device)
    selection = Selection(
        approaches=tuple(arguments.approaches),
        group=arguments.group or DOCUMENTS,
        recipes=tuple(arguments.recipe),
        protocols=tuple(arguments.protocol),
        seeds=arguments.seeds,
        profile=arguments.profile,
        device=arguments.device,
        precision=arguments.precision,
        apart=arguments.apart,
    )
    return trained_runs(selection)


def say(text: str) -> None:
    """Print text on standard output. Control characters in it, which a file may contain, are made visible."""
    print(as_called(visible(text)), flush=True)


def warn(problem: str) -> None:
    """Print a warning in one line on the error output."""
    print(f"warning: {as_called(one_line(problem))}", file=sys.stderr)
