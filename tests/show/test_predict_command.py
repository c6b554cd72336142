"""The command predict: text, JSON, figures, one-line errors, and the shipped networks."""

import itertools
import json
import math
import re

import numpy as np
import pytest
import torch
from matplotlib.text import Text

from bench.cli import USAGE
from bench.cli.main import main
from bench.core import noise
from bench.core.project import RESULTS
from bench.show.figures.style import style
from bench.show.predict import networks, show
from bench.show.predict.pictures import normalise
from tests.show.conftest import TORN, linear_bbb, mlp, put


def call(capsys, *arguments):
    alone = ["--baseline", "none"] if {"--results", "--baseline"}.intersection(arguments) == {"--results"} else []
    code = main(["predict", *map(str, arguments), *alone])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_text(store, three, capsys, monkeypatch):
    monkeypatch.chdir(three.parent)  # a long path would fold the line
    put(store, "linear_bbb", linear_bbb(1e-8))
    put(store, "mlp", mlp(TORN))
    code, out, err = call(capsys, three.name, "--results", store.root)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == [
        "three.png: I don't know (1 of 2 networks), 3 (1 of 2 networks)",
        "the networks see",
    ]
    header = "network     answer        likeliest         quantile  entropy  mutual inf"
    picture = lines[2 : lines.index(header)]
    assert "\n".join(picture) == show.characters(normalise(three).pixels)
    assert lines[2 + len(picture) :] == [
        header,
        "─" * len(header),
        "mlp         I don't know  0: 0.19, 1: 0.19  0.190     2.035    0.000",
        "linear_bbb  3             3: 0.90, 0: 0.02  0.900     0.541    0.000",
        "",
        "a network answers if the 10 % quantile of its draws of a digit's probability is above 0.5",
    ]


def test_json_has_the_numbers_by_picture(store, three, four, capsys):
    put(store, "linear_bbb", linear_bbb(1e-8))
    code, out, err = call(capsys, three, four, "--json", "--draws", "5", "--results", store.root)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found) == [str(three), str(four)]
    (answer,) = found[str(three)]
    assert (answer["network"], answer["digit"], round(answer["quantile"], 3)) == ("linear_bbb", 3, 0.9)
    assert (len(answer["probabilities"]), answer["draws"], answer["remarks"]) == (10, 5, [])


def test_a_bad_picture_is_one_line(store, three, capsys, tmp_path):
    put(store, "mlp", mlp())
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    code, out, err = call(capsys, three, bad, "--results", store.root)
    assert (code, out) == (USAGE, "")
    assert err.startswith(f"error: {bad}: cannot be read: ")
    assert err.count("\n") == 1


def test_a_figure_never_replaces_a_picture(store, three, capsys, monkeypatch):
    monkeypatch.chdir(three.parent)
    before = three.read_bytes()
    for picture, figure in ((three.name, three), (three, three.parent / "new" / ".." / three.name)):
        code, _, err = call(capsys, picture, "--figure", figure, "--results", store.root)
        assert (code, three.read_bytes()) == (USAGE, before)
        assert "none of the pictures" in err


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_figure(ending, store, three, four, capsys, tmp_path):
    put(store, "linear_bbb", linear_bbb(0.05))
    put(store, "mlp", mlp(TORN))
    path = tmp_path / "new" / f"it.{ending}"
    code, _, err = call(capsys, three, four, "--figure", path, "--draws", 5, "--results", store.root)
    assert (code, err) == (0, "")
    assert path.stat().st_size > 5000
    if ending == "svg":
        text = path.read_text()
        assert "three.png" in text
        assert "I don't know" in text or "I don&#x27;t know" in text or "I don&apos;t know" in text
        assert "Date" not in text


@pytest.mark.parametrize("approaches", [1, 5])
def test_nothing_in_a_figure_lies_over_anything_else(approaches, store, three, four):
    put(store, "mlp", mlp())
    images = [normalise(three), normalise(four)]
    answers = networks.ask(*networks.choose([store.root])[0], images)
    with style():
        figure = show.draw(images, [[answer] * approaches for answer in answers])
        figure.draw_without_rendering()  # makes the layout
    boxes = [axes.get_tightbbox() for axes in figure.axes]  # with titles, labels and ticks
    assert len(boxes) == 2 * (2 + approaches)
    (caption,) = (text for text in figure.findobj(Text) if text.get_text().startswith("bars: "))
    boxes.append(caption.get_window_extent())
    assert figure.bbox.padded(1).contains(*boxes[-1].min)
    assert figure.bbox.padded(1).contains(*boxes[-1].max)
    over = [
        (one, other) for one, other in itertools.combinations(boxes, 2) if one.padded(-1).overlaps(other.padded(-1))
    ]
    assert not over


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "it.gif"], "it.gif: give a .png or .svg"),
        (["--draws", "0"], "allowed are 1 to"),
        (["--draws", "100000000"], "allowed are 1 to"),
        (["x.png"] * 12 + ["--figure", "it.png"], "at most 12 pictures"),
        (["--figure", "FOLDER.png"], "cannot write"),
        (["--figure", "FILE/x.png"], "cannot write"),
        ([""], "the name is empty"),
        (["--recipe", "nosuch"], "unknown recipe 'nosuch'"),
    ],
)
def test_nonsense_is_one_line(arguments, message, store, three, tmp_path, monkeypatch, capsys):
    put(store, "mlp", mlp())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER.png").mkdir()
    (tmp_path / "FILE").write_text("")
    code, out, err = call(capsys, three, *arguments, "--results", store.root)
    assert (code, out) == (USAGE, "")
    assert err.count("\n") == 1
    assert re.search(message, err)


def test_weights_that_do_not_fit_the_pictures_are_one_line(store, three, capsys):
    name, *_ = arrays = mlp()
    put(store, "mlp", {**arrays, name: arrays[name][..., :3]})
    code, out, err = call(capsys, three, "--results", store.root)
    assert (code, out, err.count("\n")) == (USAGE, "", 1)
    assert "the stored posterior does not fit" in err


def test_what_cannot_answer_is_left_out_of_all_with_a_warning(store, three, capsys):
    put(store, "linear_bbb", {"sigma": torch.zeros(3)})
    put(store, "mlp", mlp())
    code, out, err = call(capsys, three, "--results", store.root)
    assert code == 0
    assert "mlp " in out
    assert err.startswith("warning: left out: the stored posterior does not fit LinearBbb: ")
    code, out, err = call(capsys, three, "--approach", "linear_bbb", "--results", store.root)
    assert code == USAGE
    assert err.startswith("error: the stored posterior does not fit LinearBbb: ")


def test_what_a_run_trains_answers(three, capsys, tmp_path):
    how = ["--recipe", "published", "--executor", "inline", "--quiet", "--threads", "1", "--profile", "smoke"]
    assert main(["run", "uniform", "--results", str(tmp_path), *how]) == 0
    capsys.readouterr()
    code, out, _ = call(capsys, three, "--json", "--results", tmp_path)
    assert code == 0
    (answers,) = json.loads(out).values()
    assert [answer["network"] for answer in answers] == ["uniform smoke"]
    # The uniform answer is refused, since 1/10 is not above 0.5, and has entropy log 10.
    assert answers[-1]["digit"] is None
    assert answers[-1]["predictive_entropy"] == pytest.approx(math.log(10))


def test_ones_own_networks_answer_beside_the_shipped_ones_and_a_line_says_so(store, three, capsys):
    put(store, "mlp", mlp())
    words = ["--draws", "2", "--results", store.root, "--baseline", RESULTS]
    code, out, err = call(capsys, three, *words, "--json")
    assert (code, err) == (0, f"yours, in {store.root}: mlp; the others are in {RESULTS}\n")
    found = {one["network"] for one in json.loads(out)[str(three)]}
    assert found == {"mlp", "linear_bbb corrected", "pyro_random_module corrected"}
    code, out, err = call(capsys, three, *words, "--json", "--approach", "mlp")  # yours, and nothing else was asked for
    assert (code, err) == (0, "")
    code, out, err = call(capsys, three, *words, "--json", "--approach", "mlp", "--recipe", "corrected")
    assert (code, err) == (0, f"yours, in {store.root}: none of these; the others are in {RESULTS}\n")
    assert [one["network"] for one in json.loads(out)[str(three)]] == ["mlp corrected"]


def test_the_shipped_networks_answer(three, capsys, tmp_path, monkeypatch):
    """Six fits, under 16 MB in all, from any folder, and nothing is compiled."""
    assert sum(path.stat().st_size for path in (RESULTS / networks.SHIPPED).glob("*/*")) < 16e6
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(noise, "_imported", lambda: pytest.fail("loops would be compiled"))
    for recipe in ("published", "corrected"):
        code, out, err = call(capsys, three, "--recipe", recipe, "--draws", "10", "--json")
        assert (code, err) == (0, f"reading what comes with the suite, in {RESULTS}\n")
        (answers,) = json.loads(out).values()
        end = "" if recipe == "published" else " corrected"
        names = {f"{name}{end}" for name in ("mlp", "linear_bbb", "pyro_random_module")}
        assert {answer["network"] for answer in answers} == names
        assert {int(np.argmax(answer["probabilities"])) for answer in answers} == {3}
