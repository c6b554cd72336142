"""Shows a gate's report as text for a terminal, as Markdown for a summary page, as JUnit XML for a CI and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from bench.core.text import duration, visible
from bench.judge.comparison import LEVEL, POWER
from bench.judge.gate.judge import FAIL, MISSING, NOT_APPLICABLE, PASS, Check, GateReport, State
from bench.judge.results import origin_of
from bench.show.table import Table
from bench.show.tables.render import escape, markdown_grid
from bench.show.terminal import shown

COLUMNS = [
    "trained run",
    "metric",
    "baseline",
    "s",
    "k",
    "fresh",
    "m",
    "difference",
    f"{LEVEL:.0%} interval",
    "adjusted p",
]
ORDER: tuple[State, ...] = (FAIL, MISSING, NOT_APPLICABLE, PASS)
COLUMNS += ["margin", f"sees at {POWER:.0%}", "result"]


def verdict_line(report: GateReport) -> str:
    """Return the outcome in one line."""
    counts = {state: report.states.count(state) for state in (PASS, FAIL, MISSING, NOT_APPLICABLE)}
    said = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    return f"gate {'passed' if report.passed else 'NOT PASSED'}: {said}"


def text(report: GateReport, is_whole: bool = False) -> str:
    """Return the report for a terminal: the outcome, what went wrong, a line for each trained run that passes.

    A reason that several checks share is said once. If it is whole, the table of all checks comes before the outcome.
    """
    shared: dict[tuple[str, str], list[Check]] = {}
    for check in report.checks:
        why = f"{check.trained_run} {check.key}: {_sentence(check)}" if check.state == FAIL else check.text
        shared.setdefault((check.state, check.trained_run if check.state == PASS else why), []).append(check)
    lines = [_together(state, why, found) for state, why, found in _ordered(shared)]
    more = [] if is_whole else ["--all shows the numbers of every check."]
    table: list[str | Table] = [checks_table(report), ""] if is_whole else []
    return shown(*table, verdict_line(report), "", *lines, "", *_facts(report, is_whole), *more)


def _ordered(shared: Mapping[tuple[str, str], list[Check]]) -> list[tuple[State, str, list[Check]]]:
    """Return groups of checks with their state and reason: what failed first, what passed last."""
    return [(state, why, found) for state in ORDER for (known, why), found in shared.items() if known == state]


def _together(state: State, why: str, found: Sequence[Check]) -> str:
    """Return the line of checks that share a state and a reason, or a trained run in which they pass."""
    if state == PASS:
        return f"{state}: {why}: {', '.join(check.key for check in found)}"
    if len(found) == 1:
        return f"{state}: {why}" if state == FAIL else f"{state}: {found[0].trained_run} {found[0].key}: {why}"
    runs = ", ".join(dict.fromkeys(check.trained_run for check in found))
    return f"{state}: {why} ({len(found)} checks of {runs})"


def markdown(report: GateReport) -> str:
    """Return the report as Markdown: the outcome and what went wrong, then all checks."""
    troubles = "".join(f"- {escape(line)}\n" for line in _troubles(report))
    facts = "".join(f"- {escape(line)}\n" for line in _facts(report))
    grid = markdown_grid(checks_table(report))
    return visible(f"## {escape(verdict_line(report))}\n\n{troubles}\n{grid}\n\n{facts}")


def checks_table(report: GateReport) -> Table:
    """Return a row for each metric of each gated trained run, then one for each trained run whose seeds may diverge."""
    rows = [_row(report, check) for check in report.checks]
    return Table("gate_checks", "The fresh run against the baseline", "", COLUMNS, rows)


def as_json(report: GateReport) -> dict[str, object]:
    """Return the report as plain values."""
    return {
        "passed": report.passed,
        "seconds": report.seconds,
        "alpha": report.gate.alpha,
        "checks": [_check_json(report, check) for check in report.checks],
        "notes": _notes(report),
    }


def junit(report: GateReport) -> bytes:
    """Return the report as JUnit XML: a test case for each check; what is missing is an error."""
    suite = ElementTree.Element("testsuite", name="gate", tests=str(len(report.checks)))
    suite.set("failures", str(report.states.count(FAIL)))
    suite.set("errors", str(report.states.count(MISSING)))
    suite.set("skipped", str(report.states.count(NOT_APPLICABLE)))
    suite.set("time", f"{report.seconds or 0:.1f}")
    tags = {FAIL: "failure", MISSING: "error", NOT_APPLICABLE: "skipped"}
    for check in report.checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=visible(f"gate.{check.trained_run}"), name=visible(check.key)
        )
        message = visible(_sentence(check))
        if check.state in tags:
            ElementTree.SubElement(case, tags[check.state], message=message)
        elif message:
            ElementTree.SubElement(case, "system-out").text = message
    ElementTree.indent(suite)
    content: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _row(report: GateReport, check: Check) -> list[str]:
    found = _numbers(report, check)
    p = "-" if check.p_adjusted is None else f"{check.p_adjusted:.2g}"
    margin = "-" if check.margin is None else f"{check.margin:.3g}"
    if not found:
        return [check.trained_run, check.key, *["-"] * 7, p, margin, "-", check.state]
    return [
        check.trained_run,
        check.key,
        f"{found['baseline_mean']:.5g}",
        f"{found['baseline_sd']:.2g}",
        f"{found['k']:g}",
        f"{found['fresh_mean']:.5g}",
        f"{found['m']:g}",
        f"{found['difference']:+.3g}",
        f"{found['low']:.5g} .. {found['high']:.5g}",
        p,
        margin,
        f"{found['resolution']:.2g}",
        check.state,
    ]


def _numbers(report: GateReport, check: Check) -> dict[str, float]:
    """Return the numbers of a metric's check; nothing if one is missing."""
    found = check.estimate
    if found is None:
        return {}
    mean, half = found.first.mean or 0.0, found.half_width() or 0.0
    return {
        "baseline_mean": mean,
        "baseline_sd": found.first.sd or 0.0,
        "k": found.first.n,
        "fresh_mean": found.second.mean or 0.0,
        "m": found.second.n,
        "difference": found.difference,
        "low": mean - half,
        "high": mean + half,
        "resolution": found.resolution(report.gate.alpha / report.n_tests),
    }


def _check_json(report: GateReport, check: Check) -> dict[str, object]:
    names = {"trained run": check.trained_run, "metric": check.key, "state": check.state, "text": check.text}
    return {**names, "margin": check.margin, "p_adjusted": check.p_adjusted, **_numbers(report, check)}


def _sentence(check: Check) -> str:
    found = check.estimate
    if found is None:
        return check.text
    return (
        f"{found.first.mean:.5g} (s {found.first.sd:.2g}, {found.first.n} seeds) became {found.second.mean:.5g} "
        f"({found.second.n} seeds): {found.difference:+.3g}, margin {check.margin:.3g}, "
        f"adjusted p {check.p_adjusted:.2g}{'; ' if check.text else ''}{check.text}"
    )


def _troubles(report: GateReport) -> list[str]:
    """Return a line for every check that failed, is missing or does not apply."""
    return [f"{c.state}: {c.trained_run} {c.key}: {_sentence(c)}" for c in report.checks if c.state != PASS]


def _facts(report: GateReport, has_table: bool = True) -> list[str]:
    """Return the rate of false alarms, what a column of the table means, the time of the fresh run, and the notes."""
    facts, alpha = [], report.gate.alpha
    rate = f"unchanged code fails in at most {alpha:.0%} of first runs"
    if report.second_look:  # what fails both has failed the first; the sum of two rates bounds that of either
        rate = f"this is a second look, after a failed first run: unchanged code fails both in at most {alpha:.0%} of "
        rate += f"cases (simulated at 5%: about 2%), at least one in at most {2 * alpha:.0%} (about 8%)"
    if report.n_tests:
        facts = [
            f"{rate}; the fresh seeds are fixed, so a second run of the same code on the same machine gives the same "
            f"outcome",
        ]
    if report.n_tests and has_table:
        meaning = "is the smallest shift whose p-value is low enough with that probability; it must also be beyond"
        facts.append(f"'sees at {POWER:.0%}' {meaning} the margin")
    if report.seconds is not None:
        late = f", above the limit of {duration(report.gate.limit_s)}" if report.seconds > report.gate.limit_s else ""
        facts.append(f"fresh run: {duration(report.seconds)}{late}")
    return [*facts, *_notes(report)]


def _notes(report: GateReport) -> list[str]:
    made = [f"{what}: {origin_of(one)[0] if one else 'no records'}" for what, one in report.made.items()]
    return [*made, *(f"unreadable: {reason}" for reason in report.unreadable)]
