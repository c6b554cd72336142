"""For commands that show records, and train what is missing only with --run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.cli import INCOMPLETE
from bench.cli.run import add_training, check_training, train
from bench.core.text import one_line
from bench.plan.trained_runs import TrainedRun


def add_training_on_request(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that trains only with --run."""
    parser.add_argument("--run", action="store_true", help="train and measure what is missing (default: only show)")
    add_training(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def train_on_request(chosen: Sequence[TrainedRun], arguments: argparse.Namespace) -> int:
    """Train and measure the trained runs that have no final record, print what failed, and return the exit code."""
    check_training(arguments)
    bad = [result for result in train(chosen, arguments) if result.outcome != "done"]
    for result in bad:
        print(f"{result.outcome}: {result.trained_run.title()}: {one_line(result.reason)}", file=sys.stderr)
    return INCOMPLETE if bad else 0
