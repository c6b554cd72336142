"""Random numbers: counter-based noise (the published words, fast = plain), and independent, repeatable streams."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bench.core import noise
from bench.core.project import TOP
from bench.core.streams import StepNoise, generator, normals, row_bits, row_noise, stream_seed, uniforms
from tests.close import LOG, UNIT, assert_within, normals_bound

noise_loops = pytest.importorskip("bench.core.noise_loops", reason="numba is not installed")


def test_loops_are_compiled_where_no_usual_cache_can_be_written(monkeypatch):
    """As for a user without a writable home, and a package that somebody else has installed."""
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [caching.UserProvidedCacheLocator])
    monkeypatch.setattr(noise_loops.numba.config, "CACHE_DIR", "")

    def add_one(x):
        for place in range(x.size):
            x[place] += 1

    x = np.zeros(3, np.float32)
    noise_loops.loop(add_one)(x)
    assert x.tolist() == [1, 1, 1]
    assert any(Path(noise_loops.numba.config.CACHE_DIR).rglob("*.nbi"))


LOOPS = """
import numpy as np
from numba.core import event

from bench.core.noise_loops import loop
from bench.run.process import Compiling


@loop
def add_one(x):
    for place in range(x.size):
        x[place] += 1


x = np.zeros(3, np.float32)
with event.install_listener("numba:compile", Compiling(lambda noted: print(noted.message))):
    add_one(x)
print(x.tolist())
"""


@pytest.mark.parametrize("named", [False, True])
def test_loops_of_a_package_that_cannot_be_written_are_kept_elsewhere_and_a_line_says_so(named, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__pycache__").write_text("no folder can be made here, as in a read-only package")
    (tmp_path / "package" / "loops.py").write_text(LOOPS)
    own = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    own |= {"PYTHONPATH": str(TOP), "HOME": str(tmp_path)} | (
        {"NUMBA_CACHE_DIR": str(tmp_path / "mine")} if named else {}
    )
    command = [sys.executable, "-B", str(tmp_path / "package" / "loops.py")]
    first, second = (subprocess.check_output(command, env=own, text=True).splitlines() for _ in range(2))
    place = tmp_path / ("mine" if named else ".cache/numba")
    note = f"loops are compiled, once on this machine, and kept in {place} (or in $NUMBA_CACHE_DIR)"
    assert first == [note, "[1.0, 1.0, 1.0]"]
    assert second == ["[1.0, 1.0, 1.0]"]
    assert any(place.rglob("*.nbi"))


WHOLE_ROW = torch.tensor([0])


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # known answers of Random123 1.14 (kat_vectors, philox4x32 10)
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_words(counter, key, words):
    assert tuple(int(word) for word in noise._philox(*map(torch.tensor, counter), *key)) == words
    assert tuple(noise_loops.philox(*map(np.uint32, counter), *map(np.uint32, key))) == words


@settings(max_examples=40, deadline=None)
@given(
    key=st.integers(0, 2**63 - 1), rows=st.lists(st.integers(0, 2**40), min_size=1, max_size=5), n=st.integers(1, 700)
)
def test_compiled_numbers_are_the_plain_ones(key, rows, n):
    rows = torch.tensor(rows)
    words = noise.fill_words(torch.empty(len(rows), n, dtype=torch.int64), key, rows)
    halves = noise.plain_words(key, rows, 2 * n)
    assert torch.equal(words, halves[:, 0::2] | halves[:, 1::2] << 32)
    normals = noise.fill_normals(torch.empty(len(rows), n), key, rows)
    exact = noise.fill_normals(torch.empty(len(rows), n, dtype=torch.float64), key, rows)
    assert torch.equal(exact, noise.plain_normals(key, rows, n, torch.float64))
    check_normals(normals, exact, key, rows)
    check_normals(noise.plain_normals(key, rows, n), exact, key, rows)


def check_normals(normals, exact, key, rows):
    """Assert that float32 normals [B, n] are the float64 ones up to rounding."""
    n = exact.shape[1]
    blocks = noise.plain_normals(key, rows, -(-n // (4 * noise.LANES)) * 4 * noise.LANES, torch.float64)
    assert_within(normals, exact, normals_bound(blocks)[:, :n])


def test_without_the_compiler_the_numbers_are_the_same():
    fast = StepNoise(5).words_(torch.empty(9, dtype=torch.int64)), StepNoise(5).normals_(torch.empty(300))
    threads = torch.get_num_threads()
    with noise.without_compiling():
        assert noise.compiled_loops() is None
        assert torch.get_num_threads() == 1
        assert torch.equal(fast[0], StepNoise(5).words_(torch.empty(9, dtype=torch.int64)))
        check_normals(
            StepNoise(5).normals_(torch.empty(300)).view(1, -1),
            noise.plain_normals(5, WHOLE_ROW, 300, torch.float64),
            5,
            WHOLE_ROW,
        )
    assert noise.compiled_loops() is not None
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("threads", [1, 2])
def test_a_longer_row_begins_like_a_shorter_one_with_any_number_of_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        long = noise.fill_normals(torch.empty(1, 100_000), 7, WHOLE_ROW)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(long[:, :1000], noise.fill_normals(torch.empty(1, 1000), 7, WHOLE_ROW))


def test_normals_are_standard_normals():
    # 2^21 numbers: Kolmogorov and Smirnov's distance times sqrt(n) exceeds 2.5 with probability 2 exp(-2 2.5^2) = 7e-6
    values = noise.fill_normals(torch.empty(4, 2**19), 11, torch.arange(4)).double().flatten()
    distance = stats.kstest(values.numpy(), "norm").statistic
    assert distance * math.sqrt(len(values)) < 2.5
    # tolerance: beyond 4 sigma are 6.33e-5 n = 132.8 numbers, standard deviation 11.5; five of them, one in 2 million
    assert abs(int((values.abs() > 4).sum()) - 132.8) < 5 * 11.5
    # both numbers of a pair, and neighbours
    blocks = values.view(-1, 2, 2, noise.LANES)
    # tolerance: five standard deviations of the mean of n / 2 products, which have variance 1
    assert abs((blocks[:, :, 0] * blocks[:, :, 1]).mean().item()) < 5 * 0.001
    # tolerance: products of squares have variance 3^2 - 1, below 3^2
    assert abs((blocks[:, :, 0].square() * blocks[:, :, 1].square()).mean().item() - 1) < 5 * 3 / math.sqrt(2**20)
    # tolerance: of n products, standard deviation n^-1/2 = 0.0007
    assert abs((values[1:] * values[:-1]).mean().item()) < 5 * 0.0007


def test_the_largest_normal_comes_from_the_smallest_word():
    # u = 2^-33: sqrt(-2 log u) = sqrt(66 log 2) = 6.7638; the word 0 for the angle gives (1, 0)
    largest = noise_loops.normal_pair(np.uint32(0), np.uint32(0))
    # tolerance: half the error of the logarithm, three roundings
    assert largest == pytest.approx((math.sqrt(66 * math.log(2)), 0), rel=LOG / 2 + 3 * UNIT, abs=0)
    # the largest word rounds to u = 1: radius 0
    assert noise_loops.normal_pair(np.uint32(2**32 - 1), np.uint32(5)) == (0, 0)


@pytest.mark.parametrize("value", [1e-30, 2.0**-33, 0.0024, 0.5, 0.7071067, 0.7071068, 1.0, 1.0000001, 3.0, 88.0])
def test_logarithm(value):
    value = np.float32(value)
    # tolerance: LOG; below 1e-7 (of 1.0000001) the terms that it counts are exact
    assert noise_loops.log32(value) == pytest.approx(math.log(value), rel=LOG, abs=0)


def test_a_kernel_that_cannot_be_compiled_is_reported(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no compiler\nmore")

    monkeypatch.setattr(torch, "compile", lambda plain, dynamic: refuse)
    with pytest.warns(RuntimeWarning, match=r"no kernel for noise on cpu.*RuntimeError: no compiler$"):
        assert noise.fused(noise.words_of_blocks, torch.device("cpu")) is None


@pytest.mark.parametrize("n", [1, 15, 16, 17, 32, 700])
def test_numbers_of_a_generator_in_float64_are_those_of_float32_without_rounding(n):
    """The generators end at the same place, so that what is drawn next is the same too."""
    for draw in (
        lambda source, dtype: uniforms(n, 0.3, source, dtype),
        lambda source, dtype: normals(n, source, dtype),
    ):
        sources = generator(3, "init"), generator(3, "init")
        single, double = draw(sources[0], torch.float32), draw(sources[1], torch.float64)
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        # tolerance: uniform: three roundings of numbers up to .6. Normal: a radius of at most (48 log 2)^1/2 = 5.8 with
        # three roundings, times the cosine of an angle up to 2 pi that is rounded twice, and its own two roundings
        torch.testing.assert_close(single.double(), double, rtol=0, atol=5.8 * (3 + 2 * 6.3 + 2) * UNIT)
        assert torch.equal(*(torch.rand(3, generator=source) for source in sources))
    assert torch.equal(normals(n, generator(3, "init"), torch.float32), torch.randn(n, generator=generator(3, "init")))


def test_streams_differ_by_seed_name_and_index():
    seeds = {
        stream_seed(seed, name, *index)
        for seed in (0, 1)
        for name in ("init", "noise", "draw")
        for index in ((), (0,), (12,), (1, 2))
    }
    assert len(seeds) == 2 * 3 * 4
    assert all(0 <= seed < 2**63 for seed in seeds)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=40))
def test_noise_and_bits_of_a_row_depend_on_the_row_alone(rows):
    """Any list of rows, repeated ones too, gets what the rows get in one consecutive block."""
    wanted, everything = torch.tensor(rows), torch.arange(201)
    for of_rows in (row_noise, row_bits):
        assert torch.equal(of_rows(3, 1, wanted, 5), of_rows(3, 1, everything, 5)[wanted])


def test_row_noise_differs_between_draws_and_rows():
    rows = torch.arange(48)
    noise = row_noise(0, 0, rows, 4)
    assert len(torch.unique(noise, dim=0)) == len(rows)
    assert not torch.equal(noise, row_noise(0, 1, rows, 4))


def test_each_of_the_64_bits_is_fair():
    words = row_bits(0, 0, torch.arange(16), 1000).flatten()
    shares = torch.stack([((words >> shift) & 1).double().mean() for shift in range(64)])
    # tolerance: 16,000 fair bits at each place, the share of ones has standard error 0.004
    assert (shares - 0.5).abs().max() < 5 * 0.004


def test_every_step_has_noise_of_its_own_and_an_epoch_repeats():
    first, second = StepNoise(3), StepNoise(3)
    calls = [first.normals_(torch.empty(2, 5)), first.normals_(torch.empty(2, 5)), first.words_(torch.empty(7).long())]
    assert not torch.equal(calls[0], calls[1])
    assert torch.equal(calls[0], second.normals_(torch.empty(10)).view(2, 5))  # the shape does not matter
    assert torch.equal(calls[1], second.normals_(torch.empty(2, 5)))
    assert torch.equal(calls[2], second.words_(torch.empty(7).long()))
    assert not torch.equal(calls[0], StepNoise(4).normals_(torch.empty(2, 5)))
