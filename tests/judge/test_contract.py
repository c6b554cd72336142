"""Every approach of the registry passes every contract check, with small networks: no check depends on their size."""

import pytest

from bench.judge.contract import CHECKS
from bench.plan.registry import manifests
from implementations import _methods
from tests.implementations.made_up import WIDTHS, SmallUnderTest, class_of

SUBJECTS = [(name, recipe) for name, entry in manifests().items() for recipe in entry.recipes]


@pytest.fixture(scope="module")
def subjects():
    return {}


@pytest.mark.parametrize(("name", "recipe"), SUBJECTS, ids=[f"{name}-{recipe}" for name, recipe in SUBJECTS])
@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_contract(name, recipe, check, subjects, monkeypatch):
    monkeypatch.setattr(_methods, "WIDTHS", WIDTHS)
    class_of(name)
    key = (name, recipe)
    if key not in subjects:
        subjects[key] = SmallUnderTest(name, recipe)
    check.run(subjects[key])
