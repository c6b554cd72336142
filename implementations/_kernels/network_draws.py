"""Forward passes of drawn networks, in blocks of rows that fit into the processor's cache.

Two kinds of draws of a network whose weights are independent Gaussians N(mu, sigma^2):

`WholeNetworks`      one set of weights for all rows.
`SharedFirstLayer`   for a fixed row x the pre-activations of the first layer are independent Gaussians with
                         m = mu x + mu_b,    v = sigma^2 x^2 + sigma_b^2    (Kingma et al. 2015, arXiv 1506.02557),
                     independent of the later layers. m and sqrt(v) are computed once for all draws; draw s is
                     m + sqrt(v) z_s, with one vector z_s of standard normals for all rows, and sampled later layers.
                     Each row's outputs are distributed as those of whole networks. But one draw does not predict two
                     rows with the same network.

Shapes: B rows, S draws, H units of the first layer, P scalar weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from implementations._kernels.layout import Layout

Activation = Callable[[Tensor], Tensor]  # in place, returns its argument

ROWS_AT_A_TIME = 512  # rows of a forward pass, so that its activations stay in the processor's cache
# Logits can reach thousands, so that rounding matters. MKL changes the order of a sum for fewer than 12 rows and, with
# two threads, if the number of rows is no multiple of 4. With multiples of 16, each row has the same bits in any block.
ROW_MULTIPLE = 16


def row_blocks(x: Tensor) -> list[Tensor]:
    """Return x [B, in] in blocks of ROWS_AT_A_TIME rows; zeros fill the last up to a multiple of ROW_MULTIPLE."""
    *whole, last = torch.split(x, ROWS_AT_A_TIME)
    missing = -len(last) % ROW_MULTIPLE
    return [*whole, pad(last, (0, 0, 0, missing)) if missing else last]


class NetworkDraws(ABC):
    """Turns the numbers of a draw into outputs of a network, in the type and on the device of its means."""

    n_numbers: int  # length of the vector of numbers that makes one draw

    def __init__(self, layout: Layout, activation: Activation, input_scale: float, mu: Tensor) -> None:
        """Take means [P]; `input_scale` multiplies x, `activation` follows each layer but the last."""
        self._layout, self._activation, self._input_scale, self._mu = layout, activation, input_scale, mu
        self._hidden = [mu.new_empty(ROWS_AT_A_TIME, width) for width in layout.sizes[1:-1]]
        self._transposed = mu.new_empty(layout.sizes[-1], ROWS_AT_A_TIME)

    @property
    def device(self) -> torch.device:
        """Return the device on which the numbers of a draw must be."""
        return self._mu.device

    @abstractmethod
    def place_(self, normals: Tensor) -> None:
        """Turn standard normals [S, n_numbers] into the numbers of S draws, in place."""

    @abstractmethod
    def begin(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return what is the same for all draws of a block of rows x [B, in]."""

    @abstractmethod
    def forward(self, begun: tuple[Tensor, ...], numbers: Tensor, out: Tensor) -> None:
        """Fill out [B, outputs] for what `begin` returned and the numbers [n_numbers] of one draw."""

    def _finish(self, hidden: Tensor, layers: list[tuple[Tensor, Tensor]], out: Tensor) -> None:
        """Run pre-activations [B, H] of the first layer, which are overwritten, through the later layers."""
        for depth, (matrix, bias) in enumerate(layers[:-1], start=1):
            hidden = torch.addmm(bias, self._activation(hidden), matrix.t(), out=self._hidden[depth][: len(hidden)])
        matrix, bias = layers[-1]
        # MKL is twice as fast with the ten classes as rows of the product than as its columns.
        transposed = self._transposed[:, : len(hidden)]
        torch.mm(matrix, self._activation(hidden).t(), out=transposed)
        torch.add(transposed.t(), bias, out=out)


class WholeNetworks(NetworkDraws):
    """A draw is one network for all rows."""

    def __init__(
        self, layout: Layout, activation: Activation, input_scale: float, mu: Tensor, sigma: Tensor | None
    ) -> None:
        """Take mu and sigma [P]; without sigma every draw is the network of mu."""
        super().__init__(layout, activation, input_scale, mu)
        self._sigma = sigma
        self.n_numbers = len(mu)

    def place_(self, normals: Tensor) -> None:
        """Turn normals [S, P] into weights; without noise, overwrite them with the means."""
        if self._sigma is None:
            normals.copy_(self._mu)
        else:
            torch.addcmul(self._mu, self._sigma, normals, out=normals)

    def begin(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the rows."""
        return (x,)

    def forward(self, begun: tuple[Tensor, ...], numbers: Tensor, out: Tensor) -> None:
        """See `NetworkDraws.forward`; numbers are weights [P]."""
        (x,) = begun
        (matrix, bias), *later = self._layout.layers(numbers)
        hidden = self._hidden[0][: len(x)]
        torch.addmm(bias, x, matrix.t(), alpha=self._input_scale, out=hidden)
        self._finish(hidden, later, out)


class SharedFirstLayer(NetworkDraws):
    """A draw is one vector of normals for the first layer's pre-activations, and weights for the later layers."""

    def __init__(self, layout: Layout, activation: Activation, input_scale: float, mu: Tensor, sigma: Tensor) -> None:
        """Take mu and sigma [P]."""
        super().__init__(layout, activation, input_scale, mu)
        self._first_mu, self._first_sigma = layout.layers(mu)[0], layout.layers(sigma)[0]
        self._later = Layout(layout.sizes[1:])
        n_later = self._later.n_weights
        self._later_mu, self._later_sigma = mu[-n_later:], sigma[-n_later:]
        self._width = layout.sizes[1]
        self.n_numbers = self._width + n_later

    def place_(self, normals: Tensor) -> None:
        """Leave the first H numbers as they are and turn the rest into weights."""
        later = normals[:, self._width :]
        torch.addcmul(self._later_mu, self._later_sigma, later, out=later)

    def begin(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return mean and standard deviation [B, H] of the first layer's pre-activations."""
        (matrix, bias), (matrix_sigma, bias_sigma) = self._first_mu, self._first_sigma
        mean = torch.addmm(bias, x, matrix.t(), alpha=self._input_scale)
        variance = torch.addmm(bias_sigma.square(), x.square(), matrix_sigma.square().t(), alpha=self._input_scale**2)
        return mean, variance.sqrt_()

    def forward(self, begun: tuple[Tensor, ...], numbers: Tensor, out: Tensor) -> None:
        """See `NetworkDraws.forward`; numbers are z [H], then the weights of the later layers."""
        mean, std = begun
        hidden = torch.addcmul(mean, std, numbers[: self._width], out=self._hidden[0][: len(mean)])
        self._finish(hidden, self._later.layers(numbers[self._width :]), out)
