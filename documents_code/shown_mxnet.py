"""Checks like those of `documents_code.shown` that need MXNet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.judge.audit.documents import ShownMistake
from documents_code.mxnet_bbb import DocumentBbb, layer_shapes, mx, nd
from documents_code.shown import INPUTS, WIDTH, Check, batches, verdict

Gradients = list[NDArray[np.float32]]
"""By parameter: means of each layer's weights and biases, then the parameters of their scales."""


def _network() -> tuple[DocumentBbb, Gradients, list[Gradients]]:
    source = np.random.default_rng(0)
    shapes = layer_shapes(INPUTS, WIDTH)
    mus = [nd.array(source.normal(scale=0.1, size=shape)) for shape in shapes]
    model = DocumentBbb(mus, [nd.full(shape, -3.0) for shape in shapes], n_batches=469)
    epsilons = [nd.array(source.normal(size=shape)) for shape in shapes]
    gradients = []
    for x, y in batches():
        images, labels = nd.array(x.numpy()), nd.array(y.numpy())
        with mx.autograd.record():
            loss = model.loss(images, nd.one_hot(labels, 10), epsilons)
        loss.backward()
        gradients.append([p.grad.asnumpy().copy() for p in model.mus + model.rhos])
    return model, gradients[0], gradients


def _middle_layer() -> ShownMistake:
    model, first, gradients = _network()
    names = [f"{kind} of layer {layer} ({part})" for kind in ("mu", "rho") for layer in (1, 2, 3) for part in "Wb"]
    largest = [max(float(np.abs(g[i] - first[i]).max()) for g in gradients) for i in range(len(first))]
    unused = [name for name, gap in zip(names, largest, strict=True) if gap == 0]
    share = sum(int(p.size) for p in model.mus[2:4]) / sum(int(p.size) for p in model.mus)
    detail = f"the gradient is the same whatever the batch for {', '.join(unused)}: {share:.0%} of this small network"
    return verdict(bool(unused) and all("layer 2" in name for name in unused), detail, tensors=len(unused))


def _still_sigma() -> ShownMistake:
    model, _, gradients = _network()
    steps, sigma = 4690, float(np.log1p(np.exp(-3.0)))
    per_rho = (1 - np.exp(-sigma)) / sigma  # d log sigma / d rho = sigmoid(rho) / sigma
    drift = float(np.mean([np.concatenate([g.ravel() for g in batch[6:]]).mean() for batch in gradients]))
    reach = abs(drift) * model.learning_rate * steps * per_rho
    detail = f"{steps:,} steps at rate {model.learning_rate} move sigma by {reach:.2%} on average"
    return verdict(reach < 0.05, detail, relative_change=reach)


CHECKS: dict[str, Check] = {
    "middle_layer": _middle_layer,
    "still_sigma": _still_sigma,
}
