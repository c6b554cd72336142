"""Prediction: ours of whole data sets beside the document's loop over its own small batches.

The compared rate is draws x images a second. Our time is what `measuring.predict_split` spends in `predict`. If the
document's loop ends with a rule that refuses, ours is the time of all of `predict_split` and of that rule. The
document's rate does not depend on how many batches are timed.
"""

from __future__ import annotations

from bench.core.errors import Unsupported
from bench.core.timing import Stopwatch
from bench.interface import Posterior, Split
from bench.measure.measuring import block_rows, draws_of, first_rows, predict_split
from bench.measure.metrics.refusal import MEDIAN_RULE
from benchmarks.throughput.blocks import WARM_UP, Comparison, Side, by_default_on, cycle, fitting, time_block
from benchmarks.throughput.documents import DocumentCode
from benchmarks.throughput.training import Subject


def modes(posterior: Posterior) -> list[Posterior]:
    """Return the posterior and, if it has one, its faster form `per_row`."""
    try:
        fast = posterior.per_row()
    except Unsupported:
        return [posterior]
    return [posterior] if fast is posterior else [posterior, fast]


def images_for(posterior: Posterior, test: Split, n_draws: int, most: int | None) -> Split:
    """Return the images to predict, at most `most`: all, or one block if every row has its own noise.

    If a draw is one network, all rows share the time to draw it, so that fewer rows would give a lower rate. If every
    row has its own noise, one block has the same rate as all.
    """
    limit = block_rows(posterior, n_draws) if posterior.noise == "row" else len(test)
    return first_rows(test, limit if most is None else min(limit, most))


def compare_prediction(
    subject: Subject,
    posterior: Posterior,
    code: DocumentCode,
    images: Split,
    wanted_draws: int,
    rounds: int,
    block_s: float,
) -> Comparison:
    """Time rounds of blocks of about `block_s` seconds; ours predicts at least all images, the document a batch."""
    draws = draws_of(posterior, wanted_draws)
    watch = Stopwatch(subject.device, code.settle)
    batches = cycle(len(images), code.predict_rows)
    rows = min(len(images), code.predict_rows)

    def ours(times: int) -> float:
        return sum(_predict(subject, posterior, images, draws, code.refuses) for _ in range(times))

    def document(times: int) -> float:
        with by_default_on(subject.device), code.session():
            return time_block(watch, lambda: code.predict(images.x[next(batches)], len(draws)), times)

    ours_times, document_times = fitting(ours(1), 1, block_s), fitting(document(1), 1, block_s)
    found = Comparison(
        Side(ours_times * len(images) * len(draws)),
        Side(document_times * rows * len(draws)),
    )
    warm_up = WARM_UP if ours_times > 1 else 0  # if one call fills a block, the calls above have warmed up
    for _ in range(warm_up + rounds):
        found.ours.seconds.append(ours(ours_times))
        found.document.seconds.append(document(document_times))
    return found.without_first(warm_up)


def _predict(subject: Subject, posterior: Posterior, images: Split, draws: range, refuses: bool) -> float:
    """Return the seconds of predicting all images once."""
    watch = Stopwatch(subject.device)
    watch.start()
    predicted = predict_split(posterior, images, draws, device=subject.device)
    if not refuses:
        return predicted.seconds
    MEDIAN_RULE.accepted(predicted.summary)
    return watch.stop()
