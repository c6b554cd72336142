"""Which tensors are names of the same numbers? Views of a flat vector are, and a matrix and its transpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


class Shared:
    """Tensors of one storage: those in `named` have each number once, and autograd gives gradients for `sources`."""

    def __init__(self, given: Mapping[str, Tensor]) -> None:
        """Choose the names. A tensor that is trained only under another name is replaced by one with a gradient."""
        self.sources = {name: tensor for name, tensor in given.items() if tensor.requires_grad}
        for name, tensor in given.items():  # a slice with a graph to another one is a part of that source
            if not tensor.is_leaf and any(tensor._base is other for other in given.values()):
                del self.sources[name]
        self._places = _places(given)
        trained = [self._places[name] for name in self.sources]
        self.named = {name: given[name] for name in _each_once(self._places)}
        for name, tensor in self.named.items():
            if not tensor.requires_grad and any(bool(torch.isin(self._places[name], other).any()) for other in trained):
                self.named[name] = self.sources[name] = tensor.detach().requires_grad_()

    def gradient(self, slopes: Iterable[Tensor | None]) -> dict[str, Tensor]:
        """Return the gradient by the names in `named`: the sum of the slopes by every source of a number."""
        total = torch.zeros(sum(map(len, self._places.values())), dtype=torch.float64)
        for name, slope in zip(self.sources, slopes, strict=True):
            if slope is not None:
                total.index_add_(0, self._places[name], slope.detach().cpu().double().flatten())
        return {name: total[self._places[name]].reshape(tensor.shape) for name, tensor in self.named.items()}


def by_storage(named: Mapping[str, Tensor]) -> list[Shared]:
    """Return the tensors of each storage. Of two names of one tensor, the first counts."""
    found: dict[tuple[object, ...], dict[str, Tensor]] = {}
    for name, tensor in named.items():
        tensors = found.setdefault(_storage(tensor), {})
        if not any(tensor is other for other in tensors.values()):
            tensors[name] = tensor
    return [Shared(tensors) for tensors in found.values()]


def overlap(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have numbers in common."""
    if one is other or _storage(one) != _storage(other):
        return one is other
    return bool(torch.isin(_addresses(one), _addresses(other)).any())


def _storage(tensor: Tensor) -> tuple[object, ...]:
    """Return the key of a tensor's storage; an empty tensor shares none."""
    if not tensor.numel():
        return (id(tensor),)
    return tensor.device, tensor.dtype, tensor.untyped_storage().data_ptr()


def _addresses(tensor: Tensor) -> Tensor:
    """Return where each number of a tensor is in its storage."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return torch.arange(last + 1).as_strided(tensor.shape, tensor.stride()).flatten() + int(tensor.storage_offset())


def _places(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return which number each of a tensor's numbers is, counted over those of all tensors of its storage."""
    if len(given) == 1:
        return {name: torch.arange(tensor.numel()) for name, tensor in given.items()}
    addresses = [_addresses(tensor) for tensor in given.values()]
    _, found = torch.unique(torch.cat(addresses), return_inverse=True)
    return dict(zip(given, found.split([len(part) for part in addresses]), strict=True))


def _each_once(places: Mapping[str, Tensor]) -> list[str]:
    """Return the smallest tensors that have each number once; where they do not, the larger one that contains them."""
    times = torch.zeros(sum(map(len, places.values())), dtype=torch.int64)  # how often the chosen have a number
    chosen: list[str] = []
    for name in sorted(places, key=lambda name: len(places[name])):
        place = places[name]
        if chosen and bool((times[place] == 1).all()):
            continue
        inside = [other for other in chosen if times[place].any() and bool(torch.isin(places[other], place).all())]
        for other in inside:
            times[places[other]] -= 1
        times[place] += 1
        chosen = [other for other in chosen if other not in inside] + [name]
    return chosen
