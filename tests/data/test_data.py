"""The real data sets: known bytes, splits that cover a file once, seeded noise, letters made as MNIST was made."""

import gzip
import hashlib
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.core.errors import ConfigError
from bench.core.streams import generator
from bench.data.fetching import fetch
from bench.data.files import COPY_VARIABLE, read_idx
from bench.data.inventory import list_datasets, verify
from bench.data.manifest import ALL_NAMES, data_hashes, datasets_folder, manifest
from bench.data.splits import load_ood, load_split, split_hash, toy_split

ROOT = Path(__file__).resolve().parents[2]


def raw_mnist(name):
    """Read an intact file without any of the code under test."""
    with gzip.open(ROOT / "datasets" / "mnist" / f"{name}-ubyte.gz") as file:
        return file.read()


@pytest.fixture(scope="module")
def train60k():
    return load_split("train60k", 0)


# Splits


def test_official_files_row_by_row(train60k):
    raw = np.frombuffer(raw_mnist("train-images-idx3"), np.uint8, offset=16).reshape(60000, 784)
    assert train60k.x.shape == (60000, 784)
    assert train60k.x.dtype == torch.float32
    for row in (0, 1, 31_415, 59_999):
        assert torch.equal(train60k.x[row], torch.from_numpy(raw[row].astype(np.float32)) / 255)
    assert train60k.rows.tolist() == list(range(60000))
    # The first labels as printed in every MNIST tutorial.
    assert train60k.y[:5].tolist() == [5, 0, 4, 1, 9]
    test10k = load_split("test10k", 0)
    assert test10k.y[:5].tolist() == [7, 2, 1, 0, 4]
    assert test10k.y.dtype == torch.int64
    assert len(test10k) == 10000


@pytest.mark.parametrize(
    ("name", "seed", "sha256"),
    [
        ("train60k", 0, "3fb21b692f41c1262bcf22c9e4e46ff4cbf1090edea75625a21c162f41ba72b0"),
        ("test10k", 0, "2036c9494102ff983c034a98ec2350d13777fc7fa88bb117e6f20d5ea1e17a79"),
        ("train50k", 0, "8ce0b945cd64a668de6fbe40144422b31cd573a3bb045183bee4667aff6343f1"),
        ("train50k", 1000, "295c1adde947b945a649b7ffe60a872cfd80214473d0787a899e7003c54ac047"),
        ("heldout10k-of-train", 0, "c1a8ba2563d344588f1091cac7a0bb79a9f1f3cfc6bd954cf1c453668fce4992"),
    ],
)
def test_the_rows_of_a_split_are_those_that_records_were_made_of(name, seed, sha256):
    assert split_hash(load_split(name, seed)) == sha256


def test_the_two_parts_of_the_training_file_are_those_of_random_split(train60k):
    # alsibahi2019 draws them with random_split; ours are that function's parts under the split stream, in its order.
    parts = torch.utils.data.random_split(range(60000), (50_000, 10_000), generator=generator(3, "split"))
    for name, part in zip(("train50k", "heldout10k-of-train"), parts, strict=True):
        split = load_split(name, 3)
        assert split.name == name
        assert split.rows.tolist() == list(part.indices)
        some = torch.arange(0, len(split), 997)
        assert torch.equal(split.x[some], train60k.x[split.rows[some]])
        assert torch.equal(split.y, train60k.y[split.rows])


def test_a_caller_may_change_its_tensors():
    for load in (lambda: load_split("test10k", 0), lambda: load_ood("letters", 0)):
        spoilt, expected = load(), load()
        spoilt.x.zero_()
        spoilt.y.fill_(3)
        assert torch.equal(load().x, expected.x)
        assert torch.equal(load().y, expected.y)


def test_a_file_is_decoded_once_a_process(monkeypatch):
    load_split("test10k", 0)
    calls = []
    monkeypatch.setattr("bench.data.splits.read_idx", lambda *given: calls.append(given) or read_idx(*given))
    load_split("test10k", 1)
    assert not calls


# Out-of-distribution sets


@pytest.mark.parametrize(("name", "n"), [("noise_gaussian", 1000), ("noise_uniform", 100), ("letters", 1000)])
def test_ood_sets_have_no_class(name, n):
    split = load_ood(name, 0)
    assert split.name == name
    assert split.x.shape == (n, 784)
    assert split.x.dtype == torch.float32
    assert split.y.tolist() == [-1] * n
    assert split.y.dtype == torch.int64
    assert split.rows.tolist() == list(range(n))
    assert manifest(name).n_rows == n


@pytest.mark.parametrize(
    ("name", "mean", "variance", "of_squares"),
    [("noise_gaussian", 0, 1, 2), ("noise_uniform", 1 / 2, 1 / 12, 1 / 180)],
)
def test_noise_is_standard_normal_and_not_clipped_or_uniform(name, mean, variance, of_squares):
    """`of_squares`: the variance of (x - mean)^2, for the uniform 1/80 - 1/144; five standard errors each."""
    x = load_ood(name, 0).x.double()
    assert abs(x.mean() - mean) < 5 * (variance / x.numel()) ** 0.5
    assert abs(x.var() - variance) < 5 * (of_squares / x.numel()) ** 0.5
    assert (x.min() >= 0) == (name == "noise_uniform")


@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), other=st.integers(0, 2**31))
def test_every_seed_draws_its_own_noise(seed, other):
    for name in ("noise_gaussian", "noise_uniform"):
        mine = load_ood(name, seed).x
        assert torch.equal(mine, load_ood(name, seed).x)
        assert torch.equal(mine, load_ood(name, other).x) == (seed == other)


@pytest.mark.skipif(not os.environ.get(COPY_VARIABLE), reason="BNN_BENCH_NOTMNIST names no local copy")
def test_the_459_letters_of_the_document():
    split = load_ood("notmnist459", 0)
    assert split.x.shape == (459, 784)
    assert (split.y == -1).all()
    # White on black as MNIST, so that a frame of the picture is mostly dark.
    assert split.x.reshape(-1, 28, 28)[:, 0].mean() < 0.5


# Letters


def letters_files():
    folder, files = datasets_folder() / "letters", manifest("letters").files.values()
    return [read_idx(folder / file.gz, file.shape, file.sha256) for file in files]


def test_letters_follow_the_conventions_of_mnist():
    images, labels = letters_files()
    assert np.bincount(labels).tolist() == [100] * 10
    assert len(np.unique(images.reshape(1000, 784), axis=0)) == 1000
    ink = images.astype(float)
    index = np.arange(28)
    for axis in (1, 2):
        profile = ink.sum(axis=axis)
        # The centre of mass is at pixel 14, up to the rounding of grey levels.
        assert np.abs((profile * index).sum(axis=1) / profile.sum(axis=1) - 14).max() < 0.1
    lengths = [max(np.ptp(np.flatnonzero(image.any(axis=axis))) + 1 for axis in (0, 1)) for image in images]
    # A box of 20 pixels that does not begin at a pixel's edge touches 21.
    assert set(lengths) == {20, 21}
    assert (images.reshape(1000, -1).max(axis=1) == 255).mean() > 0.9


def test_the_tool_draws_the_committed_letters():
    specification = importlib.util.spec_from_file_location("make_letters", ROOT / "tools" / "make_letters.py")
    tool = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(tool)
    images, _ = letters_files()
    for letter, face, variation in [(0, 0, 0), (1, 5, 1), (4, 9, 2), (6, 17, 3), (8, 24, 1), (9, 23, 2), (2, 21, 3)]:
        font, alphabet = tool.FACES[face]
        drawn = tool.image(font, alphabet[letter], tool.distortion(letter, face, variation))
        committed = images[(letter * len(tool.FACES) + face) * tool.VARIATIONS + variation]
        # Other versions of matplotlib (3.8.4) round its outlines to within 2 grey levels of these (3.11.2).
        assert np.abs(drawn.astype(int) - committed.astype(int)).max() <= 3


# The toy


def test_toy_points_by_hand():
    split = toy_split()
    # -x^4 + 3 x^2 + 1: at 2: -16 + 12 + 1 = -3; at 1.8: -10.4976 + 9.72 + 1 = 0.2224; at 1: -1 + 3 + 1 = 3.
    assert split.y.shape == (6, 1)
    torch.testing.assert_close(split.y.flatten(), torch.tensor([-3, 0.2224, 3, 3, 0.2224, -3]), rtol=0, atol=1e-5)
    assert split.x.flatten().tolist() == torch.tensor([-2, -1.8, -1, 1, 1.8, 2]).tolist()
    assert split.x.dtype == split.y.dtype == torch.float32
    assert split.rows.tolist() == list(range(6))


# Manifests, lists, verification


def test_hashes_are_those_of_the_decompressed_bytes():
    hashes = data_hashes()
    assert hashes["mnist/t10k-images"] == hashlib.sha256(raw_mnist("t10k-images-idx3")).hexdigest()
    assert hashes["mnist/t10k-labels"] == hashlib.sha256(raw_mnist("t10k-labels-idx1")).hexdigest()
    assert len(hashes) == len(set(hashes.values())) == 10  # 4 of MNIST, 2 of each other set of files


def test_every_manifest_is_listed():
    rows = list_datasets()
    assert [row.name for row in rows] == list(ALL_NAMES)
    assert {path.stem for path in datasets_folder().glob("*.toml")} == set(ALL_NAMES)
    assert [row.name for row in rows if row.optional] == ["notmnist459", "fashion_train"]
    for row in rows:
        assert row.present or row.optional
        assert all((row.title, row.source, row.licence, row.how))
        assert not any("\n" in text for text in (row.title, row.source, row.licence, row.how))
    on_disk = sum(file.stat().st_size for file in (datasets_folder() / "mnist").iterdir())
    assert next(row.size_bytes for row in rows if row.name == "mnist") == on_disk


def test_everything_in_the_repository_is_intact():
    checks = verify()
    assert {check.name for check in checks} == set(ALL_NAMES)
    assert [check for check in checks if not check.ok and not (check.missing and check.optional)] == []


def test_no_load_uses_the_network(monkeypatch):
    def refuse(*given):
        raise AssertionError("a load opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("noise_gaussian", "noise_uniform", "fashion_mnist", "letters"):
        load_ood(name, 0)
    load_split("test10k", 0)
    list_datasets()


def test_importing_and_loading_needs_no_torchvision_and_no_image_library():
    code = (
        "import sys\nfrom bench.data.splits import load_split\n"
        "load_split('test10k', 0); print({'torchvision', 'PIL'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: load_split("test10K", 0), "did you mean 'test10k'"),
        (lambda: load_ood("fashion", 0), "did you mean 'fashion_mnist'"),
        (lambda: load_ood("mnist", 0), "unknown out-of-distribution set"),
        (lambda: verify(["letter"]), "did you mean 'letters'"),
        (lambda: fetch("emnist"), "unknown data set"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(call, words):
    with pytest.raises(ConfigError, match=words):
        call()
