"""All figures: which of them a results folder can make, why it cannot make the others, and how to write the files."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from bench.core.files import write_atomically
from bench.show.figures import (
    changes,
    forest,
    learning,
    lecture,
    methods,
    posterior,
    sure,
    training,
    uncertainty,
)
from bench.show.figures.figure import Absent, Figure
from bench.show.figures.style import Drawing, printed, style
from bench.show.inputs import Inputs

FORMATS = ("svg", "png")
PAGE: tuple[ModuleType, ...] = (sure, forest, changes, methods, training, uncertainty, learning)
"""In the order of their figures on the page. The function `make` of each gives its figures, or why they are absent."""
MODULES = (*PAGE, lecture, posterior)


def survey(inputs: Inputs, modules: Sequence[ModuleType] = MODULES) -> tuple[list[Figure], list[Absent]]:
    """Return the figures that can be made, then those that cannot, with the reasons.

    Only records, per-row scores, derived metrics and fits of the results folder are read and, for pictures, the data
    sets.
    """
    found: list[Figure | Absent] = [item for module in modules for item in module.make(inputs)]
    said = inputs.with_baseline.said(inputs.results.records)
    drawable = [replace(item, caption=f"{item.caption} {said}".rstrip()) for item in found if isinstance(item, Figure)]
    return drawable, [item for item in found if isinstance(item, Absent)]


def render(figure: Figure, form: str) -> bytes:
    """Return a figure as a file of a format; equal records give equal bytes."""
    with style():
        return printed(figure.draw(), form)


def for_notebook(figure: Figure) -> Drawing:
    """Return a drawing that a notebook shows, as HTML with its caption or as PNG."""
    with style():
        drawing = figure.draw()

    def as_png() -> bytes:
        with style():
            return printed(drawing, "png")

    def as_html() -> str:
        source = f"data:image/png;base64,{base64.b64encode(as_png()).decode()}"
        picture = f'<img alt="{html.escape(figure.title)}" src="{source}">'
        return f"<figure>{picture}<figcaption>{html.escape(figure.caption)}</figcaption></figure>"

    # Without pyplot, a notebook shows a figure of matplotlib only by these.
    vars(drawing).update(_repr_png_=as_png, _repr_html_=as_html)
    return drawing


def write(
    figures: Iterable[Figure], folder: Path, formats: Sequence[str] = ("svg",), below: Path | None = None
) -> list[Path]:
    """Write figures to a folder, each file whole or not at all; raises StoreError.

    Args:
        figures: what to draw; in SVG also as NAME-narrow.svg, if there is a form for a narrow page.
        folder: made if it is not there.
        formats: of `FORMATS`.
        below: see `bench.core.files.opened_folder`.
    """
    written = []
    for figure in figures:
        forms = {f"{figure.name}.{form}": render(figure, form) for form in formats}
        if figure.narrow is not None and "svg" in formats:
            forms[f"{figure.name}-narrow.svg"] = render(replace(figure, draw=figure.narrow), "svg")
        for name, content in forms.items():
            write_atomically(folder / name, content, below)
            written.append(folder / name)
    return written
