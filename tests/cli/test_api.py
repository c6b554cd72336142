"""`import bench`: the documents' examples and the notebooks run, arrays of NumPy and PyTorch, errors in one line."""

import ast
import csv
import doctest
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

import bench
from bench.cli.main import main
from bench.core.errors import ConfigError, ContractViolation, UnusableImage
from bench.core.project import RESULTS, TOP
from bench.show.page.links import NOTEBOOKS as LINKED
from tests import drawings
from tools import notebooks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-approach.md"


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example saves a picture
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 15
    assert found.failed == 0


def test_a_notebook_completes_the_names():
    assert set(dir(bench)) == {*bench.__all__, "__version__"}


def test_arrays_of_no_rows_and_reversed_ones():
    with pytest.raises(ConfigError, match="answers without rows were given"):
        bench.evaluate(np.zeros((0, 2)), np.zeros(0, int))
    probs, labels = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])
    assert bench.evaluate(probs[::-1], labels[::-1])["accuracy"] == 1.0
    with pytest.raises(ConfigError, match="device 'nosuch'"):
        bench.fit("mlp", device="nosuch")


def test_one_answer_in_numpy_in_torch_and_as_draws():
    # two rows: -log .9 and -log .2, mean .857; the second row's largest probability is not at its label
    probs, labels = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1])
    plain = bench.evaluate(probs, labels)
    assert plain["accuracy"] == 0.5
    assert plain["nll"] == pytest.approx(-(math.log(0.9) + math.log(0.2)) / 2)
    assert bench.evaluate(torch.tensor(probs), torch.tensor(labels)) == plain
    assert bench.evaluate(np.log(probs)[None], labels) == plain
    twice = bench.evaluate(np.log(np.stack([probs, probs])), labels)
    assert twice["nll"] == pytest.approx(plain["nll"])


@pytest.mark.parametrize(
    ("answers", "labels", "error", "message"),
    [
        (np.ones((2, 3)) / 3, None, ConfigError, "without labels"),
        (np.ones((2, 3)), np.array([0, 1]), ConfigError, "must be probabilities"),
        (np.array([[1.5, -0.5]]), np.array([0]), ConfigError, "must be probabilities"),
        (np.array([[np.nan, 1.0]]), np.array([0]), ConfigError, "must be probabilities"),
        (np.ones(3) / 3, np.array([0]), ConfigError, r"shape \(3,\)"),
        (np.zeros((1, 2, 3)), np.array([0, 1]), ContractViolation, "normalised"),
        (np.ones((2, 3)) / 3, np.array([0, 3]), ConfigError, "allowed are 0 to 2"),
        (np.ones((2, 3)) / 3, np.array([0.9, 1.9]), ConfigError, "give whole numbers"),
        (np.ones((2, 3)) / 3, np.array([0.0, np.nan]), ConfigError, "give whole numbers"),
        (np.ones((2, 3)) / 3, np.array([0.0, np.inf]), ConfigError, "allowed are 0 to 2"),
        (np.ones((2, 3)) / 3, np.array(["0", "1"]), ConfigError, "give whole numbers"),
        # each row's probabilities sum to 2 in one draw and to .5 in two: 1 on average
        (
            np.log(np.array([2, 0.5, 0.5])[:, None, None] / 3 * np.ones((3, 2, 3))),
            [0, 1],
            ContractViolation,
            "each draw",
        ),
    ],
)
def test_wrong_answers_or_labels_are_refused(answers, labels, error, message):
    with pytest.raises(error, match=message):
        bench.evaluate(answers, labels)


def test_whole_numbers_of_any_type_are_labels():
    probs = np.array([[0.9, 0.1], [0.8, 0.2]])
    for labels in ([0, 1], np.array([0.0, 1.0]), np.array([False, True]), torch.tensor([0, 1], dtype=torch.int8)):
        assert bench.evaluate(probs, labels)["accuracy"] == 0.5


def test_what_has_no_value_has_its_reason():
    found = bench.evaluate(np.array([[1.0, 0.0], [0.8, 0.2]]), np.array([1, 0]))  # a label of probability 0
    assert isinstance(found["nll"], str)
    assert "0" in found["nll"]
    assert found["accuracy"] == 0.5


@pytest.mark.parametrize("counts", [{"rows": -3}, {"rows": 0}, {"draws": 0}])
def test_a_posterior_is_asked_for_at_least_one_draw_and_row(counts):
    with pytest.raises(ConfigError, match="give at least 1 of each"):
        bench.evaluate(bench.fit("uniform", profile="smoke"), **counts)


def test_a_posterior_of_another_task_is_refused():
    with pytest.raises(ConfigError, match="cannot predict MNIST's images"):
        bench.evaluate(bench.fit("toy_mlp", profile="smoke"), rows=2)


def test_an_unknown_hyper_parameter_names_the_nearest():
    with pytest.raises(ConfigError, match=r"'epoch'.*epochs"):
        bench.fit("mlp", profile="smoke", epoch=2)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        bench.fitt  # noqa: B018 - the access is what is tested


def test_a_fit_reports_its_epochs_and_can_be_repeated():
    told = []
    first, again = (
        bench.fit("toy_mlp", seed=3, epochs=1, tell=lambda epoch, trace: told.append((epoch, *trace))) for _ in range(2)
    )
    assert [epoch for epoch, *_ in told] == [1, 1]
    assert all(torch.equal(value, again.arrays()[name]) for name, value in first.arrays().items())


def test_an_answer_has_the_warnings_about_its_picture(tmp_path):
    path = drawings.save(tmp_path / "two.png", 1 - np.hstack([drawings.strokes(drawings.THREE)] * 2))
    (answer,) = bench.predict(path, draws=5)
    assert answer.remarks == ("several shapes, or a wide one; a network sees one digit: cut the picture",)
    assert answer.remarks[0] in str(answer)
    assert len(repr(answer)) < 300


def test_a_picture_may_be_a_path_an_image_or_an_array(tmp_path):
    pixels = 1 - drawings.strokes(drawings.THREE)
    path = drawings.save(tmp_path / "three.png", pixels)
    grey = np.asarray(Image.open(path))
    given = [path, str(path), Image.open(path), grey, grey / 255, np.repeat(grey[..., None], 3, axis=2)]
    first, *others = bench.predict(*given, torch.from_numpy(grey.copy()), draws=5)
    assert (first.digit, first.network) == (3, "pyro_random_module corrected")
    assert others == [first] * len(given)
    with pytest.raises(UnusableImage, match=r"^picture 2: cannot be read: it has shape"):
        bench.predict(grey, grey[0])


def test_an_opened_image_stays_as_it_is(tmp_path):
    """A JPEG may be decoded smaller, but not in the hands of its owner."""
    path = drawings.save(tmp_path / "large.jpg", np.kron(1 - drawings.strokes(drawings.THREE), np.ones((5, 5))))
    with Image.open(path) as image:
        size = image.size
        bench.predict(image, draws=1)
        assert image.size == size == (2000, 2400)


def test_a_table_is_a_frame_of_unrounded_numbers(capsys):
    frame = bench.table("choice", RESULTS)
    assert main(["table", "choice", "--results", str(RESULTS), "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(frame.columns) == list(lines[0])
    for name in ("NLL", "NLL sd", "NLL n"):
        assert list(frame[name]) == [float(line[name]) for line in lines]
    assert frame.attrs["title"] == "How good is each approach?"
    with pytest.raises(ConfigError, match=r"'choise'.*'choice'"):
        bench.table("choise", RESULTS)
    with pytest.raises(ConfigError, match="not a folder"):
        bench.table("choice", "nosuch")
    with pytest.raises(ConfigError, match="'ful'"):
        bench.table("choice", RESULTS, profile="ful")


def test_a_table_has_the_rows_of_ones_own_folder(tmp_path):
    bench.score(lambda images: np.full((len(images), 10), 0.1), name="mine", results=tmp_path, profile="smoke")
    frame = bench.table("choice", tmp_path, profile="smoke")
    (nll,) = bench.records(tmp_path).query("metric == 'mnist/nll'").value
    assert frame[frame.approach == "mine (not retrained)"].NLL.item() == nll


def test_a_figure_is_one_of_matplotlib_that_a_notebook_shows():
    drawn = bench.figure("sure", RESULTS)
    assert isinstance(drawn, Figure)
    assert drawn.axes
    assert drawn._repr_png_().startswith(b"\x89PNG")
    shown = drawn._repr_html_()
    assert re.match(
        r'<figure><img alt="Bayesian networks are sure of fewer[^"]*" src="data:image/png;base64,iVBORw0K', shown
    )
    assert re.search(r"<figcaption>Share of pictures [^<]* seeds 0-4[^<]*</figcaption></figure>$", shown)
    with pytest.raises(ConfigError, match=r"'shure'.*'sure'"):
        bench.figure("shure", RESULTS)


EXAMPLES = TOP / "examples"
NOTEBOOKS = sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))


def cells(name):
    return json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Return a function that runs a notebook in `examples`; it returns its names, and what each cell shows."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))

    def run(name):
        names, shown = {"__name__": "__main__"}, []
        for cell in cells(name):
            if cell["cell_type"] == "code":
                body = ast.parse("".join(cell["source"])).body
                last = body.pop().value if isinstance(body[-1], ast.Expr) else None
                exec(compile(ast.Module(body, []), name, "exec"), names)
                shown.append(None if last is None else eval(compile(ast.Expression(last), name, "eval"), names))
        return names, shown

    return run


def test_believe_it(ran):
    names, shown = ran("believe-it")
    *odd, three = names["bayesian"]
    assert [answer.digit for answer in odd] == [None] * 3
    assert three.digit == names["ordinary"][-1].digit == 3
    assert names["ordinary"][0].digit is not None  # the letter
    pictured = [one for one in shown if hasattr(one, "_repr_png_")]
    assert len(pictured) == 3
    assert all(one._repr_png_().startswith(b"\x89PNG") for one in pictured)
    assert names["percent"].loc["mlp", "letters/sure"] > names["percent"].loc["linear_bbb", "letters/sure"]


def test_audit_your_loss(ran):
    names, shown = ran("audit-your-loss")
    reports = ("scale", "fine", "sign", "gradient")
    failed = {name: {one["rule"] for one in names[name].advice} for name in reports}
    assert [names[name].ok for name in reports] == [False, True, False, False]
    assert failed == {"scale": {"kl-scale"}, "fine": set(), "sign": {"kl-sign"}, "gradient": {"detached-gradient"}}
    assert len(shown[-1]) == 3  # of the table


def test_your_model(ran):
    names, _ = ran("your-model")
    own = [f"mine: {name} (not retrained)" for name in ("plain", "mc-dropout")]
    assert set(own) < set(names["choice"].approach)
    assert set(own) < set(names["coverage"].index)
    assert "mlp" in set(names["choice"].approach)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stored_without_results(name):
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in cells(name)}) == len(cells(name))


def test_html_of_a_notebook_loads_nothing(tmp_path, capsys):
    file = tmp_path / "page.html"
    head = """<script src="https://cdn.x/require.js"></script><SCRIPT>import m from "https://cdn.x/m";</SCRIPT >"""
    kept = """<style>a {color: red}</style><a href="https://x.org">x</a><img src="data:image/png;base64,AA">"""
    file.write_text(head + kept)
    assert notebooks.main([str(file)]) == 0
    assert file.read_text() == kept
    for more in (
        '<link href="//x.org/a.css">',
        "<img srcset=' https://x.org/a'>",
        "<style>@import 'http://x.org/a'</style>",
    ):
        file.write_text(kept + more)
        assert notebooks.main([str(file)]) == 1
        assert "x.org/a" in capsys.readouterr().err


def test_no_notebook_needs_a_script_and_both_ways_to_run_ci_take_the_scripts_out():
    assert not [name for name in NOTEBOOKS for cell in cells(name) if "$" in "".join(cell["source"])]  # formulas of TeX
    both = re.compile(r"-m nbconvert .*--output-dir build/site .*\n.*-m tools.notebooks build/site/\*.html\n")
    assert all(both.search((TOP / file).read_text()) for file in (".ci/run", ".github/workflows/ci.yml"))


def test_the_page_knows_every_notebook_by_its_title():
    titles = {name: cells(name)[0]["source"][0] for name in NOTEBOOKS}
    assert {f"{name}.html": title.strip() for name, title in titles.items()} == {
        file: f"# {title}" for file, title in LINKED.items()
    }
