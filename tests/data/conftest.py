"""A data folder for tests that break it."""

import shutil

import pytest

from bench.data import fetching
from bench.data.manifest import datasets_folder
from tests.data.small_sets import IMAGES, LABELS, LETTER_LABELS, LETTER_PIXELS, no_data, put_fashion, sha256


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder with the real manifests, except that two small data sets replace two large ones."""
    made = tmp_path / "datasets"
    shutil.copytree(datasets_folder(), made, ignore=no_data)
    (made / "fashion_mnist.toml").write_text(
        f"""
        title = "two"\nsource = "here"\nlicence = "none"\noptional = false\nkind = "idx"\nhow = "HOW TO GET IT"
        torchvision = "FashionMNIST"
        files.t10k-images = {{ gz = "images.gz", shape = [2, 28, 28], sha256 = "{sha256(IMAGES)}" }}
        files.t10k-labels = {{ gz = "labels.gz", shape = [2], sha256 = "{sha256(LABELS)}" }}
        """
    )
    (made / "notmnist459.toml").write_text(
        f"""
        title = "eleven"\nsource = "there"\nlicence = "none"\noptional = true\nhow = "HOW TO GET IT"
        kind = "png-archive"
        url = "http://127.0.0.1:9/nothing-listens-here.zip"
        files.images = {{ shape = [11, 28, 28], sha256 = "{sha256(LETTER_PIXELS)}" }}
        files.labels = {{ shape = [11], sha256 = "{sha256(LETTER_LABELS)}" }}
        """
    )
    put_fashion(made / "fashion_mnist")
    monkeypatch.setenv("BNN_BENCH_DATA", str(made))
    monkeypatch.delenv("BNN_BENCH_NOTMNIST", raising=False)
    monkeypatch.setattr(fetching, "RETRY_WAIT_S", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return made
