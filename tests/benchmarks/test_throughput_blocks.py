"""Throughput: blocks in turn, timed by a clock that the tests move; the length of blocks; the predicted images."""

import dataclasses
from typing import ClassVar

import pytest
import torch

from bench.core import timing
from bench.interface import Approach, Categorical, Posterior, Task
from bench.measure.measuring import ROW_NOISE_ROWS
from benchmarks.throughput import blocks, prediction, training
from benchmarks.throughput.documents import DocumentCode
from benchmarks.throughput.training import Subject
from tests.benchmarks.small_networks import CPU, rows_of

OURS_S, DOCUMENT_S, SET_UP_S, FIRST_STEP_S = 2.0, 10.0, 1000.0, 50.0


# blocks in turn, under a clock that the tests move


class Time:
    """A clock that moves only by `pass_`, and a log of what happened."""

    now, log = 0.0, ""

    def pass_(self, what: str, seconds: float) -> None:
        self.log += what
        self.now += seconds


CLOCK = Time()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    CLOCK.now, CLOCK.log = 0.0, ""
    monkeypatch.setattr(timing.time, "perf_counter", lambda: CLOCK.now)
    return CLOCK


@dataclasses.dataclass(frozen=True)
class TimedApproach(Approach):
    """Steps that take 2 s, the first of a fit 50 s more, and a set-up of 1000 s."""

    noise = "none"
    epochs: int = 1
    batch_size: int = 10

    def fit(self, train, task, ctx):
        CLOCK.pass_("|", SET_UP_S)
        ctx.restore()
        for epoch in range(1, self.epochs + 1):
            for step in range(ctx.steps_per_epoch):
                CLOCK.pass_("o", OURS_S + FIRST_STEP_S * (epoch == 1 and step == 0))
            ctx.epoch_end(epoch, {}, lambda: None, dict)

    def rebuild(self, arrays, task, seed):
        raise AssertionError("only training is timed here: nothing is rebuilt")


class TimedCode(DocumentCode):
    """Steps of 10 s."""

    sizes = (4, 3)
    smallest: ClassVar = {}
    predict_rows = 1

    def __init__(self, *_: object) -> None:
        pass

    def step(self):
        CLOCK.pass_("d", DOCUMENT_S)

    def predict(self, images, n_draws):
        raise AssertionError("only training is timed here: nothing is predicted")


def timed_subject(n_rows: int = 1000) -> Subject:
    train = rows_of(n_rows, 4)
    return Subject(TimedApproach(), Task("classification", 10, n_rows, 4), train, train, 0, CPU)


def test_blocks_alternate_and_neither_set_up_nor_the_first_round_counts(time):
    found = training.alternate(timed_subject(), TimedCode(), ours=3, document=2, rounds=2)
    assert time.log == "|" + "ooodd" * 1 + "ooodd" * 2
    assert found.ours.seconds == [3 * OURS_S] * 2
    assert found.document.seconds == [2 * DOCUMENT_S] * 2
    # 3 steps in 6 s are 1/2 a second; 2 in 20 s are 1/10: ours is five times as fast
    assert (found.ours.rates, found.document.rates) == ([0.5, 0.5], [0.1, 0.1])


def test_blocks_last_as_long_as_asked_and_no_longer_than_an_epoch(time):
    found = training.compare_training(timed_subject(), TimedCode(), rounds=2, block_s=40)
    assert (found.ours.work, found.document.work) == (20, 4)  # 40 s of 2 s and of 10 s
    short = training.compare_training(timed_subject(95), TimedCode(), rounds=1, block_s=40)
    assert (short.ours.work, short.document.work) == (9, 4)  # 95 rows are 9 full batches of 10
    quick = training.compare_training(timed_subject(), TimedCode(), rounds=1, block_s=0.1)
    assert (quick.ours.work, quick.document.work) == (1, 1)


def test_cycle_repeats_full_batches():
    rows = blocks.cycle(7, 3)
    assert [(found.start, found.stop) for found in (next(rows) for _ in range(4))] == [(0, 3), (3, 6), (0, 3), (3, 6)]
    assert next(blocks.cycle(2, 3)) == slice(0, 3)  # fewer rows than a batch: all of them


def test_stopwatch_waits_for_foreign_queues_on_both_sides(monkeypatch):
    seen = []
    watch = timing.Stopwatch(CPU, lambda: seen.append("settle"))
    ticks = iter([10.0, 13.5])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: seen.append("tick") or next(ticks))
    watch.start()
    assert watch.stop() == 3.5
    assert seen == ["settle", "tick", "settle", "tick"]


class FixedPosterior(Posterior):
    def __init__(self, noise="weights"):
        self.noise = noise

    def predict(self, x, draws, rows):
        return Categorical(torch.zeros(len(draws), len(x), 10).log_softmax(2))

    def arrays(self):
        return {}


def test_all_images_are_predicted_unless_every_row_has_noise_of_its_own():
    test = rows_of(3000, 2)
    assert len(prediction.images_for(FixedPosterior("weights"), test, 100, None)) == 3000
    assert len(prediction.images_for(FixedPosterior("row"), test, 100, None)) == ROW_NOISE_ROWS
    assert len(prediction.images_for(FixedPosterior("row"), test, 100, 5)) == 5


class PredictingCode(TimedCode):
    def predict(self, images, n_draws):
        CLOCK.pass_("d", DOCUMENT_S)


@pytest.mark.parametrize(
    ("block_s", "calls"),
    [
        (1.0, 1 + 3),  # a call of 2 s fills a block: it has warmed up, and three rounds of one call follow
        (6.0, 1 + 3 * (1 + 3)),  # three calls a block: a round to warm up, and three that count
    ],
)
def test_what_fills_a_block_at_once_needs_no_further_round_to_warm_up(time, monkeypatch, block_s, calls):
    made = []
    monkeypatch.setattr(prediction, "_predict", lambda *_: made.append(0) or 2.0)
    found = prediction.compare_prediction(
        timed_subject(), FixedPosterior(), PredictingCode(), rows_of(4, 4), 2, 3, block_s
    )
    assert len(made) == calls
    assert found.ours.seconds == [2.0 * found.ours.work / (4 * 2)] * 3
    assert len(found.document.seconds) == 3
