"""A user's records beside the baseline's: a new approach, a trained run that both have, and no baseline."""

import pytest
from msgspec import structs

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.plan.registry import manifests
from bench.show.figures import catalogue
from bench.show.figures.style import style
from bench.show.inputs import Inputs
from bench.show.table import Linked, Table
from bench.show.tables.common import ACCURACY
from bench.show.with_baseline import MARK, with_baseline
from tests import synthetic

FULL = ("full", "cpu", "float32")


def record(approach, accuracy, seed=0, recipe="published", **changes):
    made = synthetic.record(
        **{"approach": approach, "recipe": recipe, "protocol": "common", "seed": seed, "provenance": {}, **changes}
    )
    key = f"{approach}-{recipe}-{seed}-{accuracy}"
    return structs.replace(made, key=key, fit_key=key, metrics={"mnist/accuracy": accuracy})


@pytest.fixture
def folders(tmp_path):
    """The baseline has mlp (two seeds) and uniform; the user has mlp (one seed) and an approach of theirs."""
    baseline, own = Store(tmp_path / "baseline"), Store(tmp_path / "own")
    for made in (record("mlp", 0.97), record("mlp", 0.99, seed=1), record("uniform", 0.1)):
        baseline.write(made)
    for made in (record("mlp", 0.95), record("my_net", 0.96)):
        own.write(made)
    return own.root, baseline.root


def accuracies(inputs):
    table = inputs.with_baseline.marked(ACCURACY.make(inputs))
    return {row[0]: row[table.columns.index("published x common")] for row in table.rows}


def test_both_are_shown_and_the_users_numbers_are_marked(folders):
    own, baseline = folders
    found = accuracies(Inputs(own, *FULL, baseline))
    assert found["mlp"].sample.values == (0.95,)  # the user's trained run counts, and not the two seeds of the baseline
    assert found["mlp"].mark == MARK
    assert found["mine: my_net"].sample.values == (0.96,)
    assert found["mine: my_net"].mark is None  # its name says whose it is
    assert found["uniform"].sample.values == (0.1,)
    assert found["uniform"].mark is None
    assert "my_net" not in found


def test_text_that_links_to_a_users_record_is_marked_too(folders):
    own, baseline = folders
    found = Inputs(own, *FULL, baseline).with_baseline
    keys = {record.approach: (record.key,) for record in found.records}
    row = [Linked("0.95 +- 0.01", keys["mlp"]), Linked("0.1", keys["uniform"]), Linked("0.96", keys["mine: my_net"])]
    table = found.marked(Table("x", "", "", ["a", "b", "c"], [row]))
    assert table.texts() == [["0.95 +- 0.01 mine", "0.1", "0.96"]]
    assert table.own_notes == (f"mine: {MARK.reason}",)


def test_alone_nothing_is_marked_or_renamed(folders):
    own, _ = folders
    for inputs in (Inputs(own, *FULL), Inputs(own, *FULL, own)):
        found = accuracies(inputs)
        assert found["my_net"].mark is found["mlp"].mark is None
        assert found["mlp"].sample.values == (0.95,)


def test_a_baseline_of_other_conditions_changes_nothing():
    own = [record("my_net", 0.96)]
    assert with_baseline(own, [record("mlp", 0.97, profile="smoke")], FULL).records == own


def test_an_unfinished_record_of_the_users_leaves_the_trained_run_to_the_baseline():
    failed = structs.replace(record("mlp", 0.5), outcome="failed", metrics={})
    found = with_baseline([failed], [record("mlp", 0.97)], FULL)
    assert [made.metrics for made in found.records] == [{"mnist/accuracy": 0.97}]


def test_only_mine_are_the_rows_of_the_users_records(folders, capsys):
    own, baseline = folders
    words = ["table", "accuracy", "--results", str(own), "--baseline", str(baseline)]
    assert main([*words, "--only", "mine", "--format", "csv"]) == 0
    out = capsys.readouterr().out
    names = {line.split(",")[0] for line in out.splitlines() if line}
    assert names == {"approach", "mlp", "mine: my_net"}
    assert main(["table", "--results", str(own), "--only", "mine"]) == USAGE
    assert "give its name" in capsys.readouterr().err
    assert main(["table", "choice", "--only", "mine", "--results", str(RESULTS)]) == USAGE
    assert "has the shipped records, none of yours" in capsys.readouterr().err
    assert main([*words[:-1], "/no/folder"]) == USAGE
    assert "--baseline /no/folder is not a folder" in capsys.readouterr().err


def test_figures_show_the_users_approach_under_its_name(folders):
    own, baseline = folders
    inputs = Inputs(own, *FULL, baseline)
    assert "mine: my_net" in inputs.classifiers()
    assert {"mine: my_net", "mlp"} <= set(inputs.results.approaches)
    assert inputs.with_baseline.said(inputs.results.records) == "Yours: mlp published x common."
    assert inputs.scored("mine: my_net") is None
    found, absent = catalogue.survey(inputs)
    (accuracy,) = [figure for figure in found if figure.name == "accuracy"]
    with style():
        labels = [text.get_text() for text in accuracy.draw().axes[0].get_yticklabels()]
    assert labels == ["mlp", "mine: my_net"]
    assert not any("my_net" in item.name for item in [*found, *absent])  # names of files, in which a colon harms


def test_a_caption_names_no_record_of_the_users_that_is_not_shown(folders):
    own, baseline = folders
    store = Store(own)
    store.write(record("uniform", 0.2, profile="smoke"))
    store.write(structs.replace(record("uniform", 0.3, recipe="corrected"), versions=None))  # of older code
    inputs = Inputs(own, *FULL, baseline)
    assert inputs.with_baseline.said(inputs.results.records) == "Yours: mlp published x common."


def test_records_of_another_group_are_seen_by_its_own_inputs_alone(folders, monkeypatch):
    own, baseline = folders
    monkeypatch.setitem(manifests(), "mlp", structs.replace(manifests()["mlp"], group="paper"))
    assert {one.approach for one in Inputs(own, *FULL, baseline).results.records} == {"mine: my_net", "uniform"}
    paper = Inputs(own, *FULL, group="paper")
    assert {one.approach for one in paper.results.records} == {"mlp"}
    assert "mlp" in paper.results.manifests
    assert "uniform" not in paper.results.manifests
