"""The regular tables of speed, of pruned networks, and of the regressions on six points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from bench.core.text import FRACTION, THREE, THREE_DIFFERENCE, WHOLE, Digits
from bench.judge.claims import measured_key
from bench.judge.samples import MissingValue, Samples
from bench.show.inputs import Inputs
from bench.show.table import Entry, Linked, Measured
from bench.show.tables.common import RECIPE
from bench.show.tables.declaration import Column, Declaration, Row, always, each_recipe, key, metric, reported
from bench.show.tables.reported import beside_report

if TYPE_CHECKING:
    from bench.show.frame import SeedNumbers  # imports pandas, which the list of tables needs not

MEAN = "mean"
SHOWN_LEVELS = ("0", "0.5", "0.75", "0.95", "0.98")  # removed shares; documents and papers report most of these
MILLISECONDS = 1000.0


# speed


def counted_times(inputs: Inputs, approach: str, recipe: str, protocol: str, metric: str) -> tuple[Samples, bool]:
    """Return a time of the seeds whose times count, and True. If none counts: of all seeds, and False."""
    trained_run = (approach, recipe, protocol, metric)
    counted = inputs.sample(*trained_run, lambda seed: not seed.times_invalid)
    if counted.n or not any(seed.times_invalid for seed in inputs.seeds(*trained_run[:3]).values()):
        return counted, True
    return inputs.sample(*trained_run), False


def time(title: str, name: str, scale: float = 1.0) -> Column:
    """Return a time or a rate of the seeds whose times count, or of all if none counts, with a mark if some do not."""

    def read(inputs: Inputs, row: Row) -> Sequence[Entry]:
        trained_run = row["approach"], row["recipe"], row["protocol"]
        sample, counts = counted_times(inputs, *trained_run, name)
        sample = sample.converted(lambda value: value * scale)
        seeds = inputs.seeds(*trained_run).values()
        invalid = [seed.times_invalid for seed in seeds if seed.times_invalid]
        if not invalid:
            return (Measured(sample, THREE),)
        some = f"times of {len(invalid)} of {len(seeds)} seeds do not count: {invalid[0]}"
        mark = MissingValue("*", some) if counts else MissingValue("!", f"times do not count: {invalid[0]}")
        return (Measured(sample, THREE, mark),)

    return Column((title,), read, name)


def _every_recipe(inputs: Inputs) -> Iterator[Row]:
    """Give each recipe of each approach, toys included, with the protocol whose records have its times."""
    results = inputs.results
    for approach in results.approaches:
        for recipe in results.recipes(approach):
            common, published = (
                results.trained_run(approach, recipe, protocol) for protocol in ("common", "published")
            )
            # Both protocols share the fit; the common one also times prediction.
            is_common = any(record.outcome == "done" for record in common) or not published
            records = common if is_common else published
            yield {
                "approach": approach,
                "recipe": recipe,
                "protocol": "common" if is_common else "published",
                "device": _distinct(record.device for record in records),
                "threads": _distinct(record.provenance.threads for record in records),
            }


def _distinct(values: Iterable[object]) -> str:
    return " / ".join(sorted({str(value) for value in values if value is not None}))


def _memory(inputs: Inputs, row: Row) -> Sequence[Entry]:
    """Return the memory of seeds that trained by themselves, if there are any."""

    def is_alone(seed: SeedNumbers) -> bool:
        return isinstance(seed.number("timings/batched"), MissingValue)

    trained_run = row["approach"], row["recipe"], row["protocol"]
    some = any(map(is_alone, inputs.seeds(*trained_run).values()))
    return (Measured(inputs.sample(*trained_run, "timings/peak_memory_mib", is_alone if some else None), WHOLE),)


SPEED = Declaration(
    "speed",
    "What do training and prediction cost?",
    "Speed and memory",
    "Parameters: trained numbers. Weights: scalar weights of one network. Training: without measuring. S an epoch: "
    "median over epochs. Draws x images/s: 100 draws of the test set. One image: time for 100 draws, median of "
    "repeats; a deterministic network has one draw. Peak memory: of the whole process, with its frameworks. '!' "
    "marks times that do not count.",
    _every_recipe,
    (
        *RECIPE,
        metric("parameters", "model/n_parameters", WHOLE, "{protocol}"),
        metric("weights", "model/n_weights", WHOLE, "{protocol}"),
        time("training, s", "timings/fit_s"),
        time("s an epoch", "timings/epoch_s_median"),
        time("training images/s", "timings/train_images_per_s"),
        time("draws x images/s", "timings/predict_draw_images_per_s"),
        time("one image, ms", "timings/latency_s", MILLISECONDS),
        Column(("peak memory, MiB",), _memory),
        *(key("device"), key("threads")),
    ),
    spare=("device", "threads", "weights", "draws x images/s", "training images/s"),
)


# pruning


def _pruned_networks(inputs: Inputs) -> Iterator[Row]:
    """Give each network and share of removed weights of each recipe; one row for a recipe without pruned networks."""
    for row in each_recipe(inputs):
        records = inputs.results.trained_run(row["approach"], row["recipe"], "common")
        curves = [record.arrays.pruning for record in records if record.arrays.pruning is not None]
        levels = {(one.network != MEAN, one.network, one.fraction) for curve in curves for one in curve.rows}
        score = " / ".join(sorted({curve.score for curve in curves}))
        for _, network, fraction in sorted(levels):
            yield {**row, "network": network, "removed": f"{fraction:g}", "score": score}
        if not curves:
            yield {**row, "network": "", "removed": ""}


def _pruned_report(inputs: Inputs, row: Row) -> Sequence[Entry]:
    """Return the reported accuracy of a pruned network of means, ours and the difference."""
    approach, is_reported = row["approach"], row["recipe"] == "published" and row["network"] == MEAN
    ending = f"/pruned_accuracy@{row['removed']}"
    claims = (one for one in inputs.claims if is_reported and one.approach == approach)
    claim = next((one for one in claims if measured_key(one)[1].endswith(ending)), None)
    return beside_report(claim, inputs.results.trained_run(approach, row["recipe"], "published"))


def _layers(inputs: Inputs, row: Row) -> Sequence[Entry]:
    """Return the kept share of each layer, mean over seeds."""
    records = inputs.results.trained_run(row["approach"], row["recipe"], "common")
    wanted = row["network"], row["removed"]
    every = (one for record in records if record.arrays.pruning for one in record.arrays.pruning.rows)
    found = [one.layers for one in every if (one.network, f"{one.fraction:g}") == wanted and one.layers]
    if not found:
        return (None,)
    text = ", ".join(f"{name} {sum(layers[name] for layers in found) / len(found):.3f}" for name in found[0])
    return (Linked(text, tuple(record.key for record in records)),)


def _has_draws(row: Row) -> bool:
    return row["network"] != MEAN  # one network has no draws whose median could refuse


def _pruned(title: str, name: str, digits: Digits = FRACTION, only: Callable[[Row], bool] = always) -> Column:
    return metric(title, f"pruning/{{network}}@{{removed}}/{name}", digits, only=only)


def _toys(inputs: Inputs) -> Iterator[Row]:
    for approach in inputs.results.toys():
        for recipe in inputs.results.recipes(approach):
            yield {"approach": approach, "recipe": recipe, "data_set": "toy"}


PRUNING = Declaration(
    "pruning",
    "How many weights can be removed?",
    "Pruning",
    "The weights with the lowest score are removed first, together with their noise. Score: |mu|/sigma, or |w| for "
    "a network without sigma. Mean: the network of posterior means. 30 draws: mean of their probabilities. NLL: "
    "nats per image. Noise refused: fraction of uniform noise images that the median rule refuses. Removed of "
    "used: fraction removed of the weights that the prediction uses. Bytes: size of the sparse network. Official "
    "test set.",
    _pruned_networks,
    (
        *(*RECIPE, key("score"), key("network"), key("removed")),
        _pruned("accuracy", "accuracy"),
        Column(("reported", "published x published", "difference"), _pruned_report),
        _pruned("NLL", "nll"),
        _pruned("noise refused", "noise_refusal_rate", only=_has_draws),
        _pruned("removed of used", "pruned_of_used"),
        _pruned("kept weights", "kept", WHOLE),
        _pruned("bytes", "bytes", WHOLE),
        Column(("kept by layer",), _layers),
    ),
    spare=(
        *("kept by layer", "bytes", "kept weights", "removed of used", "noise refused"),
        *("difference", "published x published", "reported", "NLL"),
    ),
    main=lambda row: row[1] == "corrected" and row[3] == MEAN and row[4] in SHOWN_LEVELS,
    main_says="corrected recipes, network of means, some of the shares removed",
)
TOYS = Declaration(
    "toys",
    "What do the regressions on six points give?",
    "Six-point regression",
    "Regression on the six points of feldman2018, target units; NLL in nats per point. Band: mean width "
    "between the 2.5 and 97.5 percentiles over 100 draws of the function, without observation noise.",
    _toys,
    (
        *RECIPE,
        metric("RMSE at the points", "toy/rmse", THREE),
        metric("NLL at the points", "toy/nll", THREE),
        metric("band, -5 to 5", "toy/band_width_near", THREE),
        metric("band, -100 to 100", "toy/band_width_far", THREE),
        reported(("reported at x = 100", "published x published", "difference"), "prediction", THREE, THREE_DIFFERENCE),
    ),
)
