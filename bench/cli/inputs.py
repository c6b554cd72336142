"""The records that the options of a command choose, and what is wrong with their files."""

from __future__ import annotations

import argparse
import sys

from bench.cli.options import warn
from bench.cli.waiting import doing
from bench.core.project import RESULTS
from bench.core.text import counted, one_line
from bench.judge.comparison import ENOUGH
from bench.plan.freshness import is_stale
from bench.plan.recipes import PROFILES
from bench.show.inputs import Inputs


def inputs_of(arguments: argparse.Namespace, reads_others: bool = True) -> Inputs:
    """Return the records that the options of `add_record_options` choose; for `reads_others` see `Inputs`."""
    baseline = getattr(arguments, "baseline", None)
    conditions = (arguments.profile, arguments.device, arguments.precision)
    inputs = Inputs(arguments.results, *conditions, baseline, reads_others=reads_others)
    doing("judging the records")  # which are read when a number is asked for
    if line := whose(inputs):
        print(one_line(line), file=sys.stderr)
    return inputs


def whose(inputs: Inputs) -> str:
    """Say which records are the user's and which are not; '' if all are of one folder."""
    if not inputs.has_baseline:
        return ""
    place, conditions = inputs.store.root, (inputs.profile, inputs.device, inputs.precision)
    theirs = "the shipped records" if inputs.baseline == RESULTS else f"the records in {inputs.baseline}"
    done = [record for record in inputs.every_own if record.outcome == "done" and not is_stale(record)]
    own = {record.series for record in done if record.conditions == conditions}
    if own:
        return (
            f"yours, in {place}: {counted(len(own), 'trained run')}; the rest is of {theirs}, and so are verdicts "
            f"where you have fewer than {ENOUGH} seeds"
        )
    profiles = {record.profile for record in done} - {inputs.profile}
    short = sorted(name for name in profiles if name in PROFILES and PROFILES[name].steps_per_epoch is not None)
    reason = f" (profile {', '.join(short)} cuts epochs short and is no evidence)" if short else ""
    what = ", ".join(conditions)
    return f"{place} has no finished record with profile {what}{reason}: what is shown is of {theirs}"


def warn_of_problems(inputs: Inputs) -> None:
    """Say on the error output which files cannot be trusted."""
    for problem in inputs.problems:
        warn(problem)
