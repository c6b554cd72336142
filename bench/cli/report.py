"""`report`: all tables and figures of the records as one page of HTML, and the tables in other formats."""

from __future__ import annotations

import argparse

from bench.cli import INCOMPLETE
from bench.cli.inputs import inputs_of, warn_of_problems
from bench.cli.options import add_record_options, given_path, names, say
from bench.cli.reading import add_baseline, check_records, own_folder
from bench.cli.waiting import doing
from bench.core.errors import ConfigError, check_known
from bench.core.files import check_writable
from bench.core.text import counted
from bench.show.page.build import FORMS, write_report
from bench.show.page.content import collect


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Writes one HTML file that needs no other file and no network, and beside it the tables as Markdown, CSV and "
        "LaTeX. Nothing is trained or measured; equal records give equal files."
    )
    add_record_options(parser)
    add_baseline(parser)
    parser.add_argument(
        "--output",
        type=given_path,
        metavar="FILE",
        help="the page (default: report/index.html in RESULTS or ./results)",
    )
    parser.add_argument(
        "--format", type=names, metavar="F,...", default=("html", "md", "csv", "tex"), help="default: html,md,csv,tex"
    )
    parser.add_argument("--no-figures", action="store_true", help="tables alone, which takes a few seconds")
    parser.set_defaults(action=_report)


def _report(arguments: argparse.Namespace) -> int:
    check_records(arguments)
    check_known("format", FORMS, *arguments.format)
    page = arguments.output or own_folder(arguments) / "report" / "index.html"
    if page.is_dir():
        raise ConfigError(f"--output {page} is a folder; give the page's file, as {page / 'index.html'}")
    below = None if arguments.output else own_folder(arguments)
    check_writable(page.parent, below)  # before the work, so that none is lost
    inputs = inputs_of(arguments)
    content = collect(inputs, with_figures="html" in arguments.format and not arguments.no_figures)
    doing("drawing figures and making tables")
    written = write_report(content, page, arguments.format, below)
    warn_of_problems(inputs)
    if "html" in arguments.format:
        say(f"{page}: {page.stat().st_size / 1e6:.1f} MB")
    say(f"{counted(len(written), 'file')} in {page.parent}")
    return INCOMPLETE if inputs.problems else 0
