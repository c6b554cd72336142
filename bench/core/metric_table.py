"""What a metric's declaration says: its unit and bounds, which direction is better, definition, source and version.

A metric is declared at its function by `metric`. Every record is checked against the declarations when it is read.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from bench.core.reasons import Reason

N_CLASSES = 10
LARGEST = 1e100  # bound of every number: sums of squares of such numbers are still finite
SURE = 0.99  # a network is sure of a row whose largest mean probability is at least this
SHARE_SURE = f"sure@{SURE}"
RIGHT_OF_SURE = f"sure_right@{SURE}"
EXPECTED_OF_SURE = f"sure_expected@{SURE}"
ROUNDING = 1e-9  # tolerance for a share of rows and for means of shares
# Tolerance for numbers from probabilities. The probabilities of a row may sum to e^0.001 (`metrics.draws`). This
# changes an entropy of ten classes by less than 0.0015, a Brier score by 0.004 and a log-probability by 0.001.
SLACK = 5e-3


@dataclass(frozen=True)
class Unit:
    """What a number counts, and the bounds of all numbers of the unit."""

    name: str
    low: float
    high: float


FRACTION = Unit("fraction", -ROUNDING, 1 + ROUNDING)
GAP = Unit("fraction", 0, 1 + SLACK)  # a mean or difference of probabilities, as of confidence and accuracy
NATS = Unit("nats per row", -SLACK, LARGEST)
ENTROPY = Unit("nats per row", -SLACK, math.log(N_CLASSES) + SLACK)
BRIER = Unit("squared probability per row, 0 to 2", 0, 2 + SLACK)
SIZE = Unit("units of the target", 0, LARGEST)  # a distance, width or standard deviation
REAL = Unit("in the unit of its document", -LARGEST, LARGEST)

SCORES = ("predictive_entropy", "mutual_information", "max_probability")
"""They tell out-of-distribution rows apart, see `bench.measure.metrics.ood`."""
Better = Literal["higher", "lower", "none"]
Rows = Literal["test", "every", "outside", "moved", "mean network"]
"""Of which rows a metric is: the test set's; of every set's; of a set out of distribution beside the test set's; of all
steps of moved test images together; of the test set's as the one network of posterior means predicts them."""
Found = float | Reason | None
"""A value; or why there is none."""
MetricFunction: TypeAlias = Callable[..., Found]
Declared = TypeVar("Declared", bound=MetricFunction)


@dataclass(frozen=True)
class Metric:
    """A metric as it is declared at its function by `metric`."""

    name: str  # in a record: DATASET/NAME, or DATASET/NAME@AT
    unit: Unit  # with the bounds
    better: Better  # "none": no direction is better, or it depends on the rows which one is
    definition: str
    source: str
    rows: Rows
    at: float | None  # the function's parameter that is a part of the name
    undefined: Reason | None  # why there is no value if the function returns None or infinity
    version: int  # raise it when the numbers change: docs/freshness.md
    function: MetricFunction

    @property
    def key(self) -> str:
        """Return the name with the parameter."""
        return self.name if self.at is None else f"{self.name}@{self.at}"


_DECLARED: dict[str, Metric] = {}


def metric(
    name: str,
    unit: Unit,
    better: Better,
    definition: str,
    source: str,
    *,
    rows: Rows = "test",
    at: float | None = None,
    undefined: Reason | None = None,
    version: int = 1,
) -> Callable[[Declared], Declared]:
    """Declare the function below as a metric; `bench.measure.metrics.evaluate.Inputs` lists what it may take."""

    def declare(function: Declared) -> Declared:
        if name in _DECLARED:
            raise ValueError(f"metric {name} is declared twice")
        _DECLARED[name] = Metric(name, unit, better, definition, source, rows, at, undefined, version, function)
        return function

    return declare


@cache
def metrics() -> Mapping[str, Metric]:
    """Return every metric by name.

    A metric is declared at its function, in a package above this one, as an approach is in its own file. Both are
    loaded by name.
    """
    importlib.import_module("bench.measure.metrics")
    return MappingProxyType(_DECLARED)


class Others(NamedTuple):
    """Numbers that only a document's protocol, a regression or a derived metric has."""

    unit: Unit
    names: str  # divided by spaces
    definition: str = ""  # '': the table of definitions leaves them out
    better: Better = "none"
    source: str = ""


OTHERS = (
    Others(
        FRACTION,
        "pruned_accuracy",
        "accuracy of the network of posterior means without the fraction F (pruned_accuracy@F) of all weights, lowest "
        "|mean| / sigma first (|weight| where there is no sigma)",
        "higher",
        "rabanser2017, after Blundell et al. 2015; the table `pruning` has the same for all approaches",
    ),
    Others(
        FRACTION,
        "fraction_correct fraction_incorrect fraction_undecided",
        "shares of 100 random images that the median rule answers rightly, answers wrongly, and refuses",
        source="chopra2018, test of the first 100 shuffled images",
    ),
    Others(
        FRACTION,
        "refusal_rate_upright",
        "refusal_rate of the not-MNIST letters as they are, where the document transposes them",
        source="control of chopra2018",
    ),
    Others(
        FRACTION,
        "refusal_rate_of_100_networks",
        "refusal_rate with the 100 networks that the text names, where the figure was made with 20",
        source="control of chopra2018",
    ),
    Others(
        REAL,
        "train_loss train_loss_sum train_loss_per_image train_loss_ema",
        "the loss of an epoch while it trains: of one step; sum of the batch means; per training image; moving average "
        "of the batches. pyro_hidden_layer's as published has minus the KL in it, so that lower is not better",
        "lower",
        "the documents' training loops",
    ),
    Others(
        REAL,
        "test_loss",
        "after each epoch, mean over batches of 128: cross-entropy, nats per row (mlp); summed cross-entropy of the "
        "mean log-probabilities of 5 networks plus the KL's share of a batch, nats per batch (linear_bbb)",
        "lower",
        "feldman2018's evaluation",
    ),
    Others(SIZE, "toy/rmse", "root mean squared error of the posterior mean at the six points", "lower"),
    Others(
        SIZE,
        "toy/band_width_near toy/band_width_far",
        "mean width of the band between the 2.5 and 97.5 percentiles over draws of the function, without observation "
        "noise, for x from -5 to 5 and from -100 to 100",
        source="feldman2018's '95% confidence'",
    ),
    Others(
        REAL, "prediction", "toy/x=100/prediction: what the plain network predicts at x = 100", source="feldman2018"
    ),
    Others(
        FRACTION,
        "right_when_sure pruned_used_accuracy draw_refusal_rate mean_network_refusal_rate error error_of_10_draws "
        "error_of_draws error_at_chosen_epoch error_at_best_test_epoch pruned_error pruned_error_of_draws "
        "noisy_pruned_error_of_draws draw_auroc mean_network_auroc geometric_accuracy",
    ),
    Others(GAP, "draw_ece mean_network_ece geometric_ece"),
    Others(NATS, "draw_nll geometric_nll train_nll"),
    Others(ENTROPY, "mean_network_entropy normalised_geometric_entropy"),
    Others(SIZE, "weights/std"),
    Others(REAL, "toy/nll weights/mean complexity kl"),
)
_OTHER_UNITS: Mapping[str, Unit] = {name: one.unit for one in OTHERS for name in one.names.split()}


def name_of(key: str) -> str | None:
    """Return the name of a metric by its key in a record, such as "mnist/test10k/pruned_accuracy@0.75"."""
    parts = key.partition("@")[0].split("/")
    names = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((name for name in names if name in metrics() or name in _OTHER_UNITS), None)


def raised(keys: Iterable[str], made: Mapping[str, int], today: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return both versions of each metric that differ; `keys` are those of a record. A metric not named has 1."""
    pairs = {name: (made.get(name, 1), today.get(name, 1)) for name in {**made, **today}}
    differ = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    own = set(map(name_of, keys)) if differ else set()
    return {name: pair for name, pair in differ.items() if name in own}


@lru_cache(maxsize=10_000)  # reading the shipped records asks 170,000 times
def unit_of(key: str) -> Unit | None:
    """Return the unit of a metric by its key in a record."""
    name = name_of(key)
    declared = metrics().get(name or "")
    return declared.unit if declared else _OTHER_UNITS.get(name or "")


def check_metrics(metrics: Mapping[str, float | None]) -> None:
    """Raise ValueError for a number that its metric cannot have. Of an unknown metric, only the size is bounded."""
    for key, value in metrics.items():
        unit = unit_of(key) or REAL
        if value is not None and not unit.low <= value <= unit.high:
            bounds = f"from {unit.low:.4g} to {unit.high:.4g}"
            raise ValueError(f"{key:.100} is {value:.6g}; allowed are numbers {bounds} ({unit.name})")
