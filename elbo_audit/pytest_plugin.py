"""For pytest: the fixture `assert_elbo`, which fails a test where an audit's report is not ok.

def test_objective(assert_elbo):
    assert_elbo(audit_torch(loss, model.named_parameters(), batches, n_train=60_000, nll=nll))
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elbo_audit.report import ElboReport


@pytest.fixture
def assert_elbo() -> Callable[[ElboReport], None]:
    """Return a function that fails the test with a report that is not ok; pytest's summary shows its first line."""

    def check(report: ElboReport) -> None:
        if not report.ok:
            pytest.fail(str(report), pytrace=False)

    return check
