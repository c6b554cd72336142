"""What figures compute from records, against worked numbers, closed forms and the metrics."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bench.judge.comparison import paired
from bench.judge.samples import Samples
from bench.judge.stats.rule import judge_one
from bench.plan.registry import ORDER
from bench.show.figures import forest
from bench.show.figures.changes import CLEAR, Change, draw_changes
from bench.show.figures.figure import spread
from bench.show.figures.methods import _draw_shift
from bench.show.figures.style import COLOURS, REPORTED, WIDTH, as_svg, canvas, look, printed, style
from bench.show.figures.svg import mark, path
from bench.show.figures.training import _line
from bench.show.figures.uncertainty import _pooled, _wilson
from bench.show.tables.methods_rows import Row
from tests.judge.claims import BY_ID
from tests.synthetic import record


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
    line = forest.claim_mark(judge_one(claim, Samples.of(values)), "noise entropy")
    assert line.said.startswith("noise entropy, reported 0.1446: ")
    assert "+0.50 margins, 95 % of runs +0.19 to +0.81" in line.said
    assert (line.middle, line.low, line.high) == pytest.approx((0.5, 0.5 - 0.30581, 0.5 + 0.30581), abs=1e-5)


def test_a_computed_number_is_drawn_in_halves_of_its_print_interval():
    claim = BY_ID["feldman2018.worked_example.new_rho"]
    assert claim.margin == 0
    line = forest.claim_mark(judge_one(claim, Samples.of((claim.value + claim.precision / 8,))), "")
    assert (line.middle, line.low, line.high) == pytest.approx((0.25, 0.25, 0.25))
    assert line.said.endswith("+0.25 margins")  # without an interval


def test_a_training_curve_ends_before_the_first_epoch_without_a_value():
    epochs = [{"epoch": number, "loss": value} for number, value in ((1, 0.9), (2, None), (3, 0.7))]
    assert _line(record("mlp", epochs=epochs), "loss") == [0.9]  # else epoch 3 would be drawn at epoch 2


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


def test_a_change_is_drawn_in_points_and_grey_where_it_is_not_clear():
    # mean .02 and .04, sd .01, t(2, .975) = 4.3027: half-width .0248
    changes = [
        Change("mlp", "unclear", after(0.01, 0.02, 0.03), is_clear=False),
        Change("mlp", "clear", after(0.03, 0.04, 0.05), is_clear=True),
        Change("mlp", "one seed", after(0.5), is_clear=False),
    ]
    with style():
        (axes,) = draw_changes(changes).axes
    said = "mlp, unclear: +2.00 percentage points, 95 % interval -0.48 to +4.48, 3 seeds"
    assert axes.lines[1].get_gid() == mark(("mlp",), said)
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
    drawing = _draw_shift(rows, None)
    titles = [axes.get_title() for axes in drawing.axes]
    assert titles[:2] == ["mlp corrected", "vi_diag corrected\n+ten-times"]


def test_a_path_is_written_relative_in_tenths():
    assert (
        path("M 10.04 20 L 10.04 30.26 L 12 30.26 L 11.5 29 L 11.52 29.01 L 13 31 z") == "M10 20v10.3h2l-.5-1.3 1.5 2z"
    )
    assert path("M 1 2 L 1 2 ") == "M1 2h0"  # a line of no length is a point


def points_of(written):
    """Return the points of a path of the commands M, l, h and v."""
    x = y = 0.0
    for command, given_ in re.findall(r"([Mlhv])([^A-Za-z]*)", written):
        numbers = [float(one) for one in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", given_)]
        steps = {"h": [(numbers[0], 0.0)], "v": [(0.0, numbers[0])]}.get(command)
        for across, down in steps or zip(numbers[::2], numbers[1::2], strict=True):
            x, y = (across, down) if command == "M" else (x + across, y + down)
            yield x, y


@given(st.lists(st.tuples(st.floats(-900, 900), st.floats(-900, 900)), min_size=2, max_size=40))
def test_a_path_never_drifts_from_its_points(points):
    found = list(points_of(path("M " + " L ".join(f"{x:.6f} {y:.6f}" for x, y in points))))
    near = 0.0501  # half a tenth, and what adding the steps up rounds

    def is_near(one, other):
        return abs(one[0] - other[0]) <= near and abs(one[1] - other[1]) <= near

    assert is_near(found[-1], points[-1])
    assert all(any(is_near(place, one) for place in found) for one in points)
    assert all(any(is_near(place, one) for one in points) for place in found)


def test_roundings_of_another_processor_do_not_change_a_drawing():
    def svg(noise):
        changes = [
            Change("mlp", "a", after(*(value * (1 + noise) for value in (0.0123, 0.0234, 0.0345))), is_clear=True)
        ]
        with style():
            return printed(draw_changes(changes), "svg")

    assert svg(0) == svg(3e-9)
    assert svg(0) != svg(0.1)


def test_what_is_drawn_of_one_mark_is_one_mark_that_says_its_number():
    with style():
        drawing = canvas(height=1.0)
        axes = drawing.subplots()
        axes.plot([0, 1], [0, 0], gid=mark(("mlp", "ordinary network"), "a < b: 5 %"))
        axes.plot([0.5], [0], "o", gid=mark(("mlp", "ordinary network"), "a < b: 5 %"))
        axes.plot([0.6], [0.5], "o", gid=mark(("mlp", "ordinary network"), "6 %"))
        svg = as_svg(drawing)
    assert re.findall(r'<g class="mark" data-names="([^"]*)"><title>([^<]*)</title>', svg) == [
        ("mlp,ordinary network", "a &lt; b: 5 %"),
        ("mlp,ordinary network", "6 %"),
    ]


def test_a_drawing_has_no_style_and_only_names_that_are_used():
    """The page's content policy refuses styles of elements."""
    with style():
        drawing = canvas(height=2.0)
        axes = drawing.subplots()
        axes.fill_between([0, 1, 2], [0, 1, 0], [1, 2, 1], alpha=0.5)
        axes.errorbar([0, 1, 2], [0, 1, 0], [1, 2, 1], fmt="o")
        svg = as_svg(drawing, "x")
    root = ElementTree.fromstring(svg)
    assert not any("style" in node.attrib or node.tag.endswith("style") for node in root.iter())
    ids = [node.get("id") for node in root.iter() if "id" in node.attrib]
    assert set(ids) == set(re.findall(r"#(\w+)[\")]", re.sub('(fill|stroke)="[^"]*"', "", svg)))
    assert all(str(one).startswith("x") for one in ids)
