"""`score`: records of a model that is trained already, from its saved predictions; `data export`: the images for it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from bench.cli.options import existing_folder, given_folder, given_path, say


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `score`."""
    parser.epilog = (
        "FILE is an .npz file. For each set in the images.npz of `data export`, it has the probabilities of the digits "
        "0 to 9 under the set's name, in the order of its images: [n, 10] of one draw, or [S, n, 10] of S draws, each "
        "of one network for all images (better: their logs, which do not round to 0); and the array 'hash' of "
        "images.npz. In Python, bench.score(predict) needs no files."
    )
    parser.add_argument("file", type=given_path, metavar="FILE", help="predictions for the images of `data export`")
    parser.add_argument("--name", default="mine", help="what tables call the model (default: mine)")
    text = "gets the records, and replaces those of the same name (default: ./my-results)"
    parser.add_argument("--results", type=given_folder, default=Path("my-results"), metavar="DIR", help=text)
    parser.add_argument("--data-dir", type=existing_folder, help="folder with the data sets, looked at first")
    _add_profile(parser)
    parser.set_defaults(action=_score)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `data export` that other actions of `data` do not have."""
    parser.add_argument("--to", type=given_folder, required=True, metavar="FOLDER", help="gets images.npz")
    _add_profile(parser)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", default="full", help="full (default), or smoke: the first 128 images of each set")


def _score(given: argparse.Namespace) -> int:
    from bench.run import scoring  # here and below: it imports torch, and --help needs none

    path = scoring.score_file(given.file, given.name, given.results, given.data_dir, given.profile)
    say(f"written: {path}")
    short = "" if given.profile == "full" else f" --profile {given.profile}"
    say(f"its rows: python -m bench table choice --results {shlex.quote(str(given.results))}{short}")
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Run `data export`."""
    from bench.run import scoring

    path = scoring.export(arguments.to, arguments.data_dir, arguments.profile)
    short = "" if arguments.profile == "full" else f" --profile {arguments.profile}"
    say(f"{path}: store your predictions with its array 'hash', then: python -m bench score FILE --name NAME{short}")
    return 0
