"""For commands that read records: which folders they read, and one line if these cannot be read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.cli.options import USUAL, given_path, is_of_documents
from bench.core.errors import ConfigError
from bench.core.precision import check_device_name, check_precision
from bench.core.project import OWN, RESULTS
from bench.plan.recipes import PROFILES, profile


def is_shipped(arguments: argparse.Namespace) -> bool:
    """Return whether a command reads the shipped records because the user named no results folder."""
    return arguments.results is RESULTS  # a path that the user gives is another object, even of the same folder


def say_if_shipped(arguments: argparse.Namespace) -> None:
    """Say on the error output that the shipped records are read, if the user named no folder."""
    if is_shipped(arguments):
        print(f"reading what comes with the suite, in {RESULTS}", file=sys.stderr)


def refuse_to_write(arguments: argparse.Namespace, option: str) -> None:
    """Raise ConfigError if a command would write beside the shipped records; `option`: what the user must give."""
    if is_shipped(arguments):
        raise ConfigError(f"the shipped records are read-only; give {option}")


def own_folder(arguments: argparse.Namespace) -> Path:
    """Return the folder for what is made from records: theirs, or the user's where the shipped records are read."""
    chosen: Path = OWN if is_shipped(arguments) else arguments.results
    return chosen


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the option that names more records, to show beside those of --results."""
    parser.add_argument(
        "--baseline",
        type=lambda text: None if text == "none" else given_path(text),
        default=RESULTS,
        metavar="DIR",
        help="records to show beside those of --results, or none (default: the shipped records)",
    )


def record_options(arguments: argparse.Namespace) -> list[str]:
    """Return the options with which another command reads the same records."""
    given = {name: str(getattr(arguments, name)) for name in ("results", *USUAL)}
    usual = {"results": str(OWN), **USUAL}
    return [word for name, value in given.items() if value != usual[name] for word in (f"--{name}", value)]


def folder(arguments: argparse.Namespace, kind: str) -> Path:
    """Return the folder for tables or figures (`kind`). Every profile, device and precision has its own folder."""
    parts = [arguments.profile, arguments.device.split(":")[0], arguments.precision]
    name = "-".join(part for part, usual in zip(parts, USUAL.values(), strict=True) if part != usual)
    place = own_folder(arguments) / kind
    return place / name if name else place


def refuse_other_tasks(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if a command that has no option --task gets the profile of another task than mnist."""
    if not is_of_documents(arguments) and not hasattr(arguments, "task"):
        raise ConfigError(
            f"profile {arguments.profile} belongs to another task than mnist; this command reads records of mnist: "
            f"give one of {', '.join(PROFILES)}"
        )


def check_conditions(arguments: argparse.Namespace) -> None:
    """Raise ConfigError on an unknown profile, device or precision."""
    check_device_name(arguments.device)
    profile(arguments.profile)  # raises for an unknown one
    check_precision(arguments.precision, arguments.device)


def check_records(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if no records can be read: unknown options, or a folder that does not exist."""
    check_conditions(arguments)
    refuse_other_tasks(arguments)
    if not arguments.results.is_dir():
        raise ConfigError(f"--results {arguments.results} is not a folder; give one that `run` has filled")
    baseline: Path | None = getattr(arguments, "baseline", None)
    if baseline is not None and not baseline.is_dir():
        raise ConfigError(f"--baseline {baseline} is not a folder; give one that `run` has filled, or none")
    say_if_shipped(arguments)
