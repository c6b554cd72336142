"""The checks that any approach must pass: `for check in CHECKS: check.run(ApproachUnderTest(name))`.

Each check trains at most a few steps on made-up rows. If a check fails, it raises ContractViolation, which says what
the check saw and what the contract asks for. tests/implementations/test_every_approach.py runs the checks on every
approach of the registry. `python -m bench audit NAME` runs them on one approach, which may be your own.
"""

import bench.judge.contract.checks  # noqa: F401 - it fills CHECKS
from bench.judge.contract.checking import CHECKS, ContractCheck
from bench.judge.contract.under_test import ROWS, SAME, STEPS, ApproachUnderTest, CheckContext

__all__ = ["CHECKS", "ROWS", "SAME", "STEPS", "ApproachUnderTest", "CheckContext", "ContractCheck"]
