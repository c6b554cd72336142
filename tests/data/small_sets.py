"""Small data sets that replace large ones in tests: two intact or damaged, and one of the UCI table."""

import contextlib
import gzip
import hashlib
import io
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from bench.data.splits import load_ood
from bench.uci.data import Regression, Split, facts

# Two images of 28x28 and their labels, instead of Fashion-MNIST.
PIXELS = np.random.default_rng(0).integers(0, 256, (2, 28, 28), dtype=np.uint8)
IMAGES = struct.pack(">HBB3I", 0, 8, 3, 2, 28, 28) + PIXELS.tobytes()
LABELS = struct.pack(">HBBI", 0, 8, 1, 2) + bytes([4, 7])

# Eleven letters, two of them B, instead of not-MNIST. Sorted by name, they have another order than here.
LETTERS = {
    (letter, name): np.random.default_rng([ord(letter), len(name)]).integers(0, 256, (28, 28), dtype=np.uint8)
    for letter, name in [("B", "b=.png"), ("B", "Za.png"), *((letter, "x.png") for letter in "JIHGFEDCA")]
}
ORDER = [("A", "x.png"), ("B", "Za.png"), ("B", "b=.png"), *((letter, "x.png") for letter in "CDEFGHIJ")]
LETTER_PIXELS = b"".join(LETTERS[key].tobytes() for key in ORDER)
LETTER_LABELS = bytes("ABCDEFGHIJ".index(letter) for letter, _ in ORDER)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def archive(members, compression=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return file.getvalue()


def public_archive():
    letters = {f"bnn-2496246/not-mnist/{letter}/{name}": png(LETTERS[letter, name]) for letter, name in LETTERS}
    return {"bnn-2496246/bnn.ipynb": b"{}", "bnn-2496246/LICENSE": b"", **letters}


def put_fashion(place, images=None, labels=None):
    place.mkdir(parents=True, exist_ok=True)
    (place / "images.gz").write_bytes(gzip.compress(IMAGES) if images is None else images)
    (place / "labels.gz").write_bytes(gzip.compress(LABELS) if labels is None else labels)


def no_data(_, names):
    """Tell `shutil.copytree` to copy manifests alone."""
    return [name for name in names if not name.endswith(".toml")]


@contextlib.contextmanager
def one_line(error, *words):
    """Expect an error in one line that has these words."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message


def fashion(data_dir=None):
    return load_ood("fashion_mnist", 0, data_dir)


def letters(data_dir=None):
    return load_ood("notmnist459", 0, data_dir)


def is_eleven(split):
    return np.array_equal((split.x * 255).round().byte().numpy().tobytes(), LETTER_PIXELS)


RATES, TAUS = (0.005, 0.1), (0.2, 2.0)
N, TRAIN = 60, 50


def small_yacht(monkeypatch):
    """Replace `yacht` by 60 rows of 3 features, 2 splits, a grid of four settings and 5 units; it needs numba."""
    from bench.uci import train

    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(3, 2, N), rng.normal(-1, 0.1, N), np.full(N, 7.0)])
    y = 10 + np.sin(x[:, 0]) * 3 + rng.normal(0, 0.7, N)
    orders = [rng.permutation(N) for _ in range(2)]
    data = Regression("yacht", x, y, tuple(Split(one[:TRAIN], one[TRAIN:]) for one in orders))
    old = facts()["yacht"]
    values = {name: getattr(old, name) for name in old.__struct_fields__}
    known = type(old)(**(values | {"hidden": 5, "drop_rates": RATES, "taus": TAUS}))
    monkeypatch.setattr(train, "load", lambda name, folder: data)
    monkeypatch.setattr(train, "facts_of", lambda name: known)
    return data


def how(path, **more):
    """Return how to train it in a folder."""
    from bench.uci.train import How

    return How(path, **({"threads": 1, "passes": 40, "say": lambda text: None} | more))


def values(table, split):
    """Return what a table says of a split."""
    rows = table[table["split"] == split]
    return dict(zip(rows["metric"], rows["value"], strict=True))
