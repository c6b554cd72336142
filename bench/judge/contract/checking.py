"""What a check of the contract is, and how a function becomes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.errors import ContractViolation
from bench.judge.contract.under_test import ApproachUnderTest

CheckLook = Callable[[ApproachUnderTest], None]


@dataclass(frozen=True)
class ContractCheck:
    """One thing that the contract asks."""

    name: str  # in reports
    asks: str  # of an approach, one line
    run: CheckLook  # raises ContractViolation
    remedy: str  # what to do where it fails
    needs: str = ""  # the capability without which it does not apply


CHECKS: list[ContractCheck] = []
"""In the order of `bench.judge.contract.checks`. If the first fails, the others cannot run."""


def contract_check(remedy: str, needs: str = "") -> Callable[[CheckLook], CheckLook]:
    """Add a function to the checks. Its name is the check's name, its docstring's first line what the contract asks."""

    def add(function: CheckLook) -> CheckLook:
        def run(subject: ApproachUnderTest) -> None:
            if not needs or subject.declares(needs):
                function(subject)

        asks = (function.__doc__ or "").splitlines()[0]
        CHECKS.append(ContractCheck(function.__name__.replace("_", "-"), asks, run, remedy, needs))
        return function

    return add


def require(condition: bool, message: str) -> None:
    """Raise ContractViolation with the message unless the condition holds."""
    if not condition:
        raise ContractViolation(message)


def same_arrays(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """Return whether two posteriors' arrays are equal to the bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
