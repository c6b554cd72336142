"""An objective in PyTorch: a loss with its graph, leaf tensors, and what autograd saves.

Each call leaves torch's generators, the parameters and their gradients as they were. Anything else that a call changes,
such as running statistics, stays changed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from elbo_audit.errors import AuditError
from elbo_audit.factors import Array, Factor, Gradient, Group
from elbo_audit.gradients import same
from elbo_audit.names import gaussians
from elbo_audit.objective import Batch, Objective, Term
from elbo_audit.streams import seed_of

Loss = Callable[..., Tensor]  # called with a batch

HALF = (torch.bfloat16, torch.float16)  # the coarser first


class TorchObjective(Objective):
    """Losses of torch. The noise comes from its global generators."""

    def __init__(
        self,
        loss: Loss,
        parameters: Iterable[tuple[str, Tensor]],
        batches: Sequence[object],
        nll: Loss | None = None,
        kl: Callable[[], Tensor] | None = None,
    ) -> None:
        """Keep the arguments; raises AuditError if they cannot be audited."""
        given = _named(parameters)
        self._leaves = [value for value in given.values() if value.requires_grad and value.is_leaf]
        first: dict[object, str] = {}  # names, by where the numbers are
        for name, value in _pairs_first(given).items():
            first.setdefault(_place(value), name)
        self.named = {name: value for name, value in given.items() if name in first.values()}  # trained or not
        _check_apart(self.named)
        self._sources: dict[str, list[Tensor]] = {name: [] for name in self.named}
        sources = {id(value): value for value in given.values() if value.requires_grad}
        for value in sources.values():
            if not value.is_leaf and id(value._base) in sources:  # its gradient is a part of that one's
                continue
            self._sources[first[_place(value)]].append(value)
        trained = {name: tuple(value.shape) for name, value in self.named.items() if self._sources[name]}
        if not trained:
            raise AuditError("no parameter requires a gradient; give model.named_parameters()")
        super().__init__(trained, batches, loss, nll, kl)

    @property
    def names(self) -> Collection[str]:
        """Return the names of all tensors, trained or not."""
        return self.named

    def value(self, name: str) -> Array:
        """Return a copy of a tensor's numbers, whether it is trained or not."""
        return as_array(self.named[name])

    def assign(self, name: str, value: Array) -> None:
        """Give a tensor other numbers, unnoticed by autograd."""
        self.named[name].data.copy_(torch.from_numpy(np.asarray(value)))

    @cached_property
    def epsilon(self) -> float:
        """Return one unit in the last digit of a loss of 1, in the loss's own type."""
        return torch.finfo(self.tensor("loss", self.batches[0], 0).dtype).eps

    def tensor(self, term: Term, batch: Batch, draw: int) -> Tensor:
        """Return a term as a scalar with its graph."""
        call = "kl()" if term == "kl" else f"{term}(*batch)"
        with noise_of(draw), self._no_backward(call):
            value = self.functions[term](*batch)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise AuditError(f"{call} returned {type(value).__name__}; it must return a tensor of one number")
        if not value.is_floating_point():
            raise AuditError(f"{call} returned a tensor of {value.dtype}; it must return one of floats")
        return value.reshape(())

    @contextlib.contextmanager
    def _no_backward(self, call: str) -> Iterator[None]:
        """Put gradients aside, and back; raises AuditError if a call leaves others."""
        kept = [leaf.grad for leaf in self._leaves]
        try:
            for leaf in self._leaves:
                leaf.grad = None
            yield
            if any(leaf.grad is not None for leaf in self._leaves):
                raise AuditError(
                    f"{call} calls backward() itself, as a closure for LBFGS does; give a function that returns the "
                    "loss, without backward() and step()"
                )
        finally:
            for leaf, grad in zip(self._leaves, kept, strict=True):
                leaf.grad = grad

    def _evaluate(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[float, Gradient]:
        value = self.tensor(term, batch, draw)
        number = float(value.detach())
        return number, self.gradient(value) if slopes and np.isfinite(number) else {}

    def gradient(self, value: Tensor) -> Gradient:
        """Return the gradient of a scalar by name; zero where autograd sees no path."""
        if not value.requires_grad:
            return {name: np.zeros(shape) for name, shape in self.shapes.items()}
        sources = [source for name in self.shapes for source in self._sources[name]]
        try:
            slopes = iter(torch.autograd.grad(value, sources, allow_unused=True))
        except RuntimeError as error:
            if "second time" not in str(error):
                raise
            raise AuditError(
                "a part of the loss was computed before the call, and its graph is gone after one gradient; compute "
                "all parts, such as the KL, inside the function"
            ) from error
        found: Gradient = {}
        for name, shape in self.shapes.items():  # the sum of the slopes by every tensor of these numbers
            parts = [slope for slope in itertools.islice(slopes, len(self._sources[name])) if slope is not None]
            found[name] = sum((as_array(part).reshape(shape) for part in parts), np.zeros(shape))
        return found

    def holds(self, name: str, tensor: Tensor) -> bool:
        """Return whether a tensor has the numbers of the parameter of this name."""
        return _place(self.named[name]) == _place(tensor)

    def group(self, factor: object) -> Group:
        """Return the weights of a pair of names, or of a `Factor` whose functions return tensors."""
        if not isinstance(factor, Factor):
            return super().group(factor)

        def mean_and_std() -> list[Tensor]:
            with torch.enable_grad():
                pair = factor.mean(), factor.std()
            if not all(isinstance(part, Tensor) for part in pair):
                raise AuditError(f"mean or std of '{factor.name}' is no tensor; give functions that return tensors")
            return [part for part in pair if isinstance(part, Tensor)]

        def pullback(by_mean: Array, by_std: Array) -> Gradient:
            pairs = zip(mean_and_std(), (by_mean, by_std), strict=True)
            sums = [(part * torch.tensor(slope).to(part)).sum() for part, slope in pairs]
            return self.gradient(torch.stack(sums).sum())

        mean, std = (lambda at=at: as_array(mean_and_std()[at]) for at in (0, 1))
        return Group(factor.name, mean, std, pullback, factor.may_be_layer)

    def take(self, batch: Batch, rows: Sequence[int]) -> Batch:
        """Return these rows of a batch, which may repeat."""
        return tuple(part[list(rows)] if isinstance(part, Tensor) and part.dim() else part for part in batch)

    def _same(self, one: Batch, other: Batch) -> bool:
        pairs = [(a, b) for a, b in zip(one, other, strict=False) if isinstance(a, Tensor) and isinstance(b, Tensor)]
        return all(torch.equal(a, b) for a, b in pairs)

    def numbers(self, part: object) -> Array | None:
        """Return a tensor's numbers; None for anything else."""
        return as_array(part) if isinstance(part, Tensor) and part.dim() and not part.is_complex() else None

    def sets_seed(self) -> bool:
        """Return whether the loss leaves torch's generator in one state, whatever state it found."""
        states = []
        for draw in (0, 1):
            with noise_of(draw):
                self.functions["loss"](*self.batches[0])
                states.append(torch.get_rng_state())
        return torch.equal(*states)

    def precision(self) -> tuple[float, str]:
        """Return the rounding of the coarsest tensors that autograd saves, as under autocast; else the loss's own."""
        _, saved = self._saved(lambda tensor: tensor)
        kinds = {tensor.dtype for tensor, _ in saved} | {self.tensor("loss", self.batches[0], 0).dtype}
        half = next((kind for kind in HALF if kind in kinds), None)
        return (torch.finfo(half).eps, str(half).removeprefix("torch.")) if half else (self.epsilon, "")

    def _saved(self, kept: Callable[[Tensor], Tensor]) -> tuple[Gradient, list[tuple[Tensor, Tensor]]]:
        """Return the gradient from what `kept` makes of the tensors that autograd saves, and both."""
        saved: list[tuple[Tensor, Tensor]] = []

        def keep(tensor: Tensor) -> int:
            saved.append((tensor.detach(), kept(tensor.detach())))
            return len(saved) - 1

        try:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda index: saved[index][1]):
                value = self.tensor("loss", self.batches[0], 0)
            return self.gradient(value), saved
        except RuntimeError:  # torch.func lets nobody see what autograd saves
            return {}, []

    def overwritten(self) -> tuple[Sequence[str], str]:
        """Return the parameters whose gradients an in-place write changes, and a sentence that names what is written.

        If the loss writes through `.data` into a tensor that autograd saved, backward uses the new values unnoticed. So
        the gradient is computed twice: with copies of the tensors as they were saved, and as autograd does it.
        """
        right, saved = self._saved(torch.clone)
        changed = [now for now, then in saved if not torch.equal(now, then) and not bool(then.isnan().any())]
        if not changed:
            return (), ""
        plain = self.loss_gradient(self.batches[0], 0)
        names = [name for name in plain if not same([plain, right], name)]
        written = {tensor.data_ptr(): tensor for tensor in changed}
        shown = ", ".join(self._words_for(tensor, names) for tensor in written.values())
        return names, (
            f"the loss writes {shown} in place before backward has used it, as passes that share a buffer do, "
            f"which changes the gradient of {', '.join(names)}: draw noise anew for each pass "
            "(torch.randn_like) instead of writing it in place"
        )

    def _words_for(self, tensor: Tensor, names: Sequence[str]) -> str:
        """Return a tensor's name, if the audit was given it; else its shape, and the first of `names` of this shape."""
        shape = " x ".join(map(str, tensor.shape)) or "one number"
        like = next((f" (as {name})" for name in names if self.shapes[name] == tuple(tensor.shape)), "")
        return next((name for name in self.named if self.holds(name, tensor)), f"a tensor of {shape}{like}")


def as_array(tensor: Tensor) -> Array:
    """Return a float64 copy of a tensor's numbers."""
    return np.array(tensor.detach().cpu().double().numpy())


def _named(parameters: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for pair in parameters:
        good = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], Tensor)
        if not good:
            given = type(pair).__name__
            raise AuditError(f"parameters hold a {given}; give pairs of name and tensor: model.named_parameters()")
        name, value = pair
        found[name] = value
        sizes = zip(value.shape, value.stride(), strict=True)
        if value.requires_grad and any(step == 0 and n > 1 for n, step in sizes):
            raise AuditError(
                f"parameter '{name}' was made by expand(): several of its numbers are one in memory, so that no "
                "optimiser can train it; add .clone(), or give the tensor before expand()"
            )
    return found


def _pairs_first(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with those in front whose names pair: of two names of one tensor, the first counts."""
    values = {name: as_array(value) for name, value in given.items()}
    paired = {name for pair in gaussians(values, values) for name in (pair.mean, pair.scale)}
    return dict(sorted(given.items(), key=lambda item: item[0] not in paired))


def _check_apart(values: Mapping[str, Tensor]) -> None:
    """Raise AuditError if two tensors share numbers and are not the same, so that neither has a gradient of its own."""
    spans = []
    for name, value in values.items():
        length = 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
        start = value.storage_offset() if value.numel() else 0
        spans.append((value.untyped_storage().data_ptr(), start, start + length * bool(value.numel()), name))
    for (storage, _, end, one), (other, start, _, two) in itertools.pairwise(sorted(spans)):
        if storage == other and start < end:
            raise AuditError(f"'{one}' and '{two}' share numbers in memory, in part or reordered; give one of them")


def _place(tensor: Tensor) -> object:
    """Return where a tensor's numbers are: the same for a copy of a parameter that shares its memory."""
    if not tensor.numel():
        return id(tensor)
    return tensor.device, tensor.data_ptr(), tensor.numel(), tensor.is_contiguous() or tensor.stride()


def own_noise() -> AbstractContextManager[None]:
    """Return a context that restores torch's generators, those of GPUs too, when it ends."""
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


@contextlib.contextmanager
def noise_of(draw: int) -> Iterator[None]:
    """Start torch's generators at the seed of this draw, with gradients on; at the end put their old states back."""
    with own_noise(), torch.enable_grad():
        # torch.manual_seed does this too, but took a quarter of an audit's time
        torch.default_generator.manual_seed(seed_of(draw))
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed_of(draw))
        yield
