"""Contract checks that any implementation must pass: `for check in CHECKS: check.run(ApproachUnderTest(name))`.

Each check trains at most a few steps on made-up rows. If a check fails, it raises ContractViolation, which says what
the check saw and what the contract asks for. tests/judge/test_contract.py runs the checks on every approach of the
registry. `python -m bench audit NAME` runs them on one approach, which may be your own.
"""

from __future__ import annotations

from bench.judge.contract import optional, posteriors, training
from bench.judge.contract.under_test import (
    PREDICTED,
    ROWS,
    SAME,
    STEPS,
    ApproachUnderTest,
    CheckContext,
    ContractCheck,
)

__all__ = ["CHECKS", "PREDICTED", "ROWS", "SAME", "STEPS", "ApproachUnderTest", "CheckContext", "ContractCheck"]

CHECKS: tuple[ContractCheck, ...] = (
    training.manifest,
    training.fields_unchanged,
    training.epochs_reported,
    posteriors.prediction_shape,
    posteriors.draws_have_names,
    posteriors.blocks_do_not_matter,
    training.seed_repeats,
    training.measuring_is_harmless,
    training.resume,
    training.fits_are_apart,
    posteriors.rebuild,
    optional.capabilities,
    optional.pruning,
    optional.mean_network,
    optional.density_ratio,
    optional.many_seeds,
    posteriors.per_row,
    training.global_state,
)
