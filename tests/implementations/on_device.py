"""Compares each approach on a device with the CPU: python -m tests.implementations.on_device DEVICE [NAME ...].

DEVICE is cuda, cuda:N or pretend (`pretend_device`, which every machine has). Prints one line of JSON for each approach
and way of training. The exit code is 1 if anything failed. This is a program of its own, because PyTorch must know the
pretend device before the first backward pass of a process.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from bench.interface import Posterior
from bench.judge.contract.under_test import MANY, ApproachUnderTest, CheckContext, values
from bench.plan.registry import manifests
from implementations import _methods
from tests.implementations import pretend_device
from tests.implementations.made_up import WIDTHS, SmallUnderTest

# Allowed difference, as a share of the largest number on the CPU. Adam's first steps are +-learning rate, whatever the
# size of the gradient. If rounding decides a gradient's sign, a weight of pyro_random_module moves by 0.02 of 5.
ASK_FOR_CUDA = ("torchbnn_mlp",)  # torchbnn 1.2 computes its KL on the CPU unless the weights say `is_cuda`
NEAR = 0.02


def names(device: str) -> list[str]:
    """Return the approaches that run on this device here."""
    left_out = ASK_FOR_CUDA if device == "pretend" else ()
    able = {name: one for name, one in manifests().items() if not one.cpu_float32_only and not one.missing_framework()}
    return [name for name in able if name not in left_out]


def compare(name: str, device: torch.device, together: bool) -> dict[str, object]:
    """Train and predict on the device and the CPU; return the largest differences as shares of the largest number."""
    subject = SmallUnderTest(name)
    usual, moved = (_posterior(subject, place, together) for place in (torch.device("cpu"), device))
    wanted = subject.draws_of(usual)
    weights = [(left, moved.arrays()[key]) for key, left in usual.arrays().items()]
    asked = values(usual.predict(subject.x, wanted, subject.rows))
    x, rows = subject.x.to(device), subject.rows.to(device)
    found = values(moved.predict(x, wanted, rows))
    rebuilt = subject.approach().rebuild(usual.arrays(), subject.task, MANY[0])  # from CPU arrays, as a file has them
    for answer in (found, values(moved.per_row().predict(x, wanted, rows)), values(rebuilt.predict(x, wanted, rows))):
        if answer.device.type != device.type:
            raise RuntimeError(f"predictions of {name} lie on {answer.device}")
    return {
        "approach": name,
        "seeds": len(MANY) if together else 1,
        "weights": max((_deviation(*pair) for pair in weights), default=0.0),
        "predictions": _deviation(asked, found.cpu()),
    }


def _posterior(subject: ApproachUnderTest, device: torch.device, together: bool) -> Posterior:
    train = dataclasses.replace(subject.train, x=subject.train.x.to(device), y=subject.train.y.to(device))
    contexts = [CheckContext(seed) for seed in (MANY if together else MANY[:1])]
    for context in contexts:
        context.device = device
    approach = subject.approach()
    if not together:
        return approach.fit(train, subject.task, contexts[0])
    return approach.fit_many(train, subject.some_rows(), subject.task, contexts)[0]


def _deviation(left: Tensor, right: Tensor) -> float:
    """Return the largest difference as a share of the largest number."""
    left, right = left.double(), right.double()
    if not bool(torch.isfinite(right).all()):
        return float("inf")
    largest = float(left.abs().max()) or 1.0
    return float((left - right).abs().max()) / largest


def it_refuses_what_a_gpu_refuses():
    with pretend_device.active() as device:
        there = torch.ones(3, device=device)
        assert (there + there.to(device)).tolist() == [2, 2, 2]
        assert (there * torch.tensor(2.0)).tolist() == [2, 2, 2]  # a number of the CPU, as CUDA allows
        assert there[torch.tensor([0, 2])].tolist() == [1, 1]  # an index of the CPU, likewise
        with pytest.raises(pretend_device.WrongDevice, match="cpu and on pretend"):
            there + torch.ones(3)
        with pytest.raises(pretend_device.WrongDevice, match="cpu and on pretend"):
            torch.add(there, there, out=torch.ones(3))
        with pytest.raises(pretend_device.WrongDevice, match="generator on cpu"):
            torch.randn(3, device=device, generator=torch.Generator())
        with pytest.raises(TypeError, match="convert pretend"):
            there.numpy()


def changes_in_place_and_through_views_reach_its_tensors():
    with pretend_device.active() as device:
        there = torch.zeros(2, 3, device=device)
        row = there[1]
        row += 1
        torch.add(there[0], 5, out=there[0])
        assert there.cpu().tolist() == [[5, 5, 5], [1, 1, 1]]
        assert there.mul_(2) is there


def main(argv: Sequence[str]) -> int:
    """Compare what the command line asks for; return the exit code."""
    device_name, *chosen = argv
    _methods.WIDTHS = WIDTHS
    torch.set_num_threads(1)  # numba compiles each loop once more for several threads, which takes longer than the rest
    if device_name == "pretend":
        pretend_device.device()
        it_refuses_what_a_gpu_refuses()
        changes_in_place_and_through_views_reach_its_tensors()
    failed = 0
    for name in chosen or names(device_name):
        for together in [False, True] if "fit_many" in manifests()[name].capabilities else [False]:
            try:
                is_pretend = device_name == "pretend"
                with pretend_device.active() if is_pretend else nullcontext(torch.device(device_name)) as device:
                    line = compare(name, device, together)
            except Exception as error:  # noqa: BLE001 - a device may raise anything; it is printed as a failure
                line = {"approach": name, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
            bad = "error" in line or max(float(str(line["weights"])), float(str(line["predictions"]))) > NEAR
            failed += bad
            sys.stdout.write(f"{json.dumps(line)}\n")
            sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
