"""A device that computes on the CPU but refuses what a GPU refuses: tensors and generators left on the CPU.

Its tensors wrap CPU tensors and say that they lie on `pretend:0`. Every operation makes the checks of CUDA, then runs
on the wrapped tensors. The checks: all tensors of an operation are on one device, except that tensors of shape [] and
indices may be on the CPU; a generator is on the device of the numbers that it draws. So results equal the CPU's, and
code that forgets a `.to(device)` fails here as it would on a GPU. Times, streams and kernels of a GPU are not imitated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

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
            cls, plain.size(), plain.stride(), plain.storage_offset(), dtype=plain.dtype, device=device()
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


def device() -> torch.device:
    """Return the pretend device; the first call tells PyTorch of it."""
    with contextlib.suppress(RuntimeError):
        return torch.device("pretend:0")
    from torch.utils import backend_registration  # private, so asked for only where it is used

    backend_registration._setup_privateuseone_for_python_backend("pretend")
    return torch.device("pretend:0")


@contextlib.contextmanager
def active() -> Iterator[torch.device]:
    """Return a context in which tensors can be made on and moved to the device."""
    where = device()
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
