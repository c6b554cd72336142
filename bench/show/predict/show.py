"""Answers as text for a terminal and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from bench.show.predict.normalise import Normalised
from bench.show.predict.predictor import Answer

MOST_SHOWN = 3  # digits whose probabilities a line has room for
WIDTH = 80  # columns
LEAST_SHOWN = 0.005  # a probability that would be rounded to 0.00
HEADERS = ("approach", "answer", "probabilities", "entropy", "mutual\ninf.")


def as_json(image: Normalised, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return a picture and its answers for machines; entropies in nats."""
    return {
        "image": image.path,
        "width": image.size[0],
        "height": image.size[1],
        "ink": ink(image),
        "answers": [_answer(answer) for answer in answers],
    }


def _answer(answer: Answer) -> dict[str, Any]:
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


def text(image: Mapping[str, Any]) -> str:
    """Return a picture's answers, as `as_json` gives them, in lines for people."""
    answers = image["answers"]
    rows = [
        (
            _label(answer),
            "I don't know" if answer["digit"] is None else answer["digit"],
            likely(answer["probabilities"]),
            f"{answer['predictive_entropy']:.3f}",
            f"{answer['mutual_information']:.3f}",
        )
        for answer in answers
    ]
    lines = [f"{image['image']}: {image['width']} x {image['height']}, {image['ink']}"]
    lines.append(tabulate(rows, headers=HEADERS, disable_numparse=True, colalign=["left"] * 3 + ["right"] * 2))
    for answer in answers:
        if answer["refused_by"]:
            lines += _wrapped(f"{_label(answer)} would say {answer['best_guess']}, but {answer['refused_by']}")
    others = {
        _label(answer): [name for name in answer["refusing_rules"] if name != answer["rule"]] for answer in answers
    }
    refusals = [f"{label} ({', '.join(names)})" for label, names in others.items() if names]
    if refusals:
        lines += _wrapped(f"other rules that refuse: {'; '.join(refusals)}")
    return "\n".join(lines)


def rules(answers: Sequence[Mapping[str, Any]]) -> str:
    """Return the rule of answers in words, with the threshold of each where it is not the same for all."""
    thresholds = {_label(answer): answer["threshold"] for answer in answers}
    first = answers[0]
    line = f"rule {first['rule']}: {first['rule_words']}"
    if first["rule"] in ("median", "strict"):
        return "\n".join(_wrapped(line))
    each = ", ".join(f"{label} {value:.3f}" for label, value in thresholds.items())
    return "\n".join(_wrapped(f"{line}, nats: {each}"))


def likely(probabilities: Sequence[float]) -> str:
    """Return the likeliest digits with their probabilities."""
    # as shown: of digits that print alike the lower comes first, whatever their last bits say
    order = sorted(range(len(probabilities)), key=lambda digit: -round(probabilities[digit], 2))[:MOST_SHOWN]
    shown = [digit for digit in order if probabilities[digit] >= LEAST_SHOWN]
    return ", ".join(f"{digit}: {probabilities[digit]:.2f}" for digit in shown)


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _label(answer: Mapping[str, Any]) -> str:
    recipe = answer["recipe"]
    return str(answer["approach"]) if recipe == "published" else f"{answer['approach']} {recipe}"
