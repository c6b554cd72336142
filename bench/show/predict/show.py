"""Shows answers as text for a terminal and as a figure: the picture, what the networks see, and their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.core.text import counted
from bench.measure.metrics.refusal import STRICT_RULE
from bench.show.figures.style import COLOURS, REPORTED, Drawing, canvas
from bench.show.predict.networks import PictureAnswer
from bench.show.predict.pictures import Floats, Normalised
from bench.show.table import Table
from bench.show.terminal import shown

PANEL = 1.75  # inches, side of a panel
SHADES = " .:+#"  # from no ink to full ink


def text(image: Normalised, answers: Sequence[PictureAnswer]) -> str:
    """Return a picture's answers in lines for the screen."""
    rows = []
    for one in answers:
        likeliest = np.argsort(np.negative(one.probabilities), kind="stable")[:2]
        numbers = (one.quantile, one.predictive_entropy, one.mutual_information)
        said = ", ".join(f"{digit}: {one.probabilities[digit]:.2f}" for digit in likeliest)
        rows.append((one.network, one.says, said, *(f"{number:.3f}" for number in numbers)))
    columns = ("network", "answer", "likeliest", "quantile", "entropy", "mutual inf")
    first = (f"{image.path}: {verdict(answers)}", "the networks see", characters(image.pixels))
    return shown(*first, *image.remarks, Table("answers", "Answers", "", columns, rows))


def verdict(answers: Sequence[PictureAnswer]) -> str:
    """Return what the networks say, the most frequent first: "I don't know (2 of 3 networks), 8 (1 of 3 networks)"."""
    said = Counter(answer.says for answer in answers).most_common()
    return ", ".join(f"{says} ({count} of {counted(len(answers), 'network')})" for says, count in said)


def characters(pixels: Floats) -> str:
    """Return a picture [28, 28] in characters, two rows to a line, as a character is twice as high as wide."""
    shades = (pixels.reshape(len(pixels) // 2, 2, -1).mean(axis=1) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(SHADES[shade] for shade in row).rstrip() for row in shades).rstrip("\n")


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
            axes.set_title(f"{answer.network.replace(' ', chr(10))}: {answer.says}", fontsize=7, color=colour)
    drawing.supxlabel("bars: mean probability; lines: 10 to 90 % of draws; answers above the dashes", fontsize=7)
    return drawing
