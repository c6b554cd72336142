"""A model that is trained already: a run's protocols measure it, and its rows stand beside the shipped ones."""

import json
import os

import numpy as np
import pytest
import torch
from msgspec import structs

import bench
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.core.records import Versions
from bench.core.store import Store
from bench.interface import Categorical, Posterior
from bench.judge.results import Results
from bench.measure.given import log_probabilities
from bench.measure.protocols import protocol_of
from bench.plan.freshness import lacks, why_stale
from bench.plan.recipes import profile
from bench.plan.registry import manifest
from bench.show.inputs import Inputs
from bench.show.table import Missing
from bench.show.tables.methods_rows import rows
from bench.show.tables.registry import one_table
from tests.close import close

NAME = "mine: flat (not retrained)"
SETS = ["mnist", "noise_gaussian", "noise_uniform", "fashion_mnist", "letters", "moved"]


class Exact(Posterior):
    """A network's draws in float64, exactly normalised, so that probabilities lose nothing but rounding."""

    def __init__(self, network, n_draws):
        self.network, self.n_draws, self.noise = network, n_draws, "none" if n_draws == 1 else "weights"

    def predict(self, x, draws, rows):
        return Categorical(self.network.predict(x, draws, rows).log_probs.double().log_softmax(2))

    def arrays(self):
        return {}


def flat(images):
    """Return probabilities that depend on the image, so that neither all answers nor all entropies are alike."""
    logits = np.asarray(images, dtype=np.float64).reshape(len(images), -1)[:, 200:600:40]
    probs = np.exp(logits)
    return probs / probs.sum(1, keepdims=True)


def stored(folder):
    """Return the records of a folder by protocol."""
    found, problems = Store(folder).all_records()
    assert problems == []
    return {record.protocol: record for record in found}


def refused(given, tmp_path):
    with pytest.raises(ConfigError) as caught:
        bench.score(lambda _: given, results=tmp_path, profile="smoke")
    assert not list(tmp_path.rglob("*.json*"))
    return str(caught.value)


@pytest.mark.parametrize(("approach", "n_draws"), [("mlp", 1), ("linear_bbb", 4)])
def test_a_network_of_the_suite_gets_the_numbers_of_its_own_measurement(approach, n_draws, tmp_path):
    network = Exact(bench.fit(approach, profile="smoke"), n_draws)

    def predict(images):
        x = torch.as_tensor(images).flatten(1)
        return network.predict(x, range(n_draws), torch.arange(len(x))).log_probs.exp()

    bench.score(predict, results=tmp_path, profile="smoke")
    found = stored(tmp_path)
    for protocol in ("common", "shift"):
        plain = protocol_of(manifest(approach), protocol, 0, profile("smoke"), None).final(network, [])
        record = found[protocol]
        assert plain.metrics
        assert record.metrics == close(plain.metrics)
        assert record.missing.keys() == plain.missing.keys()
        scores = Store(tmp_path).scores(record)
        assert scores.keys() == plain.scores.keys()
        for key in (one for one in scores if one.endswith(("/label", "/predicted", "/votes"))):
            assert np.array_equal(scores[key], plain.scores[key]), key
    assert found["common"].timings.predict_draws == n_draws
    assert found["common"].timings.latency_s > 0


def test_one_draw_may_have_an_axis_of_draws_and_come_from_another_framework(tmp_path):
    def of_torch(images):
        assert (images.dtype, images.shape[1:]) == (np.float32, (28, 28))
        images /= 2  # what it gets is its own
        return torch.tensor(flat(2 * images), requires_grad=True)

    found = []
    for name, predict in {"plain": flat, "draws": lambda images: flat(images)[None], "torch": of_torch}.items():
        bench.score(predict, name, tmp_path / name, profile="smoke")
        found.append({protocol: record.metrics for protocol, record in stored(tmp_path / name).items()})
    assert found[0] == found[1] == found[2]


def test_log_probabilities_keep_what_a_softmax_in_float32_rounds_to_zero():
    logits = np.zeros((2, 10), np.float32)
    logits[:, 3] = 200
    logs = torch.from_numpy(logits).log_softmax(1)
    assert log_probabilities("mnist", logs.numpy(), 2).tolist() == [logs.tolist()]
    assert log_probabilities("mnist", logs.exp().numpy(), 2)[0, 0, 0] == -np.inf
    hard = np.eye(10)[[3, 4]]
    assert log_probabilities("mnist", hard, 2).exp().tolist() == [hard.tolist()]
    with pytest.raises(ConfigError, match="whose sum is 1"):
        log_probabilities("mnist", logits - 200.5, 2)


def test_an_impossible_label_leaves_the_other_numbers(tmp_path):
    bench.score(
        lambda images: np.eye(10, dtype=np.float32)[np.zeros(len(images), int)], "zero", tmp_path, profile="smoke"
    )
    record = stored(tmp_path)["common"]
    assert record.missing["mnist/nll"].kind == "label-impossible"
    assert 0 < record.metrics["mnist/accuracy"] < 0.5
    Store(tmp_path).write(structs.replace(record, profile="full"))
    (row,) = (
        Inputs(tmp_path, baseline=RESULTS).only_own(one_table(Inputs(tmp_path, baseline=RESULTS), "methods")).texts()
    )
    assert row[:2] == ["mine: zero (not retrained)", "unranked"]
    assert row[3] == "n/a"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((128, 26)) / 26, r"for mnist have shape [128, 26]; allowed are [128, 10], or [S, 128, 10]"),
        (np.ones((3, 10)) / 10, "shape [3, 10]"),
        (np.ones((0, 128, 10)), "of 1 to 10000 draws"),
        (np.full((128, 10), np.nan), "draw 0, image 0: [nan"),
        (np.full((128, 10), 0.2), "whose sum is 1 within 0.001; apply a softmax"),
        (np.tile([1.5, -0.5] + [0] * 8, (128, 1)), "none negative"),
        (["seven"] * 128, "are no array of numbers"),
        (None, "are no array of numbers"),
        ([torch.ones(10, requires_grad=True)] * 128, "are no array of numbers"),
    ],
)
def test_what_are_no_probabilities_is_refused_before_anything_is_written(given, message, tmp_path):
    found = refused(given, tmp_path)
    assert message in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("name", "short"), [("mlp", "smoke"), ("../mlp", "smoke"), ("", "smoke"), ("flat", "full_fashion")]
)
def test_a_name_or_a_profile_that_cannot_be_used(name, short, tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be used; give|unknown profile of a score 'full_fashion'"):
        bench.score(flat, name, tmp_path, profile=short)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    assert main(["data", "export", "--to", str(folder), "--profile", "smoke"]) == 0
    with np.load(folder / "images.npz") as file:
        return {name: file[name] for name in file.files}


def score_file(tmp_path, arrays):
    """Run the command on a file with these arrays and return its exit code."""
    np.savez(tmp_path / "scores.npz", **arrays)
    words = ["score", str(tmp_path / "scores.npz"), "--name", "flat", "--results", str(tmp_path / "results")]
    return main([*words, "--profile", "smoke"])


def predictions(exported):
    return {name: one if name == "hash" else flat(one) for name, one in exported.items()}


def test_saved_predictions_get_the_record_of_the_function(exported, tmp_path, capsys):
    assert set(SETS) <= exported.keys()
    assert score_file(tmp_path, predictions(exported)) == 0
    assert "table choice" in capsys.readouterr().out
    bench.score(flat, "flat", tmp_path / "by function", profile="smoke")
    saved, direct = stored(tmp_path / "results"), stored(tmp_path / "by function")
    for protocol, record in saved.items():
        assert record.metrics == direct[protocol].metrics
        assert (record.key, record.scores_sha256) == (direct[protocol].key, direct[protocol].scores_sha256)


CHANGES = {
    "hash": (lambda found: {**found, "hash": np.array("0" * 64)}, "run `data export --profile smoke`, predict its"),
    "no hash": (lambda found: {name: found[name] for name in SETS}, "give 'hash' and one array for each of"),
    "set": (lambda found: {name: one for name, one in found.items() if name != "letters"}, "one array for each of"),
    "more": (lambda found: {**found, "cats": found["mnist"]}, "cats"),
    "shape": (lambda found: {**found, "letters": found["letters"][1:]}, "for letters have shape [127, 10]"),
    "nan": (lambda found: {**found, "moved": found["moved"] * np.nan}, "for moved, draw 0, image 0"),
    "sum": (lambda found: {**found, "mnist": found["mnist"] * 1.01}, "for mnist, draw 0, image 0"),
    "draws": (lambda found: {**found, "mnist": np.stack([found["mnist"]] * 2)}, "different numbers of draws: mnist 2"),
    "object": (lambda found: {**found, "mnist": np.array([None])}, "cannot be read"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_cannot_be_used_is_one_line(change, exported, tmp_path, capsys):
    make, message = CHANGES[change]
    assert score_file(tmp_path, make(predictions(exported))) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not list((tmp_path / "results").rglob("*.json*"))


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"text", None], ids=["empty", "end", "text", "pipe"])
def test_a_file_that_is_no_archive_is_one_line(content, tmp_path, capsys):
    os.mkfifo(tmp_path / "scores.npz") if content is None else (tmp_path / "scores.npz").write_bytes(content)
    assert main(["score", str(tmp_path / "scores.npz"), "--profile", "smoke", "--results", str(tmp_path / "new")]) == 2
    assert (len(capsys.readouterr().err.splitlines()), (tmp_path / "new").exists()) == (1, False)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return a folder with the records of a short score, as if they were of a full one, which takes longer."""
    folder = tmp_path_factory.mktemp("results")
    bench.score(flat, "flat", folder / "short", profile="smoke")
    short, full = Store(folder / "short"), Store(folder / "full")
    for record in short.all_records()[0]:
        full.write(structs.replace(record, profile="full"), short.scores(record))
    return folder


TABLES = (
    *("sure", "coverage", "confidence", "choice", "methods"),
    *("accuracy", "ood", "detection", "refusal", "calibration"),
)


def test_every_table_of_networks_has_a_row(results):
    inputs, shipped = Inputs(results / "full", baseline=RESULTS), Inputs(RESULTS)
    for name in TABLES:
        table, before = one_table(inputs, name), one_table(shipped, name)
        found = [row for row in table.rows if table.text(row[0]) == NAME]
        assert found, name
        assert all(len({table.text(one) for one in row if not isinstance(one, Missing)}) > 2 for row in found), name
        others = [list(map(table.text, row)) for row in table.rows if row not in found]
        assert [row[0] for row in others] == [row[0] for row in before.texts()], name
    assert NAME in one_table(inputs, "metrics").columns
    line = next(one for one in one_table(inputs, "coverage").lines if one["network"] == NAME)
    assert line["turned/right"] is not None  # of protocol shift


def test_no_verdict_no_place_and_no_sentence_counts_it(results):
    inputs, shipped = Inputs(results / "full", baseline=RESULTS), Inputs(RESULTS)
    for name in ("headline", "verdicts", "verdict_summary", "alternatives"):
        assert one_table(inputs, name).texts() == one_table(shipped, name).texts(), name
    places = [{row[0]: row[1] for row in one_table(one, "methods").texts()} for one in (inputs, shipped)]
    assert places[0].pop(NAME) == "unranked"
    assert places[0] == places[1]
    assert [row.is_ranked for row in rows(inputs) if row.name == NAME] == [False]
    assert one_table(inputs, "sure").remarks == one_table(shipped, "sure").remarks


def test_without_a_baseline_its_name_still_says_that_nobody_retrained_it(results):
    inputs = Inputs(results / "short", "smoke")
    assert [row[0] for row in one_table(inputs, "choice").texts()] == ["flat (not retrained)"]
    assert [row[0] for row in one_table(inputs, "coverage").texts()] == ["flat (not retrained)"]


def test_a_raised_version_names_its_numbers_stale_and_asks_for_a_score(results):
    record = stored(results / "short")["common"]
    assert why_stale(record) == ""
    assert lacks(record) == []
    older = Versions(protocol=record.versions.protocol, metrics={**record.versions.metrics, "nll": 9})
    old = structs.replace(record, versions=older)
    assert why_stale(old) == "metric nll had version 9 and has 1"
    assert "protocol had version 1" in why_stale(structs.replace(record, versions=structs.replace(older, protocol=1)))
    (note,) = Results([old], {}).origin()
    assert "`python -m bench score` makes them again" in note
    assert "bench run" not in note


def test_a_run_on_the_folder_leaves_the_records_alone(results, capsys):
    folder = results / "short"
    before = {path: path.read_bytes() for path in (folder / "records").rglob("*") if path.is_file()}
    words = ["--profile", "smoke", "--results", str(folder)]
    assert main(["run", "uniform", "--protocol", "common", *words]) == 0
    assert {path: path.read_bytes() for path in before} == before
    assert main(["status", "uniform", "--protocol", "common", *words]) == 0
    capsys.readouterr()
    key = next(path for path in before if path.suffix == ".npz").stem.rpartition("__")[2]
    assert main(["list", key, "--results", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"] == "not-retrained"
    assert main(["list", "--results", str(folder)]) == 0
    assert main(["compare", str(folder), "--verify"]) == 0
