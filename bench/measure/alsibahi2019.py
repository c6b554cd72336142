"""Protocol `published` of alsibahi2019."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from bench.interface import Posterior
from bench.measure.measuring import EpochMetrics, Measurement, last_epoch, predict_split
from bench.measure.metrics.uncertainty import disagreement_rate, row_disagrees
from bench.measure.protocols import Protocol


class Alsibahi2019(Protocol):
    """One draw for 10,000 held-out images of the training file; 30 more draws to find uncertain images."""

    def final(self, posterior: Posterior, epochs: Sequence[EpochMetrics]) -> Measurement:
        """See `Protocol.final`."""
        held_out = self.split("heldout10k-of-train")
        file_rows = held_out.rows.numpy()
        # A row's number selects its noise. Here it is the position in the held-out set, not in the training file.
        held_out = dataclasses.replace(held_out, rows=torch.arange(len(held_out)))
        found = Measurement(last_epoch(epochs))
        place = "mnist/heldout10k-of-train"
        one = predict_split(posterior, held_out, range(1))
        found.metrics[f"{place}/accuracy"] = int(one.hits[0]) / len(held_out)
        many = predict_split(posterior, held_out, range(1, 31))
        found.metrics[f"{place}/disagreement_rate"] = disagreement_rate(many.summary.votes)
        uncertain = np.flatnonzero(row_disagrees(many.summary.votes))
        found.arrays[f"{place}/first_uncertain"] = {
            "rows": file_rows[uncertain[:64]].tolist(),
            "votes": many.summary.votes[uncertain[:64]].tolist(),
            "scanned": int(uncertain[63]) + 1 if len(uncertain) >= 64 else len(held_out),
        }
        return found
