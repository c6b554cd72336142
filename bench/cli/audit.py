"""`audit`: known mistakes, over the documents, our approaches and records, and the data."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cli.options import FAILED, add_place, check_place
from bench.core.errors import ConfigError, unknown_name
from bench.core.store import Store

PARTS = ("documents", "approaches", "records", "data")


def add(commands: Any) -> None:
    """Declare the commands of this file."""
    audit = commands.add_parser("audit", help="known mistakes: in the documents, our approaches, records and data")
    audit.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    add_place(audit)
    audit.add_argument("--document", help="only this document and the approaches of it")
    audit.add_argument("--rule", help="only this rule")
    audit.add_argument("--rules", action="store_true", help="list the rules")
    audit.add_argument("--no-run", action="store_true", help="of the documents only what was read; runs nothing")
    audit.add_argument("--data-dir", type=Path, help="folder with the data sets, looked at first")
    audit.add_argument("--json", action="store_true", help="for machines")
    audit.set_defaults(action=_audit)


def _audit(arguments: argparse.Namespace) -> int:
    from bench.judge.audit.documents import DOCUMENTS
    from bench.judge.audit.rules import RULES

    check_place(arguments)
    for given, kind, known in (
        (arguments.parts, "part", PARTS),
        ([arguments.document] if arguments.document else [], "document", DOCUMENTS),
        ([arguments.rule] if arguments.rule else [], "rule", RULES),
    ):
        for name in given:
            if name not in known:
                raise unknown_name(kind, name, known)
    if arguments.rules:
        _print_rules(arguments.json)
        return 0
    found = [finding for finding in _findings(arguments) if arguments.rule in (None, finding.rule)]
    if not found:
        raise ConfigError("nothing was audited; leave out --rule, or name other parts")
    if arguments.json:
        print(json.dumps([finding.as_json() for finding in found], indent=1))
    else:
        for finding in found:
            print(f"{RULES[finding.rule].severity:<10}  {finding.line()}")
        print(_summary(found))
    # What fails in a document is what was found there; the exit code is about what is ours.
    ours = [finding for finding in found if finding.subject not in DOCUMENTS]
    return FAILED if any(finding.outcome == "fails" for finding in ours) else 0


def _findings(arguments: argparse.Namespace) -> Sequence[Any]:
    from bench.judge.audit.approach import audit_approach
    from bench.judge.audit.data import audit_data
    from bench.judge.audit.documents import DOCUMENTS, audit_documents, document_of
    from bench.judge.audit.findings import Finding
    from bench.judge.audit.records import audit_records
    from bench.judge.ladder.effects import Numbers
    from bench.judge.ladder.readings import read_all
    from bench.judge.results import Results, select
    from bench.plan.registry import manifests

    store = Store(arguments.results)
    parts = arguments.parts or PARTS
    records = select(store.all_records()[0], arguments.profile, arguments.device.split(":")[0], arguments.precision)
    found: list[Finding] = []
    if "documents" in parts:
        documents = [arguments.document] if arguments.document else list(DOCUMENTS)
        numbers = Numbers(Results(records, manifests()), read_all(store)[0])
        found += audit_documents(documents, numbers, run=not arguments.no_run)
    wanted = [entry for entry in manifests().values() if arguments.document in (None, entry.document)]
    if "approaches" in parts and not arguments.no_run:
        for entry in wanted:
            if not entry.missing_framework():
                for recipe in entry.recipes:
                    found += audit_approach(entry.name, recipe)
    if "records" in parts and not arguments.no_run:
        chosen = [r for r in records if arguments.document in (None, document_of(r.approach))]
        found += audit_records(chosen, store)
    if "data" in parts and not arguments.no_run and arguments.document is None:
        found += audit_data(arguments.data_dir)
    return found


def _summary(found: Sequence[Any]) -> str:
    from bench.judge.audit.documents import DOCUMENTS
    from bench.judge.audit.findings import OUTCOMES

    lines = []
    for title, chosen in (
        ("documents", [f for f in found if f.subject in DOCUMENTS]),
        ("ours", [f for f in found if f.subject not in DOCUMENTS]),
    ):
        counts = Counter(finding.outcome for finding in chosen)
        if chosen:
            lines.append(f"{title}: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES))
    return "\n" + "\n".join(lines)


def _print_rules(for_machines: bool) -> None:
    from bench.judge.audit.rules import RULES

    if for_machines:
        print(json.dumps([vars(rule) for rule in RULES.values()], indent=1))
        return
    for rule in RULES.values():
        print(f"{rule.id:<27}  {rule.severity:<10}  {rule.title}")
        print(f"    looks for {rule.looks_for} [{', '.join(rule.where)}]")
