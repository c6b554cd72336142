"""The methods' table: places, intervals and costs from records whose numbers are made up."""

import pytest
from msgspec import structs

from bench.judge.results import Results
from bench.measure.metrics.shifts import STEPS, step_key
from bench.plan.manifests import Cost
from bench.show.figures import methods, shift
from bench.show.figures.methods import front
from bench.show.figures.style import style
from bench.show.tables.methods import methods_table
from tests.synthetic import manifest, record

ENSEMBLE = structs.replace(manifest("deep_ensemble", corrected=False), group="methods", cost=Cost(training=5, stored=5))


class Folder:
    """Stands for a results folder with records of two groups."""

    def __init__(self, documents, methods):
        self.results = Results(documents, {"mlp": manifest("mlp", "feldman2018")})
        self._methods = Results(methods, {"deep_ensemble": ENSEMBLE})

    def conditions(self, records):
        return f"{len(records)} records"

    def of_other_group(self, group):
        assert group == "methods"

        class Other:
            results = self._methods

        return Other


def made(approach, recipe, seed, nll, draws, epochs):
    return record(
        approach,
        recipe,
        "common",
        seed=seed,
        metrics={"mnist/accuracy": 0.98, "mnist/nll": nll},
        epochs=[{"epoch": number, "mnist/train60k/train_loss": 0.1} for number in range(1, epochs + 1)],
        timings={"predict_draws": draws},
        model={"n_weights": 1000},
    )


def folder(n_seeds=5):
    documents = [made("mlp", "corrected", seed, 0.07 + 0.001 * seed, 1, 10) for seed in range(n_seeds)]
    ensembles = [made("deep_ensemble", "published", seed, 0.05 + 0.001 * seed, 5, 20) for seed in range(n_seeds)]
    return Folder(documents, ensembles)


def table(n_seeds=5):
    (found,) = methods_table(folder(n_seeds))
    return found, {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.texts()}


def test_a_row_has_its_place_the_interval_of_the_mean_and_its_costs():
    """NLL .05 to .054: mean .052, sd .00158, half-width 2.776 .00158 / sqrt 5 = .0020. Differences are all .02.

    Costs: 5 networks for 20 epochs instead of 10 are 10 trainings; 5 draws; 5 times 1000 weights of 4 bytes.
    """
    found, rows = table()
    assert [row[0] for row in found.texts()] == ["deep_ensemble", "mlp corrected"]
    ensemble = rows["deep_ensemble"]
    assert (ensemble["NLL"], ensemble["place"], rows["mlp corrected"]["place"]) == ("0.0520 +- 0.0020", "1", "2")
    assert [ensemble[name] for name in ("training", "answer", "MB", "seeds")] == ["10.0", "5.00", "0.0200", "5"]
    assert rows["mlp corrected"]["training"] == "1.00"
    assert found.lines[0]["NLL half-width"] == pytest.approx(0.00196, abs=1e-5)


def test_one_seed_ranks_nothing_and_has_no_interval():
    _, rows = table(n_seeds=1)
    assert {row["place"] for row in rows.values()} == {"1-2"}
    assert rows["deep_ensemble"]["NLL"] == "0.0500"


def turned(approach, recipe, seed, metrics):
    """Return a record of protocol shift."""
    return record(approach, recipe, "shift", seed=seed, metrics=metrics)


def test_turned_digits_have_their_columns_where_they_were_measured():
    """Means of .6 and .62, and of 2 and 2.2; half-widths 12.706 s / sqrt 2, with s = .01414 and .1414."""
    documents, ensembles = (
        [made(name, recipe, seed, 0.07 + 0.01 * seed, 1, 10) for seed in (0, 1)]
        for name, recipe in (("mlp", "corrected"), ("deep_ensemble", "published"))
    )
    for seed in (0, 1):
        areas = {"mnist/rotated/accuracy_area": 0.6 + 0.02 * seed, "mnist/rotated/nll_area": 2 + 0.2 * seed}
        ensembles.append(turned("deep_ensemble", "published", seed, areas))
    (found,) = methods_table(Folder(documents, ensembles))
    rows = {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.texts()}
    columns = ("accuracy, turned", "NLL, turned")
    assert [rows["deep_ensemble"][name] for name in columns] == ["0.610 +- 0.127", "2.100 +- 1.271"]
    assert [rows["mlp corrected"][name] for name in columns] == ["-", "-"]
    assert any("--protocol shift" in note for note in found.notes)


def test_the_figure_of_turned_digits_has_a_panel_for_each_method():
    steps = STEPS["rotated"]
    curves = {step_key("rotated", step, "accuracy"): 1 - step / 360 for step in steps}
    curves |= {step_key("rotated", step, "sure@0.99"): 0.5 for step in steps}
    given = folder()
    assert list(shift.make(given)) == []
    for seed in (0, 1):
        given.results.records.append(turned("mlp", "corrected", seed, curves))
    (found,) = shift.make(given)
    assert "Seeds: 2." in found.caption
    with style():
        (panel,) = (axes for axes in found.draw().axes if axes.get_title("left"))
    assert panel.get_title("left") == "mlp corrected"
    right, sure = (line.get_ydata() for line in panel.lines)
    assert (right[0], right[-1], set(sure)) == (1, 0.5, {0.5})


def test_the_front_is_of_the_points_that_no_other_beats_in_both():
    """(2, 3) costs more than (1, 2) and is worse; of the equal points the first counts."""
    assert front([(1, 2), (2, 3), (5, 1), (1, 4), (5, 1), (0.5, 9)]) == [5, 0, 2]
    assert front([(3, 3)]) == [0]


def test_the_figure_names_every_method_with_costs():
    (found,) = methods.make(folder())
    with style():
        drawn = [text.get_text() for axes in found.draw().axes for text in axes.texts]
    assert drawn == ["mlp corrected", "deep_ensemble"] * 2


def test_without_records_of_methods_there_is_no_table():
    assert list(methods_table(Folder([made("mlp", "corrected", 0, 0.07, 1, 10)], []))) == []
