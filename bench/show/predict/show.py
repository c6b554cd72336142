"""Shows answers as text for a terminal and as a figure: the picture, what the networks see, and their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.measure.metrics.refusal import STRICT_RULE
from bench.show.figures.style import COLOURS, REPORTED, Drawing, canvas
from bench.show.predict.networks import PictureAnswer, label
from bench.show.predict.pictures import Floats, Normalised
from bench.show.table import Table
from bench.show.terminal import shown

COLUMNS = ("approach", "answer", "probabilities", "quantile", "entropy", "mutual inf")
PANEL = 1.75  # inches, side of a panel
SHADES = " .:+#"  # from no ink to full ink
LEGEND = "bars: mean probability; lines: 10 to 90 % of draws; answers if one is above the dashes"


def text(image: Normalised, answers: Sequence[PictureAnswer]) -> str:
    """Return a picture's answers in lines for the screen."""
    rows = []
    for one in answers:
        mutual = f"{one.mutual_information:.3f}" if len(one.draws) > 1 else "-"
        numbers = (f"{one.quantile:.3f}", f"{one.predictive_entropy:.3f}", mutual)
        rows.append((label(one), one.says, likely(one.probabilities), *numbers))
    table = Table("answers", "Answers", "", COLUMNS, rows)
    seen = ("the networks see", characters(image.pixels), *image.remarks)
    return shown(f"{image.path}: {verdict(answers)}", *seen, table)


def verdict(answers: Sequence[PictureAnswer]) -> str:
    """Return what most networks say, then what the others say, such as "2 of 3 networks do not know, 1 reads an 8"."""
    counts = Counter(answer.digit for answer in answers)
    said: list[str] = []
    for digit, count in sorted(counts.items(), key=lambda one: (-one[1], -1 if one[0] is None else one[0])):
        known = f"read{'s' * (count == 1)} a{'n' * (digit == 8)} {digit}"
        unknown = "does not know" if count == 1 else "do not know"
        of = "" if said else f" of {len(answers)} network{'s' * (len(answers) > 1)}"
        said.append(f"{count}{of} {unknown if digit is None else known}")
    return ", ".join(said)


def characters(pixels: Floats) -> str:
    """Return a picture [28, 28] in characters, two rows to a line, as a character is twice as high as wide."""
    shades = (pixels.reshape(len(pixels) // 2, 2, -1).mean(axis=1) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(SHADES[shade] for shade in row).rstrip() for row in shades).rstrip("\n")


def likely(probabilities: Sequence[float]) -> str:
    """Return the three likeliest digits with their probabilities, without those that would be shown as 0.00."""
    order = sorted(range(10), key=lambda digit: -round(probabilities[digit], 2))[:3]
    return ", ".join(f"{digit}: {probabilities[digit]:.2f}" for digit in order if probabilities[digit] >= 0.005)


def draw(images: Sequence[Normalised], answers: Sequence[Sequence[PictureAnswer]]) -> Drawing:
    """Draw each picture, what the networks see, and their answers, at least one of each; call it inside `style()`."""
    columns, digits = 2 + len(answers[0]), np.arange(10)
    drawing: Drawing = canvas(PANEL * columns, PANEL * len(images) + 0.4)
    panels = drawing.subplots(len(images), columns, squeeze=False)
    for row, image, its_answers in zip(panels, images, answers, strict=True):
        titles = {Path(image.path).name[-24:]: image.colours, "as the networks see it": image.pixels}
        for axes, (title, pixels) in zip(row, titles.items(), strict=False):
            axes.imshow(pixels, cmap="gray", vmin=0, vmax=1)
            axes.set_title(title, fontsize=7)
            axes.axis("off")
        for axes, answer in zip(row[2:], its_answers, strict=True):
            colour = COLOURS[answer.digit is None]
            axes.bar(digits, answer.probabilities, color=colour)
            axes.vlines(digits, *np.percentile(answer.draws, (10, 90), axis=0), color="black", linewidth=0.8)
            axes.axhline(STRICT_RULE.threshold, color=REPORTED, linewidth=0.7, linestyle="--")
            axes.set(ylim=(0, 1.02), xticks=digits, yticks=(0, 0.5, 1))
            axes.set_title(f"{label(answer).replace(' ', chr(10))}: {answer.says}", fontsize=7, color=colour)
    drawing.supxlabel(LEGEND, fontsize=7)
    return drawing
