"""Compares each approach on a device with the CPU: python -m tests.implementations.on_device DEVICE [NAME ...].

DEVICE is cuda, cuda:N or pretend (see below, which every machine has). Prints one line of JSON for each approach
and way of training. The exit code is 1 if anything failed. This is a program of its own, because PyTorch must know the
pretend device before the first backward pass of a process.

The pretend device computes on the CPU but refuses what a GPU refuses: tensors and generators left on the CPU.
Its tensors wrap CPU tensors and say that they lie on `pretend:0`. Every operation makes the checks of CUDA, then runs
on the wrapped tensors. The checks: all tensors of an operation are on one device, except that tensors of shape [] and
indices may be on the CPU; a generator is on the device of the numbers that it draws. So results equal the CPU's, and
code that forgets a `.to(device)` fails here as it would on a GPU. Times, streams and kernels of a GPU are not imitated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from bench.interface import Posterior
from bench.judge.contract.under_test import MANY, ApproachUnderTest, CheckContext, values
from bench.plan.registry import manifests
from implementations import _methods
from tests.implementations.made_up import WIDTHS, SmallUnderTest

CPU = torch.device("cpu")
# Operations that take tensors of two devices: copies, and an index into a tensor of the device.
COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default, torch.ops.aten.copy.default}
INDEXING = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten.index_put.default,
    torch.ops.aten._index_put_impl_.default,
}


class WrongDevice(RuntimeError):
    """Tensors or generators of two devices met in one operation."""


class PretendTensor(torch.Tensor):
    """A CPU tensor, `plain`, that says it lies on the pretend device."""

    plain: torch.Tensor

    @staticmethod
    def __new__(cls, plain: torch.Tensor) -> PretendTensor:
        """Wrap a CPU tensor; views of it and of the wrapper share their numbers."""
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls, plain.size(), plain.stride(), plain.storage_offset(), dtype=plain.dtype, device=pretended()
        )
        wrapper.plain = plain
        return wrapper

    def __repr__(self) -> str:
        """Return what is wrapped."""
        return f"PretendTensor({self.plain!r})"

    def tolist(self) -> object:
        """Return the numbers, as `torch.Tensor.tolist` does from any device."""
        return self.plain.tolist()

    def numpy(self, **_: object) -> object:
        """Raise what a GPU's tensor raises."""
        raise TypeError("can't convert pretend:0 device type tensor to numpy; use Tensor.cpu() first")

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        """Run an operation on the wrapped tensors."""
        return dispatched(function, args, kwargs or {})


def pretended() -> torch.device:
    """Return the pretend device; the first call tells PyTorch of it."""
    with contextlib.suppress(RuntimeError):
        return torch.device("pretend:0")
    from torch.utils import backend_registration  # private, so asked for only where it is used

    backend_registration._setup_privateuseone_for_python_backend("pretend")
    return torch.device("pretend:0")


@contextlib.contextmanager
def active() -> Iterator[torch.device]:
    """Return a context in which tensors can be made on and moved to the device."""
    where = pretended()
    with _Functions(), _Making():
        yield where


def dispatched(function, args, kwargs):
    """Run one operation of PyTorch for tensors of the device, or for a target on it."""
    leaves, _ = tree_flatten((args, kwargs))
    given = [value for value in leaves if isinstance(value, torch.Tensor)]
    on_device = any(isinstance(value, PretendTensor) for value in given)
    asked = kwargs.get("device")
    target = None if asked is None else torch.device(asked)
    if on_device and function not in COPIES | INDEXING:
        for value in given:
            if not isinstance(value, PretendTensor) and value.dim():
                raise WrongDevice(f"{function} was given tensors on cpu and on pretend:0")
    if function is torch.ops.aten._local_scalar_dense.default:
        return function(given[0].plain)
    plain_kwargs = dict(kwargs)
    if target is not None:
        plain_kwargs["device"] = CPU
    call_args, call_kwargs = tree_map(_unwrapped, (args, plain_kwargs))
    result = function(*call_args, **call_kwargs)
    if function is torch.ops.aten.copy_.default and not isinstance(args[0], PretendTensor):
        return args[0]
    lands = on_device if target is None else target.type == "pretend"
    same = {id(value.plain): value for value in given if isinstance(value, PretendTensor)}
    return tree_map(lambda value: _wrapped(value, same) if lands else value, result)


def _unwrapped(value):
    return value.plain if isinstance(value, PretendTensor) else value


def _wrapped(value, same):
    """Wrap a result. If the operation changed a given tensor, in place or as `out=`, return that tensor."""
    if not isinstance(value, torch.Tensor) or isinstance(value, PretendTensor):
        return value
    return same[id(value)] if id(value) in same else PretendTensor(value)


class _Making(TorchDispatchMode):
    """Makes tensors on the pretend device if `device=` asks for it."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves, _ = tree_flatten((args, kwargs))
        asked = kwargs.get("device")
        wants = asked is not None and torch.device(asked).type == "pretend"
        if wants or any(isinstance(value, PretendTensor) for value in leaves):
            return dispatched(function, args, kwargs)
        return function(*args, **kwargs)


class _Functions(TorchFunctionMode):
    """Refuses a CPU generator for the device; also handles functions that make tensors without the dispatcher."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        asked = kwargs.get("device")
        target = None if asked is None else torch.device(asked).type
        lands = target == "pretend" or (target is None and bool(args) and isinstance(args[0], PretendTensor))
        if lands and kwargs.get("generator") is not None:
            raise WrongDevice(f"{function} was given a generator on cpu for numbers on pretend:0")
        if lands and function in (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor):
            kwargs.pop("device", None)
            if function is torch.Tensor.new_tensor:
                kwargs.setdefault("dtype", args[0].dtype)
                args = args[1:]
            return PretendTensor(torch.tensor(*args, **kwargs))
        return function(*args, **kwargs)


# torchbnn 1.2 computes its KL on the CPU unless the weights say `is_cuda`; ivon-opt 0.1.3 gives a parameter another
# tensor as `data`, which a tensor that wraps another does not notice.
NOT_PRETEND = ("torchbnn_mlp", "ivon")
# Allowed difference, as a share of the largest number on the CPU. Adam's first steps are +-learning rate, whatever the
# size of the gradient. If rounding decides a gradient's sign, a weight of pyro_random_module moves by 0.02 of 5.
NEAR = 0.02


def names(device: str) -> list[str]:
    """Return the approaches that run on this device here."""
    left_out = NOT_PRETEND if device == "pretend" else ()
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
    with active() as device:
        there = torch.ones(3, device=device)
        assert (there + there.to(device)).tolist() == [2, 2, 2]
        assert (there * torch.tensor(2.0)).tolist() == [2, 2, 2]  # a number of the CPU, as CUDA allows
        assert there[torch.tensor([0, 2])].tolist() == [1, 1]  # an index of the CPU, likewise
        with pytest.raises(WrongDevice, match="cpu and on pretend"):
            there + torch.ones(3)
        with pytest.raises(WrongDevice, match="cpu and on pretend"):
            torch.add(there, there, out=torch.ones(3))
        with pytest.raises(WrongDevice, match="generator on cpu"):
            torch.randn(3, device=device, generator=torch.Generator())
        with pytest.raises(TypeError, match="convert pretend"):
            there.numpy()


def changes_in_place_and_through_views_reach_its_tensors():
    with active() as device:
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
        pretended()
        it_refuses_what_a_gpu_refuses()
        changes_in_place_and_through_views_reach_its_tensors()
    failed = 0
    for name in chosen or names(device_name):
        for together in [False, True] if "fit_many" in manifests()[name].capabilities else [False]:
            try:
                is_pretend = device_name == "pretend"
                with active() if is_pretend else nullcontext(torch.device(device_name)) as device:
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
