"""Audits the cases and sorts what the audit says into cells; the sorting was written before the audit ran on them."""

import warnings
from typing import NamedTuple

import elbo_audit
from tests.elbo_audit_field.case import Case

AUDITS = {
    "torch": "audit_torch",
    "pyro": "audit_pyro",
    "jax": "audit_jax",
    "numpyro": "audit_numpyro",
    "tfp": "audit_tensorflow",
}
NAMED = {  # by mistake: rules or causes of a failure that name it as what it is
    "weight": {"weight", "sign", "kl-sign"},
    "entropy": {"entropy"},
    "prior": {"prior", "variance-as-std"},
    "another KL": {"another KL"},
    "likelihood": {"likelihood", "wrong-likelihood"},
    "rows": {"rows"},
    "gradient": {"gradient", "detached-gradient"},
    "noise": {"noise", "repeated-noise"},
    "missing KL": {"missing"},
}
UNSEEN = ("wrong-likelihood", "kl-scale", "variance-as-std", "detached-gradient", "repeated-noise")
"""Rules of which one must be `not measured` where a mistake is not seen, else the case counts as passed by mistake."""


class Answer(NamedTuple):
    """What the audit said of a case."""

    cell: str  # right: passes, false failure; wrong: named, another cause, not measured, missed
    fails: str  # rules that fail, each with its cause
    kl: float | None  # how often an epoch counts the KL
    text: str


def answer(case: Case) -> Answer:
    """Build a case and audit it. An error that refuses its arguments in one line measures nothing."""
    arguments = case()
    if case.framework == "jax" and (kl := arguments.get("kl")) is not None:
        arguments["kl"] = lambda parameters, key: kl(parameters)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the frameworks
            report = getattr(elbo_audit, AUDITS[case.framework])(**arguments)
    except elbo_audit.AuditError as error:
        return Answer("false failure" if case.right else "not measured", "refused", None, str(error))
    advice = [(str(entry["rule"]), str(entry["cause"])) for entry in report.advice]
    unseen = any(finding.rule in UNSEEN and finding.outcome == "not measured" for finding in report.findings)
    if case.right:
        cell = "passes" if report.ok else "false failure"
    elif _named(case) & {word for pair in advice for word in pair}:
        cell = "named"
    elif advice:
        cell = "another cause"
    else:
        cell = "not measured" if unseen else "missed"
    return Answer(
        cell, " ".join(f"{rule}:{cause}" for rule, cause in advice), report.numbers.get("kl_per_epoch"), str(report)
    )


def _named(case: Case) -> set[str]:
    """Return what names a case's mistake; a likelihood that is too small by a factor is also a KL that is too large."""
    scaled = case.mistake == "likelihood" and case.kl_per_epoch is not None
    return NAMED[str(case.mistake)] | (NAMED["weight"] if scaled else set())
