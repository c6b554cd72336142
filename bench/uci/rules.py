"""Rules that find mistakes in printed UCI tables: from their digits, the author's result of every split, and the data.

The rules look at a column of a table (`audit_column`), at columns that stand side by side (`audit_table`), at the
author's grid (`audit_grid`) and at a set's rows (`audit_rows`). `audit_uci` applies all of them to what is published.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.core.text import counted, listed
from bench.judge.audit.rules import AuditRule, Finding
from bench.uci.data import Floats, Split, facts, load, sets, splits, where
from bench.uci.published import (
    Column,
    Printed,
    author,
    cuts_to,
    kind_by_size,
    kind_by_splits,
    printed,
    prints_as,
    spread,
    tables,
)

ENOUGH = 3  # values of a column from which its unit is recognised
WIDER = 1.25  # by this factor, or by its logarithm in nats, a value may leave the range of all printed ones
Details = dict[str, list[str]]


def _rule(name: str, title: str, remedy: str, severity: str = "wrong") -> AuditRule:
    return AuditRule(f"uci-{name}", title, title, remedy, severity, ("data",))  # type: ignore[arg-type]


_RULES = (
    _rule("sd-as-se", "deviation over splits printed as standard error, or the reverse", "name and divide it anew"),
    _rule("error-unnamed", "error without a name", "say se or sd, and of how many splits", "misleading"),
    _rule(
        "wrong-splits", "standard error over another number of splits than were run", "divide by sqrt(5) for protein"
    ),
    _rule("cut", "digits cut, not rounded", "round, or read the splits' own numbers", "weak"),
    _rule("one-pass", "RMSE of one pass printed as that of the mean", "average the passes first"),
    _rule("other-number", "value or error that the splits' numbers do not give", "compute it anew from the splits"),
    _rule("summed", "log-likelihood summed over test rows", "divide by the number of test rows"),
    _rule("standardised", "numbers in units of the standardised target", "multiply by, or subtract the log of, its sd"),
    _rule("sign", "log-likelihood with the other sign", "turn the sign"),
    _rule("named-sum", "called a sum, of the size of a mean", "call it a mean over rows", "misleading"),
    _rule("tuned-on-test", "setting chosen by test rows", "choose on the training part's last fifth", "misleading"),
    _rule("tuned-elsewhere", "setting chosen by rows that other splits test", "choose in each split", "misleading"),
    _rule("target", "another target column (naval's turbine)", "predict column 16 and drop 17"),
    _rule("mixed-errors", "errors of several kinds side by side", "bring them to one kind, name it", "misleading"),
    _rule("mixed-epochs", "unlike numbers of epochs side by side", "train all alike, or say so", "misleading"),
    _rule("mixed-likelihoods", "mixture and one Gaussian side by side", "use one of the two", "misleading"),
    _rule("two-numbers", "two numbers for one model in one paper", "ask the authors", "misleading"),
    _rule("capped", "a likelihood that the grid's largest tau caps", "add larger taus to the grid", "misleading"),
    _rule(
        "duplicates", "test rows that stand in the training part too", "say so; drop them from the test", "misleading"
    ),
    _rule("constant", "a feature that never varies", "drop it", "weak"),
)
RULES = {rule.id: rule for rule in _RULES}


@dataclass(frozen=True)
class TableFinding(Finding):
    """A rule of this file applied to a printed column or table, or to a set: no mistake of this suite."""

    @property
    def of_rule(self) -> AuditRule:
        """Return the rule that was applied."""
        return RULES[self.rule]


def audit_uci(data_dir: Path | None = None) -> Iterator[TableFinding]:
    """Apply every rule to the printed values, the author's grid, and the sets that are on this machine."""
    yield from audit_printed()
    yield from audit_sets(sets(), data_dir)


def audit_printed() -> Iterator[TableFinding]:
    """Apply the rules for columns and tables to what is published."""
    columns = {name: one for name, one in tables().columns.items() if one.obtained == "read"}
    for name, column in columns.items():
        yield from audit_column(name, column, [one for one in printed() if one.column == name])
    for source in tables().sources:
        yield from audit_table(source, {name: one for name, one in columns.items() if name.startswith(f"{source}.")})


def audit_sets(names: Iterable[str], data_dir: Path | None = None) -> Iterator[TableFinding]:
    """Apply the rules to the author's grid for each set, and to its rows if it is on this machine."""
    for name in names:
        yield from audit_grid(name)
        if where(name, data_dir) is None:
            yield TableFinding("uci-duplicates", name, "not measured", "the set is not on this machine")
        else:
            found = load(name, data_dir)
            yield from audit_rows(name, found.x, found.y, found.splits)


def audit_column(name: str, column: Column, values: Sequence[Printed]) -> Iterator[TableFinding]:
    """Look for the mistakes of one column; a rule that applies and finds none passes."""
    found = _declared(column, values)
    for rule, details in itertools.chain(_against_splits(column, values), _sizes(column, values)):
        found.setdefault(rule, []).extend(details)
    for rule, details in found.items():
        yield TableFinding(f"uci-{rule}", name, "fails" if details else "passes", "; ".join(details))


def _declared(column: Column, values: Sequence[Printed]) -> Details:
    """Return what the column's own description shows."""
    found: Details = {
        "tuned-on-test": ["the setting was chosen by the test rows"] if column.tuned == "test" else [],
        "tuned-elsewhere": ["one setting for all splits, whose test rows were seen"]
        if column.tuned == "other splits"
        else [],
    }
    if any(one.error for one in values):
        found["error-unnamed"] = ["+- without a name"] if column.label == "none" else []
    if any(one.set == "naval-propulsion-plant" for one in values):
        other = column.naval_target != facts()["naval-propulsion-plant"].target
        found["target"] = [f"naval: column {column.naval_target}, the turbine"] if other else []
    return found


def _against_splits(column: Column, values: Sequence[Printed]) -> Iterator[tuple[str, list[str]]]:
    """Compare each value and error, digit by digit, with the result of every split, where it is known."""
    for one in values:
        known = spread(column.run, one.set, one.metric)
        if known is None:
            continue
        yield from (("cut", []), ("other-number", []), ("sd-as-se", []), ("wrong-splits", []))
        mean, passed = one.of(known.mean), spread(column.run, one.set, "rmse_other")
        of = f"{one.set} {one.quantity} {one.value}"
        if not prints_as(mean, one.value):
            of_passes = column.run == "grid2018" and column.prediction == "mean"  # others have no number of one pass
            if of_passes and one.metric == "rmse" and passed is not None and prints_as(passed.mean, one.value):
                yield "one-pass", [f"{of}: the RMSE of one pass, {passed.mean:.4g}; that of the mean, {mean:.4g}"]
            else:
                rule = "cut" if cuts_to(mean, one.value) else "other-number"
                yield rule, [f"{of}: the splits give {mean:.5g}"]
        named, kind = column.error if column.label == "none" else column.label, kind_by_splits(one, column)
        if one.error and kind != named:
            rule = {"sd / sqrt(20)": "wrong-splits", f"{named}, cut": "cut", None: "other-number"}.get(kind, "sd-as-se")
            numbers = f"sd {known.sd:.3g} and se {known.se:.3g} over {known.n} splits"
            yield rule, [f"{of} +- {one.error}, called {named}: {numbers}"]


def _sizes(column: Column, values: Sequence[Printed]) -> Iterator[tuple[str, list[str]]]:
    """Judge a column by the sizes of its numbers and errors: each beside all printed ones of its set."""
    kind = kind_by_size(values)
    if kind is not None and column.label != "none" and not column.run:
        yield "sd-as-se", [f"errors called {column.label} have the size of a {kind}"] if kind != column.label else []
    known = [one for one in values if one.set in facts()]
    explained = {name: [one for one in known if _fits(one, name)] for name in ("summed", "standardised", "sign")}
    for name, ones in explained.items():
        applicable = [one for one in known if name == "standardised" or one.metric == "ll"]
        is_so = len({one.set for one in ones}) >= ENOUGH and 2 * len(ones) > len(applicable)
        texts = [f"{one.set} {one.quantity} {one.value}" for one in ones[:ENOUGH]]
        yield name, [f"fits {counted(len(ones), 'value')} that fit nothing else: {listed(texts)}"] if is_so else []
    if column.printed_as == "sum":
        as_mean = sum(_is_usual(one, one.number) for one in known if one.metric == "ll")
        yield (
            "named-sum",
            [f"{counted(as_mean, 'value')} have the size of a mean over rows"] if as_mean >= ENOUGH else [],
        )


def _fits(one: Printed, explanation: str) -> bool:
    """Return whether a value lies outside of all printed ones of its set, and inside if it is so explained."""
    known = facts()[one.set]
    n_test = len(splits(one.set)[0].test)
    if one.metric == "rmse":
        other = one.number * known.target_sd if explanation == "standardised" else None
    else:
        meant = {"summed": one.number / n_test, "sign": -one.number}
        other = meant.get(explanation, one.number - math.log(known.target_sd))
    return other is not None and not _is_usual(one, one.number) and _is_usual(one, other)


def _is_usual(one: Printed, number: float) -> bool:
    """Return whether a number lies in the range of all printed ones that are means over rows in the target's units."""
    columns = tables().columns
    usual = [
        other.number
        for other in printed()
        if (other.set, other.metric) == (one.set, one.metric)
        and (column := columns[other.column]).obtained == "read"
        and column.splits == "author"
        and not column.note
    ]
    low, high, room = min(usual), max(usual), math.log(WIDER)
    return low / WIDER <= number <= high * WIDER if one.metric == "rmse" else low - room <= number <= high + room


def audit_table(source: str, columns: Mapping[str, Column]) -> Iterator[TableFinding]:
    """Look for columns that stand side by side and are not alike, and for two numbers of one model."""
    by_kind: dict[str, dict[object, list[str]]] = {"mixed-errors": {}, "mixed-epochs": {}, "mixed-likelihoods": {}}
    for name, column in columns.items():
        kind = kind_by_size(one for one in printed() if one.column == name)
        facets = (
            kind,
            column.epochs or None,
            column.likelihood if column.likelihood in ("mixture", "gaussian") else None,
        )
        for found, facet in zip(by_kind.values(), facets, strict=True):
            if facet is not None:
                found.setdefault(facet, []).append(name.removeprefix(f"{source}."))
    methods = {column.title.partition(" (")[0].partition(",")[0] for column in columns.values()}
    for rule, found in by_kind.items():
        if len(methods) > 1:  # columns of one method differ on purpose
            text = "; ".join(f"{facet}: {', '.join(names)}" for facet, names in found.items())
            yield TableFinding(f"uci-{rule}", source, "fails" if len(found) > 1 else "passes", text)
    for name, column in columns.items():
        if column.same_as:
            differing = _differing(name, column.same_as)
            yield TableFinding("uci-two-numbers", name, "fails" if differing else "passes", "; ".join(differing))


def _differing(name: str, other: str) -> list[str]:
    both = [{(one.set, one.quantity): one for one in printed() if one.column == which} for which in (name, other)]
    pairs = [(one, both[1][key]) for key, one in both[0].items() if key in both[1]]
    return [
        f"{one.set} {one.quantity}: {one.value} +- {one.error} and {its.value} +- {its.error}"
        for one, its in pairs
        if (one.value, one.error) != (its.value, its.error)
    ]


def cap(tau: float) -> float:
    """Return the largest log-likelihood that a mixture of Gaussians with precision tau can have, nats a row."""
    return math.log(tau / (2 * math.pi)) / 2


def audit_grid(name: str) -> Iterator[TableFinding]:
    """Look whether the author's grid stops at a tau that every split chooses, which then caps the log-likelihood."""
    taus, largest = author()["grid2018", name, "tau"], max(facts()[name].taus)
    n, limit, found = sum(tau == largest for tau in taus.values()), cap(largest), spread("grid2018", name, "ll")
    detail = f"{n} of {len(taus)} splits choose the largest tau of the grid, {largest:g}; its cap is {limit:.3f}"
    detail += f", the author's mean {found.mean:.3f}" if found is not None else ""
    measured = {"cap": limit, "splits": float(n)}
    yield TableFinding("uci-capped", name, "fails" if n == len(taus) else "passes", detail, measured)


def audit_rows(name: str, x: Floats, y: Floats, parts: Sequence[Split]) -> Iterator[TableFinding]:
    """Count test rows whose features and target stand in the training part too, and features that never vary."""
    keys = np.unique(np.column_stack([x, y]), axis=0, return_inverse=True)[1].ravel()
    share = float(np.mean([np.isin(keys[split.test], keys[split.train]).mean() for split in parts]))
    detail = (
        f"{share:.1%} of the test rows have an identical row in training; {len(np.unique(keys))} of {len(y)} differ"
    )
    yield TableFinding("uci-duplicates", name, "fails" if share else "passes", detail, {"share": share})
    computed = x[parts[0].train].std(axis=0)  # as `standardise` does: rounding may leave a constant feature some
    constant = np.flatnonzero(x.min(axis=0) == x.max(axis=0))
    texts = [f"feature {i} is always {x[0, i]:g}, its computed sd {computed[i]:.1g}" for i in constant]
    yield TableFinding("uci-constant", name, "fails" if texts else "passes", "; ".join(texts))
