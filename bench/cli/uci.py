"""`uci`: the regression sets of the UCI table: where the data are, the splits, what is printed and its mistakes."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.cli.options import add_results, existing_folder, given_path, say
from bench.core.errors import ConfigError, DataMissing, check_known
from bench.core.files import write_atomically
from bench.core.project import install
from bench.core.text import duration
from bench.show.figures.catalogue import FORMATS
from bench.show.figures.style import printed as as_file
from bench.show.figures.style import style
from bench.show.figures.uci import drawn
from bench.show.screens.audit import finding_lines
from bench.show.tables.uci import counts, csv_lines, folded, judged, method_of, ours_table, uci_table
from bench.show.terminal import Listing, Part, shown
from bench.uci.data import epochs_of, expected_s, facts_of, fetch, load, sets, splits, where
from bench.uci.published import author, printed, spread, tables
from bench.uci.rules import audit_sets, audit_uci
from bench.uci.scores import METHODS, stored
from bench.uci.verdicts import TableVerdict, margin

MOST = 14  # rows of a screen


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "The nine regression sets of Gal and Ghahramani 2016. Without a name, what there is, and how often our runs "
        "confirm printed values; with one, each value that our methods can be compared with beside ours, and mistakes "
        "of the set. `audit data` lists all mistakes."
    )
    parser.add_argument("names", nargs="*", metavar="SET", help=f"{', '.join(sets())} (default: all)")
    parser.add_argument("--data-dir", type=existing_folder, help="folder with SET/data.txt, looked at first")
    parser.add_argument("--fetch", action="store_true", help="first download what is missing")
    parser.add_argument("--from", dest="source", type=existing_folder, help="with --fetch: a local copy instead")
    parser.add_argument("--method", metavar="NAME", help="printed values that are compared with this method of ours")
    parser.add_argument("--all", action="store_true", help="every printed value, also of methods that ours has not")
    parser.add_argument("--ours", action="store_true", help="our methods side by side, and HMC on split 0")
    parser.add_argument("--figure", type=given_path, metavar="FILE", help="draw reported values and ours, .svg or .png")
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_uci)


def _uci(arguments: argparse.Namespace) -> int:
    check_known("UCI set", sets(), *arguments.names)
    if arguments.source is not None and not arguments.fetch:
        raise ConfigError("--from names a copy to fetch from; give --fetch too")
    if arguments.ours and (arguments.json or arguments.method or arguments.all):
        raise ConfigError("--ours shows a table of its own; leave out --json, --method and --all")
    if arguments.figure is not None:
        return _draw(arguments)
    chosen = arguments.names or sets()
    if arguments.fetch:
        for name in chosen:
            if where(name, arguments.data_dir) is None or arguments.names:
                say(f"{name}: {fetch(name, arguments.source)}")
    rows = [_row(name, arguments.data_dir) for name in chosen]
    found = judged(arguments.results)
    if arguments.json:
        values = csv_lines(found)
        print(json.dumps([{**row, "values": [v for v in values if v["set"] == row["name"]]} for row in rows], indent=1))
        return 0
    for row in rows if arguments.names or not arguments.method else ():
        print(shown(*_lines(row)))
    if arguments.ours:
        _ours(chosen, arguments)
    elif arguments.names or arguments.method or arguments.all:
        print(shown(*_values(arguments, found)))
        print(shown(*_details(arguments.names, arguments.data_dir)))
    else:
        print(shown(Listing("\nPrinted values beside our runs", list(counts(found)))))
        mistakes = sum(one.outcome == "fails" for one in audit_uci(arguments.data_dir))
        print(shown(f"{len(printed())} printed values of {len(tables().columns)} columns; {mistakes} mistakes found"))
        print(shown("next: python -m bench audit data lists them; python -m bench uci SET compares a set's values"))
    return 0


def _ours(names: Sequence[str], arguments: argparse.Namespace) -> None:
    """Print the table of our methods on each set that has rows."""
    for name in names:
        table = ours_table(name, arguments.results, arguments.data_dir)
        if table.rows or arguments.names:
            print(shown("", table.title, table, "", table.explanation, *table.remarks))


def _draw(arguments: argparse.Namespace) -> int:
    check_known("ending of --figure", FORMATS, arguments.figure.suffix.removeprefix("."))
    with style():
        picture = drawn(stored(arguments.results))
        write_atomically(arguments.figure, as_file(picture, arguments.figure.suffix.removeprefix(".")))
    say(str(arguments.figure))
    return 0


def _row(name: str, folder: Path | None) -> dict[str, object]:
    """Return what is known of a set; a file that is there is read and checked."""
    known, place = facts_of(name), where(name, folder)
    if place is not None:
        load(name, folder)
    return {
        "name": name,
        "title": known.title,
        "rows": known.rows,
        "features": known.features,
        "splits": len(splits(name)),  # whose hashes are checked
        "place": None if place is None else str(place),
        "to_get": "" if place is not None else f"python -m bench uci {name} --fetch",
        "note": known.note,
        "margin_rmse": margin(name, "rmse"),
        "margin_ll": margin(name, "ll"),
    }


def _lines(row: dict[str, object]) -> Iterator[str]:
    size = f"{row['rows']:,} rows, {row['features']} features, {row['splits']} splits (hashes fit)"
    yield f"{row['name']}: {row['title']}; {size}"
    yield f"    {row['place'] or 'absent: ' + str(row['to_get'])}"
    if row["note"]:
        yield f"    {row['note']}"


def _values(arguments: argparse.Namespace, found: Sequence[TableVerdict]) -> Iterator[Part]:
    """Give the table of the values that the options choose, cut to what a screen holds."""
    if arguments.method:
        known = sorted({method_of(one) for one in found} - {""})
        check_known("method that printed values are compared with", known, arguments.method)
    chosen = [
        one
        for one in found
        if (not arguments.names or one.printed.set in arguments.names)
        and (method_of(one) == arguments.method if arguments.method else arguments.all or method_of(one))
    ]
    table = uci_table(chosen if arguments.all else folded(chosen)[:MOST], found)
    yield from [""]
    yield table
    yield from ["", table.explanation, *table.remarks]
    if more := len(chosen) - len(table.rows):
        yield f"--all: {more} more, which repeat a number, are of other sets, or of methods that ours has not"


def _details(names: list[str], folder: Path | None) -> Iterator[str]:
    """Give the author's runs over splits, and what the rules find in the sets."""
    for name in names:
        yield f"\n{name}, the author's splits (margins: RMSE {margin(name, 'rmse'):.2g}, LL {margin(name, 'll'):.2g}):"
        for run in dict.fromkeys(run for run, its, _ in author() if its == name):
            found = {metric: spread(run, name, metric) for metric in ("rmse", "ll")}
            numbers = (
                f"{metric} {one.mean:.5g}, sd {one.sd:.3g}, se {one.se:.3g}" for metric, one in found.items() if one
            )
            yield f"    {run}: {'; '.join(numbers)}"
    for finding in audit_sets(names, folder):
        if finding.outcome == "fails":
            yield from finding_lines(finding)


def run_group(arguments: argparse.Namespace) -> int:
    """Train and score methods on the sets that are on this machine, the shortest first; print the means.

    Names in the place of approaches choose sets and methods.
    """
    from bench.uci.train import How, is_made, run_set  # not at the top: who reads what is printed does without

    refuse_others(arguments, "approaches", "profile", "seeds", "threads", "checkpoint_every", "data_dir", "quiet")
    is_short = arguments.profile == "smoke"
    if not is_short and arguments.profile != "full":
        raise ConfigError(f"profile {arguments.profile!r} given; --group uci has smoke and full")
    check_known("set or method of --group uci", (*sets(), *METHODS), *arguments.approaches)
    chosen = [name for name in sets() if name in arguments.approaches]
    names = [name for name in chosen or sets() if where(name, arguments.data_dir) is not None]
    if missing := [name for name in chosen if name not in names]:
        raise DataMissing(f"{missing[0]} is not on this machine; `python -m bench uci {missing[0]} --fetch`")
    if not names:
        raise DataMissing(f"no UCI set is on this machine; `python -m bench uci --fetch`, or `{install('uci')}`")
    usual = How(arguments.results, arguments.data_dir)
    how = usual._replace(
        threads=arguments.threads or usual.threads,
        passes=100 if is_short else usual.passes,
        splits=2 if is_short else None,
        save_every_s=usual.save_every_s if arguments.checkpoint_every is None else arguments.checkpoint_every,
        say=_nothing if arguments.quiet else say,
    )
    methods = [one for one in METHODS if one in arguments.approaches] or METHODS
    runs = {
        (name, method, epochs, seed): expected_s(name, method, epochs, how.passes, how.splits)
        for name, method, seed in itertools.product(names, methods, arguments.seeds)
        for epochs in ((4,) if is_short and method != "linear" else epochs_of(name, method))
    }
    missing_s = [seconds for run, seconds in runs.items() if not is_made(*run, how)]
    how.say(f"{len(missing_s)} of {len(runs)} to train: about {duration(sum(missing_s))} of one quiet core in all")
    for run in sorted(runs, key=lambda one: runs[one]):
        name, method, epochs, seed = run
        table = run_set(*run, how)
        means = table.groupby("metric")["value"].mean()
        text = f"RMSE {means['rmse']:.4g}, LL {means['ll_mixture']:.4g}, mean of {table['split'].nunique()} splits"
        say(f"{name}, {method}, {epochs} epochs, seed {seed}: {text}")
    say(f"the rows are in {arguments.results / 'uci'}")
    return 0


def refuse_others(arguments: argparse.Namespace, *taken: str) -> None:
    """Raise ConfigError if `run` was given an option that its group cannot honour, besides --group and --results."""
    usual, honoured = arguments.usual, {*taken, "group", "results"}
    if others := [name for name in usual if name not in honoured and getattr(arguments, name) != usual[name]]:
        text = ", ".join("names of approaches" if name == "approaches" else _option(name) for name in others)
        allowed = ", ".join(_option(name) for name in (*taken, "results") if name != "approaches")
        raise ConfigError(f"--group {arguments.group} cannot honour {text}; it takes {allowed}")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _nothing(text: str) -> None:
    """Say nothing."""
