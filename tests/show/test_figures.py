"""Figures from a made-up results folder: all are drawn, alike from alike records, and what is missing has a reason."""

import re
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from bench.cli.main import main
from bench.core.records import DerivedMetrics
from bench.core.store import Store
from bench.judge.ablation.derived_metrics import VERSION, folder
from bench.show.figures import catalogue, votes
from bench.show.figures.figure import FIELD
from bench.show.inputs import Inputs
from tests.figure_records import assert_drawn, figures, fill, filled, missing

DOCUMENTS = ("alsibahi2019", "chopra2018", "feldman2018", "rabanser2017")
DATASETS = Path(__file__).parents[2] / "datasets"
SEVERAL = (
    "pruning",
    "ablation-dropout_fcn",
    "feldman2018-training-mlp",
    "feldman2018-training-toy_bbb",
    "feldman2018-verdicts",
    "feldman2018-toys",
)
CHEAP = ("accuracy", "rabanser2017-weight-density")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def found(root):
    return figures(root)


def test_full_records_make_every_figure(root, found):
    assert missing(root) == {}
    assert len({figure.name for figure in found}) == len(found)
    for figure in found:
        assert figure.group in (*DOCUMENTS, FIELD)
        assert (figure.group == FIELD) or figure.name.startswith(figure.group)
        assert figure.title
        assert re.search(r"Profile full, cpu, float32, seed 0\.$|From the data set alone\.$", figure.caption)
        assert_drawn(figure)


def test_several_seeds_are_drawn_too(tmp_path):
    fill(tmp_path, seeds=(0, 1, 2))
    several = {figure.name: figure for figure in figures(tmp_path)}
    for name in SEVERAL:
        assert "seeds 0-2" in several[name].caption
        assert_drawn(several[name])


def test_equal_records_make_equal_files(root, found, tmp_path):
    again = figures(shutil.copytree(root, tmp_path / "copy"))
    for name in CHEAP:
        first, second = (next(figure for figure in both if figure.name == name) for both in (found, again))
        for form in catalogue.FORMATS:
            assert catalogue.render(first, form) == catalogue.render(second, form)


def test_without_records_every_figure_but_the_digits_has_a_reason(root, found, tmp_path):
    reasons = missing(tmp_path)
    assert {figure.name for figure in figures(tmp_path)} == {"alsibahi2019-digits"}
    unasked = {"alsibahi2019-digits", "blundell2015-learning"}  # the paper's fits take hours: nothing lacks without
    assert {*reasons, *unasked} == {figure.name for figure in found}
    assert all(re.search("no finished record|no change is measured", reason) for reason in reasons.values())


def test_without_data_the_pictures_have_a_reason(root, tmp_path, monkeypatch):
    for manifest in DATASETS.glob("*.toml"):
        shutil.copy(manifest, tmp_path)
    monkeypatch.setenv("BNN_BENCH_DATA", str(tmp_path))
    reasons = missing(root)
    pictures = {"alsibahi2019-digits", "alsibahi2019-uncertain-dropout_fcn", "chopra2018-votes"}
    assert pictures <= set(reasons)
    assert all("is not there" in reasons[name] for name in pictures)


def test_without_per_row_scores_only_their_figures_are_missing(tmp_path):
    fill(tmp_path)
    for path in tmp_path.glob("records/*/*.npz"):
        path.unlink()
    expected = {"sure", "roc", "entropy", "chopra2018-votes", "feldman2018-ood", "rabanser2017-weight-density"}
    assert set(missing(tmp_path)) == expected


def test_a_smoke_run_has_no_training_curves_and_says_so(tmp_path):
    fill(tmp_path, profile="smoke")
    reasons = missing(tmp_path, profile="smoke")
    assert "cuts every epoch short" in reasons["feldman2018-training-mlp"]
    assert missing(tmp_path)["accuracy"].startswith("there is no finished record")


def test_the_density_of_a_weight_comes_from_a_derived_metric_where_no_fit_is_kept(root, tmp_path):
    fill(tmp_path)
    store, name = Store(tmp_path), "rabanser2017-weight-density"
    assert "which git does not keep" in missing(tmp_path)[name]
    trained_run = ("mxnet_bbb", "published", "common")
    record = next(one for one in store.all_records()[0] if (one.approach, one.recipe, one.protocol) == trained_run)
    metrics = {"weights/mean@0": -0.1, "weights/std@0": 0.05, "weights/mean@406": 0.2, "weights/std@406": 0.04}
    fields = {
        **structs.asdict(record),
        "protocol": "derived",
        "version": VERSION,
        "metrics": metrics,
        "missing": {},
    }
    folder(store).write(DerivedMetrics(**fields))
    figure = next(one for one in figures(tmp_path) if one.name == name)
    assert figure.draw.args[0].tolist() == [-0.1, 0.2]
    assert figure.draw.args[1].tolist() == [0.05, 0.04]


def test_free_letters_stand_in_for_the_documents_own(root, monkeypatch):
    def with_others(self, record, scores=Inputs.scores):
        found = scores(self, record)
        return {**found, **{f"notmnist459/{what}": found[f"letters/{what}"] for what in ("draws", "label")}}

    def pictures(name, seed, images=votes.images):
        return "there are none" if name == "notmnist459" else images(name, seed)

    monkeypatch.setattr(Inputs, "scores", with_others)
    monkeypatch.setattr(votes, "images", pictures)
    (figure,) = votes.make(Inputs(root))
    assert [example.kind for example in figure.draw.args[0]].count("letter") == votes.COLUMNS
    monkeypatch.setattr(votes, "images", lambda name, seed: "there are none")
    (absent,) = votes.make(Inputs(root))
    assert absent.reason == "there are none"


def test_command_writes_one_figure(root, tmp_path, capsys):
    place = ["--results", str(root), "--baseline", "none", "--to", str(tmp_path)]
    assert main(["figures", "sure", *place, "--format", "svg,png"]) == 0
    written = ["sure.svg", "sure.png", "sure-narrow.svg"]  # it has a form for a narrow page
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(written)
    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in written]


def test_figures_of_another_profile_have_their_own_folder(tmp_path, capsys):
    place = ["--results", str(tmp_path), "--baseline", "none"]
    assert main(["figures", "alsibahi2019-digits", *place, "--profile", "epoch1"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "figures" / "epoch1" / "alsibahi2019-digits.svg")


def test_command_lists_figures_and_reasons(tmp_path, capsys):
    assert main(["figures", "--list", "--results", str(tmp_path), "--baseline", "none"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("alsibahi2019   alsibahi2019-digits: ") for line in lines)
    assert any(line.startswith("field          roc: not drawn: ") for line in lines)
