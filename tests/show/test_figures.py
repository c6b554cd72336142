"""Figures from a made-up results folder: all are drawn, alike from alike records, and what is missing has a reason."""

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from bench.cli.main import main
from bench.show.figures import catalogue, lecture
from bench.show.figures.figure import FIELD, LECTURE
from bench.show.inputs import Inputs
from bench.show.page.content import collect
from tests.figure_records import DRAWS, assert_drawn, figures, fill, filled, missing

DOCUMENTS = ("alsibahi2019", "chopra2018", "feldman2018", "rabanser2017")
DATASETS = Path(__file__).parents[2] / "datasets"
SEVERAL = ("mistakes", "end-results", "feldman2018-training-mlp", "feldman2018-training-toy_bbb", "risk-coverage")
CHEAP = ("mistakes", "risk-coverage")
OF_PICTURES = {"sure", "uncertain_digits", "votes"}


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
        assert figure.group in (*DOCUMENTS, FIELD, LECTURE)
        assert figure.group in (FIELD, LECTURE) or figure.name.startswith(figure.group)
        assert figure.title
        assert re.search(r"Profile full, cpu, float32, seed 0\.$", figure.caption)
        assert_drawn(figure)


def test_several_seeds_are_drawn_too(tmp_path):
    fill(tmp_path, seeds=(0, 1, 2))
    several = {figure.name: figure for figure in figures(tmp_path)}
    for name in SEVERAL:
        assert "seeds 0-2" in several[name].caption
        assert_drawn(several[name])


def test_captions_name_corrected_recipes_only_where_they_are_drawn(found, tmp_path):
    fill(tmp_path)
    for file in (tmp_path / "records").glob("*/corrected__*"):
        file.unlink()
    alone = {figure.name: figure.caption for figure in figures(tmp_path)}
    for figure in found:
        if figure.name == "reliability":
            assert "corrected" in figure.caption
            assert "corrected" not in alone[figure.name]


def test_equal_records_make_equal_files(root, found, tmp_path):
    again = figures(shutil.copytree(root, tmp_path / "copy"))
    for name in CHEAP:
        first, second = (next(figure for figure in both if figure.name == name) for both in (found, again))
        for form in catalogue.FORMATS:
            assert catalogue.render(first, form) == catalogue.render(second, form)


def test_without_records_every_figure_has_a_reason(root, found, tmp_path):
    reasons = missing(tmp_path)
    assert figures(tmp_path) == []
    unasked = {"blundell2015-learning"}  # the paper's fits take hours: nothing lacks without
    assert {*reasons, *unasked} == {figure.name for figure in found}
    assert all(re.search("no finished record|no change is measured", reason) for reason in reasons.values())


def test_without_data_the_figures_with_pictures_have_a_reason(root, tmp_path, monkeypatch):
    for manifest in DATASETS.glob("*.toml"):
        shutil.copy(manifest, tmp_path)
    monkeypatch.setenv("BNN_BENCH_DATA", str(tmp_path))
    reasons = missing(root)
    assert set(reasons) == OF_PICTURES
    assert all("is not there" in reasons[name] for name in OF_PICTURES)


def test_without_answers_to_each_picture_only_their_figures_are_missing(tmp_path):
    fill(tmp_path)
    for path in tmp_path.glob("records/*/*.npz"):
        path.unlink()
    assert set(missing(tmp_path)) == OF_PICTURES


def test_a_smoke_run_has_no_training_curves_and_says_so(tmp_path):
    fill(tmp_path, profile="smoke")
    reasons = missing(tmp_path, profile="smoke")
    assert "cuts every epoch short" in reasons["feldman2018-training-mlp"]
    assert missing(tmp_path)["reliability"].startswith("there is no finished record")


def test_command_writes_one_figure(root, tmp_path, capsys):
    place = ["--results", str(root), "--baseline", "none", "--to", str(tmp_path)]
    assert main(["figures", "sure", *place, "--format", "svg,png"]) == 0
    written = ["sure.svg", "sure.png", "sure-narrow.svg"]  # it has a form for a narrow page
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(written)
    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in written]


def test_figures_of_another_profile_have_their_own_folder(tmp_path, capsys):
    fill(tmp_path, profile="epoch1")
    place = ["--results", str(tmp_path), "--baseline", "none"]
    assert main(["figures", "reliability", *place, "--profile", "epoch1"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "figures" / "epoch1" / "reliability.svg")


def test_command_lists_figures_and_reasons(root, tmp_path, capsys):
    def lines(folder):
        assert main(["figures", "--list", "--results", str(folder), "--baseline", "none"]) == 0
        return capsys.readouterr().out.splitlines()

    assert any(line.startswith("feldman2018    feldman2018-training-mlp: Training log") for line in lines(root))
    assert any(line.startswith("field          sure: not drawn: ") for line in lines(tmp_path))


def test_the_page_leaves_out_the_figures_for_a_lecture(root, found):
    for_lecture = {figure.name for figure in found if figure.group == LECTURE}
    assert for_lecture == {"uncertain_digits", "votes"}
    on_page = {figure.name for figure in collect(Inputs(root)).figures}
    assert on_page == {figure.name for figure in found} - for_lecture


def texts(svg):
    return [re.sub(r"<[^>]*>", "", text) for text in re.findall(r"<text.*?</text>", svg)]


def test_the_digits_of_least_certainty_have_the_votes_and_the_ordinary_answer(root, found):
    inputs, by_name = Inputs(root), {figure.name: figure for figure in found}
    scores, plain = (inputs.scores(inputs.finished(name, "corrected")[0]) for name in ("linear_bbb", "mlp"))
    first = int(np.argmax(scores["mnist/predictive_entropy"]))
    digit = int(np.argmax(scores["mnist/votes"][first]))
    sure = 1 - math.exp(plain["mnist/log_others"][first])
    shown = texts(catalogue.render(by_name["uncertain_digits"], "svg").decode())
    assert f"{digit}: {100 * scores['mnist/votes'][first, digit] / DRAWS:.0f} %" in shown
    assert f"({plain['mnist/predicted'][first]}: {min(99.9, 100 * sure):.1f} %)" in shown


def test_bars_count_the_draws_that_name_a_class_and_those_that_are_sure_of_it():
    draws = np.log([[[0.995, 0.005], [0.6, 0.4]], [[0.6, 0.4], [0.3, 0.7]]])  # two draws of two pictures
    assert lecture._counts(draws, 0).tolist() == [[2, 0], [1, 1]]
    assert lecture._counts(draws, lecture.SURE).tolist() == [[1, 0], [0, 0]]
