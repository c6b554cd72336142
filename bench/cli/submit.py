"""`submit`: a folder of one approach's records and scores, which others can check by `compare FOLDER --verify`."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.cli import FAILED
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.core.text import counted
from bench.judge.compare.verified import verified
from bench.show.terminal import shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("approach", help="its finished records are copied, with their per-row scores")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="folder of the records")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="a new folder")
    parser.set_defaults(action=_submit)


def _submit(arguments: argparse.Namespace) -> int:
    source, entry = Store(arguments.results), Store(arguments.to)
    if arguments.to.exists():
        raise ConfigError(f"{arguments.to} exists already; name a new folder with --to")
    records = [
        record
        for record in source.all_records()[0]
        if record.outcome == "done" and record.approach == arguments.approach
    ]
    if not records:
        raise ConfigError(f"{arguments.results} has no finished record of {arguments.approach}; bench run makes some")
    for record in records:
        entry.write(record, source.scores(record))
    n_records, remarks = verified(arguments.to)
    refused = [remark for remark in remarks if remark.judged == "refused"]
    for remark in refused:
        print(shown(f"refused      {remark.subject}: {remark.detail}"))
    print(
        f"{counted(n_records, 'record')} in {arguments.to}; others check them by: bench compare {arguments.to} --verify"
    )
    return FAILED if refused else 0
