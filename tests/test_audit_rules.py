"""The rules, the facts on the documents, and what running the documents' code shows of them."""

import dataclasses
from pathlib import Path

import pytest

from bench.audit import documents, shown
from bench.audit.documents import DOCUMENTS, Effect, Fact, audit_documents, declared, facts, parse
from bench.audit.findings import Finding
from bench.audit.rules import RULES
from bench.audit.table import BEGIN, END, rules_table
from bench.errors import ConfigError
from bench.recipes import resolve
from bench.registry import manifest, manifests


def test_every_rule_is_judged_in_every_document():
    assert {(fact.document, fact.rule) for fact in facts()} == {(d, r) for d in DOCUMENTS for r in RULES}


def test_what_was_found_has_a_place_and_a_reason():
    for fact in facts():
        assert fact.what
        assert fact.where or fact.outcome != "found", fact
        if not fact.shown and fact.outcome == "found":
            assert not fact.removed_by or fact.rule == "unshuffled", f"{fact.rule} could be shown by running"


def test_facts_name_what_there_is():
    known = manifests()
    for fact in facts():
        if fact.approach:
            assert known[fact.approach].document == fact.document
        if fact.removed_by:
            assert fact.removed_by in known[fact.approach].changes
        if fact.effect is not None and fact.effect.change:
            assert fact.effect.change in known[fact.approach].changes
        if fact.shown:
            assert fact.shown in shown.names()
    assert {fact.shown for fact in facts() if fact.shown} == set(shown.names())


@pytest.mark.parametrize("name", shown.names())
def test_running_the_documents_code_shows_the_mistake(name):
    found = shown.show(name)
    if found.outcome == "not run here":
        pytest.skip(found.detail)
    assert found.outcome == "found", found.detail


def test_the_measured_factors_are_the_derived_ones():
    # 60,000 rows in batches of 128: 468.75 times the whole KL; kappa = 128 / N with the sign turned: -1
    for name, factor, tolerance in (("random_module_kl", 468.75, 0.1), ("hidden_layer_kl", -1.0, 0.02)):
        found = shown.show(name)
        if found.outcome == "not run here":
            pytest.skip(found.detail)
        assert found.measured["kl_per_epoch"] == pytest.approx(factor, rel=tolerance)
    assert shown.show("prior_variance").measured["prior_std"] == pytest.approx(6, rel=0.05)
    assert shown.show("binary_cross_entropy").measured["certain"] == pytest.approx(0.0693147, rel=1e-4)  # log(2) / 10


def test_a_check_that_shows_nothing_says_so(monkeypatch):
    monkeypatch.setattr(shown, "_checks", lambda: {"detached_means": lambda: shown.verdict(False, "it is attached")})
    fact = Fact("feldman2018", "detached-gradient", "found", "what", "where", "detached_means")
    monkeypatch.setattr(documents, "facts", lambda: (fact,))
    shown.show.cache_clear()
    try:
        (finding,) = audit_documents(["feldman2018"], [])
    finally:
        shown.show.cache_clear()
    assert finding.detail.startswith("what was read is not what running shows")
    assert "it is attached" in finding.detail
    assert finding.subject == "documents.toml on feldman2018"


def test_an_effect_is_read_from_the_records(monkeypatch):
    places = (("published", "published", "a/b"), ("published", "common", "c"))
    fact = Fact("feldman2018", "log-average", "found", "what", "where", "", "linear_bbb", "", Effect(places=places))
    monkeypatch.setattr(documents, "facts", lambda: (fact,))

    def record(protocol, seed, metric, value):
        return {
            "approach": "linear_bbb",
            "recipe": "published",
            "protocol": protocol,
            "seed": seed,
            "outcome": "done",
            "metrics": {metric: value},
        }

    records = [record("published", 0, "a/b", 0.5), record("published", 1, "a/b", 0.7), record("common", 0, "c", 0.9)]
    (finding,) = audit_documents(["feldman2018"], records, run=False)
    assert finding.effect == "linear_bbb 0.6 (n=2) published: a/b -> 0.9 (n=1) common: c"
    (finding,) = audit_documents(["feldman2018"], [], run=False)
    assert finding.effect.count("no record") == 2


def test_a_correction_takes_the_rule_off_the_list_of_known_ones():
    entry = manifest("linear_bbb")
    assert "detached-gradient" in declared(entry, resolve(entry, "published"))
    assert "detached-gradient" not in declared(entry, resolve(entry, "corrected"))
    assert "detached-gradient" not in declared(entry, resolve(entry, "published+attached-mu"))
    mine = dataclasses.replace(entry, name="mine", known={"one-seed": "slow", "kl-scale": "attached-mu"})
    assert declared(mine, resolve(mine, "published")) == {
        "one-seed": "slow",
        "kl-scale": "correction attached-mu removes it",
    }
    assert declared(mine, resolve(mine, "corrected")) == {"one-seed": "slow"}
    with pytest.raises(ConfigError, match="did you mean 'kl-scale'"):
        declared(dataclasses.replace(mine, known={"kl-scael": "x"}), resolve(mine, "published"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fact]", "cannot be read"),
        ('[absent.nobody]\nkl-scale = "x"', "unknown document"),
        ('[absent.feldman2018]\nkl-scael = "x"', "did you mean 'kl-scale'"),
        ('[absent.feldman2018]\nkl-scale = "x"\n[unclear.feldman2018]\nkl-scale = "y"', "twice"),
        ('[[fact]]\nrule = "kl-scale"\nwhy = "x"', "kl-scale is at fault"),
    ],
)
def test_a_file_of_facts_that_is_at_fault_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_a_finding_is_one_line_that_says_what_to_do():
    line = Finding("kl-scale", "mine", "fails", "469\ntimes", effect="much").line()
    assert "\n" not in line
    for part in ("fails", "kl-scale", "mine", "469 times", RULES["kl-scale"].remedy, "much"):
        assert part in line
    assert RULES["kl-scale"].remedy not in Finding("kl-scale", "mine", "passes", "once").line()


def test_the_page_shows_the_rules():
    text = (Path(__file__).resolve().parents[1] / "docs" / "audit.md").read_text(encoding="utf-8")
    shown_there = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()
    assert shown_there == rules_table(), "put bench.audit.table.rules_table() between the marks of docs/audit.md"
    assert "Twenty-three" in text
    assert len(RULES) == 23
