"""One number from each seed of a cell: what the note says of seeds that have none."""

from __future__ import annotations

from bench.core.records import Record
from bench.judge.samples import Gap, gather
from tests.synthetic import record


def diverged(seed: int, reason: str) -> Record:
    return record("mlp", seed=seed, outcome="diverged", reason=reason)


def read(found: Record) -> float | Gap:
    return Gap("no data", "letters are not there") if found.seed == 0 else float(found.seed)


def test_the_note_names_every_seed_that_is_not_counted_and_each_reason_once():
    found = gather([*(record("mlp", seed=seed) for seed in (2, 3)), diverged(5, "nan"), diverged(1, "nan")], read)
    assert found.values == (2.0, 3.0)
    assert found.gap == Gap("*", "2 of 4 seeds not counted (seeds 1, 5 diverged: nan)", is_fault=True)


def test_a_seed_that_diverged_is_a_fault_also_behind_a_harmless_reason():
    found = gather([record("mlp", seed=0), diverged(1, "nan"), record("mlp", seed=2)], read)
    assert found.gap == Gap(
        "*", "2 of 3 seeds not counted (seed 0 no data: letters are not there; seed 1 diverged: nan)", is_fault=True
    )
