"""What `verdict` does besides the documents' claims: a user's own number, and the trial of the rule itself."""

from __future__ import annotations

import argparse
import dataclasses
import json

from bench.cli import INCOMPLETE
from bench.cli.table import material_of, warn
from bench.core.errors import ConfigError
from bench.judge.alternatives.own import PRINTED, Brought, judge_own
from bench.show.material import Material
from bench.show.screens.own_number import own_json, own_text
from bench.show.tables.registry import one_table
from bench.show.tables.render import render
from bench.show.tables.trial import as_rows
from bench.show.terminal import screen

OWN = ("approach", "metric", "reported")


def add_own(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    own = parser.add_argument_group("your own number", "all three of --approach, --metric and --reported")
    own.add_argument("--approach", metavar="NAME", help="the network that it is about")
    own.add_argument("--metric", metavar="NAME", help="accuracy, ...; or a whole key: mnist/test10k/accuracy")
    own.add_argument("--reported", metavar="X", help="the number as printed, with all its digits: .985")
    own.add_argument("--recipe", default="published", help="the recipe that it comes from (default: published)")
    own.add_argument("--protocol", default="published", help="how it was measured (default: published)")
    own.add_argument(
        "--printed", choices=PRINTED, default="rounded", help="how its last digit was made (default: rounded)"
    )
    own.add_argument("--margin", type=float, metavar="M", help="difference that would matter (default: as declared)")
    parser.add_argument("--trial", action="store_true", help="how often the rule errs, on reports whose truth is known")


def is_asked(arguments: argparse.Namespace) -> bool:
    """Return whether the options ask for something else than the documents' claims."""
    return arguments.trial or any(getattr(arguments, name) is not None for name in OWN)


def answer(arguments: argparse.Namespace) -> int:
    """Print the trial, or what is known of the user's number."""
    if arguments.claim is not None:
        raise ConfigError(f"a number of your own excludes the claim '{arguments.claim}'; leave out one of the two")
    if arguments.trial and any(getattr(arguments, name) is not None for name in OWN):
        raise ConfigError("give either --trial or a number of your own, not both")
    material = material_of(arguments)
    text = _trial(arguments, material) if arguments.trial else _own(arguments, material)
    warn(material)
    print(text)
    return INCOMPLETE if material.problems else 0


def _trial(arguments: argparse.Namespace, material: Material) -> str:
    table = one_table(material, "trial")
    return json.dumps(as_rows(table), indent=1) if arguments.json else render(table, "text")


def _own(arguments: argparse.Namespace, material: Material) -> str:
    missing = [f"--{name}" for name in OWN if getattr(arguments, name) is None]
    if missing:
        raise ConfigError(f"a number of your own needs {', '.join(missing)} too")
    if arguments.margin is not None and not 0 <= arguments.margin < float("inf"):
        raise ConfigError(f"--margin {arguments.margin} is not a difference; give a number from 0")
    fields = [field.name for field in dataclasses.fields(Brought)]
    brought = Brought(**{name: getattr(arguments, name) for name in fields})
    judged = judge_own(brought, material.results, material.claims)
    return json.dumps(own_json(judged), indent=1) if arguments.json else own_text(judged, screen().width)
