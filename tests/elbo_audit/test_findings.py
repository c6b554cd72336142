"""A finding's line, the rules, what an import costs, and the page's first example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import elbo_audit
from elbo_audit.findings import Finding
from elbo_audit.report import ElboReport
from elbo_audit.rules import RULES

AFTER = "; import sys; print(*sorted({'torch', 'pyro', 'numpy', 'bench'} & sys.modules.keys()))"


def test_a_finding_is_one_line_that_says_what_to_do():
    line = Finding("kl-scale", "mine", "fails", "469\ntimes").line()
    assert "\n" not in line
    for part in ("fails", "kl-scale", "mine", "469 times", RULES["kl-scale"].remedy):
        assert part in line
    assert RULES["kl-scale"].remedy not in Finding("kl-scale", "mine", "passes", "once").line()
    assert RULES["kl-scale"].remedy not in Finding("kl-scale", "mine", "fails", "do this", advised=True).line()


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("import elbo_audit, elbo_audit.rules", ""),
        ("import bench.judge.audit.libraries.audited", "bench"),
        ("from elbo_audit import audit_torch", "numpy torch"),
    ],
)
def test_an_import_loads_a_framework_only_for_an_audit(code, loaded):
    done = subprocess.run([sys.executable, "-c", code + AFTER], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == loaded


def test_every_public_name_is_there():
    for name in elbo_audit.__all__:
        assert callable(getattr(elbo_audit, name))
    with pytest.raises(AttributeError, match="has no attribute 'audit_keras'"):
        elbo_audit.audit_keras  # noqa: B018 - looking the name up raises


@pytest.mark.parametrize(
    ("outcome", "judged", "first"),
    [
        ("passes", True, "passes        once [kl-scale]"),
        ("not measured", False, "KL not judged  once [kl-scale, kl-sign]"),
        ("not applicable", False, "KL not judged  once [kl-scale, kl-sign]"),
    ],
)
def test_a_report_whose_kl_was_not_judged_begins_with_it(outcome, judged, first):
    other = [Finding("wrong-likelihood", "mine", "passes", "1 times"), Finding("unused-layer", "mine", "passes", "all")]
    found = ElboReport((*other, *(Finding(rule, "mine", outcome, "once") for rule in ("kl-scale", "kl-sign"))))
    assert found.ok
    assert found.judged is found.to_dict()["judged"] is judged
    assert first in str(found).splitlines()[0 if not judged else 1]


def test_a_number_that_nothing_is_compared_with_is_measured_and_not_judged():
    found = (
        Finding("kl-scale", "mine", "passes", "once"),
        Finding("variance-as-std", "mine", "not measured", "the prior is 1", {"prior_std": 1.0}),
        Finding("repeated-noise", "mine", "not measured", "no noise"),
    )
    lines = str(ElboReport(found)).splitlines()
    assert lines[1:] == [
        "not judged    the prior is 1 [variance-as-std]",
        "not measured  no noise [repeated-noise]",
    ]


PAGE = (Path(__file__).parents[2] / "docs" / "elbo-audit.md").read_text(encoding="utf-8")
DIGITS = re.compile(r"\(95 % interval [^)]*\)|\(standard error [^)]*\)")  # rounding, which processors do unlike


def words(text):
    return DIGITS.sub("()", " ".join(text.split()))


def test_the_first_example_prints_what_the_page_shows():
    example, shown, *_ = re.findall(r"```(?:python)?\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert words(done.stdout) == words(shown)
