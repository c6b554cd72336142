"""The notebooks of `examples` run in an ordinary Python process, and what they find is what their text says.

CI also runs them as Jupyter does, to HTML (nbconvert); only here can a test look at the names of a cell.
"""

import ast
import json

import pytest

from bench.core.project import TOP
from bench.show.page.links import NOTEBOOKS as LINKED

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


def test_the_page_knows_every_notebook_by_its_title():
    titles = {name: cells(name)[0]["source"][0] for name in NOTEBOOKS}
    assert {f"{name}.html": title.strip() for name, title in titles.items()} == {
        file: f"# {title}" for file, title in LINKED.items()
    }
