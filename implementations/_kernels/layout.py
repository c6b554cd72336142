"""All weights of a fully connected network in one flat vector, masks for them, and forward passes.

Shapes: B rows, P scalar weights. In a flat vector, one in-place operation updates all layers. All functions except
`check_masks` and `linearised` also take E networks at once: every shape then has E in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.core.errors import ContractViolation, check_known

Layers = Sequence[tuple[Tensor, Tensor]]  # (matrix, bias) of each


@dataclass(frozen=True)
class Layout:
    """Where the weights lie: for each layer the matrix [out, in] row by row, then the bias [out]."""

    sizes: tuple[int, ...]  # inputs, hidden units of each hidden layer, outputs

    @property
    def n_weights(self) -> int:
        """Return P, biases included."""
        return sum((n_in + 1) * n_out for n_in, n_out in zip(self.sizes, self.sizes[1:], strict=False))

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return (matrix [out, in], bias [out]) of each layer as views of `flat` [P]."""
        views = []
        start = 0
        networks = flat.shape[:-1]
        for n_in, n_out in zip(self.sizes, self.sizes[1:], strict=False):
            middle = start + n_out * n_in
            matrix = flat[..., start:middle].view(*networks, n_out, n_in)
            views.append((matrix, flat[..., middle : middle + n_out]))
            start = middle + n_out
        return views

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the same views by name, in the order of the layers: hidden1.weight, hidden1.bias, ..., output.bias."""
        views = self.layers(flat)
        names = [f"hidden{i + 1}" for i in range(len(views) - 1)] + ["output"]
        return {
            f"{name}.{part}": view
            for name, layer in zip(names, views, strict=True)
            for part, view in zip(("weight", "bias"), layer, strict=True)
        }

    def activations(self, n_rows: int, like: Tensor) -> list[Tensor]:
        """Return one empty buffer [n_rows, width] for each layer, of the type and device of `like` [P]."""
        return [like.new_empty(*like.shape[:-1], n_rows, width) for width in self.sizes[1:]]


def check_masks(keep: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Check that masks, by name of a parameter tensor, fit the tensors.

    Raises:
        ConfigError: a name that is not a tensor's.
        ContractViolation: a mask of another shape than its tensor.
    """
    for name, mask in keep.items():
        check_known("parameter tensor", tensors, name)
        if mask.shape != tensors[name].shape:
            raise ContractViolation(
                f"mask of '{name}' has shape {list(mask.shape)}; the tensor has {list(tensors[name].shape)}"
            )


def forward(x: Tensor, layers: Layers, activations: Sequence[Tensor]) -> Tensor:
    """Run x [B, in] through sigmoid hidden layers and a linear output layer, and return the outputs [B, outputs].

    `activations`: a buffer [B, width] for each layer, which is filled here; a backward pass needs them.
    """
    for depth, ((matrix, bias), out) in enumerate(zip(layers, activations, strict=True)):
        affine(x, matrix, bias, out)
        if depth < len(layers) - 1:
            out.sigmoid_()
        x = out
    return x


def linearised(x: Tensor, layers: Layers, changes: Sequence[Layers], first: int) -> Tensor:
    """Return f(x) + J(x) d of a ReLU network for each change d of the weights from layer `first` on; [S, B, outputs].

    Forward differentiation: with z = W h + b of a layer, dz = W dh + dW h + db, and dh = dz where z > 0 of the layer
    below, else 0.
    """
    inputs = [x]
    for matrix, bias in layers[:-1]:
        inputs.append(affine(inputs[-1], matrix, bias).relu_())
    logits = affine(inputs[-1], *layers[-1])
    found = []
    for change in changes:
        slope = affine(inputs[first], *change[first])
        for depth in range(first + 1, len(layers)):
            slope = slope.mul_(inputs[depth] > 0)
            slope = torch.addmm(affine(inputs[depth], *change[depth]), slope, layers[depth][0].t())
        found.append(logits + slope)
    return torch.stack(found)


def affine(x: Tensor, matrix: Tensor, bias: Tensor, out: Tensor | None = None) -> Tensor:
    """Return x [B, in] @ matrix' + bias [B, out], of one network or of E at once."""
    if x.dim() == 2:
        return torch.addmm(bias, x, matrix.t(), out=out)
    return torch.baddbmm(bias.unsqueeze(1), x, matrix.transpose(1, 2), out=out)


def product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """Return left [B, n] @ right [n, C], of one network or of E at once; `out` [B, C] has the type of the product.

    Autocast (`run --precision bf16`) casts no product with `out`: a factor that it has made bfloat16 is cast back.
    """
    if out is not None:
        left, right = left.to(out.dtype), right.to(out.dtype)
    return torch.mm(left, right, out=out) if left.dim() == 2 else torch.bmm(left, right, out=out)
