"""For pytest: the fixture `assert_elbo`, which fails a test whose objective the audit does not find to be an ELBO.

def test_objective(assert_elbo):
    assert_elbo(audit_torch(loss, model.named_parameters(), batches, n_train=60_000, nll=nll))
"""

from __future__ import annotations

from typing import Protocol

import pytest

from elbo_audit.findings import ElboReport


class AssertElbo(Protocol):
    """Fails the test with the report; pytest's summary shows its first line."""

    def __call__(self, report: ElboReport, *, unjudged: bool = False) -> None:
        """Fail where a rule fails or, unless `unjudged` is allowed, where the audit did not see the KL's weight."""


@pytest.fixture
def assert_elbo() -> AssertElbo:
    """Return a function that fails the test unless a report is ok and the KL was judged."""

    def check(report: ElboReport, *, unjudged: bool = False) -> None:
        if not report.ok or not (report.judged or unjudged):
            pytest.fail(str(report), pytrace=False)

    return check
