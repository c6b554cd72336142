"""Printed values: their columns are what their digits say, and the rules name planted mistakes and those published."""

import itertools
import json
import math

import numpy as np
import pytest
from msgspec.structs import replace

from bench.cli import USAGE
from bench.cli.main import main
from bench.uci.data import Split, facts, load, sets, splits, where
from bench.uci.published import (
    Printed,
    author,
    kind_by_size,
    printed,
    prints_as,
    spread,
    tables,
)
from bench.uci.rules import RULES, audit_column, audit_grid, audit_rows, audit_table, audit_uci, cap

HONEST = replace(tables().columns["readme2018.grid"], run="")
N_TEST = {name: len(splits(name)[0].test) for name in sets()}


def report(error="se", change=lambda name, metric, number: number, run="bo2016x10", quantity="ll", decimals=3):
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


BY_SPLIT = replace(HONEST, run="bo2016x10")
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


def test_every_rule_has_a_planted_report_or_a_test_above():
    named = {rule for _, _, rule in PLANTED.values()}
    others = {"mixed-errors", "mixed-epochs", "mixed-likelihoods", "two-numbers", "capped", "duplicates", "constant"}
    assert {f"uci-{rule}" for rule in named | others} == set(RULES)


def of(column):
    return [one for one in printed() if one.column == column]


def test_every_value_has_a_column_and_every_column_a_source():
    columns = tables().columns
    assert {one.column for one in printed()} == set(columns)
    assert {name.partition(".")[0] for name in columns} == set(tables().sources)
    assert len(printed()) == len({one[:3] for one in printed()}) == 527
    assert {one.set for one in printed()} == {*sets(), "YearPredictionMSD"}
    runs = {run for run, _, _ in author()}
    for column in columns.values():
        assert not column.run or column.run in runs
        assert {column.copied_from, column.same_as} <= {"", *columns}


def test_the_author_has_a_number_for_every_split():
    for run, name, metric in author():
        assert sorted(author()[run, name, metric]) == list(range(facts()[name].splits)), (run, name, metric)
    assert set(author()["grid2018", "yacht", "tau"].values()) <= set(facts()["yacht"].taus)
    assert {round(tau, 8) for tau in author()["bo2016x10", "yacht", "tau"].values()} == {
        round(facts()["yacht"].tau_2016, 8)
    }
    grid = spread("grid2018", "energy", "rmse")
    assert prints_as(grid.mean, "0.54")
    assert prints_as(grid.se, "0.014")
    assert spread("grid2018", "YearPredictionMSD", "rmse") is None


def test_the_kind_of_an_error_shows_in_its_size():
    found = {name: kind_by_size(of(name)) for name in tables().columns}
    for name, column in tables().columns.items():
        if column.error in ("se", "sd") and column.obtained == "read" and name != "gal2016t1.vi":
            assert found[name] == column.error, name
    assert found["gal2016t1.vi"] is None  # its errors lie between those of the author's runs
    assert found["ensembles2017t1.five"] == found["ensembles2017t2.one"] == "sd"  # which the paper leaves open
    assert found["baselines.one"] is None


@pytest.mark.parametrize("run", ["grid2018", "bo2016x10", "bo2016x100", "bo2016x500"])
@pytest.mark.parametrize("metric", ["rmse", "ll"])
@pytest.mark.parametrize("kind", ["se", "sd"])
def test_no_subset_of_an_honest_column_has_errors_of_the_other_kind(run, metric, kind):
    values = [one for one in report(kind, run=run, decimals=5) if one.metric == metric]
    for n in range(3, len(values) + 1):
        for some in itertools.combinations(values, n):
            assert kind_by_size(some) in (kind, None), some


def test_a_better_method_is_no_standardised_one():
    best = (("energy", "rmse", "0.30"), ("energy", "ll", "-0.20"), ("yacht", "rmse", "0.45"), ("yacht", "ll", "-0.35"))
    assert failing(HONEST, [Printed("mine", *one, "") for one in best]) == set()


def test_copies_have_the_numbers_of_their_originals():
    for name, column in tables().columns.items():
        if column.copied_from:
            originals = {(one.set, one.metric): one for one in of(column.copied_from)}
            shared = [(one, originals[one.set, one.metric]) for one in of(name) if (one.set, one.metric) in originals]
            assert len(shared) >= 18
            # both are rounded, the original to two decimals or more: half of its last place, and the binary fraction
            differing = [one for one, its in shared if abs(one.number - its.number) > 0.0051]
            assert differing == [], name


def test_a_printed_nll_is_a_log_likelihood_with_the_other_sign():
    one = Printed("mine", "yacht", "nll", "1.18", "0.21")
    assert (one.metric, one.number, one.of(-1.2)) == ("ll", -1.18, 1.2)
    assert HONEST.splits_of("protein-tertiary-structure") == 5
    assert replace(HONEST, splits="other", n_splits=7).splits_of("protein-tertiary-structure") == 7
    assert spread("bo2016x10", "protein-tertiary-structure", "ll").n == 5
    known = spread("bo2016x10", "yacht", "ll")
    assert known.se == known.sd / math.sqrt(20)


def test_the_command_lists_the_sets_and_shows_one(capsys, monkeypatch):
    monkeypatch.delenv("BNN_BENCH_UCI", raising=False)
    assert main(["uci"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{name}: " in f"\n{text}" for name in sets())
    assert "527 printed values of 36 columns" in text
    assert main(["uci", "energy", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["rows"], row["splits"]) == (768, 20)
    assert any("rmse 0.54 +- 0.06 (sd), 20 splits" in one["what it is"] for one in row["values"])
    assert main(["uci", "energy"]) == 0
    shown = capsys.readouterr().out
    assert "its cap is -1.063" in shown
    assert "grid2018: rmse 0.5" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["uci", "boston"], "unknown UCI set 'boston'"),
        (["uci", "--from", "/"], "give --fetch too"),
        (["uci", "yacht", "--fetch", "--from", "/proc/self/task"], "has no yacht/data.txt"),
        (["uci", "--data-dir", "/no/folder"], "/no/folder is not a folder"),
    ],
)
def test_a_wrong_command_is_one_line(capsys, words, message):
    assert main(words) == USAGE
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_audit_of_data_names_the_mistakes_of_printed_tables(capsys):
    assert main(["audit", "data", "--rule", "uci-capped"]) == 0  # they are no mistakes of this suite
    text = capsys.readouterr().out
    assert "uci-capped                 energy" in text
    assert "printed UCI tables (audit data): 3 fails" in text
    assert main(["audit", "--rules"]) == 0
    assert "uci-sd-as-se" in capsys.readouterr().out
