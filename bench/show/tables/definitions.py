"""Table `definitions`: what each number of a record means."""

from __future__ import annotations

from bench.core.metric_table import Metric, metrics
from bench.show.table import Table

NONE = "none"
OTHERS = (
    (
        "pruned_accuracy@F",
        "fraction",
        "higher",
        "accuracy of the network of posterior means without the fraction F of all weights, lowest |mean| / sigma first "
        "(|weight| where there is no sigma)",
        "rabanser2017, after Blundell et al. 2015; the table `pruning` has the same for all approaches",
    ),
    (
        "fraction_correct, fraction_incorrect, fraction_undecided",
        "fraction",
        NONE,
        "shares of 100 random images that the median rule answers rightly, answers wrongly, and refuses",
        "chopra2018, test of the first 100 shuffled images",
    ),
    (
        "refusal_rate_upright",
        "fraction",
        NONE,
        "refusal_rate of the not-MNIST letters as they are, where the document transposes them",
        "control of chopra2018",
    ),
    (
        "refusal_rate_of_100_networks",
        "fraction",
        NONE,
        "refusal_rate with the 100 networks that the text names, where the figure was made with 20",
        "control of chopra2018",
    ),
    (
        "train_loss, train_loss_sum, train_loss_per_image, train_loss_ema",
        "as the document prints it",
        "lower",
        "the loss of an epoch while it trains: of one step; sum of the batch means; per training image; moving average "
        "of the batches. pyro_hidden_layer's as published has minus the KL in it, so that lower is not better",
        "the documents' training loops",
    ),
    (
        "test_loss",
        "nats (mlp: per row; linear_bbb: per batch)",
        "lower",
        "after each epoch, mean over batches of 128: cross-entropy (mlp); summed cross-entropy of the mean "
        "log-probabilities of 5 networks plus the KL's share of a batch (linear_bbb)",
        "feldman2018's evaluation",
    ),
    ("toy/rmse", "target units", "lower", "root mean squared error of the posterior mean at the six points", ""),
    (
        "toy/band_width_near, toy/band_width_far",
        "target units",
        NONE,
        "mean width of the band between the 2.5 and 97.5 percentiles over draws of the function, without observation "
        "noise, for x from -5 to 5 and from -100 to 100",
        "feldman2018's '95% confidence'",
    ),
    ("toy/x=100/prediction", "target units", NONE, "what the plain network predicts at x = 100", "feldman2018"),
)
"""Numbers beyond the metrics of classification: name, unit, better, definition, source."""


def _place(one: Metric) -> int:
    return ("mean network", "moved", "outside").index(one.rows) if one.rows not in ("test", "every") else -1


def definitions_table() -> Table:
    """Return a row for each metric: of the common protocol, then of the documents' protocols and of the toys."""
    declared = [
        (one.name, one.unit.name, one.better, one.definition, one.source)
        for one in sorted(metrics().values(), key=_place)
    ]
    rows = [
        [name, unit, None if better == NONE else better, definition, source or None]
        for name, unit, better, definition, source in (*declared, *OTHERS)
    ]
    columns = ["metric", "unit", "better", "definition", "source"]
    caption = (
        "First the metrics of classification in the common protocol; then the numbers of the documents' own protocols "
        "and of the toys. Better: which direction is better; -: neither, or it depends on the rows."
    )
    return Table("definitions", "Every metric", caption, columns, rows, [])
