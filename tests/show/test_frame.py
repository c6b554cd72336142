"""The results as a frame: every number to the bit or a reason, nothing stale; user's records beside the baseline's."""

import math

import msgspec
import pytest
from msgspec import structs

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.core.store import Store
from bench.judge.samples import gather, metric
from bench.plan.freshness import is_stale
from bench.plan.registry import manifests
from bench.show.figures import catalogue
from bench.show.figures.style import style
from bench.show.frame import COLUMNS, TrainedRuns, folder_frame, frame_of
from bench.show.inputs import Inputs
from bench.show.table import Linked, Table
from bench.show.tables.common import ACCURACY
from bench.show.with_baseline import MARK, with_baseline
from tests import synthetic
from tests.synthetic import record
from tests.tables import inputs


def test_the_frame_of_the_shipped_records_has_their_numbers_to_the_bit():
    records, _ = Store(RESULTS).all_records()
    fresh = {one.key: one for one in records if not is_stale(one)}
    frame = folder_frame(RESULTS)
    assert tuple(frame.columns) == COLUMNS
    assert set(frame.source) == {"shipped"}
    found: dict[str, dict[str, float]] = {}
    for key, name, value in zip(frame.key, frame.metric, frame.value, strict=True):
        assert name not in found.setdefault(key, {})
        found[key][name] = value
    assert set(found) == set(fresh)
    for key, one in fresh.items():
        expected = dict(one.metrics) if one.outcome == "done" else {}
        measured = {name: found[key][name].hex() for name, value in expected.items() if value is not None}
        assert measured == {name: float(value).hex() for name, value in expected.items() if value is not None}
        timings = msgspec.structs.asdict(one.timings) if one.outcome == "done" else {}
        times = {
            name: value for name, value in timings.items() if name not in ("valid", "reasons") and value is not None
        }
        assert {name: found[key][f"timings/{name}"] for name in times} == times
        assert all(math.isnan(found[key][name]) for name in {*one.missing} - {*one.metrics, "pruning"})


def test_samples_of_the_frame_are_those_of_the_records():
    shipped, _ = Store(RESULTS).all_records()
    results = inputs([one for one in shipped if one.conditions == ("full", "cpu", "float32")]).results
    trained_runs = TrainedRuns(frame_of(results.records, lambda _: "own"))
    names = {name for one in results.records for name in (*one.metrics, *one.missing)} | {"mnist/nosuch"}
    some = sorted(names - {"pruning"})[::7]
    for trained_run in {one.combination for one in results.records}:
        records = results.trained_run(*trained_run)
        for name in some:
            expected, found = (
                gather(records, lambda one, name=name: metric(one, name)),
                trained_runs.sample(*trained_run, name),
            )
            assert (found, found.sources) == (expected, expected.sources)


def test_what_is_missing_has_its_reason(tmp_path):
    store = Store(tmp_path)
    store.write(record("mlp", seed=0, key="a" * 64, metrics={"mnist/accuracy": 0.5, "mnist/nll": None}))
    store.write(record("mlp", seed=1, key="b" * 64, metrics={}, outcome="diverged", reason="loss is nan"))
    old = record("mlp", seed=2, key="c" * 64, metrics={"mnist/accuracy": 0.7})
    store.write(msgspec.structs.replace(old, versions=None))
    frame = folder_frame(tmp_path)
    assert set(frame.source) == {"own"}
    assert set(frame.seed) == {0, 1}  # the record of other code is left out
    (diverged,) = frame[frame.seed == 1].itertuples()
    assert (diverged.metric, diverged.missing, diverged.reason, diverged.is_fault) == (
        "",
        "diverged",
        "loss is nan",
        True,
    )
    (nll,) = frame[frame.metric == "mnist/nll"].itertuples()
    assert (nll.missing, nll.reason) == ("not finite", "the measured 'mnist/nll' is not a finite number")
    assert math.isnan(nll.value)
    assert folder_frame(tmp_path, profile="smoke").empty


def test_no_folder_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="not a folder"):
        folder_frame(tmp_path / "none")


FULL = ("full", "cpu", "float32")


def of_accuracy(approach, accuracy, seed=0, recipe="published", **changes):
    made = synthetic.record(
        **{"approach": approach, "recipe": recipe, "protocol": "common", "seed": seed, "provenance": {}, **changes}
    )
    key = f"{approach}-{recipe}-{seed}-{accuracy}"
    return structs.replace(made, key=key, fit_key=key, metrics={"mnist/accuracy": accuracy})


@pytest.fixture
def folders(tmp_path):
    """The baseline has mlp (two seeds) and uniform; the user has mlp (one seed) and an approach of theirs."""
    baseline, own = Store(tmp_path / "baseline"), Store(tmp_path / "own")
    for made in (of_accuracy("mlp", 0.97), of_accuracy("mlp", 0.99, seed=1), of_accuracy("uniform", 0.1)):
        baseline.write(made)
    for made in (of_accuracy("mlp", 0.95), of_accuracy("my_net", 0.96)):
        own.write(made)
    return own.root, baseline.root


def accuracies(read):
    table = read.with_baseline.marked(ACCURACY.make(read))
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
    for read in (Inputs(own, *FULL), Inputs(own, *FULL, own)):
        found = accuracies(read)
        assert found["my_net"].mark is found["mlp"].mark is None
        assert found["mlp"].sample.values == (0.95,)


def test_a_baseline_of_other_conditions_changes_nothing():
    own = [of_accuracy("my_net", 0.96)]
    assert with_baseline(own, [of_accuracy("mlp", 0.97, profile="smoke")], FULL).records == own


def test_an_unfinished_record_of_the_users_leaves_the_trained_run_to_the_baseline():
    failed = structs.replace(of_accuracy("mlp", 0.5), outcome="failed", metrics={})
    found = with_baseline([failed], [of_accuracy("mlp", 0.97)], FULL)
    assert [made.metrics for made in found.records] == [{"mnist/accuracy": 0.97}]


def test_only_mine_are_the_rows_of_the_users_records(folders, capsys):
    own, baseline = folders
    words = ["table", "accuracy", "--results", str(own), "--baseline", str(baseline)]
    assert main([*words, "--only", "mine", "--format", "csv"]) == 0
    out = capsys.readouterr().out
    names = {line.split(",")[0] for line in out.splitlines() if line}
    assert names == {"approach", "mlp", "mine: my_net"}
    Store(baseline).write(of_accuracy("uniform", 0.1, seed=7))
    for only, seeds in ((["--only", "mine"], "seed 0."), ([], "seeds 0, 7; mean")):  # those of the rows that are shown
        assert main([*words, *only]) == 0
        assert f"Profile full, cpu, float32, {seeds}" in " ".join(capsys.readouterr().out.split())
    assert main(["table", "--results", str(own), "--only", "mine"]) == USAGE
    assert "give its name" in capsys.readouterr().err
    assert main(["table", "choice", "--only", "mine", "--results", str(RESULTS)]) == USAGE
    assert "has the shipped records, none of yours" in capsys.readouterr().err
    assert main([*words[:-1], "/no/folder"]) == USAGE
    assert "--baseline /no/folder is not a folder" in capsys.readouterr().err


def test_figures_show_the_users_approach_under_its_name(folders):
    own, baseline = folders
    bins = {"accuracy": [0.9], "confidence": [0.8], "count": [100], "lower": [0.0], "upper": [1.0]}
    Store(own).write(of_accuracy("my_net", 0.96, seed=1, arrays={"mnist/reliability": bins}))
    read = Inputs(own, *FULL, baseline)
    assert "mine: my_net" in read.classifiers()
    assert {"mine: my_net", "mlp"} <= set(read.results.approaches)
    assert read.with_baseline.said(read.results.records) == "Yours: mlp published x common."
    found, absent = catalogue.survey(read)
    (reliability,) = [figure for figure in found if figure.name == "reliability"]
    with style():
        titles = [axes.get_title("left") for axes in reliability.draw().axes]
    assert [title for title in titles if title] == ["mine: my_net"]
    assert not any("my_net" in item.name for item in [*found, *absent])  # names of files, in which a colon harms


def test_a_caption_names_no_record_of_the_users_that_is_not_shown(folders):
    own, baseline = folders
    store = Store(own)
    store.write(of_accuracy("uniform", 0.2, profile="smoke"))
    store.write(structs.replace(of_accuracy("uniform", 0.3, recipe="corrected"), versions=None))  # of older code
    read = Inputs(own, *FULL, baseline)
    assert read.with_baseline.said(read.results.records) == "Yours: mlp published x common."


def test_records_of_another_group_are_seen_by_its_own_inputs_alone(folders, monkeypatch):
    own, baseline = folders
    monkeypatch.setitem(manifests(), "mlp", structs.replace(manifests()["mlp"], group="paper"))
    assert {one.approach for one in Inputs(own, *FULL, baseline).results.records} == {"mine: my_net", "uniform"}
    paper = Inputs(own, *FULL, group="paper")
    assert {one.approach for one in paper.results.records} == {"mlp"}
    assert "mlp" in paper.results.manifests
    assert "uniform" not in paper.results.manifests
