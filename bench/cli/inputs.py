"""The records that the options of a command choose, and what is wrong with their files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection

from bench.cli.options import warn
from bench.cli.waiting import doing
from bench.core.project import RESULTS
from bench.core.text import counted, listed, one_line
from bench.judge.comparison import ENOUGH
from bench.plan.freshness import is_stale
from bench.plan.manifests import DOCUMENTS, ApproachGroup
from bench.plan.recipes import PROFILES
from bench.show.inputs import Inputs


def inputs_of(
    arguments: argparse.Namespace,
    reads_others: bool = True,
    group: ApproachGroup = DOCUMENTS,
    approaches: Collection[str] = (),
) -> Inputs:
    """Return the records that the options of `add_record_options` choose; for `reads_others` and `group` see `Inputs`.

    `approaches`: those that the user asks for; none for all.
    """
    baseline = getattr(arguments, "baseline", None)
    conditions = (arguments.profile, arguments.device, arguments.precision)
    inputs = Inputs(arguments.results, *conditions, baseline, group, reads_others)
    doing("judging the records")  # which are read when a number is asked for
    if line := whose(inputs, approaches):
        print(one_line(line), file=sys.stderr)
    return inputs


def whose(inputs: Inputs, approaches: Collection[str] = ()) -> str:
    """Say which records, of all or of these approaches, are the user's; '' if all are of one folder."""
    if not inputs.has_baseline:
        return ""
    place, conditions = inputs.store.root, (inputs.profile, inputs.device, inputs.precision)
    theirs = "the shipped records" if inputs.baseline == RESULTS else f"the records in {inputs.baseline}"
    asked = [record for record in inputs.every_own if not approaches or record.approach in approaches]
    done = [record for record in asked if record.outcome == "done" and not is_stale(record)]
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
    of = f" of {listed(sorted(approaches))}" if approaches else ""
    return f"{place} has no finished record{of} with profile {what}{reason}: what is shown is of {theirs}"


def warn_of_problems(inputs: Inputs) -> None:
    """Say on the error output which files cannot be trusted."""
    for problem in inputs.problems:
        warn(problem)
