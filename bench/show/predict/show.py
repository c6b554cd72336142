"""Answers as text for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from rich.console import Console

from bench.show.predict.normalise import Normalised
from bench.show.predict.predictor import PictureAnswer
from bench.show.tables.cells import make_table
from bench.show.terminal import shown

MOST_SHOWN = 3  # digits whose probabilities a line has room for
LEAST_SHOWN = 0.005  # a probability that would be rounded to 0.00
COLUMNS = ("approach", "answer", "probabilities", "entropy", "mutual inf")


class AnswerFields(TypedDict):
    """An answer for machines; entropies in nats."""

    approach: str
    recipe: str
    profile: str
    seed: int
    n_draws: int
    digit: int | None
    best_guess: int
    probabilities: list[float]
    predictive_entropy: float
    mutual_information: float
    rule: str
    rule_words: str
    threshold: float
    refused_by: str | None
    refusing_rules: list[str]


class PictureFields(TypedDict):
    """A picture and its answers for machines."""

    image: str
    width: int
    height: int
    ink: str
    remarks: list[str]
    answers: list[AnswerFields]


def as_json(image: Normalised, answers: Sequence[PictureAnswer]) -> PictureFields:
    """Return a picture and its answers for machines; entropies in nats."""
    return {
        "image": image.path,
        "width": image.size[0],
        "height": image.size[1],
        "ink": ink(image),
        "remarks": list(image.remarks),
        "answers": [_answer(answer) for answer in answers],
    }


def _answer(answer: PictureAnswer) -> AnswerFields:
    return {
        "approach": answer.approach,
        "recipe": answer.recipe,
        "profile": answer.profile,
        "seed": answer.seed,
        "n_draws": answer.n_draws,
        "digit": answer.digit,
        "best_guess": answer.best_guess,
        "probabilities": list(answer.probabilities),
        "predictive_entropy": answer.predictive_entropy,
        "mutual_information": answer.mutual_information,
        "rule": answer.rule,
        "rule_words": answer.rule_words,
        "threshold": answer.threshold,
        "refused_by": answer.refused_by or None,
        "refusing_rules": list(answer.refusing_rules),
    }


def ink(image: Normalised) -> str:
    """Return how a picture was drawn."""
    return "dark on light" if image.dark_on_light else "light on dark"


def text(image: PictureFields, console: Console | None = None) -> str:
    """Return a picture's answers in lines for people, for the screen unless another console is given."""
    answers = image["answers"]
    rows = [
        (
            _label(answer),
            "I don't know" if answer["digit"] is None else str(answer["digit"]),
            likely(answer["probabilities"]),
            f"{answer['predictive_entropy']:.3f}",
            f"{answer['mutual_information']:.3f}" if answer["n_draws"] > 1 else "-",
        )
        for answer in answers
    ]
    refused = [
        f"{_label(answer)} would say {answer['best_guess']}, but {answer['refused_by']}"
        for answer in answers
        if answer["refused_by"]
    ]
    others = {
        _label(answer): [name for name in answer["refusing_rules"] if name != answer["rule"]] for answer in answers
    }
    refusals = [f"{label} ({', '.join(names)})" for label, names in others.items() if names]
    return shown(
        f"{image['image']}: {image['width']} x {image['height']}, {image['ink']}",
        *image["remarks"],
        make_table("answers", "Answers", "", COLUMNS, rows),
        *refused,
        *([f"other rules that refuse: {'; '.join(refusals)}"] if refusals else []),
        console=console,
    )


def rules(answers: Sequence[AnswerFields], console: Console | None = None) -> str:
    """Return the rule in words, with the threshold of each approach if they differ."""
    first = answers[0]
    line = f"rule {first['rule']}: {first['rule_words']}"
    if first["rule"] not in ("median", "strict"):
        line += ", nats: " + ", ".join(f"{_label(answer)} {answer['threshold']:.3f}" for answer in answers)
    return shown(line, console=console)


def likely(probabilities: Sequence[float]) -> str:
    """Return the likeliest digits with their probabilities."""
    # Sort by what is shown: of digits whose probabilities print alike, the lower one comes first.
    order = sorted(range(len(probabilities)), key=lambda digit: -round(probabilities[digit], 2))[:MOST_SHOWN]
    shown = [digit for digit in order if probabilities[digit] >= LEAST_SHOWN]
    return ", ".join(f"{digit}: {probabilities[digit]:.2f}" for digit in shown)


def _label(answer: AnswerFields) -> str:
    recipe = answer["recipe"]
    return answer["approach"] if recipe == "published" else f"{answer['approach']} {recipe}"
