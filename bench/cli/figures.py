"""`figures`: draw every figure for which there are records."""

from __future__ import annotations

import argparse

from bench.cli import INCOMPLETE, options, reading
from bench.cli.inputs import inputs_of, warn_of_problems
from bench.cli.waiting import doing
from bench.core.errors import ConfigError, check_known
from bench.core.files import check_writable
from bench.show.figures.catalogue import FORMATS, survey, write
from bench.show.terminal import shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help="only these figures (default: all that the records allow)"
    )
    options.add_record_options(parser)
    reading.add_baseline(parser)
    parser.add_argument(
        "--list", action="store_true", help="draw nothing; name the figures, and say why others are missing"
    )
    parser.add_argument(
        "--format", type=options.names, default=("svg",), metavar="F,...", help="svg, png (default: svg)"
    )
    parser.add_argument(
        "--to",
        type=options.given_path,
        metavar="DIR",
        help="folder of the files (default: figures, in ./results if none is given)",
    )
    parser.set_defaults(action=_figures)


def _figures(arguments: argparse.Namespace) -> int:
    reading.check_records(arguments)
    check_known("format", FORMATS, *arguments.format)
    inputs = inputs_of(arguments)
    warn_of_problems(inputs)
    found, absent = survey(inputs)
    check_known("figure", [*(figure.name for figure in found), *(item.name for item in absent)], *arguments.name)
    for item in absent:
        if item.name in arguments.name:
            raise ConfigError(f"figure '{item.name}' cannot be drawn: {item.reason}")
    if arguments.list:
        for figure in found:
            print(shown(f"{figure.group:<14} {figure.name}: {figure.title}"))
        for item in absent:
            print(shown(f"{item.group:<14} {item.name}: not drawn: {item.reason}"))
        return 0
    chosen = [figure for figure in found if not arguments.name or figure.name in arguments.name]
    place = arguments.to or reading.folder(arguments, "figures")
    below = None if arguments.to else reading.own_folder(arguments)
    check_writable(place, below)
    for number, figure in enumerate(chosen, start=1):
        doing(f"drawing figure {number} of {len(chosen)}")
        for path in write([figure], place, arguments.format, below):
            options.say(str(path))
    if arguments.name:
        return 0
    for item in absent:
        options.warn(f"no {item.name}: {item.reason}")
    return INCOMPLETE if absent else 0
