"""Every table: its name, the question that it answers, and how it is made. Commands, files and the page all use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from bench.core.errors import ConfigError, unknown_name
from bench.judge.ablation.answer import find
from bench.judge.ablation.definition import chosen
from bench.judge.ablation.effects import effects
from bench.judge.audit.documents import DOCUMENTS, audit_documents
from bench.judge.audit.libraries.audited import library_audits
from bench.judge.stats.papers import load_papers
from bench.plan.registry import group_of, manifests
from bench.show.inputs import Inputs
from bench.show.table import Table
from bench.show.tables import lists, uci
from bench.show.tables.ablation import SPARE, ablation_table, mistakes_table
from bench.show.tables.alternatives import alternatives_table, end_results_against
from bench.show.tables.answer import answer_table
from bench.show.tables.blundell2015 import blundell_table
from bench.show.tables.choice import choice_table
from bench.show.tables.common import ACCURACY, CALIBRATION, DETECTION, OOD, REFUSAL
from bench.show.tables.confidence import confidence_table
from bench.show.tables.declaration import Declaration
from bench.show.tables.further import PRUNING, SPEED, TOYS
from bench.show.tables.methods import ON_CLOTHES, clothes_table, methods_table
from bench.show.tables.sure import coverage_table, sure_table
from bench.show.tables.verdicts import (
    curve_verdicts_table,
    final_numbers_table,
    headline_table,
    summary_table,
    verdicts_table,
)


class TableKind(NamedTuple):
    """A table, or a family of tables with one name for each approach or document."""

    name: str  # * stands for the approach or the document of a family
    answers: str  # the question
    make: Callable[[Inputs], Table | Iterable[Table]]  # no table if the results folder has nothing to show
    remedy: str = "python -m bench run makes records"  # ends the message that there is no table
    names: Callable[[], Iterable[str]] = tuple  # what * stands for
    spare: tuple[str, ...] = ()  # columns that a narrow screen leaves out, the least important one first

    def questions(self) -> dict[str, str]:
        """Return the question of each table, by the table's name."""
        return {self.name.replace("*", name): self.answers.replace("*", name) for name in self.names() or ("",)}


def _declared(table: Declaration) -> TableKind:
    return TableKind(table.name, table.answers, table.make, spare=table.spare)


def _answers(inputs: Inputs) -> Iterator[Table]:
    for one in chosen(()):
        if one.question is not None:
            found = find(one.question, inputs.numbers, inputs.claims)
            yield answer_table(one.approach, found, inputs.results)


def _ablations(inputs: Inputs) -> Iterator[Table]:
    paper = chosen(["blundell_bbb"]) if inputs.paper.records else []
    for one in (*chosen(()), *paper):
        numbers = inputs.of(group_of(one.approach)).numbers
        yield ablation_table(one, effects(one, numbers), numbers, one.ood)


def _audits(inputs: Inputs) -> Iterable[Table]:
    """Give the stored findings of the rules on each document; no code of a document is run for a table."""
    return lists.audit_tables(audit_documents(list(DOCUMENTS), inputs.numbers))


def _columns(inputs: Inputs) -> Iterable[Table]:
    if not list((inputs.store.root / "posterior").glob("*-methods.jsonl")):
        return []
    from bench.show.tables.columns import stored_tables  # here: few tables need PyTorch

    return stored_tables(inputs.store.root)


def _provenance(inputs: Inputs) -> Table:
    return lists.provenance_table(inputs.results.records)


TABLES = (
    TableKind(
        "headline", "Do the numbers that everybody quotes hold?", lambda m: headline_table(m.judged, m.judgement)
    ),
    TableKind("sure", "When a network is 99 % sure, is it right?", sure_table),
    TableKind("coverage", "If all networks answer equally often, which errs least?", coverage_table),
    TableKind(
        "confidence",
        "When a network is 99 % sure, is it right, published and corrected?",
        confidence_table,
        spare=("uniform noise", "not-MNIST", "Gaussian noise"),
    ),
    TableKind("mistakes", "What is each mistake of the documents worth?", mistakes_table),
    TableKind("choice", "How good is each approach?", choice_table),
    TableKind(
        "methods",
        "Which method for uncertainty should I take?",
        methods_table,
        spare=("MB", "NLL, moved", "NLL, turned", "noise", "refused", "seeds", "ECE"),
    ),
    TableKind(
        ON_CLOTHES,
        "Which method for uncertainty should I take, if it learns clothes?",
        clothes_table,
        "python -m bench run --group methods --task fashion makes records",
        spare=("MB", "noise", "refused", "seeds", "ECE"),
    ),
    _declared(ACCURACY),
    _declared(OOD),
    _declared(DETECTION),
    _declared(REFUSAL),
    _declared(PRUNING),
    _declared(CALIBRATION),
    _declared(SPEED),
    _declared(TOYS),
    TableKind(
        "verdicts",
        "Which numbers reproduce, and why?",
        lambda m: verdicts_table(m.judged, m.judgement),
        spare=("unit", "why", "R", "seeds", "percentile", "difference", "margin", "own p", "95 %", "adjusted p"),
    ),
    TableKind(
        "verdict_curves",
        "Do the training curves come out?",
        lambda m: curve_verdicts_table(m.judged, m.judgement),
        spare=("document", "M", "h", "percentile", "smallest p x epochs", "why"),
    ),
    TableKind("verdict_summary", "How many numbers reproduce?", lambda m: summary_table(m.judged, m.judgement)),
    TableKind(
        "alternatives",
        "Which recipes does each end result tell apart?",
        lambda m: alternatives_table(m.judged, end_results_against(m.judged, m.claims)),
        spare=("shared", "protocol", "as alternative"),
    ),
    TableKind("metrics", "What did every metric give?", lists.metrics_table, spare=("unit", "uniform")),
    TableKind("definitions", "What does each metric mean?", lambda _: lists.definitions_table(), spare=("source",)),
    TableKind(
        "answer_*",
        "Where does a reported number of * come from?",
        _answers,
        names=lambda: (one.approach for one in chosen(()) if one.question is not None),
    ),
    TableKind(
        "ablation_*",
        "What is each correction of * worth?",
        _ablations,
        names=lambda: (one.approach for one in (*chosen(()), *chosen(["blundell_bbb"]))),
        spare=SPARE,
    ),
    TableKind(
        "papers",
        "What do papers report? Context, never judged.",
        lambda _: lists.papers_table(load_papers()),
        spare=("note", "runs"),
    ),
    TableKind(
        "blundell2015", "Do the numbers of the paper behind the tutorials come out?", lambda m: blundell_table(m.paper)
    ),
    TableKind(
        "uci",
        "Do the printed values of the UCI table come out?",
        lambda m: uci.made(m.store.root),
        "python -m bench run --group uci makes runs",
    ),
    TableKind("audit_*", "Which known mistakes does * make?", _audits, names=lambda: DOCUMENTS),
    TableKind(
        "libraries",
        "Do other people's libraries train an ELBO?",
        lambda _: lists.libraries_table(library_audits()),
        spare=("KL after it", "change", "its line", "follows", "version", "prior", "as if N"),
    ),
    TableKind(
        "headlines",
        "How far are our numbers from the end results of each document?",
        final_numbers_table,
        spare=("unit", "approach", "margin", "difference in margins"),
    ),
    TableKind(
        "provenance", "Which machines, versions and code made the records?", _provenance, spare=("data", "versions")
    ),
    TableKind(
        "posterior-*",
        "Who approximates the posterior of *?",
        _columns,
        names=lambda: ("digits", "mnist14-sd1", "boston", "concrete"),
    ),
    TableKind("unfinished", "Which records have no numbers, and why?", lists.unfinished_table),
)


def all_tables(inputs: Inputs) -> dict[str, Table]:
    """Return every table of a results folder by name."""
    return {table.name: table for kind in TABLES for table in _made(kind, inputs)}


def one_table(inputs: Inputs, name: str) -> Table:
    """Return a table; raises ConfigError for an unknown name, and for a table that the results folder cannot make."""
    kind = next((kind for kind in TABLES if fnmatchcase(name, kind.name)), None)
    if kind is None:
        raise unknown_name("table", name, [table for kind in TABLES for table in kind.questions()])
    found = {table.name: table for table in _made(kind, inputs)}
    if name in found:
        return found[name]
    if found:
        raise unknown_name("table", name, found)
    others = {record.approach for record in inputs.store.all_records()[0]} - set(manifests())
    theirs = f"; --approach-path gives the manifests of its {', '.join(sorted(others))}" if others else ""
    raise ConfigError(f"no table '{name}' can be made from {inputs.store.root}; {kind.remedy}{theirs}")


def _made(kind: TableKind, inputs: Inputs) -> list[Table]:
    found = kind.make(inputs)
    made = [found] if isinstance(found, Table) else found
    return [inputs.with_baseline.marked(replace(table, spare=kind.spare)) for table in made]
