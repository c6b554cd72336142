"""Shows answers as text for a terminal, as JSON, and as a figure: the picture, its normalised form and the answers."""

from __future__ import annotations

import io
import os
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.core.errors import ConfigError
from bench.core.files import check_writable, write_atomically
from bench.show.figures.style import COLOURS, REPORTED, Axes, Drawing, canvas, style
from bench.show.predict.normalise import Normalised
from bench.show.predict.paper import Floats
from bench.show.predict.predictor import RULES, PictureAnswer, in_words
from bench.show.table import Table
from bench.show.terminal import shown

MOST_SHOWN = 3  # digits in a line of text
LEAST_SHOWN = 0.005  # a smaller probability would be shown as 0.00
COLUMNS = ("approach", "answer", "probabilities", "entropy", "mutual inf")
FORMATS = (".png", ".svg", ".pdf")
MOST_IMAGES = 12  # pictures in one figure
ACROSS = 4  # approaches side by side
PANEL = 1.75  # inches, side of a panel
CAPTION = 7.0  # points, size of the caption's letters
CHARACTERS = 17  # characters of the caption in an inch
SHADES = " .:+#"  # from no ink to full ink
LABEL = 20  # characters in a line of a panel's title
ANSWERED, REFUSED = COLOURS[0], COLOURS[1]
SPREAD = (10, 90)  # percentiles of the draws that a line spans


def as_json(image: Normalised, answers: Sequence[PictureAnswer]) -> dict[str, object]:
    """Return a picture and its answers as plain values for JSON; entropies in nats."""
    return {
        "image": image.path,
        "verdict": verdict(answers),
        "width": image.size[0],
        "height": image.size[1],
        "ink": ink(image),
        "remarks": image.remarks,
        "answers": [
            {name: value for name, value in vars(answer).items() if name not in ("draws", "remarks")}
            | {"refused_by": answer.refused_by or None}
            for answer in answers
        ],
    }


def ink(image: Normalised) -> str:
    """Return "dark on light" or "light on dark"."""
    return "dark on light" if image.dark_on_light else "light on dark"


def text(image: Normalised, answers: Sequence[PictureAnswer]) -> str:
    """Return a picture's answers in lines for the screen."""
    rows = [
        (
            answer.label,
            answer.says,
            likely(answer.probabilities),
            f"{answer.predictive_entropy:.3f}",
            f"{answer.mutual_information:.3f}" if answer.n_draws > 1 else "-",
        )
        for answer in answers
    ]
    refused = [f"{answer.label} does not answer: {answer.refused_by}" for answer in answers if answer.refused_by]
    return shown(
        f"{image.path}: {verdict(answers)}",
        f"{image.size[0]} x {image.size[1]}, {ink(image)}; the networks see",
        seen(image.pixels),
        *image.remarks,
        Table("answers", "Answers", "", COLUMNS, rows),
        *refused,
    )


def verdict(answers: Sequence[PictureAnswer]) -> str:
    """Return what most networks say, then what the others say, such as "2 of 3 networks do not know, 1 reads an 8"."""
    counts = Counter(answer.digit for answer in answers)
    said = sorted(counts.items(), key=lambda one: (-one[1], -1 if one[0] is None else one[0]))
    (digit, count), *others = said
    first = f"{count} of {len(answers)} network{'s' * (len(answers) > 1)} {_says(digit, count)}"
    return ", ".join([first, *(f"{count} {_says(digit, count)}" for digit, count in others)])


def _says(digit: int | None, count: int) -> str:
    if digit is None:
        return "does not know" if count == 1 else "do not know"
    return f"{'reads' if count == 1 else 'read'} {'an' if digit == 8 else 'a'} {digit}"


def seen(pixels: Floats) -> str:
    """Return a picture [28, 28] in characters, two rows to a line, as a character is twice as high as wide."""
    pairs = pixels.reshape(len(pixels) // 2, 2, -1).mean(axis=1)
    lines = ["".join(SHADES[round(float(value) * (len(SHADES) - 1))] for value in row).rstrip() for row in pairs]
    return "\n".join(lines).rstrip("\n")


def rule(answers: Sequence[PictureAnswer]) -> str:
    """Return the rule in words."""
    return shown(f"rule {answers[0].rule}: {in_words(answers[0].rule)}")


def likely(probabilities: Sequence[float]) -> str:
    """Return the likeliest digits with their probabilities."""
    # Sort by the rounded probabilities: if two digits show the same number, the lower digit comes first.
    order = sorted(range(len(probabilities)), key=lambda digit: -round(probabilities[digit], 2))[:MOST_SHOWN]
    shown = [digit for digit in order if probabilities[digit] >= LEAST_SHOWN]
    return ", ".join(f"{digit}: {probabilities[digit]:.2f}" for digit in shown)


def check_figure(path: Path, images: Sequence[Path]) -> None:
    """Raise ConfigError or StoreError if a figure of these pictures cannot be written to this file."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"figure '{path}' has no ending that is known; give one of {', '.join(FORMATS)}")
    if len(images) > MOST_IMAGES:
        raise ConfigError(f"{len(images)} pictures are too many for one figure; give at most {MOST_IMAGES}")
    if path.is_dir():
        raise ConfigError(f"--figure {path} is a folder; give a file")
    if os.path.realpath(path) in map(os.path.realpath, images):  # realpath does not fail on a loop of links
        raise ConfigError(f"--figure {path} would replace that picture; give another file")
    check_writable(path.parent)


def draw(images: Sequence[Normalised], answers: Sequence[Sequence[PictureAnswer]]) -> Drawing:
    """Draw each picture, its normalised form and the answers to it; needs at least one picture and one answer."""
    bands = -(-len(answers[0]) // ACROSS)  # rows of panels for one picture
    across = min(ACROSS, len(answers[0]))
    pictures = 2 if bands == 1 else 1  # columns: picture and normalised form beside each other, or one above the other
    width = PANEL * (pictures + across)
    caption = textwrap.wrap(_legend(answers[0][0]), int(CHARACTERS * width))
    with style():
        figure: Drawing = canvas(width, PANEL * bands * len(images) + 0.35 + 0.15 * len(caption))
        grid = figure.add_gridspec(bands * len(images), pictures + across)
        for place, (image, its_answers) in enumerate(zip(images, answers, strict=True)):
            top = place * bands
            _picture(figure.add_subplot(grid[top, 0]), image.shown, Path(image.path).name)
            seen = grid[top, 1] if bands == 1 else grid[top + 1, 0]
            _picture(figure.add_subplot(seen), image.pixels, "as the network sees it")
            for number, answer in enumerate(its_answers):
                row, column = divmod(number, ACROSS)
                axes = figure.add_subplot(grid[top + row, pictures + column])
                _bars(axes, answer, is_first=column == 0)
        figure.supxlabel("\n".join(caption), fontsize=CAPTION)
    return figure


def save(figure: Drawing, path: Path) -> None:
    """Write the figure; raises StoreError."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=path.suffix[1:].lower(), metadata=metadata)
    write_atomically(path, buffer.getvalue())


def _picture(axes: Axes, pixels: Floats, title: str) -> None:
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.set_title(title if len(title) <= 24 else title[:11] + "…" + title[-12:], fontsize=7)
    for side in axes.spines.values():
        side.set(visible=True, color=REPORTED, linewidth=0.5)


def _bars(axes: Axes, answer: PictureAnswer, is_first: bool) -> None:
    digits = np.arange(10)
    colour = REFUSED if answer.digit is None else ANSWERED
    axes.bar(digits, answer.probabilities, color=colour, alpha=0.85, width=0.8)
    if answer.n_draws > 1:
        low, high = np.percentile(answer.draws, SPREAD, axis=0)
        axes.vlines(digits, low, high, color="black", linewidth=0.8)
    of = RULES[answer.rule]
    axes.plot(digits, np.quantile(answer.draws, of.quantile, axis=0), "_", color="black", markersize=5)
    axes.axhline(of.threshold, color=REPORTED, linewidth=0.7, linestyle="--")
    axes.set(ylim=(0, 1.02), xticks=digits, yticks=(0, 0.5, 1), xlim=(-0.6, 9.6))
    axes.tick_params(labelsize=6, length=2, labelleft=is_first)
    axes.grid(visible=False, axis="x")
    says = f"says {answer.digit}" if answer.digit is not None else answer.says
    axes.set_title(
        f"{textwrap.fill(answer.label, LABEL)}\n{says}", fontsize=7.5, color=colour if answer.digit is None else "black"
    )
    mutual = f"{answer.mutual_information:.2f}" if answer.n_draws > 1 else "-"
    axes.set_xlabel(f"entropy {answer.predictive_entropy:.2f}, mutual inf. {mutual}", fontsize=6)


def _legend(answer: PictureAnswer) -> str:
    spread = f"bars: mean probability of each digit; lines: {SPREAD[0]} to {SPREAD[1]} % of the draws"
    quantile = RULES[answer.rule].quantile
    at = "median" if quantile == 0.5 else f"{quantile:.0%} quantile"
    return f"{spread}; ticks: {at}; dashed: what one tick must exceed (rule {answer.rule}); entropies in nats"
