"""Where data sets are looked for, and the errors for missing ones and for broken manifests."""

import shutil

import numpy as np
import pytest

from bench.core.errors import ConfigError, DataCorrupt, DataMissing
from bench.data.inventory import list_datasets, verify
from bench.data.splits import load_ood, load_split
from tests.data.small_sets import IMAGES, LABELS, PIXELS, fashion, one_line, put_fashion


def test_a_given_folder_comes_before_the_repository_where_it_has_the_set(folder, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    assert fashion(mine).x.shape == (2, 784)
    put_fashion(mine / "fashion_mnist", images=b"broken")
    with pytest.raises(DataCorrupt, match="mine"):
        fashion(mine)


def test_a_folder_of_torchvision_can_be_given_unpacked(folder, tmp_path):
    place = tmp_path / "root" / "FashionMNIST" / "raw"
    place.mkdir(parents=True)
    (place / "images").write_bytes(IMAGES)
    (place / "labels").write_bytes(LABELS)
    shutil.rmtree(folder / "fashion_mnist")
    assert np.array_equal((fashion(tmp_path / "root").x.numpy() * 255).round().reshape(2, 28, 28), PIXELS)


def test_a_given_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for wrong in (tmp_path / "file", tmp_path / "nothing"):
        with one_line(ConfigError, str(wrong), "is not a folder"):
            load_split("test10k", 0, wrong)


def test_a_missing_set_says_how_to_get_it(folder):
    shutil.rmtree(folder / "fashion_mnist")
    with one_line(DataMissing, "fashion_mnist", "images.gz", str(folder), "HOW TO GET IT"):
        fashion()
    with one_line(DataMissing, "mnist", "python -m bench data fetch mnist"):
        load_split("test10k", 0)


def test_a_data_folder_without_manifests_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BNN_BENCH_DATA", str(tmp_path))
    with one_line(ConfigError, f"BNN_BENCH_DATA={tmp_path}", "no mnist.toml"):
        list_datasets()


HEAD = "title='t'\nsource='s'\nlicence='l'\noptional=false\nhow='h'\nkind='idx'\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title = 'only'", "letters.toml: 'source' is missing; restore it"),
        ("kind = 'zip'", "unknown value in manifest of a data set"),
        ("files.a = {shape = [0], sha256 = ''}", "files.a.shape #1: 0 given; give a whole number >= 1"),
        ("files.a = {shape = [1], sha256 = ''}", "files.a.sha256: '' given; give a text of 64 hexadecimal digits"),
        (HEAD, "a generated set has a shape and no files, any other has files"),
        (
            f"{HEAD}files.other = {{shape = [1], sha256 = '{'0' * 64}'}}",
            "unknown file in the manifest of letters: 'letters-images'; known: other",
        ),
    ],
)
def test_a_broken_manifest_is_one_line(folder, text, problem):
    (folder / "letters.toml").write_text(text)
    with one_line(ConfigError, problem):
        load_ood("letters", 0)


def test_lists_and_checks_go_on_over_faults(folder):
    put_fashion(folder / "fashion_mnist", labels=b"")
    rows = {row.name: row for row in list_datasets()}
    assert {name: row.present for name, row in rows.items()} == {
        "mnist": False,
        "noise_gaussian": True,
        "noise_uniform": True,
        "fashion_mnist": True,
        "letters": False,
        "notmnist459": False,
        "fashion_train": False,
    }
    checks = {(check.name, check.file): check for check in verify()}
    assert checks["fashion_mnist", "t10k-images"].ok
    broken = checks["fashion_mnist", "t10k-labels"]
    assert (broken.ok, broken.missing, broken.optional) == (False, False, False)
    assert "an empty file" in broken.problem
    absent = checks["notmnist459", "images and labels"]
    assert (absent.ok, absent.missing, absent.optional) == (False, True, True)
    assert (checks["mnist", "t10k-images"].missing, checks["mnist", "t10k-images"].optional) == (True, False)
