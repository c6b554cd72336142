"""`audit`: find known mistakes in documents, approaches, records and data; or make every check of one approach."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.cli import FAILED, INCOMPLETE
from bench.cli.options import add_record_options, add_wide, existing_folder, warn
from bench.cli.reading import check_conditions, check_records
from bench.cli.waiting import doing
from bench.core.errors import ConfigError, check_known
from bench.core.folder import Problem
from bench.core.records import Record
from bench.core.store import Store
from bench.data.torchvision_shim import make_importable
from bench.judge.ablation.derived_metrics import read_all
from bench.judge.ablation.effects import Numbers
from bench.judge.audit.approach import audit_approach
from bench.judge.audit.check import CheckLine, approaches_of, check_approach
from bench.judge.audit.data import audit_data
from bench.judge.audit.documents import DOCUMENTS, audit_documents
from bench.judge.audit.libraries.audited import LibraryAudit, keep
from bench.judge.audit.libraries.examples import examples_of
from bench.judge.audit.libraries.objectives import audit_example
from bench.judge.audit.records import audit_records
from bench.judge.audit.rules import OUTCOMES, Finding
from bench.judge.audit.rules import RULES as OF_SUITE
from bench.judge.results import Results, select
from bench.plan.registry import manifests
from bench.show.screens.audit import check_lines, finding_lines, library_lines
from bench.show.terminal import shown
from bench.uci.rules import RULES as OF_TABLES
from bench.uci.rules import TableFinding, audit_uci
from elbo_audit.errors import MissingLibrary

PARTS = ("documents", "approaches", "records", "data")
OUTSIDE = (".py", ".toml")  # endings of the files of an approach
UCI = "printed UCI tables (audit data)"
RULES = {**OF_SUITE, **OF_TABLES}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Applies the audit rules to the parts that are named, all by default. With an approach instead, it runs the "
        "contract and the rules on that approach, a line for each check that passes."
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="PART|APPROACH",
        help=f"{', '.join(PARTS)} (default: all); or one approach: its name, NAME.py, or a folder with NAME.py",
    )
    add_record_options(parser)
    add_wide(parser)
    parser.add_argument("--all", action="store_true", help="also what does not fail (default: its number)")
    parser.add_argument("--document", help="only this document and its approaches")
    parser.add_argument("--rule", help="only this rule")
    parser.add_argument(
        "--library", metavar="NAME", help="audit what a library's example trains; 'all' audits every library"
    )
    parser.add_argument("--write", action="store_true", help="with --library: store the result for the table")
    parser.add_argument("--rules", action="store_true", help="list the rules")
    parser.add_argument("--data-dir", type=existing_folder, help="folder with the data sets, looked at first")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=_audit)


def _audit(arguments: argparse.Namespace) -> int:
    check_conditions(arguments)
    if arguments.rules:
        _print_rules(arguments.json)
        return 0
    if arguments.library is not None:
        if arguments.json:
            raise ConfigError("--json does not apply to --library; --write stores the numbers")
        return _audit_library(arguments)
    if arguments.write:
        raise ConfigError("--write stores the audit of a library; give --library")
    others = [name for name in arguments.what if name not in PARTS]
    if not others:
        return _audit_parts(arguments)
    if len(arguments.what) > 1:
        raise ConfigError(f"'{others[0]}' is not a part; give some of {', '.join(PARTS)}, or one approach alone")
    if arguments.rule or arguments.document:
        raise ConfigError("--rule and --document do not apply to one approach; leave them out")
    return _check_one(arguments, others[0])


def _audit_library(arguments: argparse.Namespace) -> int:
    """Audit the examples of a library, or of `all`. Print each result as soon as it is there."""
    if arguments.what:
        raise ConfigError(f"--library audits a library alone; leave out '{arguments.what[0]}'")
    found: dict[str, LibraryAudit] = {}
    absent: dict[str, None] = {}
    make_importable()  # some of the libraries import torchvision
    for example in examples_of(arguments.library):
        try:
            found[example.name] = audit_example(example)
        except MissingLibrary as error:
            absent[str(error)] = None
            continue
        print(shown(*library_lines(example, found[example.name])), flush=True)
    if not found:
        raise MissingLibrary(next(iter(absent)))
    for message in absent:
        print(shown(f"not audited: {message}"))
    if arguments.write:
        keep(found)
    return INCOMPLETE if absent else 0


def _check_one(arguments: argparse.Namespace, given: str) -> int:
    """Check one approach against the contract and the rules. Print each result as soon as it is there."""
    if not given.endswith(OUTSIDE) and not Path(given).is_dir():
        check_known("part or approach", [*PARTS, *manifests()], given)
    counts: Counter[str] = Counter()
    everything, told = [], set[str]()
    for name in approaches_of(given):
        for line in _apart(check_approach(name)):
            counts[line.outcome] += 1
            everything.append({"approach": name, **dataclasses.asdict(line)})
            if not arguments.json:
                heading, *details = check_lines(line, arguments.all)
                print(shown(f"{heading}  as above") if line.detail in told else shown(heading, *details), flush=True)
            if line.outcome == "failed":
                told.add(line.detail)
    if arguments.json:
        print(json.dumps(everything, indent=1))
    else:
        print("\n" + ", ".join(f"{number} {outcome}" for outcome, number in counts.items()))
    return FAILED if counts["failed"] else 0


def _apart(lines: Iterable[CheckLine]) -> Iterator[CheckLine]:
    """Yield the lines; what the approach's own code prints meanwhile goes to the error stream."""
    found = iter(lines)
    while True:
        with contextlib.redirect_stdout(sys.stderr):
            line = next(found, None)
        if line is None:
            return
        yield line


def _audit_parts(arguments: argparse.Namespace) -> int:
    if arguments.document is not None:
        check_known("document", DOCUMENTS, arguments.document)
    if arguments.rule is not None:
        check_known("rule", RULES, arguments.rule)
    records: list[Record] = []
    problems: list[Problem] = []
    if {"documents", "records"} & set(arguments.what or PARTS):
        check_records(arguments)
        records, problems = Store(arguments.results).all_records()
    for problem in problems:
        warn(problem.reason)
    found = [finding for finding in _findings(arguments, records) if arguments.rule in (None, finding.rule)]
    if not found:
        hint = "name other parts" if arguments.rule is None else "leave out --rule, or name other parts"
        raise ConfigError(f"there is nothing to audit; {hint}")
    if arguments.json:
        print(json.dumps([finding.as_json() for finding in found], indent=1))
    else:
        is_narrow = bool(arguments.all or arguments.rule or arguments.document)
        for finding in found:
            is_asked = is_narrow or "data" in arguments.what or not isinstance(finding, TableFinding)
            if arguments.all or (finding.outcome == "fails" and is_asked):
                print(shown(*finding_lines(finding, is_narrow or finding.subject not in DOCUMENTS)))
        print(_summary(found))
        if not arguments.all:
            print(shown("--document NAME or --rule RULE says why a document fails; --all shows the rest."))
    # The exit code counts only mistakes of this suite: its approaches, records and data. A document may have mistakes.
    if any(finding.outcome == "fails" and _whose(finding) == "ours" for finding in found):
        return FAILED
    return INCOMPLETE if problems else 0


def _findings(arguments: argparse.Namespace, stored: Sequence[Record]) -> Iterable[Finding]:
    store = Store(arguments.results)
    parts = arguments.what or PARTS
    records = select(stored, arguments.profile, arguments.device.split(":")[0], arguments.precision)
    if "documents" in parts:
        doing("judging the documents")
        documents = [arguments.document] if arguments.document else list(DOCUMENTS)
        yield from audit_documents(documents, Numbers(Results(records, manifests()), read_all(store)[0]))
    if "approaches" in parts:
        for entry in manifests().values():
            if arguments.document in (None, entry.document) and not entry.missing_framework():
                doing(f"auditing approach {entry.name}")
                for recipe in entry.recipes:
                    yield from audit_approach(entry.name, recipe)
    if "records" in parts:
        doing("auditing the records")
        known = {name: entry.document for name, entry in manifests().items()}
        chosen = [r for r in records if arguments.document in (None, known.get(r.approach))]
        yield from audit_records(chosen, store)
    if "data" in parts and arguments.document is None:
        yield from audit_data(arguments.data_dir)
        yield from audit_uci(arguments.data_dir and arguments.data_dir / "uci")


def _summary(found: Sequence[Finding]) -> str:
    lines = []
    for title in ("documents", "ours", UCI):
        counts = Counter(finding.outcome for finding in found if _whose(finding) == title)
        if counts:
            lines.append(f"{title}: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES))
    return "\n" + "\n".join(lines)


def _whose(finding: Finding) -> str:
    """Return whose mistake it would be."""
    if isinstance(finding, TableFinding):
        return UCI
    return "documents" if finding.subject in DOCUMENTS else "ours"


def _print_rules(for_machines: bool) -> None:
    if for_machines:
        print(json.dumps([dataclasses.asdict(rule) for rule in RULES.values()], indent=1))
        return
    for rule in RULES.values():
        first = f"{rule.id:<27}  {rule.severity:<10}  {rule.title}"
        print(shown(first, f"    looks for {rule.looks_for} [{', '.join(rule.where)}]"))
