"""One style for all figures: colours that the colour-blind can tell apart, sizes in inches, text as text in SVG."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bench.show.figures.svg import compact

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Axes: TypeAlias = "matplotlib.axes.Axes"
Drawing: TypeAlias = "matplotlib.figure.Figure"
"""Names for annotations. Only functions that draw import matplotlib: the import takes half a second, which the commands
`table` and `predict` save when they draw nothing."""

LineStyle = str | tuple[int, tuple[int, ...]]
"""As matplotlib takes it: a name, or an offset and the lengths of strokes and gaps."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Okabe & Ito 2008, "Color Universal Design". Each colour has its own marker and line style, below."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[LineStyle, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
REPORTED = "#7F7F7F"  # what a document reports, always grey
FAINT = "#BBBBBB"  # what is there for comparison
INK = "#333333"
SOFT = "#59636e"  # of text that says less
WIDTH = 7.2  # of a figure, inches: 691 pixels
DARK = {
    "#000000": "#f0f6fc",
    "#333333": "#d1d7e0",
    "#59636e": "#9198a1",
    "#a34700": "#ff8c3a",
    "#7f7f7f": "#9198a1",
    "#b0b0b0": "#656c76",
    "#bbbbbb": "#3d444d",
    "#ffffff": "#0d1117",
    "#0072b2": "#4aa8e8",
    "#d55e00": "#ff8c3a",
    "#009e73": "#2fc79b",
    "#004b75": "#9cd0f5",  # this and what follows: outcomes of verdicts, see `bench.show.outcomes`
    "#b84700": "#f08a4b",
    "#6a727a": "#8e989f",
    "#7a2e00": "#ffb184",
    "#7f878e": "#79838c",
    "#9aa1a7": "#4f585f",
}
"""Colours of a drawing, and what stands for them if the reader's screen is dark. Others do for both."""
NARROW = 3.7  # of a figure for a page as narrow as a telephone: 355 pixels
SMALL = 7.0  # smallest text, points: 9 pixels
READABLE = 9.0  # text of the figures that show findings: 12 pixels

_FIXED = {
    "dropout_fcn": 0,
    "pyro_hidden_layer": 1,
    "pyro_random_module": 2,
    "mlp": 3,
    "linear_bbb": 4,
    "mxnet_bbb": 5,
    "uniform": 6,
    "toy_mlp": 3,  # a toy looks like the classifier that its document sets beside it
    "toy_bbb": 4,
}


class Look(NamedTuple):
    """How an approach is drawn, in every figure."""

    colour: str
    marker: str
    line: LineStyle


def look(approach: str, others: Sequence[str] = ()) -> Look:
    """Return an approach's look. Those of `others` without a fixed look get the next looks, in alphabetical order."""
    number = _FIXED.get(approach)
    if number is None:
        new = sorted(name for name in others if name not in _FIXED)
        number = 7 + (new.index(approach) if approach in new else 0)
    number %= len(COLOURS)
    return Look(COLOURS[number], MARKERS[number], LINES[number])


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the suite's style inside this context, without a window."""
    import matplotlib as mpl
    from cycler import cycler

    settings = {
        "axes.axisbelow": True,
        "axes.edgecolor": INK,
        "axes.grid": True,
        "axes.labelsize": 8,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 8.5,
        "axes.titley": 1.0,  # its usual place; if it were not given, matplotlib would look for ticks above every panel
        "figure.constrained_layout.w_pad": 0.12,  # inches: in SVG the viewer's font may be wider than the one measured
        "figure.dpi": 100,
        "figure.facecolor": "white",
        "font.family": ["DejaVu Sans"],
        "font.size": 8,
        "grid.alpha": 0.25,
        "grid.linewidth": 0.6,
        "legend.fontsize": 7.5,
        "legend.frameon": False,
        "lines.linewidth": 1.4,
        "lines.markersize": 4,
        "savefig.dpi": 150,
        "svg.fonttype": "none",
        "svg.hashsalt": "bnn-uncertainty-bench",  # equal figures are equal files
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
    }
    with mpl.rc_context(settings):
        yield


def canvas(width: float = WIDTH, height: float = 3.0) -> Drawing:
    """Return an empty drawing of a size in inches, without a window; call it inside `style()`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def printed(drawing: Drawing, form: str, dpi: float = 150) -> bytes:
    """Return a drawing of `canvas` as a file of a format, "svg" or "png"; equal drawings give equal bytes.

    `dpi`: dots per inch of a PNG; the layout of an SVG does not depend on it.
    """
    if form == "svg":
        return standalone(as_svg(drawing)).encode()
    buffer = io.BytesIO()
    drawing.savefig(buffer, format=form, dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def as_svg(drawing: Drawing, prefix: str = "i") -> str:
    """Return a drawing of `canvas` as an element of SVG for a page; see `compact`."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()  # `savefig` would draw everything twice, first for the layout alone
    FigureCanvasSVG(drawing).print_svg(buffer, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return compact(buffer.getvalue().decode(), prefix)


def colour_rules(value: str, within: str = "") -> str:
    """Return rules for the colours of `DARK`. `value` has places {light} and {dark}; `within` begins each selector."""
    return "".join(
        f'{within}[{part}="{light}"]{{{part}:{value.format(light=light, dark=dark)}}}'
        for light, dark in DARK.items()
        for part in ("fill", "stroke")
    )


def standalone(svg: str) -> str:
    """Return an element of SVG as a file that follows the reader's colour scheme.

    The drawing keeps its light colours, so that a program that knows no such rules shows these.
    """
    begin = svg.index(">") + 1
    rules = f"text{{fill:{DARK['#000000']}}}{colour_rules('{dark}')}"
    return f"{svg[:begin]}<style>@media (prefers-color-scheme:dark){{{rules}}}</style>{svg[begin:]}\n"
