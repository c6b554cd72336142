"""The rules over approaches as black boxes: our own, with the mistakes that their recipes declare, and no others."""

import pytest

from bench.audit.approach import audit_approach
from bench.audit.rules import RULES
from bench.errors import MissingFramework
from bench.registry import load_class, manifests

KNOWN = {
    ("pyro_hidden_layer", "published"): {"kl-sign"},
    ("pyro_random_module", "published"): {"kl-scale"},
    ("linear_bbb", "published"): {"detached-gradient"},
    ("mxnet_bbb", "published"): {"unused-layer", "sigma-frozen"},
    ("mxnet_bbb", "corrected"): {"sigma-frozen"},
}
SUBJECTS = [(name, recipe) for name, entry in manifests().items() for recipe in entry.recipes]


@pytest.mark.parametrize(("name", "recipe"), SUBJECTS, ids=[f"{name}-{recipe}" for name, recipe in SUBJECTS])
def test_our_recipes_have_the_mistakes_that_they_declare_and_no_others(name, recipe):
    try:
        load_class(name)
    except MissingFramework as error:
        pytest.skip(str(error))
    found = audit_approach(name, recipe)
    assert [f.detail for f in found if f.outcome == "fails"] == []
    drowned = {"kl-sign"} if "detached-gradient" in KNOWN.get((name, recipe), ()) else set()
    assert {f.rule for f in found if f.outcome == "not measured"} == drowned
    assert {f.rule for f in found if f.outcome == "known"} == KNOWN.get((name, recipe), set())
    assert all("removes it" in f.detail for f in found if f.outcome == "known")


def test_an_undeclared_mistake_fails(monkeypatch):
    monkeypatch.setattr("bench.audit.approach.declared", lambda entry, recipe: {})
    found = {finding.rule: finding for finding in audit_approach("linear_bbb", "published")}
    assert found["detached-gradient"].outcome == "fails"
    assert abs(found["detached-gradient"].measured["correlation"]) < 0.05
    assert found["detached-gradient"].remedy == RULES["detached-gradient"].remedy


def test_what_cannot_be_seen_has_a_reason():
    found = audit_approach("uniform")
    assert {finding.outcome for finding in found} == {"passes", "not applicable"}
    assert all(finding.detail for finding in found)
