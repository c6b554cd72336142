"""Fixtures of the gate's tests."""

import functools

import pytest

from bench.data.fingerprint import split_hash
from bench.data.splits import load_split
from bench.judge.gate import closed_forms, exact


@pytest.fixture(scope="module")
def loaded_once():
    """Let the gate load and hash each split once for all tests of a file, because that takes most of their time."""
    load, hashes = functools.cache(load_split), {}

    def hashed(split):
        if id(split) not in hashes:  # `load` keeps every split, so that no other gets its id
            hashes[id(split)] = split_hash(split)
        return hashes[id(split)]

    with pytest.MonkeyPatch.context() as patch:
        for module in (closed_forms, exact):
            patch.setattr(module, "load_split", load)
        patch.setattr(exact, "split_hash", hashed)
        yield
