"""Running the documents' code shows the mistakes that were read in it."""

import pytest

from bench.judge.audit.documents import shown_mistakes
from documents_code import shown
from documents_code.__main__ import checks

CHECKS = checks()[0]
SLOW = ("random_module_kl", "hidden_layer_kl", "prior_variance", "detached_means")  # .ci/run runs them apart


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in SLOW])
def test_running_the_documents_code_shows_what_the_file_says(name):
    found = shown.run(name, CHECKS[name])
    known = shown_mistakes()[name]
    assert (found.outcome, found.ran) == (known.outcome, known.ran) == ("found", known.ran), found.detail
    for what, value in known.measured.items():
        assert found.measured[what] == pytest.approx(value, rel=1e-3, abs=1e-6)
