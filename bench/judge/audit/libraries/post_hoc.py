"""laplace-torch: no loss to audit, but a precision of the data beside that of the prior, which can be counted."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from bench.judge.audit.libraries.examples import ROWS
from bench.judge.audit.libraries.reading import ObjectiveReading
from bench.judge.audit.libraries.setting import batches, library, network


def laplace(corrected: bool) -> ObjectiveReading:
    """Fit Laplace(model, 'classification', 'all', 'diag') and compare its precision with the exact one of its rows.

    For each tensor, the weight says how often the prior counts while the data count once: the exact generalised
    Gauss-Newton diagonal of all rows divided by what the library adds to the prior's precision.
    """
    del corrected  # no change is needed
    package = library("laplace")
    model = network(nn.Linear)
    x, y = (torch.cat(parts) for parts in zip(*batches(ROWS), strict=True))
    found = package.Laplace(model, "classification", subset_of_weights="all", hessian_structure="diag")
    found.fit(DataLoader(TensorDataset(x, y), batch_size=ROWS))
    prior = float(found.prior_precision)
    added = found.posterior_precision - prior
    weights, start = {}, 0
    for name, exact in _exact_diagonal(model, x).items():
        part = added[start : start + exact.numel()]
        weights[name] = float(f"{float((exact * part).sum() / part.square().sum()):.6g}")
        start += exact.numel()
    return ObjectiveReading("not measured", "nothing is trained by a loss", weights, "", prior**-0.5)


def _exact_diagonal(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the diagonal of sum over rows of J' (diag(p) - p p') J by parameter, J the logits' derivatives."""
    values = {name: value.detach() for name, value in model.named_parameters()}
    total = {name: torch.zeros(value.numel()) for name, value in values.items()}
    for row in x:
        probabilities = model(row).softmax(0).detach()
        slopes = torch.func.jacrev(lambda given, at=row: torch.func.functional_call(model, given, at))(values)
        for name, slope in slopes.items():
            rows = slope.reshape(len(probabilities), -1)
            total[name] += probabilities @ rows.square() - (probabilities @ rows).square()
    return total
