"""Named streams: independent, repeatable, and row noise that belongs to its row."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.streams import ROW_CHUNK, generator, row_bits, row_noise, stream_seed


def test_streams_differ_by_seed_name_and_index():
    seeds = {
        stream_seed(seed, name, *index)
        for seed in (0, 1)
        for name in ("init", "noise", "draw")
        for index in ((), (0,), (1,), (0, 1))
    }
    assert len(seeds) == 2 * 3 * 4
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_index_cannot_be_confused_with_name():
    # "draw/1" with index 2 and "draw" with indices 1, 2 hash the same text; names therefore hold no slash
    assert stream_seed(0, "draw", 12) != stream_seed(0, "draw", 1, 2)


def test_generator_repeats():
    first = torch.rand(5, generator=generator(7, "init"))
    assert torch.equal(first, torch.rand(5, generator=generator(7, "init")))


@given(st.lists(st.integers(0, 200), min_size=1, max_size=40), st.sampled_from(["normal", "uniform"]))
def test_row_noise_depends_on_the_row_alone(rows, kind):
    rows = torch.tensor(rows)
    together = row_noise(3, 1, rows, 5, kind)
    for position, row in enumerate(rows):
        assert torch.equal(together[position], row_noise(3, 1, row.reshape(1), 5, kind)[0])


def test_row_noise_differs_between_draws_and_chunks():
    rows = torch.arange(3 * ROW_CHUNK)
    noise = row_noise(0, 0, rows, 4, "normal")
    assert len(torch.unique(noise, dim=0)) == len(rows)
    assert not torch.equal(noise, row_noise(0, 1, rows, 4, "normal"))


def test_row_bits_are_fair():
    # 64 bits x 1000 words x 16 rows = 1,024,000 fair bits: the share of ones has standard error 0.0005
    words = row_bits(0, 0, torch.arange(16), 1000)
    ones = sum(int(((words >> shift) & 1).sum()) for shift in range(64))
    assert abs(ones / 1_024_000 - 0.5) < 5 * 0.0005
    assert bool((words < 0).any())  # the highest bit is used too
