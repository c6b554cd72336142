"""Named streams: independent, repeatable, and row noise that belongs to its row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.core.streams import StepNoise, generator, normals, row_bits, row_noise, stream_seed, uniforms

UNIT = 2.0**-24  # the largest relative error of one rounding in float32


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
