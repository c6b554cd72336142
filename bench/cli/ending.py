"""The last lines of a run: what is not done and why, and the next command."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from bench.cli.options import USUAL, is_of_documents
from bench.cli.reading import record_options
from bench.core.project import RESULTS
from bench.core.text import as_called, counted, duration, one_line, program
from bench.judge.stats.papers import PAPER
from bench.plan.manifests import DOCUMENTS
from bench.plan.recipes import profile
from bench.plan.registry import group_of, manifest, source_of
from bench.run.progress import outcome_text
from bench.show.inputs import Inputs
from bench.show.screens.verdict import in_short
from bench.show.table import MINE
from bench.show.tables.verdicts import load_short_names

if TYPE_CHECKING:
    from bench.run.runner import Result

MOST_REASONS = 2


def ending(results: Sequence[Result], seconds: float, arguments: argparse.Namespace) -> list[Text]:
    """Return the last lines of a run from how its trained runs ended, how long it took, and its options."""
    bad = [result for result in results if result.outcome != "done"]
    new = sum(result.outcome == "done" and not result.was_there for result in results)
    count = f"{len(results) - len(bad)} of {counted(len(results), 'trained run')} done, {new} of them in this call"
    lines = [*_reasons(bad), Text(f"{count}, in {duration(seconds)}")]
    records = record_options(arguments)
    if not bad and is_wiring_check(arguments):
        return [Text(f"wiring fine: {len(results)} of {len(results)}, in {duration(seconds)}")]
    is_evidence = has_document(results) and not is_wiring_check(arguments)
    if is_evidence and (line := like_shipped(arguments)):
        lines.append(Text(line))
    if not bad:
        rows = _own_rows(results, arguments)
        theirs = ["--approach-path", arguments.approach_path] if rows and arguments.approach_path is not None else []
        return [*lines, Text(f"next: {_command(*_shown_by(results, arguments, rows), *theirs, *records)}{rows}")]
    lines.append(Text(f"next: {_command('status', *_chosen(arguments), *records)} lists all"))
    again = {"failed", "out-of-time", "skipped"} & {result.outcome for result in bad}
    if again:
        lines.append(
            Text(f"run the same command again to retry the trained runs with outcome {' or '.join(sorted(again))}")
        )
    return lines


def has_document(results: Sequence[Result]) -> bool:
    """Return whether a run has trained runs of the documents' approaches, or of the user's own ones."""
    return any(group_of(result.trained_run.approach) == DOCUMENTS for result in results)


def like_shipped(arguments: argparse.Namespace) -> str:
    """Say whether the end results in the folder of a run are like those of the shipped seeds; '' if it has none."""
    conditions = (arguments.profile, arguments.device, arguments.precision)
    found = Inputs(arguments.results, *conditions, RESULTS, reads_others=False).reruns
    return in_short(found, load_short_names()) if found else ""


def _own_rows(results: Sequence[Result], arguments: argparse.Namespace) -> str:
    """Return the names of the rows that the user's approaches have in the table that `_shown_by` names; '' for none."""
    mark = MINE if all(getattr(arguments, name) == value for name, value in USUAL.items()) else ""
    names = []
    for run in (result.trained_run for result in results if source_of(result.trained_run.approach)):
        entry = manifest(run.approach)
        shown = ("corrected" if "corrected" in entry.recipes else "published", "common")
        if entry.group == "methods" or (entry.task == "mnist" and (run.recipe, run.protocol) == shown):
            names.append(f"{mark}{run.approach}")
    return f" (row {', '.join(dict.fromkeys(names))})" if names else ""


def _shown_by(results: Sequence[Result], arguments: argparse.Namespace, rows: str) -> tuple[str, ...]:
    """Return the command that shows the numbers of a run; `rows`: see `_own_rows`."""
    if not is_of_documents(arguments):
        return ("table", "methods")
    if has_document(results):
        return ("table", "choice") if rows else ("verdict",)
    of_paper = any(group_of(result.trained_run.approach) == "paper" for result in results)
    return ("verdict", PAPER) if of_paper else ("table", "methods")


def is_wiring_check(arguments: argparse.Namespace) -> bool:
    """Return whether a run only tests that everything works: its epochs have a few steps, so numbers say nothing."""
    return profile(arguments.profile).steps_per_epoch is not None


def _reasons(bad: Sequence[Result]) -> list[Text]:
    """Return a line for each of the most frequent pairs of outcome and reason."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in bad:
        groups.setdefault((result.outcome, result.reason), []).append(result)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    lines = []
    for (outcome, reason), found in ordered[:MOST_REASONS]:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        what = f": {found[0].trained_run.title()}{more}: {as_called(one_line(reason))}"
        lines.append(Text.assemble(outcome_text(outcome), what))
    if len(ordered) > MOST_REASONS:
        rest = sum(len(found) for _, found in ordered[MOST_REASONS:])
        lines.append(Text(f"{rest} more trained runs ended for {len(ordered) - MOST_REASONS} other reasons"))
    return lines


def _chosen(arguments: argparse.Namespace) -> list[str]:
    """Return the options that choose the same trained runs again."""
    group = ["--group", arguments.group] if arguments.group else []
    words = ["--all"] if arguments.all else group or list(arguments.approaches)
    for option in ("recipe", "protocol"):
        for value in getattr(arguments, option):
            words += [f"--{option}", value]
    if arguments.seeds != (0,):
        is_count = arguments.seeds == tuple(range(len(arguments.seeds)))
        listed = ",".join(map(str, arguments.seeds)) + "," * (len(arguments.seeds) == 1)  # without comma: a count
        words += ["--seeds", str(len(arguments.seeds)) if is_count else listed]
    if arguments.approach_path is not None:
        words += ["--approach-path", arguments.approach_path]
    return words + (["--apart"] if arguments.apart else [])


def _command(*words: str) -> str:
    return f"{program()} {shlex.join(words)}"
