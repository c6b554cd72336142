"""`predict`: ask trained networks which digit a picture shows; the answer is the digit, or "I don't know"."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.cli import USAGE
from bench.cli.options import add_approach_path, given_folder, given_path, warn
from bench.cli.reading import add_baseline, say_if_shipped
from bench.cli.waiting import doing
from bench.core.errors import BenchError, ConfigError, UnusableImage
from bench.core.project import RESULTS, usual_results
from bench.core.store import Store
from bench.core.text import one_line
from bench.show.predict import fits, show
from bench.show.predict.normalise import Normalised, normalise
from bench.show.predict.predictor import DEFAULT, RULES, Predictor


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("images", nargs="+", type=_picture, metavar="IMAGE", help="PNG or JPEG of one digit")
    parser.add_argument(
        "--approach", action="append", default=[], metavar="NAME", help="the network that answers (default: all)"
    )
    parser.add_argument(
        "--recipe",
        action="append",
        default=[],
        help="recipe of the networks, also several times (default: corrected where it is trained, else published)",
    )
    add_approach_path(parser)
    parser.add_argument("--draws", type=int, default=100, metavar="N", help="draws from the posterior (default: 100)")
    parser.add_argument(
        "--rule", default=DEFAULT, help=f'when it says "I don\'t know": {", ".join(RULES)} (default: {DEFAULT})'
    )
    parser.add_argument("--figure", type=given_path, metavar="FILE", help="draw the answers: .png, .svg or .pdf")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--results",
        type=given_folder,
        default=usual_results("fits", fits.SHIPPED),
        metavar="DIR",
        help="default: ./results, or if nothing was trained there, the shipped networks",
    )
    add_baseline(parser)
    parser.add_argument("--profile", default="full", help="profile of the training (default: full)")
    parser.add_argument("--seed", type=int, help="seed of the training (default: the lowest)")
    parser.set_defaults(action=_predict)


def _picture(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("an empty name was given; give a PNG or JPEG")
    return Path(text)


def _predict(arguments: argparse.Namespace) -> int:
    if arguments.figure is not None:
        show.check_figure(arguments.figure, arguments.images)
    say_if_shipped(arguments)
    doing("loading networks")
    predictors = _predictors(arguments, Store(arguments.results))
    doing("answering pictures")
    images, unusable = _read(arguments.images)
    by_approach = [predictor.answers(images) for predictor in predictors]
    answers = [[answers_of[place] for answers_of in by_approach] for place in range(len(images))]
    if arguments.json:
        errors = [{"image": str(path), "error": reason} for path, reason in unusable]
        print(json.dumps([*map(show.as_json, images, answers), *errors], indent=1))
    else:
        for image, its_answers in zip(images, answers, strict=True):
            print(show.text(image, its_answers) + "\n")
        if images:
            print(show.rule(answers[0]))
    if arguments.figure is not None and images:
        show.save(show.draw(images, answers), arguments.figure)
    for _, reason in unusable:
        print(f"error: {one_line(reason)}", file=sys.stderr)
    return USAGE if unusable else 0


def _predictors(arguments: argparse.Namespace, own: Store) -> list[Predictor]:
    """Return the networks that answer: the user's, and the baseline's of approaches that the user did not train.

    If the user named no approach, one that cannot be loaded gives a warning.
    """
    has_other = arguments.baseline is not None and arguments.baseline.resolve() != own.root.resolve()
    stores = [own, Store(arguments.baseline)] if has_other else [own]
    recipes = tuple(dict.fromkeys(arguments.recipe))
    names = tuple(dict.fromkeys(arguments.approach))
    found, left_out = [], []
    chosen = fits.choose_from(stores, names, recipes, arguments.profile, arguments.seed)
    if any(store is not own for store, _ in chosen):
        mine = ", ".join(fits.label(fit.approach, fit.recipe) for store, fit in chosen if store is own)
        theirs = f"the networks in {arguments.baseline}" if arguments.baseline != RESULTS else "the shipped networks"
        trained = f"yours, in {own.root}: {mine}; the others are of" if mine else f"{own.root} has none of these:"
        print(one_line(f"{trained} {theirs}"), file=sys.stderr)
    for store, fit in chosen:
        try:
            found.append(Predictor.of(store, fit, arguments.draws, arguments.rule))
        except BenchError as error:
            if names or isinstance(error, ConfigError):
                raise
            left_out.append(error)
    if not found:
        raise left_out[0]
    for reason in left_out:
        warn(f"left out: {reason}")
    return found


def _read(paths: Sequence[Path]) -> tuple[list[Normalised], list[tuple[Path, str]]]:
    """Return the usable pictures, and the paths of the others with the reasons."""
    images, unusable = [], []
    for path in paths:
        try:
            images.append(normalise(path))
        except UnusableImage as error:
            unusable.append((path, str(error)))
    return images, unusable
