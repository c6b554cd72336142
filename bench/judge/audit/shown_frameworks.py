"""The checks of `bench.judge.audit.shown` that need Pyro or MXNet."""

# mypy: disable-error-code="no-untyped-call"
# (Pyro has no types)
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.judge.audit import elbo
from bench.judge.audit.elbo.objective import Factor
from bench.judge.audit.shown import INPUTS, N_TRAIN, WIDTH, Shown, batches, document, verdict


@contextmanager
def _own_store() -> Iterator[Any]:
    """Give Pyro an empty parameter store and validation off, as the documents' code has it, for a while."""
    import pyro

    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        yield pyro


def _hidden_layer_kl() -> Shown:
    module = document("pyro_hidden_layer", "pyro")
    from pyro.infer import TraceMeanField_ELBO

    with _own_store() as pyro:
        network = module.DocumentNetwork(N_TRAIN, WIDTH, INPUTS)
        three = [(x, y, network.kl_factor) for x, y in batches()]
        network.guide(*three[0])
        store = pyro.get_param_store()

        def factor(index: int) -> Factor:
            def std() -> Tensor:
                scale: Tensor = store[f"a{index}_scale"]
                return scale if index == 4 else scale * store[f"a{index}_dropout"]

            return Factor(f"layer {index}", lambda: store[f"a{index}_mean"], std)

        factors = [factor(index) for index in range(1, 5)]
        report = elbo.audit_pyro(
            network.model, network.guide, three, N_TRAIN, loss=TraceMeanField_ELBO(), factors=factors
        )
    finding = report.of("kl-sign")
    return verdict(finding.outcome == "fails", finding.detail, **finding.measured)


def _random_module_kl() -> Shown:
    module = document("pyro_random_module", "pyro")
    with _own_store():
        network = module.DocumentNetwork(WIDTH, INPUTS)
        report = elbo.audit_pyro(network.model, network.guide, batches(), N_TRAIN, draws=32)
    finding = report.of("kl-scale")
    return verdict(finding.outcome == "fails", finding.detail, **finding.measured)


def _mean_of_logits() -> Shown:
    module = document("pyro_random_module", "pyro")
    x = torch.cat([x for x, _ in batches()])
    with _own_store():
        network = module.DocumentNetwork(WIDTH, INPUTS)
        network.guide(None, None)
        torch.manual_seed(5)
        reported = network.predict(x, 10)
        torch.manual_seed(5)
        logits = torch.stack([network.guide(None, None)(x).detach() for _ in range(10)])
    by_logits = logits.mean(0).argmax(-1).numpy()
    by_probs = logits.softmax(-1).mean(0).argmax(-1).numpy()
    differ = float(np.mean(by_logits != by_probs))
    same = bool((reported == by_logits).all())
    detail = (
        f"all {len(x)} predictions are the argmax of mean logits; the mean of probabilities differs in {differ:.0%}"
    )
    return verdict(same and differ > 0, detail, differs=differ)


def _mxnet_network(module: Any) -> tuple[Any, list[Any], list[list[Any]]]:
    nd = module.nd
    source = np.random.default_rng(0)
    shapes = module.layer_shapes(INPUTS, WIDTH)
    mus = [nd.array(source.normal(scale=0.1, size=shape)) for shape in shapes]
    model = module.DocumentBbb(mus, [nd.full(shape, -3.0) for shape in shapes], n_batches=469)
    epsilons = [nd.array(source.normal(size=shape)) for shape in shapes]
    gradients = []
    for x, y in batches():
        images, labels = nd.array(x.numpy()), nd.array(y.numpy())
        with module.mx.autograd.record():
            loss = model.loss(images, nd.one_hot(labels, 10), epsilons)
        loss.backward()
        gradients.append([p.grad.asnumpy().copy() for p in model.mus + model.rhos])
    return model, gradients[0], gradients


def _middle_layer() -> Shown:
    module = document("mxnet_bbb", "mxnet")
    model, first, gradients = _mxnet_network(module)
    names = [f"{kind} of layer {layer} ({part})" for kind in ("mu", "rho") for layer in (1, 2, 3) for part in "Wb"]
    largest = [max(float(np.abs(g[i] - first[i]).max()) for g in gradients) for i in range(len(first))]
    unused = [name for name, gap in zip(names, largest, strict=True) if gap == 0]
    share = sum(int(p.size) for p in model.mus[2:4]) / sum(int(p.size) for p in model.mus)
    detail = f"the gradient is the same whatever the batch for {', '.join(unused)}: {share:.0%} of this small network"
    return verdict(bool(unused) and all("layer 2" in name for name in unused), detail, tensors=len(unused))


def _still_sigma() -> Shown:
    module = document("mxnet_bbb", "mxnet")
    model, _, gradients = _mxnet_network(module)
    steps, sigma = 4690, float(np.log1p(np.exp(-3.0)))
    per_rho = (1 - np.exp(-sigma)) / sigma  # d log sigma / d rho = sigmoid(rho) / sigma
    drift = float(np.mean([np.concatenate([g.ravel() for g in batch[6:]]).mean() for batch in gradients]))
    reach = abs(drift) * model.learning_rate * steps * per_rho
    detail = f"{steps:,} steps at rate {model.learning_rate} move sigma by {reach:.2%} on average"
    return verdict(reach < 0.05, detail, relative_change=reach)


CHECKS: dict[str, Callable[[], Shown]] = {
    "hidden_layer_kl": _hidden_layer_kl,
    "random_module_kl": _random_module_kl,
    "mean_of_logits": _mean_of_logits,
    "middle_layer": _middle_layer,
    "still_sigma": _still_sigma,
}
