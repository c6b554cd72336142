"""Figures inside the page: as data, so that no other file is needed and the ids of two drawings cannot clash."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from threadpoolctl import threadpool_limits

from bench.show.figures.figure import Figure
from bench.show.figures.style import Drawing, printed, style
from bench.show.page.links import anchor

LARGEST_SVG = 300_000  # bytes; a larger drawing is embedded as pixels
PIXELS_PER_INCH = 144
PLAIN = " !$'()*+,-./:;=?@[]^_`{|}~"  # in an address inside quotation marks; not \" & < > # %
CSS_PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class Image:
    """One figure ready to be shown."""

    id: str
    title: str
    caption: str
    address: str  # data:...
    width: int  # CSS pixels
    height: int
    narrow: str = ""  # the same, drawn for a narrow page; '' where the wide drawing serves


def embed(figures: Iterable[Figure]) -> list[Image]:
    """Draw figures; equal records give equal bytes.

    On one thread: those of NumPy's linear algebra wait busily for the matrices of 3 x 3 that drawings are made of.
    """
    with threadpool_limits(1):
        return [_embed(figure) for figure in figures]


def _embed(figure: Figure) -> Image:
    with style():
        drawing = figure.draw()
        width, height = (round(side * CSS_PIXELS_PER_INCH) for side in drawing.get_size_inches())
        address = _address(drawing, figure.vector)
        narrow = "" if figure.narrow is None else _address(figure.narrow(), figure.vector)
        narrow = narrow.replace(" ", "%20")  # a space would end an address of `srcset`
    return Image(anchor("figure", figure.name), figure.title, figure.caption, address, width, height, narrow)


def _address(drawing: Drawing, is_vector: bool) -> str:
    content, kind = b"", "svg+xml"
    if is_vector:
        content = printed(drawing, "svg")
    if not is_vector or len(content) > LARGEST_SVG:
        content, kind = printed(drawing, "png", dpi=PIXELS_PER_INCH), "png"
    if kind == "png":
        return f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return f"data:image/svg+xml,{quote(small(content.decode()), safe=PLAIN)}"  # a quarter smaller than base64


def small(svg: str) -> str:
    """Return the same drawing with shorter text: without remarks and idle ids, places to 0.1 of a point."""
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL)
    text = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", text)
    wanted = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in wanted else "", text)
    text = re.sub(r'(?<= d=")[^"]+|(?<= [xy]=")[^"]+', lambda place: re.sub(r"(\.\d)\d+", r"\1", place[0]), text)
    text = re.sub(r'(?<= style=")[^"]+', lambda rules: re.sub(r"([:;]) ", r"\1", rules[0]), text)
    return " ".join(text.split()).replace("> <", "><")
