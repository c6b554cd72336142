"""What figures compute from records, against worked numbers, closed forms and the metrics."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bench.judge.comparison import paired
from bench.judge.samples import Samples
from bench.judge.stats.rule import judge_one
from bench.measure.metrics.ood import auroc
from bench.measure.metrics.shifts import ROTATED
from bench.plan.registry import ORDER
from bench.show.figures import forest
from bench.show.figures.changes import CLEAR, Change, draw_changes
from bench.show.figures.detection import LOWEST_RATE, roc, thinned
from bench.show.figures.figure import mosaic, spread
from bench.show.figures.methods import _draw_shift
from bench.show.figures.style import COLOURS, REPORTED, WIDTH, canvas, look, printed, style
from bench.show.figures.training import _line
from bench.show.figures.uncertainty import _pooled, _wilson
from bench.show.figures.votes import VotedImage
from bench.show.tables.methods_rows import Row
from tests.judge.claims import BY_ID
from tests.synthetic import record

scores = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=30).map(np.array)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0.01, 2))
def test_spread_labels_keep_their_order_their_distance_and_their_mean(values, gap):
    placed = spread(values, gap)
    order = np.argsort(values, kind="stable")
    assert (np.diff(np.array(placed)[order]) >= gap - 1e-9).all()
    assert np.mean(placed) == pytest.approx(np.mean(values), abs=1e-9)  # every block stays around its mean
    if len(values) == 1 or np.diff(np.sort(values)).min() >= gap:
        assert placed == pytest.approx(values)


def test_two_labels_at_one_place_part_evenly():
    assert spread([1.0, 1.0], 0.5) == pytest.approx([0.75, 1.25])


@given(scores, scores)
def test_area_under_the_drawn_curve_is_the_metric(inside, outside):
    false, true = roc(inside, outside)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    # Ties are flagged together, so that the straight lines between thresholds give them one half: the trapezoid rule.
    area = float(((true[1:] + true[:-1]) / 2 * np.diff(false)).sum())
    assert area == pytest.approx(auroc(inside, outside))


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.floats(-2, 2))
def test_a_thinned_curve_is_the_same_to_a_cell(seed, cells, shift):
    generator = np.random.default_rng(seed)
    false, true = roc(generator.normal(size=3000), generator.normal(shift, size=400))
    few, high = thinned(false, true, cells)
    assert (few[-1], high[-1]) == (1, 1)
    assert len(few) <= 4 * cells + 2  # a rising curve crosses at most 2 cells - 1 of them, two points in each
    wide = np.log(1 / LOWEST_RATE) / cells
    x, y = (rate[false >= LOWEST_RATE, None] for rate in (false, true))
    near = (np.abs(np.log(few / x)) <= wide * 1.000001) & (np.abs(high - y) <= 1.000001 / cells)
    assert near.any(axis=1).all()
    assert set(zip(few, high, strict=True)) <= set(zip(false, true, strict=True))


def test_mosaic_puts_images_row_by_row():
    images = np.stack([np.zeros((28, 28)), np.ones((28, 28)), np.full((28, 28), 0.25)])
    paper, places = mosaic(images, 2, (4, 6))
    assert paper.shape == (2 * 32, 2 * 34 - 6)
    assert paper[0, 0] == 1  # no ink: white
    assert paper[0, 34] == 0  # the second image begins after the first and the gap
    assert paper[32, 0] == 0.75
    assert paper[40, 40] == 1  # there is no fourth
    assert places == [(13.5, 27.5), (47.5, 27.5), (13.5, 59.5)]


@given(st.integers(1, 400), st.data())
def test_wilson_interval_is_scipys(count, data):
    right = data.draw(st.integers(0, count))
    low, high = _wilson(np.array([right / count]), np.array([float(count)]))
    known = binomtest(right, count).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((known.low, known.high), abs=1e-6)


def test_seeds_are_pooled_by_their_images():
    def pooled(accuracy, count):
        bins = {"accuracy": [accuracy, None], "confidence": [0.5, None], "count": [count, 0]}
        return record("mlp", arrays={"mnist/reliability": {**bins, "lower": [0, 0.5], "upper": [0.5, 1]}})

    confidence, accuracy, count, edges = _pooled([pooled(1.0, 30), pooled(0.5, 10)])
    assert accuracy[0] == pytest.approx(0.875)  # (30 x 1 + 10 x .5) / 40
    assert count.tolist() == [40, 0]
    assert confidence[0] == 0.5
    assert edges.tolist() == [0, 0.5, 1]


def test_a_claim_is_drawn_in_margins():
    # reported .1446, margin .03; mean half a margin above. Squares of .003 (-2, -1, 0, 1, 2) sqrt(.4) add up to 4 x
    # .003^2: sd .003, h = 3.0414 x .003 = .30414 margins. What prints as .1446 reaches .00005 to either side: .00167.
    claim = BY_ID["feldman2018.mlp.noise_entropy"]
    values = tuple(claim.value + 0.015 + 0.003 * z * math.sqrt(0.4) for z in (-2, -1, 0, 1, 2))
    ((label, (line,)),) = forest.blocks([judge_one(claim, Samples.of(values))])
    assert label == "mlp noise entropy"
    assert (line.middle, line.low, line.high) == pytest.approx((0.5, 0.5 - 0.30581, 0.5 + 0.30581), abs=1e-5)


def test_a_computed_number_is_drawn_in_halves_of_its_print_interval():
    claim = BY_ID["feldman2018.worked_example.new_rho"]
    assert claim.margin == 0
    ((_, (line,)),) = forest.blocks([judge_one(claim, Samples.of((claim.value + claim.precision / 8,)))])
    assert (line.middle, line.low, line.high) == pytest.approx((0.25, 0.25, 0.25))


def test_epochs_of_a_curve_are_one_block():
    epochs = [claim for claim in BY_ID.values() if claim.approach == "mlp" and claim.stage.startswith("epoch")]
    found = forest.blocks([judge_one(claim, Samples.of((1.0,))) for claim in epochs])
    assert [len(lines) for _, lines in found] == [10, 10]
    assert {label.split("\n")[1] for label, _ in found} == {"test loss", "test accuracy"}


def test_a_training_curve_ends_before_the_first_epoch_without_a_value():
    epochs = [{"epoch": number, "loss": value} for number, value in ((1, 0.9), (2, None), (3, 0.7))]
    assert _line(record("mlp", epochs=epochs), "loss") == [0.9]  # else epoch 3 would be drawn at epoch 2


def test_a_class_is_chosen_by_the_median_over_networks():
    probs = np.array([[0.9, 0.05, 0.05], [0.3, 0.35, 0.35], [0.1, 0.45, 0.45]])  # medians .3, .35, .35
    example = VotedImage("", np.zeros((28, 28)), np.log(probs), label=1)
    assert example.chosen == [0, 1, 2]
    assert example.verdict == "answers 1, right"
    turned = np.log(np.maximum(np.eye(3), 1e-9))  # each network another class: every median is 0
    undecided = example._replace(draws=turned)
    assert (undecided.chosen, undecided.verdict) == ([], "undecided")


def test_looks_are_fixed_and_newcomers_change_no_other():
    approaches = [name for name in ORDER if not name.startswith("toy")]
    assert len({look(name) for name in approaches}) == len(approaches)
    assert look("toy_mlp") == look("mlp")
    everything = (*ORDER, "zebra", "apple")
    assert look("apple", everything) not in {look(name) for name in ORDER}
    assert look("apple", everything) != look("zebra", everything)
    assert look("zebra", everything).colour in COLOURS


def after(*values):
    return paired(dict.fromkeys(range(len(values)), 0.0), dict(enumerate(values)))


def test_a_change_is_drawn_in_points_and_grey_where_its_interval_reaches_zero():
    # mean .02 and .04, sd .01, t(2, .975) = 4.3027: half-width .0248, so that the first interval holds zero
    changes = [
        Change("mlp", "unclear", after(0.01, 0.02, 0.03)),
        Change("mlp", "clear", after(0.03, 0.04, 0.05)),
        Change("mlp", "one seed", after(0.5)),
    ]
    with style():
        (axes,) = draw_changes(changes).axes
    assert [text.get_text() for text in axes.texts] == ["+2.00, n = 3", "+4.00, n = 3", "+50.00, n = 1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["mlp: unclear", "mlp: clear", "mlp: one seed"]
    _, unclear, _, clear, _, alone = axes.lines
    assert [mark.get_color() for mark in (unclear, clear, alone)] == [REPORTED, CLEAR, REPORTED]
    assert list(clear.get_xdata()) == pytest.approx([4 - 2.484, 4 + 2.484], abs=1e-3)


def test_a_png_has_the_pixels_that_were_asked_for():
    image = printed(canvas(height=1.0), "png", dpi=80)
    assert int.from_bytes(image[16:20], "big") == round(80 * WIDTH)  # a PNG begins with its width and height


def test_the_name_of_a_variant_takes_two_lines_above_its_panel():
    rows = [Row(name, {}, {}) for name in ("mlp corrected", "vi_diag corrected+ten-times")]
    drawing = _draw_shift(ROTATED, rows, None)
    titles = [axes.get_title() for axes in drawing.axes]
    assert titles[:2] == ["mlp corrected", "vi_diag corrected\n+ten-times"]
