"""Every tolerance of the tests of numbers says where it comes from; elsewhere fewer and fewer do not."""

import pytest

from bench.core.project import TOP
from tools import numerical
from tools.tolerances import all_tolerances, tolerances

WITHOUT = 221
"""Tolerances of all tests without a derivation. It may only fall: derive those that you add, and lower it."""


def test_the_tests_of_numbers_derive_every_tolerance():
    found = all_tolerances(*(TOP / test for test in numerical.TESTS))
    assert found
    assert [f"{one.file}:{one.line}" for one in found if one.kind == "none"] == []


def test_no_tolerance_without_a_derivation_is_new():
    assert sum(one.kind == "none" for one in all_tolerances()) == WITHOUT


CASES = {
    "assert a == approx(b)": ["none"],
    "assert a == approx(b, rel=0, abs=0)": ["exact"],
    "assert a == approx(b, rel=1e-6)  # tolerance: printed with six digits": ["derived"],
    "# tolerance: one rounding\nassert abs(a - b) < 1e-9": ["derived"],
    "# one rounding\nassert abs(a - b) < 1e-9": ["none"],
    "assert 1e-9 > abs(a - b) > 0": ["none"],
    "assert a < b": [],
    "assert abs(a) > 1": [],
    "# tolerance: two roundings\nLEAST = 2e-16\nassert isclose(a, b, rtol=LEAST, atol=0)": ["derived"],
    "from tests.close import DOUBLE\nassert_close(a, b, rtol=DOUBLE, atol=DOUBLE)": ["derived"],
    "with one:\n    # tolerance: here\n    pass\n    assert a == approx(b)": ["none"],
}


@pytest.mark.parametrize("code", CASES)
def test_what_a_tolerance_is(code, tmp_path):
    (tmp_path / "some.py").write_text(code + "\n")
    assert [one.kind for one in tolerances(tmp_path / "some.py")] == CASES[code]


def test_every_configuration_has_its_turn(monkeypatch):
    """The commit's hash chooses one; together the first hashes choose all but the plain one."""
    seen = set()
    for number in range(len(numerical.CONFIGURATIONS) - 1):
        answer = type("Done", (), {"stdout": f"{number:040x}\n"})
        monkeypatch.setattr(numerical.subprocess, "run", lambda *_, answer=answer, **__: answer)
        seen.add(numerical.chosen())
    assert seen == set(numerical.CONFIGURATIONS) - {"as-it-is"}
