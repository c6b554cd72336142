"""Draw the data set `letters`: A to J in the fonts that matplotlib ships, in MNIST's conventions.

The idea is not-MNIST's: letters A to J of many fonts, on which a classifier of digits should not be sure. Here the
fonts have free licences (named in datasets/letters.toml). As in MNIST, ink is white on black and antialiased, the glyph
is scaled into a 20x20 box with its aspect kept, and its centre of mass is moved to the middle of pixel (14, 14),
counted from 0, of 28x28. Each face is drawn four times: plain, and three times stretched, slanted and rotated at
random.

    python tools/make_letters.py [FOLDER]

writes two IDX files into FOLDER (by default datasets/letters) and prints the SHA-256 of their decompressed bytes,
which datasets/letters.toml records. All random numbers come from the stream "letters" of seed 0, so that the same
version of matplotlib draws the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
import sys
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
import torch
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D, Bbox

from bench.core.files import write_atomically
from bench.core.streams import generator

LETTERS = "ABCDEFGHIJ"
SIDE = 28  # pixels
BOX = 20.0  # pixels, the longer side of a glyph
CENTRE = 14.5  # pixels from the edge to the middle of pixel 14; MNIST's test images have their mean there
VARIATIONS = 4  # of each face: the plain glyph and three distorted ones
STRETCH, SLANT, TURN_DEGREES = 0.2, 0.2, 12.0  # largest distortion to either side

# Unicode keeps some of these letters among its older letterlike symbols, so that they are not consecutive.
DOUBLE_STRUCK = "\U0001d538\U0001d539\u2102\U0001d53b\U0001d53c\U0001d53d\U0001d53e\u210d\U0001d540\U0001d541"
FRAKTUR = "\U0001d504\U0001d505\u212d\U0001d507\U0001d508\U0001d509\U0001d50a\u210c\u2111\U0001d50d"
SCRIPT = "\U0001d49c\u212c\U0001d49e\U0001d49f\u2130\u2131\U0001d4a2\u210b\u2110\U0001d4a5"

DEJAVU = [
    f"DejaVu{family}{style}"
    for family, slanted in (("Sans", "Oblique"), ("SansMono", "Oblique"), ("Serif", "Italic"))
    for style in ("", "-Bold", f"-{slanted}", f"-Bold{slanted}")
]
STIX = ["STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"]
COMPUTER_MODERN = ["cmr10", "cmb10", "cmss10", "cmtt10", "cmmi10", "cmsy10"]
FACES = [(font, LETTERS) for font in DEJAVU + STIX + COMPUTER_MODERN] + [
    ("STIXGeneral", alphabet) for alphabet in (DOUBLE_STRUCK, FRAKTUR, SCRIPT)
]


def glyph(font: str, character: str) -> Outline:
    """Return the outline of a character of matplotlib's font file `font`, unhinted."""
    file = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")
    return TextPath((0, 0), character, size=100, prop=FontProperties(fname=str(file)))


def distortion(letter: int, face: int, variation: int) -> Affine2D:
    """Return how an image differs from the plain glyph; variation 0 is the plain glyph."""
    if variation == 0:
        return Affine2D()
    source = generator(0, "letters", letter, face, variation)
    stretch, slant, turn = (2 * torch.rand(3, generator=source, dtype=torch.float64) - 1).tolist()
    wide = Affine2D().scale(1 + STRETCH * stretch, 1)
    return wide.skew(float(np.arctan(SLANT * slant)), 0).rotate_deg(TURN_DEGREES * turn)


def draw(outline: Outline) -> npt.NDArray[np.uint8]:
    """Return the share of each pixel that the outline covers, 0-255, shape [28, 28]; the origin is bottom left."""
    renderer = RendererAgg(SIDE, SIDE, 72)
    context = renderer.new_gc()
    context.set_linewidth(0)
    context.set_snap(False)  # otherwise straight lines are moved to whole pixels, and with them the centre of mass
    renderer.draw_path(context, outline, Affine2D(), (1.0, 1.0, 1.0))
    return np.asarray(renderer.buffer_rgba())[..., 3].copy()


def image(font: str, character: str, distorted: Affine2D) -> npt.NDArray[np.uint8]:
    """Return one glyph as an image in MNIST's conventions, uint8 [28, 28]."""
    outline = distorted.transform_path(glyph(font, character))
    box: Bbox = outline.get_extents()
    scale = BOX / max(box.width, box.height)
    fitted = Affine2D().translate(-box.x0, -box.y0).scale(scale)
    fitted = fitted.translate((SIDE - scale * box.width) / 2, (SIDE - scale * box.height) / 2)
    first = draw(fitted.transform_path(outline)).astype(np.float64)
    middle = np.arange(SIDE) + 0.5
    across = (first.sum(axis=0) * middle).sum() / first.sum()
    down = (first.sum(axis=1) * middle).sum() / first.sum()
    centred = fitted.translate(CENTRE - across, down - CENTRE)  # upwards is positive here, rows count downwards
    return draw(centred.transform_path(outline))


def letters() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return images uint8 [1000, 28, 28], all of A first, and labels uint8 [1000] (A = 0 ... J = 9)."""
    images = [
        image(font, alphabet[letter], distortion(letter, face, variation))
        for letter in range(len(LETTERS))
        for face, (font, alphabet) in enumerate(FACES)
        for variation in range(VARIATIONS)
    ]
    labels = np.repeat(np.arange(len(LETTERS), dtype=np.uint8), len(FACES) * VARIATIONS)
    return np.stack(images), labels


def write_idx(path: Path, array: npt.NDArray[np.uint8]) -> str:
    """Write a compressed IDX file of bytes, equal in every run; return the SHA-256 of the decompressed bytes."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    raw = header + array.tobytes()
    write_atomically(path, gzip.compress(raw, compresslevel=9, mtime=0))
    return hashlib.sha256(raw).hexdigest()


def main(arguments: list[str]) -> None:
    """Write both files and print their hashes."""
    folder = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent / "datasets" / "letters"
    images, labels = letters()
    for name, array in (("letters-images-idx3-ubyte.gz", images), ("letters-labels-idx1-ubyte.gz", labels)):
        sys.stdout.write(f"{write_idx(folder / name, array)}  {name}  {list(array.shape)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
