"""Files of per-row scores with what is no score: pickles, bombs, odd headers and names, sizes that lie."""

from __future__ import annotations

import functools
import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Member = tuple[str, bytes]  # of a zip: name and content

ROWS, KEPT, DRAWS, CLASSES = 12, 3, 2, 10
SETS = ("mnist", "letters", "fashion_mnist", "noise_gaussian")
BOMB_MIB = 300  # more than is read
NAMES = (
    *("/etc/passwd", "../../elsewhere", "mnist/", "/label", "mnist/weights", "mnist/label.npy", "", ".", "a\\b"),
    *(
        "\x1b[2J/label",
        "\u202e/label",
        "x" * 300,
        "mnist/../letters/label",
        "letters/nll",
        "mnist//draws",
        "mnist/label",
    ),
)


def sound_scores() -> Arrays:
    """Return scores as the common protocol writes them: every answer is 3 and right, with a probability of 1."""
    found: Arrays = {}
    for name in SETS:
        one = {
            "label": np.full(ROWS, 3 if name == "mnist" else -1, np.int8),
            "predicted": np.full(ROWS, 3, np.int8),
            "max_probability": np.ones(ROWS, np.float16),
            "predictive_entropy": np.linspace(0, 2, ROWS).astype(np.float16),
            "expected_entropy": np.zeros(ROWS, np.float16),
            "votes": np.zeros((ROWS, CLASSES), np.uint8),
            "draws": np.full((DRAWS, KEPT, CLASSES), -2.3, np.float16),
        }
        found |= {f"{name}/{kind}": values for kind, values in one.items()}
    more = {"mnist/nll": np.zeros(ROWS, np.float32), "mnist/brier": np.zeros(ROWS, np.float16)}
    return found | more


def odd_scores() -> st.SearchStrategy[bytes]:
    """Return the bytes of npz files, each with a member that is no score, or with a size that is not true."""
    odd = st.tuples(st.sampled_from(ODD), st.sampled_from(NAMES))
    return st.tuples(odd, st.sampled_from(("stored", "deflated", "bomb", "lying"))).map(_zipped)


@functools.cache
def _members() -> list[Member]:
    return [(f"{name}.npy", _npy(values)) for name, values in sound_scores().items()]


def _npy(values: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, values)
    return file.getvalue()


def _header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode()


class _Touch:
    """A pickle of it writes a file, if somebody reads it."""

    def __reduce__(self) -> tuple[Callable[[str, str], object], tuple[str, str]]:
        return open, ("pickle-was-read", "w")


ODD: tuple[bytes, ...] = (
    _header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }\n"),
    _header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n"),
    _header("{'descr': '|V0', 'fortran_order': False, 'shape': (1099511627776,), }\n"),
    _header("{'descr': '|S2147483647', 'fortran_order': True, 'shape': (5, 5), }\n") + b"x" * 99,
    _header("{'descr': __import__('os'), 'fortran_order': False, 'shape': ()}\n"),
    _header("{'descr': '|O', 'fortran_order': False, 'shape': (), }\n") + pickle.dumps(_Touch()),
    _header("(" * 5_000),
    _header("{'descr': '<f8'}\n", b"\x09\x00"),
    pickle.dumps(_Touch()),
    b"",
    b"\x93NUMPY",
)


def _zipped(given: tuple[tuple[bytes, str], str]) -> bytes:
    (content, named), how = given
    file = io.BytesIO()
    compression = zipfile.ZIP_STORED if how == "stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w", compression) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name are meant
        for name, values in [*_members(), (f"{named}.npy", content)]:
            made.writestr(zipfile.ZipInfo(name), values, compression)
    data = file.getvalue()
    if how == "bomb":
        return bomb() if len(data) % 4 == 0 else data
    if how == "lying" and (start := data.rfind(b"PK\x01\x02")) >= 0:  # of the last member: its size when unpacked
        return data[: start + 24] + struct.pack("<I", len(data) % 5 * 1000) + data[start + 28 :]
    return data


@functools.cache
def bomb() -> bytes:
    """Return a zip of 300 kB whose one member has `BOMB_MIB` when it is unpacked."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made, made.open("mnist/label.npy", "w") as member:
        member.write(_header("{'descr': '|i1', 'fortran_order': False, 'shape': (314572800,), }\n"))
        for _ in range(BOMB_MIB):
            member.write(bytes(1 << 20))
    return file.getvalue()
