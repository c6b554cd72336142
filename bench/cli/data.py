"""`data`: list, fetch, verify and export the data sets; `score`: the records of predictions for what is exported."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
from pathlib import Path

from bench.cli import INCOMPLETE
from bench.cli.options import existing_folder, given_folder, given_path, say, warn
from bench.core.text import THREE
from bench.data.fetching import fetch
from bench.data.inventory import DatasetCheck, list_datasets, verify
from bench.show.terminal import shown


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="what there is", allow_abbrev=False)
    verified = actions.add_parser("verify", help="check every byte", allow_abbrev=False)
    fetched = actions.add_parser("fetch", help="get what is missing", allow_abbrev=False)
    exported = actions.add_parser("export", help="write the images that `score` asks about", allow_abbrev=False)
    every = ((listed, _data_list), (verified, _data_verify), (fetched, _data_fetch), (exported, _export))
    for sub, action in every:
        sub.add_argument("--data-dir", type=existing_folder, help="folder with the data sets, looked at first")
        sub.set_defaults(action=action)
    listed.add_argument("--json", action="store_true", help="print JSON")
    verified.add_argument("names", nargs="*", help="data sets (default: all)")
    fetched.add_argument("names", nargs="*", help="data sets (default: all that are absent)")
    fetched.add_argument("--from", dest="source", type=given_path, help="a local copy instead of the network")
    _add_export(exported)


def _data_list(arguments: argparse.Namespace) -> int:
    rows = [dataclasses.asdict(row) for row in list_datasets(arguments.data_dir)]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        state = "present" if row["present"] else "absent (optional)" if row["optional"] else "absent"
        size = f", {row['size_bytes'] / 1e6:.1f} MB" if row["size_bytes"] else ""
        about = f"{row['n_images']:,} images{size}; licence: {row['licence']}"
        print(shown(f"{row['name']}: {row['title']}; {about}; {state}"))
        if not row["present"]:
            print(shown(f"    {row['how']}"))
    return 0


def _data_verify(arguments: argparse.Namespace) -> int:
    checks = verify(arguments.names or None, arguments.data_dir)
    for check in checks:
        name = f"{check.name} {check.file}".rstrip()
        state = "ok" if check.ok else "absent (optional)" if _may_be_absent(check) else "FAIL"
        rest = f": {check.problem}" if check.problem else f" ({check.path})" if check.path else ""
        print(shown(f"{state:<17}  {name}{rest}"))
    return 0 if all(check.ok or _may_be_absent(check) for check in checks) else INCOMPLETE


def _may_be_absent(check: DatasetCheck) -> bool:
    return check.missing and check.optional


def _data_fetch(arguments: argparse.Namespace) -> int:
    absent = [row.name for row in list_datasets(arguments.data_dir) if not row.present]
    for name in arguments.names or absent:
        for path in fetch(name, arguments.data_dir, arguments.source):
            say(f"{name}: {path}")
    return 0


def add_score(parser: argparse.ArgumentParser) -> None:
    """Add the options of `score`."""
    parser.epilog = (
        "FILE is an .npz file. For each set in the images.npz of `data export`, it has the probabilities of the digits "
        "0 to 9 under the set's name, in the order of its images: [n, 10] of one draw, or [S, n, 10] of S draws, each "
        "of one network for all images (better: their logs, which do not round to 0); and the array 'hash' of "
        "images.npz. With --task, likewise for TASK.npz; for a regression mean and sd, [n] or [S, n], in the unit of "
        "its train_y. In Python, bench.score(predict) needs no files."
    )
    parser.add_argument("file", type=given_path, metavar="FILE", help="predictions for the images of `data export`")
    parser.add_argument("--name", default="mine", help="what tables call the model (default: mine)")
    text = "gets the records, and replaces those of the same name (default: ./my-results)"
    parser.add_argument("--results", type=given_folder, default=Path("my-results"), metavar="DIR", help=text)
    parser.add_argument("--data-dir", type=existing_folder, help="folder with the data sets, looked at first")
    _add_profile(parser)
    _add_task(parser)
    parser.set_defaults(action=_score)


def _add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of `data export` that other actions of `data` do not have."""
    parser.add_argument("--to", type=given_folder, required=True, metavar="FOLDER", help="gets images.npz, or TASK.npz")
    _add_profile(parser)
    _add_task(parser)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", default="full", help="full (default), or smoke: the first 128 images of each set")


def _add_task(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", help="a task of `posterior` in the place of MNIST: its rows, its reference")


def _score(given: argparse.Namespace) -> int:
    from bench.run import scoring  # here and below: it imports torch, and --help needs none

    if given.task is not None:
        scoring.check_profile(given.profile)
        return _score_task(given)
    path = scoring.score_file(given.file, given.name, given.results, given.data_dir, given.profile)
    say(f"written: {path}")
    short = "" if given.profile == "full" else f" --profile {given.profile}"
    say(f"its rows: python -m bench table choice --results {shlex.quote(str(given.results))}{short}")
    return 0


def _score_task(given: argparse.Namespace) -> int:
    from bench.posterior.columns import Column, given_name
    from bench.posterior.scoring import score_file
    from bench.posterior.tasks import task_named

    column = Column.of(given.task, task_named(given.task), given.results, given.data_dir)
    path = score_file(given.file, given.name, column, warn)
    for key, value in column.stored(lambda _: None)[given_name(given.name), 0].metrics.items():
        rows, metric = key.split("/", 1)
        floor = column.reference.floor.get(rows, {}).get(metric)
        say(f"{rows}, {metric}: {THREE.text(value)}" + ("" if floor is None else f" (floor {THREE.text(floor)})"))
    say(f"written: {path}")
    say(f"its row: python -m bench posterior --methods {given.task} --results {shlex.quote(str(given.results))}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    """Run `data export`."""
    from bench.run import scoring

    if arguments.task is not None:
        scoring.check_profile(arguments.profile)
        from bench.posterior.scoring import export as export_task
        from bench.posterior.tasks import task_named

        path = export_task(arguments.to, arguments.task, arguments.data_dir)
        task = f"--task {arguments.task}"
        is_regression = task_named(arguments.task).kind == "regression"
        told = " (train_y in the target's own unit, as mean and sd must be)" if is_regression else ""
        then = f"store your predictions with its array 'hash', then: python -m bench score FILE --name NAME {task}"
        say(f"{path}{told}: {then}")
        return 0
    path = scoring.export(arguments.to, arguments.data_dir, arguments.profile)
    short = "" if arguments.profile == "full" else f" --profile {arguments.profile}"
    say(f"{path}: store your predictions with its array 'hash', then: python -m bench score FILE --name NAME{short}")
    return 0
