"""The shipped claims, and made-up ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from bench.core.csv_rows import columns
from bench.core.records import Record
from bench.judge.claims import Claim, load_claims
from bench.judge.results import Results
from bench.plan.registry import manifests
from tests.synthetic import record

CLAIMS = load_claims()
COLUMNS = columns(Claim)[:-1]  # those that must be there
BY_ID = {claim.id: claim for claim in CLAIMS}
FINAL = BY_ID["rabanser2017.mxnet_bbb.epoch10.test_accuracy"]  # 0.9775, exact, margin .005, 10,000 images
# Mean 0 and standard deviation 1: the squares of (-2, -1, 0, 1, 2) sqrt(.4) add up to 4.
Z = [z * math.sqrt(0.4) for z in (-2, -1, 0, 1, 2)]
FIVE = tuple(0.977 + 0.001 * z for z in Z)
GOOD = {
    "id": "doc.mlp.accuracy",
    "source": "doc",
    "approach": "mlp",
    "stage": "final",
    "metric": "accuracy",
    "dataset": "mnist",
    "split": "test10k",
    "protocol": "one pass, argmax",
    "unit": "fraction",
    "value": "0.9714",
    "precision": "0.0001",
    "precision_kind": "rounded",
    "margin": "0.005",
    "margin_reason": "declared",
    "n_runs": "1",
    "locator": "log",
    "note": "",
}


def results(*parts: Sequence[Record]) -> Results:
    """Return the results of all these records."""
    return Results([one for part in parts for one in part], manifests())


def made(**changes: str) -> Claim:
    return msgspec.convert({**GOOD, **changes}, Claim, strict=False)


def blundell_records(recipe: str, errors: Sequence[float], approach: str = "blundell_bbb") -> list[Record]:
    """Return a record for each seed, with this error of the means; the error of 100 draws is half a percent lower."""
    return [
        record(
            approach,
            recipe,
            seed=seed,
            metrics={
                "mnist/test10k/error": error,
                "mnist/test10k/error_of_draws": error - 0.005,
                "mnist/test10k/error_at_chosen_epoch": error,
                "mnist/test10k/error_at_best_test_epoch": error,
            },
            epochs=[{"epoch": epoch, "mnist/test10k/error": error + 0.01 / epoch} for epoch in (1, 2)],
        )
        for seed, error in enumerate(errors)
    ]
