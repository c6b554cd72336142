"""Shows a gate's report as text for a terminal, as Markdown for a summary page, as JUnit XML for a CI and as JSON."""

from __future__ import annotations

from xml.etree import ElementTree

from bench.core.text import duration, visible
from bench.judge.gate.checks import FAIL, MISSING, NOT_COMPARABLE, PASS, WAIVED, GateReport, MetricCheck
from bench.judge.results import origin_of
from bench.judge.stats.prediction import POWER
from bench.show.table import Table
from bench.show.tables.render import escape, markdown_grid
from bench.show.terminal import shown

COLUMNS = ["cell", "metric", "reference", "s", "k", "fresh", "m", "difference", "95 % interval", "adjusted p"]
COLUMNS += ["margin", f"sees at {POWER:.0%}", "result"]


def verdict_line(report: GateReport) -> str:
    """Return the outcome in one line."""
    counts = {state: report.states.count(state) for state in (PASS, FAIL, MISSING, WAIVED, NOT_COMPARABLE)}
    told = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    return f"gate {'passed' if report.passed else 'NOT PASSED'}: {told}"


def text(report: GateReport) -> str:
    """Return the report for a terminal: all metrics, all exact checks, then what went wrong and the outcome."""
    end = (*_facts(report), "", *_troubles(report), verdict_line(report))
    return shown(metrics_table(report), "", checks_table(report), "", *end)


def markdown(report: GateReport) -> str:
    """Return the report as Markdown: the outcome and what went wrong, then all metrics and checks."""
    grids = "\n\n".join(map(markdown_grid, (metrics_table(report), checks_table(report))))
    troubles = "".join(f"- {escape(line)}\n" for line in _troubles(report))
    facts = "".join(f"- {escape(line)}\n" for line in _facts(report))
    return visible(f"## {escape(verdict_line(report))}\n\n{troubles}\n{grids}\n\n{facts}")


def metrics_table(report: GateReport) -> Table:
    """Return a row for each metric of each gated cell."""
    rows = [_row(check) for check in report.metrics]
    return Table("gate_metrics", "Metrics of the fresh run against the reference", "", COLUMNS, rows)


def checks_table(report: GateReport) -> Table:
    """Return a row for each exact check."""
    rows = [(check.name, check.text, check.state) for check in report.checks]
    return Table("gate_checks", "Exact checks", "", ("check", "seen", "result"), rows)


def as_json(report: GateReport) -> dict[str, object]:
    """Return the report as plain values."""
    alarms = report.false_alarms
    return {
        "passed": report.passed,
        "seconds": report.seconds,
        "alpha": report.gate.alpha,
        "false_alarm_rate": None if alarms is None else alarms.rate,
        "false_alarm_rate_by_metrics": None if alarms is None else alarms.by_metrics,
        "metrics": [_metric_json(check) for check in report.metrics],
        "checks": [{"name": check.name, "state": check.state, "text": check.text} for check in report.checks],
        "notes": _notes(report),
    }


def junit(report: GateReport) -> bytes:
    """Return the report as JUnit XML: a test case for each metric and check; missing is an error, waived is skipped."""
    suite = ElementTree.Element("testsuite", name="gate", tests=str(len(report.states)))
    suite.set("failures", str(report.states.count(FAIL)))
    suite.set("errors", str(report.states.count(MISSING)))
    suite.set("skipped", str(report.states.count(WAIVED) + report.states.count(NOT_COMPARABLE)))
    suite.set("time", f"{report.seconds or 0:.1f}")
    cases = [(f"gate.{c.cell}", c.key, c.state, _sentence(c)) for c in report.metrics]
    cases += [("gate.exact", c.name, c.state, c.text) for c in report.checks]
    tags = {FAIL: "failure", MISSING: "error", WAIVED: "skipped", NOT_COMPARABLE: "skipped"}
    for place, name, state, message in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=visible(place), name=visible(name))
        if state in tags:
            ElementTree.SubElement(case, tags[state], message=visible(message))
        elif message:
            ElementTree.SubElement(case, "system-out").text = visible(message)
    ElementTree.indent(suite)
    content: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _row(check: MetricCheck) -> list[str]:
    shift = check.shift
    if shift is None:
        return [check.cell, check.key, *["-"] * 8, f"{check.margin:.3g}", "-", check.state]
    width = shift.design.half_width()
    low, high = shift.reference_mean - width, shift.reference_mean + width
    return [
        check.cell,
        check.key,
        f"{shift.reference_mean:.5g}",
        f"{shift.design.sd:.2g}",
        str(shift.design.k),
        f"{shift.fresh_mean:.5g}",
        str(shift.design.m),
        f"{shift.difference:+.3g}",
        f"{low:.5g} .. {high:.5g}",
        f"{shift.p_adjusted:.2g}",
        f"{check.margin:.3g}",
        f"{shift.smallest:.2g}",
        check.state,
    ]


def _sentence(check: MetricCheck) -> str:
    if check.shift is None:
        return check.text
    shift = check.shift
    return (
        f"{shift.reference_mean:.5g} (s {shift.design.sd:.2g}, {shift.design.k} seeds) became {shift.fresh_mean:.5g} "
        f"({shift.design.m} seeds): {shift.difference:+.3g}, margin {check.margin:.3g}, "
        f"adjusted p {shift.p_adjusted:.2g}{'; ' if check.text else ''}{check.text}"
    )


def _metric_json(check: MetricCheck) -> dict[str, object]:
    row: dict[str, object] = {"cell": check.cell, "metric": check.key, "margin": check.margin, "state": check.state}
    row["text"] = check.text
    shift = check.shift
    if shift is None:
        return row
    width = shift.design.half_width()
    return row | {
        "reference_mean": shift.reference_mean,
        "reference_sd": shift.design.sd,
        "k": shift.design.k,
        "fresh_mean": shift.fresh_mean,
        "m": shift.design.m,
        "difference": shift.difference,
        "interval": [shift.reference_mean - width, shift.reference_mean + width],
        "p_adjusted": shift.p_adjusted,
        "smallest_shift": shift.smallest,
    }


def _troubles(report: GateReport) -> list[str]:
    """Return a line for every check that failed, is missing or is waived."""
    bad = (FAIL, MISSING, WAIVED)
    lines = [f"{c.state}: {c.cell} {c.key}: {_sentence(c)}" for c in report.metrics if c.state in bad]
    return lines + [f"{c.state}: {c.name}: {c.text}" for c in report.checks if c.state in bad]


def _facts(report: GateReport) -> list[str]:
    """Return the rate of false alarms, the time of the fresh run, and the notes."""
    alarms = report.false_alarms
    facts = []
    if alarms is not None:
        by_metrics = f"by the metrics in {alarms.by_metrics:.2%} (at most {report.gate.alpha:.0%})"
        diverging = f", by seeds that diverge in {alarms.by_divergence:.2%}" if report.diverged else ""
        facts.append(
            f"unchanged code fails in {alarms.rate:.2%} of first runs: {by_metrics}{diverging}; the fresh seeds are "
            f"fixed, so a second run of the same code on the same machine gives the same outcome"
        )
        facts.append(f"'sees at {POWER:.0%}' is the smallest shift that fails the gate with that probability")
    if report.seconds is not None:
        late = f", above the limit of {duration(report.gate.limit_s)}" if report.seconds > report.gate.limit_s else ""
        facts.append(f"fresh run: {duration(report.seconds)}{late}")
    return [*facts, *_notes(report)]


def _notes(report: GateReport) -> list[str]:
    made = [f"{what}: {origin_of(one)[0] if one else 'no records'}" for what, one in report.made.items()]
    idle = [f"the waiver of {cell} is not needed any more" for cell in report.idle]
    return [*made, *(f"unreadable: {reason}" for reason in report.unreadable), *idle]
