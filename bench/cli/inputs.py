"""The records that the options of a command choose, and what is wrong with their files."""

from __future__ import annotations

import argparse

from bench.cli.options import warn
from bench.show.inputs import Inputs


def inputs_of(arguments: argparse.Namespace, reads_others: bool = True) -> Inputs:
    """Return the records that the options of `add_record_options` choose; for `reads_others` see `Inputs`."""
    baseline = getattr(arguments, "baseline", None)
    conditions = (arguments.profile, arguments.device, arguments.precision)
    return Inputs(arguments.results, *conditions, baseline, reads_others=reads_others)


def warn_of_problems(inputs: Inputs) -> None:
    """Say on the error output which files cannot be trusted."""
    for problem in inputs.problems:
        warn(problem)
