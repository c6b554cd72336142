"""Rules on planted reports: each is named by its mistake, and the honest ones by none; what is published; rows."""

import math
import re

import numpy as np
import pytest
from msgspec.structs import replace

from bench.uci.data import Split, facts, load, sets, splits, where
from bench.uci.published import YARDSTICK, Printed, printed, spread, tables
from bench.uci.rules import RULES, audit_column, audit_grid, audit_rows, audit_table, audit_uci, cap, tuned_on_test

HONEST = replace(tables().columns["readme2018.grid"], run="")
N_TEST = {name: facts()[name].rows - round(0.9 * facts()[name].rows) for name in sets()}


def report(error="se", change=lambda name, metric, number: number, run=YARDSTICK, quantity="ll", decimals=3):
    """A report of the author's own numbers, printed with three decimals, with a mistake planted."""
    values = []
    for name in sets():
        for metric in ("rmse", "ll"):
            known = spread(run, name, metric)
            shown = "rmse" if metric == "rmse" else quantity
            number = change(name, metric, -known.mean if shown == "nll" else known.mean)
            size = {"se": known.se, "sd": known.sd, "sqrt20": known.sd / math.sqrt(20)}[error]
            values.append(Printed("mine", name, shown, f"{number:.{decimals}f}", f"{size:.{decimals}f}"))
    return values


def failing(column, values):
    return {
        found.rule.removeprefix("uci-") for found in audit_column("mine", column, values) if found.outcome == "fails"
    }


def summed(name, metric, number):
    return number * N_TEST[name] if metric == "ll" else number


def standardised(name, metric, number):
    sd = facts()[name].target_sd
    return number / sd if metric == "rmse" else number + math.log(sd)


def turned(name, metric, number):
    return -number if metric == "ll" else number


def cut(name, metric, number):
    return math.copysign(math.floor(abs(number) * 1e3 - 1e-9) / 1e3, number)


def one_pass(name, metric, number):
    return spread("grid2018", name, "rmse_other").mean if metric == "rmse" else number


def shifted(name, metric, number):
    return number + 0.3 if (name, metric) == ("yacht", "ll") else number


BY_SPLIT = replace(HONEST, run=YARDSTICK)
GRID = replace(HONEST, run="grid2018")


@pytest.mark.parametrize("quantity", ["ll", "nll"])
@pytest.mark.parametrize("column", [HONEST, BY_SPLIT])
def test_an_honest_report_has_no_mistake(column, quantity):
    assert failing(column, report(quantity=quantity)) == set()
    assert failing(replace(column, label="sd"), report("sd", quantity=quantity)) == set()


PLANTED = {
    "deviations, splits unknown": (HONEST, report("sd"), "sd-as-se"),
    "deviations, splits known": (BY_SPLIT, report("sd"), "sd-as-se"),
    "standard errors called deviations": (replace(HONEST, label="sd"), report("se"), "sd-as-se"),
    "sqrt(20) for five splits": (BY_SPLIT, report("sqrt20"), "wrong-splits"),
    "unnamed": (replace(HONEST, label="none"), report(), "error-unnamed"),
    "summed": (HONEST, report(change=summed), "summed"),
    "summed nll": (HONEST, report(change=summed, quantity="nll"), "summed"),
    "standardised": (HONEST, report(change=standardised), "standardised"),
    "sign": (HONEST, report(change=turned), "sign"),
    "cut": (BY_SPLIT, report(change=cut), "cut"),
    "one pass": (GRID, report(change=one_pass, run="grid2018"), "one-pass"),
    "another number": (BY_SPLIT, report(change=shifted), "other-number"),
    "tuned on test": (replace(HONEST, tuned="test"), report(), "tuned-on-test"),
    "tuned elsewhere": (replace(HONEST, tuned="other splits"), report(), "tuned-elsewhere"),
    "turbine": (replace(HONEST, naval_target=17), report(), "target"),
    "a mean called sum": (replace(HONEST, printed_as="sum"), report(), "named-sum"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_named_and_no_other(name):
    column, values, rule = PLANTED[name]
    assert failing(column, values) == {rule}


def test_columns_side_by_side():
    other = replace(HONEST, title="another method")
    found = {f.rule: f.outcome for f in audit_table("mine", {"mine.a": HONEST, "mine.b": other})}
    assert set(found.values()) == {"passes"}
    unlike = replace(other, epochs=40, likelihood="gaussian")
    found = {f.rule: f.outcome for f in audit_table("mine", {"mine.a": HONEST, "mine.b": unlike})}
    assert found == {"uci-mixed-errors": "passes", "uci-mixed-epochs": "fails", "uci-mixed-likelihoods": "fails"}
    same = {f.rule: f for f in audit_table("mine", {"mine.a": HONEST, "mine.b": replace(HONEST, epochs=40)})}
    assert same == {}  # columns of one method differ on purpose


def test_what_is_published_has_these_mistakes():
    found = {(f.rule.removeprefix("uci-"), f.subject): f.detail for f in audit_uci() if f.outcome == "fails"}
    assert "energy rmse 0.54 +- 0.06" in found["sd-as-se", "readme2018.grid"]
    for text in ("concrete rmse 4.82: the splits give 4.8265", "power-plant ll -2.80", "yacht ll -1.25 +- 0.01"):
        assert text in found["cut", "readme2018.grid"]
    assert "protein-tertiary-structure ll -2.87 +- 0.00" in found["wrong-splits", "gal2016t2.4000"]
    assert found["mixed-errors", "ensembles2017t1"] == "se: pbp; sd: dropout, five"
    assert "4.71 +- 0.06 and 4.71 +- 0.17" in found["two-numbers", "ensembles2017t1.five"]
    assert {name for rule, name in found if rule == "capped"} == {"energy", "naval-propulsion-plant", "yacht"}
    assert {name for rule, name in found if rule == "tuned-on-test"} == set()
    assert not {"other-number", "one-pass", "summed", "standardised", "sign"} & {rule for rule, _ in found}
    assert {f"uci-{rule}" for rule, _ in found} <= set(RULES)
    assert ("tuned-elsewhere", "readme2018.bo") in found
    assert ("tuned-elsewhere", "readme2018.grid") not in found


def test_the_cap_of_the_grid():
    assert f"{cap(0.75):.3f}" == "-1.063"
    (energy,) = audit_grid("energy")
    assert "20 of 20 splits choose the largest tau of the grid, 0.75; its cap is -1.063" in energy.detail
    (boston,) = audit_grid("bostonHousing")
    assert (boston.outcome, boston.measured["splits"]) == ("passes", 15.0)
    assert all(spread("grid2018", name, "ll").mean < cap(max(facts()[name].taus)) for name in sets())


def test_repeated_rows_and_constant_features_are_counted():
    x = np.array([[1.0, 7.0], [1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    y = np.array([5.0, 5.0, 6.0, 7.0])
    parts = [Split(np.array([0, 2]), np.array([1, 3])), Split(np.array([0, 1]), np.array([2, 3]))]
    repeated, constant = audit_rows("mine", x, y, parts)
    assert (repeated.outcome, repeated.measured["share"]) == ("fails", 0.25)
    assert constant.detail == "feature 1 is always 7, its computed sd 0"
    y[1] = 5.5  # the same features with another target are no copy
    repeated, constant = audit_rows("mine", x[:, :1], y, parts)
    assert (repeated.outcome, constant.outcome) == ("passes", "passes")


def test_the_sets_on_this_machine_have_the_known_copies():
    """Red wine is looked at where its data are; Boston and concrete are always there."""
    known = {"bostonHousing": "0.0%", "concrete": "3.4%", "wine-quality-red": "26.6%"}
    for name, share in known.items():
        if where(name) is not None:
            found = load(name)
            repeated, _ = audit_rows(name, found.x, found.y, found.splits)
            assert repeated.detail.startswith(f"{share} of the test rows")
            assert f"{found.y.std():.6g}" == f"{facts()[name].target_sd:g}"


def test_settings_chosen_by_test_rows_show_in_their_scores():
    rng = np.random.default_rng(5)
    validation, test = rng.normal(size=(2, 20, 12))
    assert "every split" in tuned_on_test(validation, test, test.argmax(axis=1))
    assert tuned_on_test(validation, test, validation.argmax(axis=1)) is None
    assert tuned_on_test(validation, validation, validation.argmax(axis=1)) is None  # both agree


def test_every_rule_has_a_planted_report_or_a_test_above():
    named = {rule for _, _, rule in PLANTED.values()}
    others = {"mixed-errors", "mixed-epochs", "mixed-likelihoods", "two-numbers", "capped", "duplicates", "constant"}
    assert {f"uci-{rule}" for rule in named | others} == set(RULES)
    assert all(re.search(r"\w", rule.remedy) for rule in RULES.values())
    assert len(splits("yacht")[0].test) == N_TEST["yacht"]
    assert {one.column for one in printed()} >= {"readme2018.grid"}
