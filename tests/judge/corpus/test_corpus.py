"""The auditor on objectives that were written before it saw them: no false failure, and each fault by its rule."""

import pytest
import torch

from bench.judge.audit import elbo
from tests.judge.corpus.objectives import entry, plan

FAST = 4  # every fourth entry runs with the tests; `python -m tests.judge.corpus` runs all


def report_of(style, fault, seed):
    """Return the entry and its report."""
    if style != "pyro":
        found = entry(style, fault, seed)
        given = {"nll": found.nll, "prior_std": found.prior, "optimizer": found.optimizer, "epochs": 10}
        return found, elbo.audit_torch(found.loss, found.parameters, found.batches, found.n_train, **given)
    pyro = pytest.importorskip("pyro")
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        found = entry(style, fault, seed)
        given = {"loss": found.estimator, "prior_std": found.prior}
        return found, elbo.audit_pyro(found.model, found.guide, found.batches, found.n_train, **given)


def outcome_of(found, report):
    """Return passes or false failure for a right objective, fails by its rule or missed for a mistake."""
    failed = {finding.rule for finding in report.findings if finding.outcome == "fails"}
    if found.fault is None:
        return "false failure" if failed else "passes"
    return "fails by its rule" if failed & set(found.fault.rules) else "missed"


@pytest.mark.parametrize(("style", "fault", "seed"), plan()[::FAST])
def test_a_right_objective_passes_and_a_fault_fails_by_its_rule(style, fault, seed):
    found, report = report_of(style, fault, seed)
    assert outcome_of(found, report) in ("passes", "fails by its rule"), str(report)
