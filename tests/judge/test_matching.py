"""From a claim to the measured number, or to the reason why there is none; the paper's table, figure and command."""

from __future__ import annotations

import json
import re
import sys

import pytest

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import StoreError
from bench.core.records import Record
from bench.core.store import Store
from bench.judge.claims import match, measure
from bench.judge.samples import MissingValue, Samples, gather
from bench.judge.stats.papers import load_papers, paper_claims
from bench.show.figures import learning
from bench.show.figures.style import style
from bench.show.inputs import Inputs
from bench.show.tables.blundell2015 import blundell_table
from tests.judge.claims import BY_ID, made, results
from tests.judge.claims import blundell_records as records
from tests.synthetic import record


def test_mean_and_spread_over_seeds():
    key = "mnist/test10k/accuracy"
    records = [record("mlp", seed=seed, metrics={key: value}) for seed, value in ((4, 0.97506), (0, 0.971))]
    (row,) = match([made()], results(records))
    assert row.sample.values == (0.971, 0.97506)  # in the order of the seeds
    # Mean (0.971 + 0.97506) / 2 = 0.97303; sd sqrt((0.00203^2 + 0.00203^2) / 1) = 0.0028709.
    assert row.sample.mean == pytest.approx(0.97303)
    assert row.sample.sd == pytest.approx(0.0028709, abs=1e-7)


def test_only_the_published_recipe_and_protocol_count():
    key = "mnist/test10k/accuracy"
    others = [
        record("mlp", "corrected", metrics={key: 0.5}),
        record("mlp", "published", "common", metrics={key: 0.5}),
        record("linear_bbb", metrics={key: 0.5}),
    ]
    (row,) = match([made()], results(others))
    assert row.sample == Samples(
        missing_value=MissingValue("not run", "no record of this trained run; python -m bench run makes it")
    )


def test_a_number_of_an_epoch_comes_from_that_epoch():
    claim = made(stage="epoch:2", split="train60k")
    epochs = [{"epoch": epoch, "seconds": 1.0, "mnist/train60k/accuracy": epoch / 10} for epoch in (1, 2, 3)]
    assert measure(claim, [record("mlp", epochs=epochs)]).values == (0.2,)


@pytest.mark.parametrize(
    ("stage", "changes", "code", "reason"),
    [
        ("final", {"outcome": "diverged", "reason": "loss is nan in epoch 3"}, "diverged", "loss is nan in epoch 3"),
        ("final", {"outcome": "skipped", "reason": "needs mxnet"}, "skipped", "needs mxnet"),
        ("final", {"missing": {"mnist": "get it with data fetch"}}, "no data", "get it with data fetch"),
        ("final", {"missing": {"mnist/test10k/accuracy": "no labels"}}, "n/a", "no labels"),
        ("final", {}, "n/a", "the record has no 'mnist/test10k/accuracy'"),
        (
            "final",
            {"metrics": {"mnist/test10k/accuracy": None}},
            "not finite",
            "the measured 'mnist/test10k/accuracy' is not a finite number",
        ),
        (
            "final",
            {"profile": "epoch1", "metrics": {"mnist/test10k/accuracy": 0.9}},
            "fewer epochs",
            "profile epoch1 does not train to the end; profile full does",
        ),
        (
            "epoch:2",
            {"profile": "epoch1", "epochs": [{"epoch": 1}]},
            "fewer epochs",
            "profile epoch1 trained 1 epoch, this number is of epoch 2",
        ),
        (
            "epoch:1",
            {"profile": "smoke", "epochs": [{"epoch": 1, "mnist/test10k/accuracy": 0.1}]},
            "fewer epochs",
            "profile smoke cuts every epoch short; profiles epoch1 and full do not",
        ),
    ],
)
def test_reasons(stage, changes, code, reason):
    sample = measure(made(stage=stage), [record("mlp", **changes)])
    assert sample.missing_value == MissingValue(code, reason, is_fault=code in ("diverged", "not finite"))


def test_one_seed_is_not_counted_twice():
    with pytest.raises(StoreError, match="two records of mlp published x published, seed 3; keep one of a and b"):
        measure(made(), [record("mlp", seed=3, key="a"), record("mlp", seed=3, key="b")])


def test_without_the_worked_example_its_claims_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "implementations.worked_example", None)
    sample = measure(BY_ID["feldman2018.worked_example.w"], [])
    assert sample.missing_value is not None
    assert sample.missing_value.reason.startswith("the closed form cannot be computed")


def diverged(seed: int, reason: str) -> Record:
    return record("mlp", seed=seed, outcome="diverged", reason=reason)


def read(found: Record) -> float | MissingValue:
    return MissingValue("no data", "letters are not there") if found.seed == 0 else float(found.seed)


def test_the_note_names_every_seed_that_is_not_counted_and_each_reason_once():
    found = gather([*(record("mlp", seed=seed) for seed in (2, 3)), diverged(5, "nan"), diverged(1, "nan")], read)
    assert found.values == (2.0, 3.0)
    assert found.missing_value == MissingValue(
        "*", "2 of 4 seeds not counted (seeds 1, 5 diverged: nan)", is_fault=True
    )


def test_a_seed_that_diverged_is_a_fault_also_behind_a_harmless_reason():
    found = gather([record("mlp", seed=0), diverged(1, "nan"), record("mlp", seed=2)], read)
    assert found.missing_value == MissingValue(
        "*", "2 of 3 seeds not counted (seed 0 no data: letters are not there; seed 1 diverged: nan)", is_fault=True
    )


CLAIMS = {claim.paper.id: claim for claim in paper_claims(load_papers())}
SMALL = "blundell2015.t1.bbb_mixture.400"


def test_the_table_has_the_numbers_that_were_measured_and_counts_the_others():
    table = blundell_table(results(records("published", [0.0134] * 5), records("published", [0.02], "blundell_sgd")))
    marks = {row[0]: re.sub(r"[^a-z]", "", row[1]) for row in table.rows}
    assert marks == {"t1.bbb_mixture.400": "s", "t1.sgd.400": "m"}
    (missing,) = [note for note in table.notes if note.startswith("Numbers without a finished fit")]
    assert "15 of 17 of blundell2015, 3 of 3 of jinkehe2019" in missing
    assert {line["number"] for line in table.lines} == set(CLAIMS)
    assert not blundell_table(results()).rows


@pytest.fixture
def folder(tmp_path):
    for one in [*records("published", [0.0134, 0.0138]), *records("published+gaussian-prior", [0.018])]:
        Store(tmp_path).write(one)
    return tmp_path


def test_the_command_and_the_figure(folder, capsys):
    place = ["--results", str(folder), "--baseline", "none"]
    assert main(["verdict", "blundell2015", *place]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1.36 % with 400 units is open: 2 of 5 seeds so far; the lowest error is" in said
    assert main(["verdict", "--document", "blundell2015", *place, "--json"]) == 0
    assert {row["number"] for row in json.loads(capsys.readouterr().out)} == set(CLAIMS)
    assert main(["verdict", SMALL, "--results", str(folder)]) == USAGE
    assert "a paper with a table of its own; give its name alone" in capsys.readouterr().err
    (figure,) = learning.make(Inputs(folder))
    assert "scale mixture 2" in figure.caption
    with style():
        (axes,) = figure.draw().axes
    assert [line.get_label() for line in axes.lines if not line.get_label().startswith("_")] == [
        "Gaussian prior",
        "scale mixture",
    ]


def test_verdicts_are_of_the_baseline_where_ones_own_seeds_are_few_and_a_line_says_so(tmp_path, capsys):
    for one in records("published", [0.0134] * 5):
        Store(tmp_path / "base").write(one)
    place = ["--json", "--baseline", str(tmp_path / "base")]
    Store(tmp_path / "documents").write(record("mlp", metrics={"mnist/accuracy": 0.9}))
    said = {}
    for name in ("base", "documents", "few", "enough"):
        for one in {"few": records("published", [0.5]), "enough": records("published", [0.5] * 5)}.get(name, []):
            Store(tmp_path / name).write(one)
        assert main(["verdict", "blundell2015", "--results", str(tmp_path / name), *place]) == 0
        said[name] = capsys.readouterr()
    assert said["base"].out == said["documents"].out == said["few"].out != said["enough"].out
    assert said["base"].err == ""
    assert f"{tmp_path / 'documents'} has no finished record with profile full" in said["documents"].err
    assert f"yours, in {tmp_path / 'few'}: 1 trained run; " in said["few"].err


def test_without_records_there_is_no_figure(tmp_path):
    assert list(learning.make(Inputs(tmp_path))) == []
