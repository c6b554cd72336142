"""A reference: acceptance by its conditions, its floor, its files, and the distance of given predictions to it."""

import json

import numpy as np
import pytest
import torch
from msgspec import structs

import bench
from bench.core.errors import ConfigError, StoreError
from bench.core.project import RESULTS
from bench.core.score_files import scores_hash
from bench.interface import Split
from bench.posterior import compare, reference, tasks
from bench.posterior.reference import ALL, DENSITIES, ENERGIES, LEVELS, QUANTILES, ChainSet, Reference
from tests.close import close

TASK = tasks.all_tasks()["digits"]
ROWS = 20


def chain_set(**changes):
    good = {ALL: [1.01] * len(LEVELS)}
    plenty = {ALL: [800.0] * len(LEVELS)}
    return ChainSet(**{"seed": 0, "acceptance": [0.8] * 4, "step": 0.01, "gradients": 9, "divergences": 0, "rhat": good,
                       "ess": plenty} | changes)  # fmt: skip


def made(arrays, *chain_sets, joint=2.1):
    arrays = {**arrays, ENERGIES: np.zeros((8, 5), np.float32)}
    one, other = chain_sets or (chain_set(), chain_set())
    about = reference.About(
        1, "digits", TASK.definition, scores_hash(arrays), (one, other), joint, reference.Provenance()
    )
    return Reference(about, arrays)


def classes(apart=0.01, seed=0):
    """Chains that all predict the same, but the second set moves `apart` from class 0 to class 1."""
    probs = np.random.default_rng(seed).dirichlet(np.ones(10), ROWS) * 0.5
    probs[:, 0] += 0.5
    moved = probs.copy()
    moved[:, :2] += (-apart, apart)
    return np.stack([probs] * 4 + [moved] * 4).astype(np.float16)


def data(kind="digits"):
    rows = torch.arange(ROWS)
    if kind == "digits":
        split = {name: Split(name, torch.zeros(ROWS, 3), rows % 10, rows) for name in ("digits", "letters")}
        return tasks.TaskData(split["digits"], split)
    test = Split("test", torch.zeros(ROWS, 3), torch.linspace(-1, 1, ROWS), rows)
    return tasks.TaskData(test, {"test": test}, 5.0, 2.0)


@pytest.fixture
def accepted():
    return made({"digits": classes(), "letters": classes(0.1, 1)})


def test_the_floor_is_the_distance_of_the_chain_sets(accepted):
    # tolerance: float16 probabilities up to 1 are off by up to 2.5e-4, ten of them in a row
    assert accepted.floor["digits"]["total variation"] == pytest.approx(0.01, abs=0.0025)
    assert accepted.floor["letters"]["total variation"] == pytest.approx(0.1, abs=0.0025)  # tolerance: as above
    assert accepted.floor["digits"]["agreement"] == 0  # 1 less the share of rows that agree
    assert reference.refusals(accepted) == []


def quantiles(level, value, rest):
    return {ALL: [value if one == level else rest for one in LEVELS]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rhat": quantiles(0.999, 1.0501, 1.0)}, "set 2: 99.9 % of the split R-hats lie below 1.050, not below 1.05"),
        ({"rhat": quantiles(0.999, float("nan"), 1.0)}, "set 2: 99.9 % of the split R-hats lie below nan"),
        ({"ess": quantiles(0.5, 400.0, 900.0)}, "set 2: the median effective sample size is 400, not above 400"),
        ({"acceptance": [0.8, 0.64, 0.8, 0.8]}, "set 2: a chain accepts 0.64, not 0.65 to 0.9"),
        ({"acceptance": [0.8, 0.8, 0.8, 0.91]}, "set 2: a chain accepts 0.91, not 0.65 to 0.9"),
    ],
)
def test_a_refusal_names_the_condition_and_its_number(change, told):
    found = reference.refusals(made({"digits": classes()}, chain_set(), chain_set(**change)))
    assert len(found) == 1
    assert told in found[0]


def test_one_r_hat_in_a_thousand_and_few_small_sample_sizes_may_be_bad():
    one = chain_set(rhat=quantiles(1.0, 3.0, 1.0), ess=quantiles(0.0, 3.0, 900.0))
    assert reference.refusals(made({"digits": classes()}, one, one)) == []


def test_a_floor_above_two_hundredths_is_refused_on_the_test_rows_alone(accepted):
    assert accepted.floor["letters"]["total variation"] > 0.02
    (told,) = reference.refusals(made({"digits": classes(0.03)}))
    assert "total variation of 0.03" in told


def test_a_chain_is_as_far_from_the_others_as_it_is_drawn():
    """One chain of eight is .08 from the others, and each of these .08 / 7 from the mean of the seven others."""
    probs = classes(0.0)
    probs[3, :, 0] -= 0.08
    probs[3, :, 1] += 0.08
    spread = made({"digits": probs}).spread()["digits"]["total variation"]
    assert spread == pytest.approx((0.08 + 7 * 0.08 / 7) / 8, abs=0.0025)  # tolerance: float16, as above


def regression():
    levels = (np.arange(200) + 0.5) / 200
    rows = np.arange(ROWS)[:, None]
    first, second = rows + levels, rows + levels + 0.25
    arrays = {
        QUANTILES: np.stack([first] * 4 + [second] * 4).astype(np.float32),
        DENSITIES: np.log(np.stack([np.full(ROWS, 0.5)] * 4 + [np.full(ROWS, 0.25)] * 4)).astype(np.float32),
    }
    return made(arrays)


def test_the_floor_of_a_regression():
    floor = regression().floor["test"]
    assert floor["Wasserstein-1"] == pytest.approx(0.25, abs=1e-5)  # tolerance: float32 quantiles up to 20
    # Of 70 halves 2 have all four chains of one set: .5 and .25. 32 have three of them: 1.75 / 4 and 1.25 / 4.
    expected = (2 * np.log(2) + 32 * np.log(1.75 / 1.25)) / 70
    assert floor["log-likelihood"] == pytest.approx(expected, rel=1e-6)  # tolerance: float32 logarithms
    # tolerance: as above; the mean density of both sets is .375
    assert regression().log_likelihood() == pytest.approx(np.log(0.375), rel=1e-6)


def test_log_likelihoods_that_agree_by_chance_have_a_floor():
    """Both sets have one chain that is better by log 2: they differ by nothing, the eight chains do."""
    values = np.log(np.where(np.arange(8) % 4 == 0, 0.5, 0.25))
    arrays = regression().arrays | {DENSITIES: np.repeat(values[:, None], ROWS, 1).astype(np.float32)}
    found = made({name: array for name, array in arrays.items() if name != ENERGIES})
    assert found.log_likelihood(reference.FIRST) == found.log_likelihood(reference.SECOND)
    # Of 70 halves 30 have both of these chains: densities of 1.5 / 4 and 1 / 4.
    # tolerance: float32 logarithms
    assert found.floor["test"]["log-likelihood"] == pytest.approx(30 / 70 * np.log(1.5), rel=1e-6)


# files


@pytest.mark.parametrize("name", sorted(path.stem for path in (RESULTS / "posterior").glob("*.npz")))
def test_what_is_shipped_is_accepted(name):
    assert reference.refusals(reference.read(RESULTS / "posterior", name, tasks.all_tasks()[name])) == []


def test_what_is_written_is_read(accepted, tmp_path):
    reference.write(tmp_path, "digits", accepted)
    found = reference.read(tmp_path, "digits", TASK)
    assert found.about == accepted.about
    assert found.floor == accepted.floor
    assert reference.read(tmp_path, "boston", tasks.all_tasks()["boston"]) is None


def test_a_changed_file_or_definition_is_refused(accepted, tmp_path):
    reference.write(tmp_path, "digits", accepted)
    with pytest.raises(StoreError, match=r"another definition.*python -m bench posterior digits"):
        reference.read(tmp_path, "digits", structs.replace(TASK, draws=7))
    other = made({"digits": classes(0.02), "letters": classes(0.1, 1)})
    reference.write(tmp_path, "other", other)
    (tmp_path / "digits.npz").write_bytes((tmp_path / "other.npz").read_bytes())
    with pytest.raises(StoreError, match="their hash differs"):
        reference.read(tmp_path, "digits", TASK)
    (tmp_path / "digits.npz").write_bytes(b"PK")
    with pytest.raises(StoreError, match="cannot be read"):
        reference.read(tmp_path, "digits", TASK)
    path = tmp_path / "digits.json"
    fields = json.loads(path.read_text())
    fields["chain_sets"][0]["acceptance"] = [0.5] * 4
    path.write_text(json.dumps(fields))
    with pytest.raises(StoreError):
        reference.read(tmp_path, "digits", TASK)


# distances of given predictions


def rows_of(found, name="digits"):
    return {row.metric: row for row in found if row.set == name}


def test_the_reference_itself_is_at_no_distance_and_not_ranked(accepted):
    mean = {name: accepted.predictive(name) for name in accepted.sets}
    found = compare.compared(accepted, data(), mean)
    for row in found:
        if row.metric != "joint log-loss":
            assert row.distance == close(0)
            assert row.note == compare.NOT_RANKED
    labels = np.arange(ROWS) % 10
    joint = rows_of(found)["joint log-loss"]
    logs = np.log(mean["digits"][np.arange(ROWS), labels])[None]
    assert joint.value == close(bench.posterior.distance.joint_log_loss(logs))
    assert (joint.reference, joint.note) == (2.1, compare.NO_FLOOR)
    assert np.isnan(joint.floor)
    assert "joint log-loss" not in rows_of(found, "letters")


def test_what_is_beyond_twice_the_floor_is_ranked(accepted):
    mean = accepted.predictive("digits")
    for move, note in ((0.015, compare.NOT_RANKED), (0.03, "")):
        moved = mean.copy()
        moved[:, :2] += (-move, move)
        row = rows_of(compare.compared(accepted, data(), moved))["total variation"]
        assert row.distance == row.value == close(move)
        assert row.note == note


def test_draws_are_averaged_and_joint(accepted):
    one, other = (probs / probs.sum(1, keepdims=True) for probs in classes()[[0, 4]].astype(float))
    draws, mean = np.stack([one, other]), (one + other) / 2
    of_draws, of_mean = (rows_of(compare.compared(accepted, data(), each)) for each in (draws, mean))
    assert of_draws["total variation"].value == close(of_mean["total variation"].value)
    assert of_draws["joint log-loss"].value < of_mean["joint log-loss"].value  # Jensen
    logs = rows_of(compare.compared(accepted, data(), np.log(draws)))
    assert logs["joint log-loss"].value == close(of_draws["joint log-loss"].value)


def test_nothing_is_ranked_by_a_refused_reference():
    refused = made({"digits": classes()}, chain_set(), chain_set(acceptance=[0.5] * 4))
    wrong = np.full((ROWS, 10), 0.1)
    assert {row.note for row in compare.compared(refused, data(), wrong)} == {compare.REFUSED}


def test_a_regression_by_normals():
    known = regression()
    mean = 5 + 2 * np.linspace(-1, 1, ROWS)  # at the targets
    found = rows_of(compare.compared(known, data("test"), {"mean": mean, "sd": np.full(ROWS, 0.5)}), "test")
    assert found["log-likelihood"].value == pytest.approx(-np.log(0.5 * np.sqrt(2 * np.pi)), abs=1e-6)  # tolerance: y
    assert found["log-likelihood"].reference == known.log_likelihood()
    assert found["Wasserstein-1"].value > 1
    assert found["joint log-loss"].value == close(10 * -found["log-likelihood"].value)
    several = {"mean": np.stack([mean, mean + 1]), "sd": np.full((2, ROWS), 0.5)}
    assert rows_of(compare.compared(known, data("test"), several), "test")["log-likelihood"].value < -0.2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.zeros((ROWS, 9)), r"digits have shape \[20, 9\]; allowed are \[20, 10\]"),
        (np.full((ROWS, 10), 0.2), "digits, draw 0, image 0"),
        (np.full((ROWS, 10), np.nan), "digits, draw 0, image 0"),
        ({"clothes": np.full((ROWS, 10), 0.1)}, "unknown set 'clothes'; known: digits, letters"),
        (np.zeros((0, ROWS, 10)), "have shape"),
        ("text", "numbers"),
    ],
)
def test_probabilities_that_cannot_be_used(accepted, given, told):
    with pytest.raises(ConfigError, match=told):
        compare.compared(accepted, data(), given)


@pytest.mark.parametrize(
    "given", [np.zeros(ROWS), {"mean": np.zeros(ROWS)}, {"mean": np.zeros(3), "sd": np.ones(3)},
              {"mean": np.zeros(ROWS), "sd": np.zeros(ROWS)}, {"mean": np.full(ROWS, np.nan), "sd": np.ones(ROWS)}]
)  # fmt: skip
def test_normals_that_cannot_be_used(given):
    with pytest.raises(ConfigError, match="mean"):
        compare.compared(regression(), data("test"), given)


def test_an_own_folder_hides_no_shipped_reference(accepted, tmp_path, monkeypatch):
    """It may hold draws or trained methods alone, or another task's reference."""
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    monkeypatch.setattr(reference, "OWN", own)
    monkeypatch.setattr(reference, "RESULTS", shipped)
    reference.write(shipped / "posterior", "digits", accepted)
    (own / "posterior" / "unfinished").mkdir(parents=True)
    (own / "posterior" / "digits-methods.jsonl").touch()
    reference.write(own / "posterior", "boston", accepted)
    for results in (None, own):
        assert reference.find("digits", TASK, results).about == accepted.about
    mine = made({"digits": classes(0.02)})
    reference.write(own / "posterior", "digits", mine)
    assert reference.find("digits", TASK).about == mine.about
    assert reference.folder_of("digits-methods.jsonl") == own / "posterior"
    assert reference.folder_of("neither") == own / "posterior"


def test_the_function_for_notebooks(accepted, tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "RESULTS", tmp_path / "shipped")
    with pytest.raises(ConfigError, match=r"has no reference in .*python -m bench posterior digits"):
        bench.distance(np.zeros((ROWS, 10)), "digits", tmp_path)
    with pytest.raises(ConfigError, match="unknown task 'nothing'"):
        bench.task_rows("nothing")
    reference.write(tmp_path / "posterior", "digits", accepted)
    monkeypatch.setattr(compare, "load", lambda task, data_dir: data())
    found = bench.distance(accepted.predictive("digits"), "digits", tmp_path)
    assert list(found.columns) == ["set", "metric", "value", "reference", "distance", "floor", "note"]
    assert list(found["metric"]) == ["total variation", "agreement", "joint log-loss"]
    assert bench.task_rows("digits").sets["digits"].x.shape == (ROWS, 3)
