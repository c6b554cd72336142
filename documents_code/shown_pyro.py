"""Checks like those of `documents_code.shown` that need Pyro."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyro
import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor

import elbo_audit
from bench.judge.audit.documents import ShownMistake
from documents_code import pyro_hidden_layer, pyro_random_module
from documents_code.shown import INPUTS, N_TRAIN, WIDTH, Check, batches, verdict
from elbo_audit.factors import Factor


@contextmanager
def _own_store() -> Iterator[None]:
    """Give the body an empty parameter store and no validation, as the documents' code needs it."""
    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        yield


def _hidden_layer_kl() -> ShownMistake:
    with _own_store():
        network = pyro_hidden_layer.DocumentNetwork(N_TRAIN, WIDTH, INPUTS)
        three = [(x, y, network.kl_factor) for x, y in batches()]
        network.guide(*three[0])
        store = pyro.get_param_store()

        def factor(index: int) -> Factor:
            def std() -> Tensor:
                scale: Tensor = store[f"a{index}_scale"]
                return scale if index == 4 else scale * store[f"a{index}_dropout"]

            return Factor(f"layer {index}", lambda: store[f"a{index}_mean"], std)

        factors = [factor(index) for index in range(1, 5)]
        report = elbo_audit.audit_pyro(
            network.model, network.guide, three, N_TRAIN, loss=TraceMeanField_ELBO(), factors=factors
        )
    finding = report.of("kl-sign")
    return verdict(finding.outcome == "fails", finding.detail, **finding.measured)


def _random_module_kl() -> ShownMistake:
    with _own_store():
        network = pyro_random_module.DocumentNetwork(WIDTH, INPUTS)
        report = elbo_audit.audit_pyro(network.model, network.guide, batches(), N_TRAIN, draws=32)
    finding = report.of("kl-scale")
    return verdict(finding.outcome == "fails", finding.detail, **finding.measured)


def _mean_of_logits() -> ShownMistake:
    x = torch.cat([x for x, _ in batches()])
    with _own_store():
        network = pyro_random_module.DocumentNetwork(WIDTH, INPUTS)
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


CHECKS: dict[str, Check] = {
    "hidden_layer_kl": _hidden_layer_kl,
    "random_module_kl": _random_module_kl,
    "mean_of_logits": _mean_of_logits,
}
