"""A fit gives memory back: when it collects garbage, and that the system really gets the memory."""

import gc
import json
import platform
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from bench.run import child
from bench.run.events import EpochEnded, Measuring, Started


class Node:
    pass


def cycle():
    """Make an object that only a collection can free, and return a reference that does not keep it."""
    node = Node()
    node.itself = node
    return weakref.ref(node)


@pytest.fixture
def collected_by_hand():
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize(
    ("event", "wait_s", "is_tidied"),
    [
        (Measuring("key"), 0.0, True),
        (EpochEnded(1, 2, {}, 1), 0.0, False),
        (EpochEnded(1, 2, {}, 1), child.TIDY_EVERY_S, True),
        (Started("key"), 9.0, False),
    ],
)
def test_garbage_is_collected_after_long_epochs_and_before_measuring(
    event, wait_s, is_tidied, monkeypatch, collected_by_hand
):
    now, told = [0.0], []
    monkeypatch.setattr(child.time, "monotonic", lambda: now[0])
    tell = child._tidying(told.append)
    garbage = cycle()
    now[0] += wait_s
    tell(event)
    assert told == [event]
    assert (garbage() is None) == is_tidied


HOLES = """
import json
from tests.stress.processes import resident_mib
from bench.run.child import tidy
small, large = [], []
for _ in range(2000):  # 200 MB in pieces that the C library takes from its heap, each followed by one that stays
    large.append(bytearray(100_000))
    small.append(bytearray(1_000))
full = resident_mib()
del large
freed = resident_mib()
tidy()
print(json.dumps([full, freed, resident_mib()]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc_trim")
def test_the_system_gets_memory_that_lies_between_pieces_in_use():
    root = Path(__file__).resolve().parents[2]
    said = subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True, cwd=root)
    full, freed, tidied = json.loads(said.stdout)
    assert freed > full - 50  # glibc by itself keeps what lies below a piece in use
    assert tidied < full - 150
