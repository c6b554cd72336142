"""`predict`: ask trained networks which digit a picture shows; the answer is the digit, or "I don't know"."""

from __future__ import annotations

import argparse
import json
import sys

from bench.cli.options import add_approach_path, given_folder, given_path, warn
from bench.cli.reading import add_baseline, say_if_shipped
from bench.cli.waiting import doing
from bench.core.errors import ConfigError, MissingFramework, StoreError
from bench.core.files import write_atomically
from bench.core.project import usual_results
from bench.core.text import one_line
from bench.show.figures.style import printed, style
from bench.show.predict import networks, pictures, show
from bench.show.terminal import shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("images", nargs="+", type=given_path, metavar="IMAGE", help="PNG or JPEG of one digit")
    add("--approach", action="append", default=[], metavar="NAME", help="network that answers (default: all)")
    add("--recipe", help="how it was trained (default: corrected, or else published)")
    add("--draws", type=int, default=100, metavar="N", help="draws from the posterior (default: 100)")
    add("--figure", type=given_path, metavar="FILE", help="draw the answers: .png or .svg")
    add("--json", action="store_true", help="print JSON")
    usual = usual_results("fits", networks.SHIPPED)
    add("--results", type=given_folder, default=usual, metavar="DIR", help="default: ./results, or the shipped ones")
    add_approach_path(parser)
    add_baseline(parser)
    parser.set_defaults(action=_predict)


def _predict(arguments: argparse.Namespace) -> int:
    paths, figure, own, found = arguments.images, arguments.figure, arguments.results, []
    is_picture = figure and figure.resolve() in [path.resolve() for path in paths]
    if figure and (is_picture or len(paths) > 12 or figure.suffix not in (".png", ".svg")):
        raise ConfigError(f"--figure {figure}: give a .png or .svg that is none of the pictures; at most 12 pictures")
    say_if_shipped(arguments)
    doing("answering pictures")
    chosen = networks.choose((own, arguments.baseline or own), arguments.approach, arguments.recipe)
    if any(store.root != own for store, _ in chosen):
        mine = ", ".join(networks.label(fit) for store, fit in chosen if store.root == own) or "none of these"
        print(one_line(f"yours, in {own}: {mine}; the others are in {arguments.baseline}"), file=sys.stderr)
    images = [pictures.normalise(path) for path in paths]
    for store, fit in chosen:
        try:
            found.append(networks.ask(store, fit, images, arguments.draws))
        except (StoreError, MissingFramework) as error:
            if arguments.approach or (fit is chosen[-1][1] and not found):
                raise
            warn(f"left out: {error}")  # of all networks, those answer that can
    answers = list(zip(*found, strict=True))
    if figure:
        with style():
            write_atomically(figure, printed(show.draw(images, answers), figure.suffix[1:]))
    if arguments.json:
        named = {one.path: [*map(vars, its)] for one, its in zip(images, answers, strict=True)}
        print(json.dumps(named, indent=1, default=len))  # of draws, their number
    else:
        print("\n\n".join([*map(show.text, images, answers), shown(networks.RULE)]))
    return 0
