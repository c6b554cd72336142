"""`predict`: ask trained networks which digit a picture shows; the answer is the digit, or "I don't know"."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from bench.cli import USAGE
from bench.cli.options import add_approach_path, given_folder, given_path, warn
from bench.cli.reading import add_baseline, say_if_shipped
from bench.cli.waiting import doing
from bench.core.errors import ConfigError, MissingFramework, StoreError, UnusableImage
from bench.core.files import write_atomically
from bench.core.project import RESULTS, usual_results
from bench.core.store import Store
from bench.core.text import one_line
from bench.show.figures.style import printed, style
from bench.show.predict import networks, show
from bench.show.predict.pictures import Normalised, normalise
from bench.show.terminal import shown

MOST_IMAGES = 12  # pictures in one figure


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
    paths, figure, images, errors = arguments.images, arguments.figure, [], []
    if figure is not None:
        replaced = os.path.realpath(figure) in map(os.path.realpath, paths)
        if replaced or len(paths) > MOST_IMAGES or figure.suffix not in (".png", ".svg"):
            said = f"--figure {figure} with {len(paths)} pictures: give a file .png or .svg that is none of them"
            raise ConfigError(f"{said}, and at most {MOST_IMAGES} pictures")
    say_if_shipped(arguments)
    for path in paths:
        try:
            images.append(normalise(path))
        except UnusableImage as error:
            errors.append({"image": str(path), "error": str(error)})
    doing("answering pictures")
    answers = _answers(arguments, images)
    if figure is not None and images:
        with style():
            write_atomically(figure, printed(show.draw(images, answers), figure.suffix[1:]))
    if arguments.json:
        found = [
            {"image": one.path, "verdict": show.verdict(its), "remarks": one.remarks, "answers": [*map(as_json, its)]}
            for one, its in zip(images, answers, strict=True)
        ]
        print(json.dumps([*found, *errors], indent=1))
    elif images:
        print("\n\n".join([*map(show.text, images, answers), shown(networks.RULE)]))
    for unusable in errors:
        print(f"error: {unusable['error']}", file=sys.stderr)
    return USAGE if errors else 0


def as_json(answer: networks.PictureAnswer) -> dict[str, object]:
    """Return what a network says as plain values."""
    return {name: value for name, value in vars(answer).items() if name not in ("draws", "remarks")}


def _answers(arguments: argparse.Namespace, images: Sequence[Normalised]) -> list[tuple[networks.PictureAnswer, ...]]:
    """Return the answers to each picture: of the user's networks, and of the baseline's where the user trained none.

    If the user named no approach, one that cannot answer gives a warning.
    """
    own, baseline = Store(arguments.results), arguments.baseline
    stores = [own] if baseline is None or baseline.resolve() == own.root.resolve() else [own, Store(baseline)]
    chosen = networks.choose(stores, tuple(dict.fromkeys(arguments.approach)), arguments.recipe)
    if any(store is not own for store, _ in chosen):
        mine = ", ".join(networks.label(fit) for store, fit in chosen if store is own)
        trained = f"yours, in {own.root}: {mine}; the others are of" if mine else f"{own.root} has none of these:"
        theirs = "the shipped networks" if baseline == RESULTS else f"the networks in {baseline}"
        print(one_line(f"{trained} {theirs}"), file=sys.stderr)
    found = []
    for place, (store, fit) in enumerate(chosen, start=1):
        try:
            found.append(networks.ask(store, fit, images, arguments.draws))
        except (StoreError, MissingFramework) as error:
            if arguments.approach or (place == len(chosen) and not found):
                raise
            warn(f"left out: {error}")
    return list(zip(*found, strict=True))
