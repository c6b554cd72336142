"""One look for all figures: colours that the colour-blind tell apart, sizes in inches, text that stays text in SVG."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
"""Okabe & Ito 2008, "Color Universal Design"; with each goes a marker and a line style of its own."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
REPORTED = "#7F7F7F"  # what a document reports, always grey
WIDTH = 6.4  # of a figure of one panel, inches


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the suite's style inside this context, without a window."""
    import matplotlib as mpl
    from cycler import cycler

    settings: dict[Any, Any] = {
        "axes.grid": True,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.constrained_layout.use": True,
        "figure.dpi": 100,
        "font.size": 9,
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "savefig.dpi": 150,
        "svg.fonttype": "none",
        "svg.hashsalt": "bnn-uncertainty-bench",  # equal figures are equal files
    }
    with mpl.rc_context(settings):
        yield
