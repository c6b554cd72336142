"""The rules, the facts on the documents, and that running the documents' code shows their mistakes."""

import msgspec
import pytest
from msgspec import structs

from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.judge.ablation.effects import Numbers
from bench.judge.ablation.single_changes import ALONE, CUMULATIVE
from bench.judge.audit import documents
from bench.judge.audit.documents import (
    DOCUMENTS,
    Fact,
    ShownMistake,
    SingleChangeNumber,
    audit_documents,
    declared,
    effect_of,
    facts,
    shown_mistakes,
    single_change_of,
)
from bench.judge.audit.rules import RULES, Finding
from bench.judge.results import Results
from bench.plan.recipes import resolve
from bench.plan.registry import manifest, manifests
from bench.show.screens.audit import finding_lines
from documents_code import shown
from documents_code.__main__ import checks
from tests.synthetic import record
from tools import audit_rules

NOTHING = Numbers(Results([], manifests()), [])
FOUND = Fact(document="feldman2018", rule="detached-gradient", outcome="found", what="what", where="where")


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
        if fact.effect is not None:
            assert fact.outcome == "found"
            assert single_change_of(fact.approach, fact.effect).name == fact.effect.single_change
        if fact.shown:
            assert fact.shown in shown_mistakes()
    assert {fact.shown for fact in facts() if fact.shown} == set(shown_mistakes())


def test_the_measured_factors_are_the_derived_ones():
    # 60,000 rows in batches of 128: 468.75 times the whole KL; kappa = 128 / N with the sign turned: -1
    measured = {name: shown.measured for name, shown in shown_mistakes().items()}
    assert measured["random_module_kl"]["kl_per_epoch"] == pytest.approx(468.75, rel=0.1)
    assert measured["hidden_layer_kl"]["kl_per_epoch"] == pytest.approx(-1, rel=0.02)
    assert measured["prior_variance"]["prior_std"] == pytest.approx(6, rel=0.05)
    assert measured["binary_cross_entropy"]["certain"] == pytest.approx(0.0693147, rel=1e-4)  # log(2) / 10


def test_a_check_that_shows_nothing_says_so(monkeypatch):
    nothing = {"detached_means": ShownMistake("not found", "code", "it is attached", {})}
    monkeypatch.setattr(documents, "shown_mistakes", lambda: nothing)
    fact = structs.replace(FOUND, shown="detached_means")
    monkeypatch.setattr(documents, "facts", lambda: (fact,))
    (finding,) = audit_documents(["feldman2018"], NOTHING)
    assert finding.detail.startswith("what was read is not what running shows")
    assert "it is attached" in finding.detail
    assert finding.subject == "documents.toml on feldman2018"


def test_a_broken_file_of_what_was_shown_is_one_line(tmp_path):
    (tmp_path / "shown.json").write_text('{"detached_means": {"outcome": "maybe"}}')
    with pytest.raises(ConfigError, match=r"Invalid enum value 'maybe'.*documents_code --write makes it"):
        shown_mistakes(tmp_path / "shown.json")


def trained_run(recipe, by_seed, protocol="common", metric="mnist/accuracy"):
    """Records, or derived metrics, of linear_bbb with one number, by seed."""
    return [
        record("linear_bbb", recipe, protocol, seed=seed, fit_key=f"{recipe}:{seed}", metrics={metric: value})
        for seed, value in by_seed.items()
    ]


def numbers(records, derived_metrics=()):
    return Numbers(Results(records, manifests()), derived_metrics)


def test_an_effect_is_the_paired_difference_of_a_single_change():
    # after - before: .02, .03, .04 over seeds 1-3; mean .03, sd .01, t(2, .975) = 4.303: 4.303 x .01 / sqrt 3 = .0248.
    # Seeds 0 and 4 have one end only; the means of all would differ by .935 - .865 = .07.
    before = trained_run("published", {0: 0.50, 1: 0.90, 2: 0.91, 3: 0.92})
    after = trained_run("published+attached-mu", {1: 0.92, 2: 0.94, 3: 0.96, 4: 0.99})
    wanted = SingleChangeNumber("attached-mu", "mnist", "accuracy", ALONE)
    text = effect_of("linear_bbb", wanted, numbers([*before, *after]))
    assert text.startswith("ablation linear_bbb, single change attached-mu (alone: ")
    assert text.endswith(", mnist accuracy: +0.0300 [+0.0052, +0.0548] (fraction; 3 seeds)")
    one = effect_of("linear_bbb", wanted, numbers([*before[1:2], *after[:1]]))
    assert one.endswith(": +0.0200 (fraction; 1 seed, no interval)")


def test_an_effect_comes_from_derived_metrics_where_the_single_change_does():
    # nats: .9 - .7 and .8 - .6, mean .2 without spread
    key = "noise_gaussian/{}geometric_entropy"
    records = trained_run("published", {0: 0.7, 1: 0.6}, metric=key.format(""))
    derived_metrics = trained_run("published", {0: 0.9, 1: 0.8}, "derived", key.format("normalised_"))
    wanted = SingleChangeNumber("normalised", "noise_gaussian", "entropy")
    text = effect_of("linear_bbb", wanted, numbers(records, derived_metrics))
    assert text.endswith("noise_gaussian entropy: +0.2000 [+0.2000, +0.2000] (nats per row; 2 seeds)")
    assert "not read: `python -m bench ablation linear_bbb --run" in effect_of("linear_bbb", wanted, numbers(records))


def test_an_effect_without_records_says_what_makes_it(monkeypatch):
    wanted = SingleChangeNumber("attached-mu", "mnist", "accuracy", ALONE)
    fact = structs.replace(FOUND, approach="linear_bbb", effect=wanted)
    monkeypatch.setattr(documents, "facts", lambda: (fact,))
    (finding,) = audit_documents(["feldman2018"], NOTHING)
    assert finding.effect.endswith(
        "not run: `python -m bench run linear_bbb --recipe published --protocol common --seeds 3` measures it"
    )


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (SingleChangeNumber("atached-mu", "mnist", "accuracy"), "did you mean 'attached-mu'"),
        (SingleChangeNumber("attached-mu", "mnist", "accuracy"), "give one of alone, cumulative"),
        (SingleChangeNumber("normalised", "noise_gaussian", "entropy", CUMULATIVE), "give one of measuring"),
        (
            SingleChangeNumber("normalised", "noise_gaussian", "auroc"),
            "number of single change normalised of linear_bbb",
        ),
    ],
)
def test_an_effect_that_is_no_number_of_the_ablation_is_refused(wanted, message):
    with pytest.raises(ConfigError, match=message):
        single_change_of("linear_bbb", wanted)


def test_a_correction_takes_the_rule_off_the_list_of_known_ones():
    entry = manifest("linear_bbb")
    assert "detached-gradient" in declared(entry, resolve(entry, "published"))
    assert "detached-gradient" not in declared(entry, resolve(entry, "corrected"))
    assert "detached-gradient" not in declared(entry, resolve(entry, "published+attached-mu"))
    mine = msgspec.structs.replace(entry, name="mine", known={"one-seed": "slow", "kl-scale": "attached-mu"})
    assert declared(mine, resolve(mine, "published")) == {
        "one-seed": "slow",
        "kl-scale": "correction attached-mu removes it",
    }
    assert declared(mine, resolve(mine, "corrected")) == {"one-seed": "slow"}
    with pytest.raises(ConfigError, match="did you mean 'kl-scale'"):
        declared(msgspec.structs.replace(mine, known={"kl-scael": "x"}), resolve(mine, "published"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[absent.nobody]\nkl-scale = "x"', "unknown document"),
        ('[absent.feldman2018]\nkl-scael = "x"', "did you mean 'kl-scale'"),
        ('[absent.feldman2018]\nkl-scale = "x"\n[unclear.feldman2018]\nkl-scale = "y"', "twice"),
    ],
)
def test_a_file_of_facts_that_is_at_fault_is_refused(tmp_path, text, message):
    path = tmp_path / "documents.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        facts(path)


def test_a_finding_names_remedy_and_effect_on_lines_of_their_own():
    lines = finding_lines(Finding("one-seed", "mine", "fails", "seed\n0", effect="much"))
    assert lines[0].startswith("weak        fails           one-seed")
    assert [line.strip() for line in lines[1:]] == ["seed 0", f"to do: {RULES['one-seed'].remedy}", "effect: much"]


def test_the_command_shows_how_severe_a_rule_is(tmp_path, capsys):
    # without it a run printed as 89 % for 89.9 % looks as bad as a KL of the wrong sign
    wanted = {"kl-sign": "wrong", "truncated-printing": "weak", "stale-result": "misleading"}
    for rule, severity in wanted.items():
        assert main(["audit", "documents", "--rule", rule, "--results", str(tmp_path)]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if f" {rule} " in line and line[0] != " "]
        assert lines
        assert all(line.startswith(severity) for line in lines)


def test_the_page_shows_the_rules():
    text = audit_rules.PAGE.read_bytes()
    assert text == audit_rules.page(), "run python -m tools.audit_rules"
    assert f"its {len(RULES)} rules" in text.decode()


CHECKS = checks()[0]
SLOW = ("random_module_kl", "hidden_layer_kl", "prior_variance", "detached_means")  # .ci/run runs them apart


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in SLOW])
def test_running_the_documents_code_shows_what_the_file_says(name):
    found = shown.run(name, CHECKS[name])
    known = shown_mistakes()[name]
    assert (found.outcome, found.ran) == (known.outcome, known.ran) == ("found", known.ran), found.detail
    for what, value in known.measured.items():
        assert found.measured[what] == pytest.approx(value, rel=1e-3, abs=1e-6)
