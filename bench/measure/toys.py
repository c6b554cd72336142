"""The protocols of a toy: `published`, of feldman2018, and `common`."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bench.core.reasons import Reason
from bench.data.splits import toy_split
from bench.interface import Posterior
from bench.measure.measuring import EpochMetrics, Measurement, draws_of, gaussian, last_epoch, on_device
from bench.measure.metrics import regression
from bench.measure.protocols import Protocol

TOY_NEAR, TOY_FAR = 5.0, 100.0  # feldman2018 draws its toy over -5..5 and -100..100


class Feldman2018Toy(Protocol):
    """The losses that are printed in training, and the prediction at x = 100, which the document's text quotes."""

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        found = Measurement(last_epoch(epochs))
        if posterior.n_draws == 1:
            x = torch.tensor([[100.0]], dtype=self.dtype, device=self.device)
            answer = gaussian(posterior, x, range(1), torch.tensor([0]))
            found.metrics["toy/x=100/prediction"] = float(answer.mean[0, 0, 0])
        return found


class ToyCommon(Protocol):
    """The regression of six points: the error at the points, and the width of the band near the data and far away."""

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        del epochs
        found = Measurement()
        points = on_device(toy_split(), self.device, self.dtype)
        draws = draws_of(posterior, self.budget.draws)
        at_points = gaussian(posterior, points.x, draws, points.rows)
        found.metrics["toy/rmse"] = regression.rmse(at_points, points.y.numpy())
        if bool((at_points.variance > 0).all()):
            found.metrics["toy/nll"] = regression.gaussian_nll(at_points, points.y.numpy())
        else:
            found.missing["toy/nll"] = Reason("no-observation-noise")
        for name, reach, count in (("near", TOY_NEAR, 100), ("far", TOY_FAR, 1000)):
            grid = torch.linspace(-reach, reach, count, dtype=self.dtype).reshape(-1, 1)
            answer = gaussian(posterior, grid.to(self.device), draws, torch.arange(count))
            lower, upper = regression.band(answer)
            if len(answer.mean) == 1:
                found.missing[f"toy/band_width_{name}"] = Reason("no-spread")
            else:
                found.metrics[f"toy/band_width_{name}"] = float((upper - lower).mean())
            mean = answer.mean.mean(dim=0).reshape(-1).tolist()
            found.arrays[f"toy/{name}"] = {
                "x": grid.reshape(-1).tolist(),
                "mean": mean,
                "lower": lower.reshape(-1).tolist(),
                "upper": upper.reshape(-1).tolist(),
            }
        return found
