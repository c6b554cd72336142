"""The MXNet side of mxnet_bbb: MXNet's import on today's NumPy, conversions without a copy, and the training step.

Raises MissingFramework on import if MXNet is not installed or does not import.
Shapes: B rows, K classes, P scalar weights.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import warnings
from collections.abc import Sequence
from itertools import chain, compress
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import dlpack

from bench.core.errors import MissingFramework
from bench.core.project import install
from implementations._kernels.layout import Layout
from implementations._kernels.scale_mixture import ScaleMixture

_INSTALL = f"{install('mxnet')} (Linux x86-64, Python < 3.13, NumPy < 2)"


def import_mxnet() -> ModuleType:
    """Return the module `mxnet`.

    Raises:
        MissingFramework: it is not installed, or this Python or NumPy is too new for it.
    """
    if importlib.util.find_spec("mxnet") is None:
        raise MissingFramework(f"MXNet is not installed: {_INSTALL}")
    # MXNet 1.9.1 uses numpy.bool, which NumPy 1.24 removed. The name exists during the import only.
    lacks_bool = "bool" not in vars(np)
    threads = torch.get_num_threads()
    # PyTorch has started OpenMP already. If MXNet sees this variable now, it uses all processors.
    openmp = os.environ.pop("OMP_NUM_THREADS", None)
    if lacks_bool:
        setattr(np, "bool", bool)  # noqa: B010 - mypy knows that NumPy has no such name
    try:
        with warnings.catch_warnings():
            # MXNet uses functions of NumPy, SciPy and distutils that were deprecated after its last release.
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module("mxnet")
    except (ImportError, AttributeError, TypeError, OSError) as error:
        raise MissingFramework(
            f"MXNet is installed but does not import with NumPy {np.__version__} ({error}): {_INSTALL}"
        ) from error
    finally:
        if lacks_bool:
            delattr(np, "bool")
        if openmp is not None:
            os.environ["OMP_NUM_THREADS"] = openmp
        torch.set_num_threads(threads)  # the import leaves PyTorch with one thread of OpenMP


mx = import_mxnet()
nd = mx.nd


def to_ndarray(tensor: Tensor) -> Any:
    """Return an NDArray on the memory of a contiguous CPU tensor.

    MXNet runs asynchronously: do not write to the tensor while an operation that reads it may be pending.
    """
    return mx.nd.from_numpy(tensor.detach().numpy(), zero_copy=True)


def to_tensor(array: Any) -> Tensor:
    """Wait for all pending writes to an NDArray, and return a tensor on its memory.

    Clone the tensor before MXNet writes to the array again.
    """
    return dlpack.from_dlpack(array.to_dlpack_for_read())


class Prior(ScaleMixture):
    """The prior of every weight, with the energy and gradient that MXNet computes."""

    def constant(self, n_weights: int) -> float:
        """Return the part of -sum log p(w) that does not depend on w."""
        return -n_weights * math.log(self.share / self.std)

    def energy_and_gradient(self, weights: Any, ones: Any, scale: float) -> Any:
        """Return the rest of -sum log p(w), an NDArray [1]; replaces w, an NDArray [P], by `scale` times its gradient.

        `ones` is a float64 NDArray [P] of ones.
        """
        energy = nd.dot(weights, weights) / (2 * self.std**2)
        if self.share == 1:
            weights *= scale / self.std**2
            return energy
        gap = nd.square(weights) * -self.steepness + self.offset
        energy = energy.astype("float64") - accurate_sum(nd.Activation(gap, act_type="softrelu"), ones)
        # the logistic function of the gap is the narrow component's share of the density at w
        weights *= nd.Activation(gap, act_type="sigmoid") * (2 * self.steepness * scale) + scale / self.std**2
        return energy


class TrainingStep:
    """SGD steps on mu and rho, executed by MXNet in the type of the given parameters.

    Calls queue work and return at once; `losses` and `parameters` wait for it.
    """

    def __init__(
        self,
        layout: Layout,
        used: Sequence[bool],
        prior: Prior,
        n_batches: int,
        learning_rate: float,
        mu: Tensor,
        rho: Tensor,
        rho_rate_factor: float = 1.0,
    ) -> None:
        """Start from mu and rho [P], which are copied; `used` says which layers the forward pass goes through.

        The learning rate of rho is `rho_rate_factor` times that of mu.
        """
        self._prior, self._n_batches, self._learning_rate = prior, n_batches, learning_rate
        self._rho_learning_rate = rho_rate_factor * learning_rate
        self._mu, self._rho = to_ndarray(mu).copy(), to_ndarray(rho).copy()
        self._epsilon, self._sigma, self._weights, self._from_data, self._work = (
            nd.zeros_like(self._mu) for _ in range(5)
        )
        self._ones = nd.ones(self._mu.shape, dtype="float64")
        self._layers = list(compress(layer_views(layout, self._weights), used))
        gradients = compress(layer_views(layout, self._from_data), used)
        # autograd writes into views of one vector, whose elements for unused layers stay zero
        mx.autograd.mark_variables(list(chain(*self._layers)), list(chain(*gradients)))
        self._terms: list[tuple[Any, ...]] = []

    def __call__(self, images: Any, labels: Any, noise: Tensor) -> None:
        """Make one step on NDArrays images [B, in] and labels [B] with w = mu + sigma * noise [P]."""
        self._epsilon[:] = noise.numpy()  # copies, once all pending reads of the array are done
        nd.Activation(self._rho, act_type="softrelu", out=self._sigma)
        nd.elemwise_mul(self._sigma, self._epsilon, out=self._weights)
        nd.elemwise_add(self._weights, self._mu, out=self._weights)
        with mx.autograd.record():
            log_probs = nd.log_softmax(mxnet_logits(images, self._layers))
            nll = -nd.sum(nd.pick(log_probs, labels))
        nll.backward()
        log_sigma = accurate_sum(nd.log(self._sigma, out=self._work), self._ones)
        energy = self._prior.energy_and_gradient(self._weights, self._ones, 1 / self._n_batches)
        self._terms.append((log_sigma, nd.dot(self._epsilon, self._epsilon), energy, nll))
        self._descend(self._weights)

    def _descend(self, total: Any) -> None:
        """Move mu and rho against the gradient; `total` [P] holds that of -log p(w) / M. Overwrites sigma.

        With G = d(-log p(w) / M + nll) / dw: d loss / dmu = G, because log q is constant along mu + sigma eps, and
        d loss / drho = (G eps - 1 / (M sigma)) / (1 + e^-rho).
        """
        nd.elemwise_add(total, self._from_data, out=total)
        nd.elemwise_mul(total, self._epsilon, out=self._work)
        _subtract_scaled(self._work, nd.reciprocal(self._sigma, out=self._sigma), 1 / self._n_batches)
        slope = nd.Activation(self._rho, act_type="sigmoid", out=self._sigma)
        nd.elemwise_mul(self._work, slope, out=self._work)
        _subtract_scaled(self._mu, total, self._learning_rate)
        _subtract_scaled(self._rho, self._work, self._rho_learning_rate)

    def losses(self) -> list[float]:
        """Return the losses of the steps since the last call, nats a batch."""
        constant = self._prior.constant(self._mu.size)
        found = []
        for terms in self._terms:
            log_sigma, epsilon_squared, energy, nll = (term.asscalar().item() for term in terms)
            found.append((-log_sigma - epsilon_squared / 2 + energy + constant) / self._n_batches + nll)
        self._terms.clear()
        return found

    def parameters(self) -> dict[str, Tensor]:
        """Return copies of mu and rho [P]."""
        return {"mu": to_tensor(self._mu).clone(), "rho": to_tensor(self._rho).clone()}


def accurate_sum(array: Any, ones: Any) -> Any:
    """Return the sum of an NDArray [P], given a float64 one of ones; float64 [1].

    MXNet's own sum takes several times as long on a CPU. A float32 product with ones is off by 287 nats for the log
    sigma of the start, 478,410 times -3.02: with equal numbers all partial sums are rounded to the same side.
    """
    return nd.dot(array.astype("float64"), ones)


def _subtract_scaled(target: Any, source: Any, scale: float) -> None:
    """Compute target -= scale * source in one pass; MXNet's only operator for that is its step of SGD."""
    nd.sgd_update(target, source, lr=scale, wd=0.0, out=target)


def layer_views(layout: Layout, flat: Any) -> list[tuple[Any, Any]]:
    """Return (matrix [out, in], bias [out]) of each layer as views of an NDArray [P]; `Layout.layers` for MXNet."""
    views = []
    start = 0
    for n_in, n_out in zip(layout.sizes, layout.sizes[1:], strict=False):
        middle = start + n_out * n_in
        views.append((flat[start:middle].reshape((n_out, n_in)), flat[middle : middle + n_out]))
        start = middle + n_out
    return views


def mxnet_logits(images: Any, layers: Sequence[tuple[Any, Any]]) -> Any:
    """Return MXNet's forward pass of scaled images [B, in] through the used layers, NDArray [B, K]."""
    hidden = images
    for depth, (matrix, bias) in enumerate(layers):
        hidden = nd.FullyConnected(hidden, matrix, bias, num_hidden=matrix.shape[0])
        if depth < len(layers) - 1:
            hidden = nd.relu(hidden)
    return hidden
