"""The command line, `python -m bench COMMAND`; exit codes: 0 fine, 1 a check failed, 2 usage, 3 something missing."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tabulate import tabulate

from bench import __version__, data, environment
from bench.errors import BenchError, ConfigError, unknown_name
from bench.plan import PROTOCOLS, Cell, Estimate, Selection, cells, estimate
from bench.precision import PRECISIONS
from bench.progress import Progress, duration
from bench.recipes import PROFILES, recipe_names
from bench.registry import manifests, source_files
from bench.store import Store

INTERRUPTED = 130
INCOMPLETE = 3
USAGE = 2


class _Parser(argparse.ArgumentParser):
    """Errors in one line, unknown commands with the nearest known one."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message.rstrip('.')}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    try:
        arguments = _parser().parse_args(argv)
        action: Callable[[argparse.Namespace], int] = arguments.action
        return action(arguments)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on where this one stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        with contextlib.suppress(OSError):  # the reader of our output has gone; nothing is left to say
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


# options


def _seeds(text: str) -> tuple[int, ...]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"seeds '{text}' are no numbers; give a count (3) or a list (0,4,7)") from None
    if len(numbers) == 1 and "," not in text:
        if numbers[0] < 1:
            raise argparse.ArgumentTypeError(f"number of seeds {numbers[0]} is below 1; give a count such as 3")
        return tuple(range(numbers[0]))
    if min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"seed {min(numbers)} is negative; give seeds from 0")
    return tuple(dict.fromkeys(numbers))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of counts; give one such as 100 or 10,100") from None


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m bench", description="Do the published numbers of Bayesian neural networks hold?")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="train and measure what is missing, then show the tables")
    _add_selection(run)
    run.add_argument("--threads", type=int, help="threads of the frameworks (default: all cores)")
    run.add_argument("--executor", default="process", help="process: each fit in its own; inline: in this one")
    run.add_argument("--time-limit", type=_positive, metavar="SECONDS", help="most seconds for one fit and its cells")
    run.add_argument("--stale", action="store_true", help="also run again what older code made")
    run.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    run.add_argument("--quiet", action="store_true", help="no progress")
    run.set_defaults(action=_run)

    plan = commands.add_parser("plan", help="what would run, and how long it takes")
    _add_selection(plan)
    plan.add_argument("--json", action="store_true", help="for machines")
    plan.set_defaults(action=_plan)

    status = commands.add_parser("status", help="which cells are done, failed, stale, running or missing")
    _add_selection(status)
    status.add_argument("--json", action="store_true", help="for machines")
    status.set_defaults(action=_status)

    _add_throughput(commands)

    table = commands.add_parser("table", help="make the tables from the records")
    table.add_argument("name", nargs="?", help="one table, printed (default: the summary)")
    _add_place(table)
    table.add_argument("--format", choices=("text", "md", "csv"), default="text", help="how to print it")
    table.add_argument("--write", action="store_true", help="write all tables to RESULTS/tables")
    table.add_argument("--readme", type=Path, help="update the generated blocks of this README")
    table.add_argument("--check", action="store_true", help="with --readme: fail if the blocks are not up to date")
    table.set_defaults(action=_table)

    verdict = commands.add_parser("verdict", help="which reported numbers reproduce, and why")
    verdict.add_argument("claim", nargs="?", help="explain this claim step by step (default: a line for every one)")
    _add_place(verdict)
    verdict.add_argument("--document", help="only the claims of this document")
    verdict.add_argument("--json", action="store_true", help="for machines")
    verdict.set_defaults(action=_verdict)

    sets = commands.add_parser("data", help="the data sets: list, fetch, verify")
    actions = sets.add_subparsers(required=True, metavar="ACTION", parser_class=_Parser)
    for name, text in (("list", "what there is"), ("verify", "check every byte"), ("fetch", "get what is missing")):
        sub = actions.add_parser(name, help=text)
        sub.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
        sub.set_defaults(action=_DATA[name])
        if name == "list":
            sub.add_argument("--json", action="store_true", help="for machines")
        else:
            sub.add_argument("names", nargs="*", help="data sets (default: all)")
        if name == "fetch":
            sub.add_argument("--from", dest="source", type=Path, help="a local copy instead of the network")

    listing = commands.add_parser("list", help="approaches, recipes, corrections and variants")
    listing.add_argument("--json", action="store_true", help="for machines")
    listing.set_defaults(action=_list)

    env = commands.add_parser("env", help="versions, processor and code state, as records hold them")
    env.add_argument("--json", action="store_true", help="for machines")
    env.set_defaults(action=_env)
    return parser


def _add_throughput(commands: Any) -> None:
    throughput = commands.add_parser(
        "throughput",
        help="how fast our code is beside the documents' own, in turn in one run",
        description="Times blocks of our code, of the document's code and of one large matrix product in turn, and "
        "writes RESULTS/throughput and the table 'throughput'. Needs the repository: no wheel holds the documents' "
        "code. Let nothing else run on the machine meanwhile.",
    )
    throughput.add_argument("approaches", nargs="*", metavar="APPROACH", help="default: all that have a yardstick")
    throughput.add_argument("--what", type=_names, default=("train", "predict"), help="default: train,predict")
    throughput.add_argument("--device", type=_names, default=("cpu",), help="a list of devices (default: cpu)")
    throughput.add_argument("--precision", type=_names, default=("float32",), help="a list (default: float32)")
    throughput.add_argument("--draws", type=_counts, default=(100,), help="a list of draws to predict (default: 100)")
    throughput.add_argument("--rounds", type=int, default=7, metavar="N", help="blocks of each side (default: 7)")
    throughput.add_argument("--block", type=_positive, default=1.0, metavar="SECONDS", help="a block (default: 1)")
    throughput.add_argument("--images", type=int, metavar="N", help="predict at most N test images (default: all)")
    throughput.add_argument("--threads", type=int, help="threads of the frameworks (default: all cores)")
    throughput.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    throughput.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    throughput.add_argument("--json", action="store_true", help="for machines")
    throughput.set_defaults(action=_throughput)


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument("--profile", default="full", help=f"{', '.join(PROFILES)} (default: full)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument(
        "--precision", default="float32", help=f"of matrix products: {', '.join(PRECISIONS)} (default: float32)"
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("approaches", nargs="*", metavar="APPROACH", help="see `python -m bench list`")
    parser.add_argument("--all", action="store_true", help="every approach of the documents")
    parser.add_argument("--recipe", action="append", default=[], help="published, corrected, published+CHANGE")
    parser.add_argument("--protocol", action="append", default=[], help=" or ".join(PROTOCOLS))
    parser.add_argument("--seeds", type=_seeds, default=(0,), metavar="N", help="a count (3) or a list (0,4,7)")
    parser.add_argument("--apart", action="store_true", help="fit every seed by itself, so that training times count")
    _add_place(parser)


def _select(arguments: argparse.Namespace) -> list[Cell]:
    if arguments.all and arguments.approaches:
        raise ConfigError("give either --all or names of approaches, not both")
    if not arguments.all and not arguments.approaches:
        raise ConfigError("nothing chosen; give --all or names of approaches (see `python -m bench list`)")
    _check_device(arguments.device)
    return cells(
        Selection(
            approaches=tuple(arguments.approaches),
            recipes=tuple(arguments.recipe),
            protocols=tuple(arguments.protocol),
            seeds=arguments.seeds,
            profile=arguments.profile,
            device=arguments.device,
            precision=arguments.precision,
            apart=arguments.apart,
        )
    )


def _check_device(name: str) -> None:
    import torch

    if name == "cpu":
        return
    if name.split(":")[0] != "cuda" or not all(part.isdigit() for part in name.split(":")[1:]):
        raise ConfigError(f"device '{name}' is unknown; known: cpu, cuda, cuda:N")
    index = int(name.split(":")[1]) if ":" in name else 0
    if index >= torch.cuda.device_count():
        raise ConfigError(f"device '{name}' is not there; this machine has {torch.cuda.device_count()} CUDA devices")


# commands


def _run(arguments: argparse.Namespace) -> int:
    from bench.runner import run
    from bench.worker import Options

    if arguments.threads is not None and arguments.threads < 1:
        raise ConfigError(f"--threads {arguments.threads} is below 1")
    chosen = _select(arguments)
    store = Store(arguments.results)
    records, problems = store.all_records()
    costs = _estimates(chosen, records, arguments.threads)
    options = Options(
        root=str(arguments.results.resolve()),
        data_dir=str(arguments.data_dir.resolve()) if arguments.data_dir else None,
        threads=arguments.threads,
    )
    progress = Progress(costs, quiet=arguments.quiet)
    results = run(chosen, store, options, progress, arguments.executor, arguments.time_limit, arguments.stale)
    for problem in problems:
        print(f"warning: {problem.reason}", file=sys.stderr)
    _print_tables(arguments, store, write=True)
    bad = [result for result in results if result.outcome != "done"]
    for result in bad:
        print(f"{result.outcome}: {result.cell.title()}: {result.reason}", file=sys.stderr)
    new = sum(not result.was_there for result in results)
    print(f"{len(results) - len(bad)} of {len(results)} cells done, {new} of them in this call")
    return INCOMPLETE if bad else 0


def _estimates(
    chosen: Sequence[Cell], records: Sequence[dict[str, Any]], threads: int | None = None
) -> dict[str, Estimate]:
    import torch

    from bench.timing import matmul_rate

    known = [*records, *_committed(records)]
    rate = None
    if any("matmul_rate" in record["provenance"] for record in known):
        rate = matmul_rate(torch.device(chosen[0].device), threads or torch.get_num_threads())
    sources = {name: environment.source_hash(source_files(name)) for name in {cell.approach for cell in chosen}}
    both = [*chosen, *(cell.twin() for cell in chosen if cell.family)]
    return {cell.key: estimate(cell, known, rate, sources[cell.approach]) for cell in both}


def _as_fitted(chosen: Sequence[Cell], store: Store) -> dict[str, tuple[Cell, list[Cell]]]:
    """Return by identity the cells to be done, as they will be keyed, each with the cells of the same computation."""
    from bench.batches import arrange
    from bench.runner import existing, is_final

    todo = [cell for cell in chosen if (record := existing(cell, store)) is None or not is_final(record)]
    return {cell.identity: (cell, group) for group in arrange(todo, store) for cell in group}


def _committed(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records that come with the repository, to learn costs from where a results folder is new."""
    if records:
        return []
    folder = Path(__file__).resolve().parent.parent / "results"
    return Store(folder).all_records()[0]


def _plan(arguments: argparse.Namespace) -> int:
    from bench.batches import fit_keys

    chosen = _select(arguments)
    store = Store(arguments.results)
    costs = _estimates(chosen, store.all_records()[0])
    to_do = _as_fitted(chosen, store)
    rows: list[dict[str, Any]] = []
    seen = set()
    for named in chosen:
        cell, group = to_do.get(named.identity, (named, []))
        cost = costs[cell.key]
        done = not group
        trained = cell.fit_key in seen or store.fit_path(cell.fit_key, "posterior").exists()
        fit_s = None if done else 0.0 if trained else cost.fit_s
        if not done:
            seen.add(cell.fit_key)
        rows.append(
            {
                "cell": cell.title(),
                "state": "done" if done else "cannot run here" if cell.skip else "to do",
                "training": 0.0 if done or cell.skip else fit_s,
                "measuring": 0.0 if done or cell.skip else cost.measure_s,
                "seeds together": len(fit_keys(group)),
                "basis": cell.skip or cost.basis,
            }
        )
    known = sum((row["training"] or 0.0) + (row["measuring"] or 0.0) for row in rows)
    unknown = sum(row["training"] is None or row["measuring"] is None for row in rows)
    if arguments.json:
        print(json.dumps({"cells": rows, "expected_s": known, "cells_of_unknown_length": unknown}, indent=1))
        return 0
    shown = [{**row, "training": duration(row["training"]), "measuring": duration(row["measuring"])} for row in rows]
    print(tabulate(shown, headers="keys"))
    more = f", and {unknown} cells of unknown length" if unknown else ""
    print(f"\nexpected in all: {duration(known)}{more}")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from filelock import Timeout

    from bench.batches import checkpoint_key
    from bench.runner import existing, is_stale

    chosen = _select(arguments)
    store = Store(arguments.results)
    to_do = _as_fitted(chosen, store)
    rows = []
    for cell in chosen:
        record = existing(cell, store)
        state = "missing" if record is None else record["outcome"]
        if record is not None and is_stale(record):
            state += ", made by older code"
        if record is None and store.root.exists():
            try:
                with store.lock(cell.lock_key).acquire(timeout=0):
                    if store.fit_path(checkpoint_key(to_do[cell.identity][1]), "checkpoint").exists():
                        state = "interrupted, will resume"
            except Timeout:
                state = "running"
        timings = record["timings"] if record else {}
        rows.append(
            {
                "cell": cell.title(),
                "state": state,
                "made": record["provenance"].get("started", "") if record else "",
                "training": duration(timings["fit_s"]) if "fit_s" in timings else "",
                "reason": record["reason"] if record else cell.skip,
            }
        )
    print(json.dumps(rows, indent=1) if arguments.json else tabulate(rows, headers="keys"))
    return 0 if all(row["state"].startswith("done") for row in rows) else INCOMPLETE


def _print_tables(arguments: argparse.Namespace, store: Store, write: bool) -> None:
    from bench.report import tables

    made, problems = _make_tables(arguments, store)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if write:
        tables.write_tables(made, _table_folder(arguments))
    print(tables.terminal_summary(made))


def _table_folder(arguments: argparse.Namespace) -> Path:
    parts = [arguments.profile, arguments.device.split(":")[0], arguments.precision]
    usual = ["full", "cpu", "float32"]
    name = "-".join(part for part, common in zip(parts, usual, strict=True) if part != common)
    folder: Path = arguments.results / "tables"
    return folder / name if name else folder


def _make_tables(arguments: argparse.Namespace, store: Store) -> tuple[dict[str, Any], list[str]]:
    from bench.claims import load_claims
    from bench.report import tables
    from bench.throughput.files import read_all as read_speeds

    records, problems = store.all_records()
    device = arguments.device.split(":")[0]
    chosen = tables.select(records, arguments.profile, device, arguments.precision)
    speeds, untrusted = read_speeds(arguments.results)
    made = tables.build_tables(chosen, load_claims(), speeds=speeds)
    made["precision"] = tables.precision_table(records, arguments.profile, device, manifests(), store.scores)
    return made, [*(problem.reason for problem in problems), *untrusted]


def _table(arguments: argparse.Namespace) -> int:
    from bench.report import tables

    if arguments.profile not in PROFILES:
        raise unknown_name("profile", arguments.profile, PROFILES)
    if arguments.precision not in PRECISIONS:
        raise unknown_name("precision", arguments.precision, PRECISIONS)
    store = Store(arguments.results)
    made, problems = _make_tables(arguments, store)
    if arguments.name == "throughput" and arguments.name not in made:
        raise ConfigError(f"no speeds in {arguments.results}; python -m bench throughput measures them")
    if arguments.name is not None and arguments.name not in made:
        raise unknown_name("table", arguments.name, made)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if arguments.write:
        tables.write_tables(made, _table_folder(arguments))
    if arguments.readme is not None:
        differs = tables.update_readme(arguments.readme, made, check=arguments.check)
        if differs and arguments.check:
            print(f"error: the tables in {arguments.readme} are not those of the records", file=sys.stderr)
            return 1
    elif arguments.name is not None:
        print(tables.render(made[arguments.name], arguments.format))
    else:
        print(tables.terminal_summary(made))
    return INCOMPLETE if problems else 0


def _verdict(arguments: argparse.Namespace) -> int:
    from bench.claims import load_claims
    from bench.report import tables
    from bench.report.verdicts import as_json, explain, summary_table, verdicts_table

    if arguments.profile not in PROFILES:
        raise unknown_name("profile", arguments.profile, PROFILES)
    if arguments.precision not in PRECISIONS:
        raise unknown_name("precision", arguments.precision, PRECISIONS)
    records, problems = Store(arguments.results).all_records()
    device = arguments.device.split(":")[0]
    chosen = tables.select(records, arguments.profile, device, arguments.precision)
    results, verdicts = tables.verdicts_of(chosen, load_claims())
    sources = dict.fromkeys(verdict.claim.source for verdict in verdicts)
    if arguments.document not in (None, *sources):
        raise unknown_name("document", arguments.document, sources)
    verdicts = [verdict for verdict in verdicts if arguments.document in (None, verdict.claim.source)]
    if arguments.claim is not None:
        names = [verdict.claim.id for verdict in verdicts]
        if arguments.claim not in names:
            (near,) = difflib.get_close_matches(arguments.claim, names, n=1, cutoff=0)
            raise ConfigError(f"claim '{arguments.claim}' is unknown; nearest: {near}; `verdict` lists all")
        verdicts = [verdicts[names.index(arguments.claim)]]
    for problem in problems:
        print(f"warning: {problem.reason}", file=sys.stderr)
    if arguments.json:
        print(json.dumps([as_json(results, verdict) for verdict in verdicts], indent=1))
    elif arguments.claim is not None:
        print("\n\n".join(explain(results, verdict) for verdict in verdicts))
    else:
        print(tables.render(verdicts_table(results, verdicts), "text"))
        print(tables.render(summary_table(results, verdicts), "text"))
    return INCOMPLETE if problems else 0


def _throughput(arguments: argparse.Namespace) -> int:
    from bench.report.render import render
    from bench.report.tables import write_tables
    from bench.report.throughput import throughput_table
    from bench.throughput import files, measure

    for device in arguments.device:
        _check_device(device)
    asked = measure.requests(
        arguments.approaches,
        arguments.what,
        arguments.device,
        arguments.precision,
        arguments.draws,
        rounds=arguments.rounds,
        block_s=arguments.block,
        images=arguments.images,
        threads=arguments.threads,
        data_dir=str(arguments.data_dir.resolve()) if arguments.data_dir else None,
    )
    Store(arguments.results).check_writable()
    found = measure.run(asked, arguments.results, lambda line: print(line, file=sys.stderr, flush=True))
    everything, problems = files.read_all(arguments.results)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    table = throughput_table(everything, manifests())
    write_tables({table.name: table}, arguments.results / "tables")
    print(json.dumps(found, indent=1) if arguments.json else render(throughput_table(found, manifests())))
    return 0 if all(record["outcome"] == "done" for record in found) else INCOMPLETE


def _data_list(arguments: argparse.Namespace) -> int:
    rows = [dataclasses.asdict(row) for row in data.list_datasets(arguments.data_dir)]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        state = "present" if row["present"] else "absent (optional)" if row["optional"] else "absent"
        size = f", {row['size_bytes'] / 1e6:.1f} MB" if row["size_bytes"] else ""
        print(f"{row['name']}: {row['title']}; {row['n_images']:,} images{size}, {row['licence']}; {state}")
        if not row["present"]:
            print(f"    {row['how']}")
    return 0


def _data_verify(arguments: argparse.Namespace) -> int:
    checks = data.verify(arguments.names or None, arguments.data_dir)
    for check in checks:
        print(f"{'ok  ' if check.ok else 'FAIL'} {check.name} {check.file} {check.problem}".rstrip())
    return 0 if all(check.ok or (check.missing and check.optional) for check in checks) else INCOMPLETE


def _data_fetch(arguments: argparse.Namespace) -> int:
    absent = [row.name for row in data.list_datasets(arguments.data_dir) if not row.present]
    for name in arguments.names or absent:
        for path in data.fetch(name, arguments.data_dir, arguments.source):
            print(f"{name}: {path}")
    return 0


_DATA = {"list": _data_list, "verify": _data_verify, "fetch": _data_fetch}


def _list(arguments: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = [
        {
            "approach": entry.name,
            "title": entry.title,
            "document": entry.document or "-",
            "recipes": recipe_names(entry),
            "changes": {name: change.title for name, change in entry.changes.items()},
            "runs here": entry.missing_framework() or "yes",
        }
        for entry in manifests().values()
    ]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(f"{row['approach']}: {row['title']} [{row['document']}]; runs here: {row['runs here']}")
        for name, title in row["changes"].items():
            print(f"    {name}: {title}")
    return 0


def _env(arguments: argparse.Namespace) -> int:
    import torch

    found = environment.describe(torch.get_num_threads())
    if arguments.json:
        print(json.dumps(found, indent=1))
        return 0
    flat = {**{k: v for k, v in found.items() if k != "versions"}, **found["versions"]}
    print(tabulate(flat.items()))
    return 0
