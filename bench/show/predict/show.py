"""Answers as text for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from bench.show.cells import make_table
from bench.show.predict.normalise import Normalised
from bench.show.predict.predictor import PictureAnswer
from bench.show.predict.rules import QUANTILE_RULES
from bench.show.terminal import shown

MOST_SHOWN = 3  # digits whose probabilities a line has room for
LEAST_SHOWN = 0.005  # a probability that would be rounded to 0.00
COLUMNS = ("approach", "answer", "probabilities", "entropy", "mutual inf")


def as_json(image: Normalised, answers: Sequence[PictureAnswer]) -> dict[str, object]:
    """Return a picture and its answers for machines; entropies in nats."""
    return {
        "image": image.path,
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
    """Return how a picture was drawn."""
    return "dark on light" if image.dark_on_light else "light on dark"


def text(image: Normalised, answers: Sequence[PictureAnswer]) -> str:
    """Return a picture's answers in lines for people, for the screen."""
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
    others = {answer.label: [name for name in answer.refusing_rules if name != answer.rule] for answer in answers}
    refusals = [f"{label} ({', '.join(names)})" for label, names in others.items() if names]
    return shown(
        f"{image.path}: {image.size[0]} x {image.size[1]}, {ink(image)}",
        *image.remarks,
        make_table("answers", "Answers", "", COLUMNS, rows),
        *refused,
        *([f"other rules that refuse: {'; '.join(refusals)}"] if refusals else []),
    )


def rules(answers: Sequence[PictureAnswer]) -> str:
    """Return the rule in words, with the threshold of each approach if they differ."""
    line = f"rule {answers[0].rule}: {answers[0].rule_words}"
    if answers[0].rule not in QUANTILE_RULES:
        line += ", nats: " + ", ".join(f"{answer.label} {answer.threshold:.3f}" for answer in answers)
    return shown(line)


def likely(probabilities: Sequence[float]) -> str:
    """Return the likeliest digits with their probabilities."""
    # Sort by what is shown: of digits whose probabilities print alike, the lower one comes first.
    order = sorted(range(len(probabilities)), key=lambda digit: -round(probabilities[digit], 2))[:MOST_SHOWN]
    shown = [digit for digit in order if probabilities[digit] >= LEAST_SHOWN]
    return ", ".join(f"{digit}: {probabilities[digit]:.2f}" for digit in shown)
