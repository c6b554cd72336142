"""`table`: the tables from the records."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace

from bench.cli import FAILED, INCOMPLETE, options, reading
from bench.cli.inputs import inputs_of, warn_of_problems
from bench.core.errors import ConfigError, check_known
from bench.core.project import RESULTS
from bench.data.manifest import ALL_NAMES, MEASURED_NAMES
from bench.show.screens.summary import summary
from bench.show.table import DATA_SET, Table
from bench.show.tables.files import update_readme, write_tables
from bench.show.tables.methods import ON_CLOTHES
from bench.show.tables.registry import TABLES, all_tables, one_table
from bench.show.tables.render import render
from bench.show.terminal import Listing, page, shown

ALL = "all"
DIGITS = MEASURED_NAMES[0]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("name", nargs="?", help="the table to print (default: the summary)")
    options.add_task(parser)
    options.add_record_options(parser)
    reading.add_baseline(parser)
    parser.add_argument("--data-set", help="rows of this data set, or all (default: of the first, on the screen)")
    parser.add_argument("--column", action="append", metavar="NAME", help="only this column; may be repeated")
    parser.add_argument("--row", metavar="TEXT", help="only rows with this text in an entry, such as a name")
    parser.add_argument("--only", choices=("mine",), help="with a table's name: only the rows of your records")
    options.add_wide(parser)
    parser.add_argument("--all", action="store_true", help="every row of a long table, and every data set")
    parser.add_argument("--list", action="store_true", help="name the tables, and the question that each answers")
    parser.add_argument("--format", choices=("text", "md", "csv", "tex"), default="text", help="how to print it")
    parser.add_argument("--write", action="store_true", help="write all tables to RESULTS/tables")
    parser.add_argument("--readme", type=options.given_path, help="update the generated blocks of this document")
    parser.add_argument("--check", action="store_true", help="with --readme: fail if the blocks are not up to date")
    parser.set_defaults(action=_table)


def _table(arguments: argparse.Namespace) -> int:
    if arguments.list:
        for option in ("name", "write", "readme", "check", "only"):
            if getattr(arguments, option):
                raise ConfigError(f"--list does not go with {arguments.name or f'--{option}'}; leave one of them out")
        print(shown(Listing("Tables", [question for kind in TABLES for question in kind.questions().items()])))
        return 0
    choices = (arguments.data_set, arguments.column, arguments.row, arguments.all)
    if any(choices) and arguments.name is None:
        raise ConfigError("--data-set, --column, --row and --all are for one table that is printed; give its name")
    if arguments.only and (arguments.name is None or arguments.write or arguments.readme):
        raise ConfigError("--only mine is for one table that is printed; give its name")
    if arguments.only and arguments.results.resolve() == RESULTS.resolve():
        raise ConfigError(f"{arguments.results} has the shipped records, none of yours; give --results")
    if arguments.name and arguments.readme:
        raise ConfigError(f"--readme prints no table; leave out {arguments.name} or --readme")
    if arguments.check and arguments.readme is None:
        raise ConfigError("--check is for the generated blocks of a document; name the document with --readme")
    if arguments.format != "text" and arguments.name is None:
        raise ConfigError(f"--format {arguments.format} is for one table that is printed; give its name")
    options.take_task(arguments)
    reading.check_records(arguments)
    if not options.is_of_documents(arguments):
        if arguments.name not in ("methods", ON_CLOTHES) or arguments.write or arguments.readme:
            raise ConfigError(
                "tasks other than mnist have only one table, which `table methods --task fashion` prints; --write and "
                "--readme are for a call without --task, where --write also writes this table"
            )
        arguments.name = ON_CLOTHES
    inputs = inputs_of(arguments)
    text = ""
    if arguments.name is not None:
        table = one_table(inputs, arguments.name)
        if arguments.only:
            table = inputs.only_own(table)
            if not table.rows:
                conditions = f"profile {arguments.profile}, {arguments.device}, {arguments.precision}"
                raise ConfigError(f"{arguments.results} has no record with {conditions} for table {table.name}")
        text = _printed(_chosen(table, arguments), arguments)
    warn_of_problems(inputs)
    made = all_tables(inputs) if arguments.write or arguments.readme else {}
    if arguments.write:
        write_tables(made.values(), reading.folder(arguments, "tables"), below=reading.own_folder(arguments))
    if arguments.readme is not None:
        from bench.show.page.findings import sentences  # here: a table needs no sentences of the page
        from bench.show.page.links import project_urls, published_links

        texts = {**sentences(inputs), "links": published_links(project_urls())}
        differs = update_readme(arguments.readme, made, texts, check=arguments.check)
        if differs and arguments.check:
            print(f"error: the tables in {arguments.readme} are not those of the records", file=sys.stderr)
            return FAILED
    else:
        print(text or summary(inputs))
    return INCOMPLETE if inputs.problems else 0


def _printed(table: Table, arguments: argparse.Namespace) -> str:
    is_whole = arguments.format != "text" or arguments.all or arguments.data_set == ALL
    return render(table, arguments.format) if is_whole else page(table)


def _chosen(table: Table, arguments: argparse.Namespace) -> Table:
    """Return the rows and columns that the options choose; by default, the screen shows the digits."""
    if arguments.column:
        check_known(f"column of table {table.name}", table.columns, *arguments.column)
        table = table.only([DATA_SET, *arguments.column])
    if arguments.row:
        rows = [row for row, texts in zip(table.rows, table.texts(), strict=True) if arguments.row in " ".join(texts)]
        if not rows:
            raise ConfigError(f"no row of table {table.name} has the text '{arguments.row}'; --all shows every row")
        table = replace(table.of_rows(rows), main=None)
    found = _data_sets(table)
    if arguments.data_set and not found:
        raise ConfigError(f"table {table.name} has no data sets; leave --data-set out, or choose with --row")
    if arguments.data_set not in (None, ALL):
        check_known(f"data set of table {table.name}", [*found, ALL], arguments.data_set)
        return table.of_data_set(arguments.data_set)
    if arguments.format != "text" or arguments.all or arguments.row or arguments.data_set == ALL or len(found) < 2:
        return table
    more = f"Data set {found[0]}; --data-set NAME or {ALL} shows others: {', '.join(found[1:])}."
    first = table.of_data_set(found[0])
    return replace(first, remarks=(more, *first.remarks))


def _data_sets(table: Table) -> list[str]:
    """Return the data sets of a table's rows, digits first; none unless all are ours, as in a list of papers."""
    found = dict.fromkeys(table.data_sets())
    return sorted(found, key=lambda name: name != DIGITS) if set(found) <= set(ALL_NAMES) else []


def write_and_print_tables(arguments: argparse.Namespace, is_printed: bool) -> None:
    """Write all tables of a results folder. If `is_printed`, print their summary, which names the command for more."""
    inputs = inputs_of(arguments)
    warn_of_problems(inputs)
    write_tables(all_tables(inputs).values(), reading.folder(arguments, "tables"), below=reading.own_folder(arguments))
    if is_printed:
        more = shlex.join(["python", "-m", "bench", "table", "accuracy", *reading.record_options(arguments)])
        print(summary(inputs, more))
