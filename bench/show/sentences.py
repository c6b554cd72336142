"""Fill the sentences of sentences.toml with numbers, if what they say is true.

The numbers are of the corrected networks, each the mean over trainings unless its name says otherwise.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, UndefinedError

from bench.core.metric_table import SHARE_SURE
from bench.core.toml import TomlTable, read_toml
from bench.judge.comparison import CANNOT_TELL, CONFIRMED, CONTRADICTED
from bench.judge.samples import Samples
from bench.show.inputs import Inputs
from bench.show.row_numbers import LETTERS, SURE_OF, WRONG_OF_SURE, accepted_at, wrong_at
from bench.show.tables.sure import CALIBRATED, CLOTHES, FEW, MANY, NOISE, PLAIN, Network, networks

FILE = Path(__file__).with_suffix(".toml")
KINDS = {"digits": "mnist", "letters": LETTERS, "clothes": CLOTHES, "noise": NOISE}
SINGLE = {PLAIN: "plain", CALIBRATED: "calibrated"}
MISSING = "These results do not have every network that the sentence is about."


class Sentence(TomlTable, frozen=True):
    """A sentence, or a few, with what must hold for it to be true."""

    text: str  # numbers in braces, by the rules of jinja2
    holds: tuple[str, ...]  # comparisons of the same numbers


def filled(sentence: Sentence, numbers: Mapping[str, float]) -> str:
    """Return a sentence with its numbers; or why it is not true of these numbers; or that some are missing."""
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # Markdown, of numbers alone
    environment.filters |= {"whole": _whole, "down": _down}
    try:
        text = environment.from_string(sentence.text.strip()).render(numbers)
        broken = [one for one in sentence.holds if not environment.compile_expression(one, False)(**numbers)]
    except UndefinedError:
        return MISSING
    return f"Not so in these results: {'; '.join(broken)} does not hold." if broken else text


def _whole(percent: float) -> str:
    return f"{float(percent):.0f}"


def _down(percent: float, decimals: int) -> str:
    """Round down, so that "at least" holds."""
    return f"{math.floor(float(percent) * 10**decimals) / 10**decimals:.{decimals}f}"


def all_filled(inputs: Inputs) -> dict[str, str]:
    """Return every sentence with the numbers of a results folder."""
    numbers = values(inputs)
    return {name: filled(one, numbers) for name, one in sentences().items()}


@cache
def sentences() -> Mapping[str, Sentence]:
    """Return the sentences by name."""
    return read_toml(FILE, dict[str, Sentence], "sentences")


def values(inputs: Inputs) -> Mapping[str, float]:
    """Return every number by name, shares in percent; a number that was not measured is left out.

    NAME_plain is of the ordinary network, NAME_calibrated of the same with a temperature; NAME_least, NAME_middle and
    NAME_most are the least, the median and the largest of the Bayesian networks.
    """
    found = networks(inputs)
    numbers: dict[str, float] = {"networks": sum(_is_bayesian(one) for one in found)}
    outcomes = Counter(verdict.outcome for verdict in inputs.judgement.ends)
    judged = {"confirmed": CONFIRMED, "contradicted": CONTRADICTED, "undecided": CANNOT_TELL}
    if any(outcomes[outcome] for outcome in judged.values()):
        numbers |= {name: outcomes[outcome] for name, outcome in judged.items()}
        numbers["reports"] = len(inputs.judgement.ends)
    for kind, dataset in KINDS.items():
        numbers |= _of_all(kind, found, f"{dataset}/{SURE_OF}")
        if dataset != "mnist":
            numbers |= _of_all(f"{kind}90", found, f"{dataset}/{accepted_at(MANY)}")
    numbers |= _of_all("wrong75", found, f"mnist/{wrong_at(FEW)}")
    numbers |= _of_all("wrong90", found, f"mnist/{wrong_at(MANY)}")
    for name, metric in (("turned_right", "accuracy"), ("turned_sure", SHARE_SURE)):
        numbers |= _summary(name, {one.approach: one.turned[metric] for one in found})
    wrong = [share for one in found if _is_bayesian(one) for share in one.seeds[f"mnist/{WRONG_OF_SURE}"].values]
    return numbers | ({"worst_right": 100 * (1 - max(wrong))} if wrong else {})


def _is_bayesian(one: Network) -> bool:
    return one.approach not in SINGLE


def _of_all(name: str, found: Iterable[Network], number: str) -> dict[str, float]:
    return _summary(name, {one.approach: one.seeds[number] for one in found if number in one.seeds})


def _summary(name: str, samples: Mapping[str, Samples]) -> dict[str, float]:
    """Return the percentages of the networks by name, from the samples of each approach."""
    means = {approach: 100 * sample.mean for approach, sample in samples.items() if sample.mean is not None}
    found = {f"{name}_{word}": means[approach] for approach, word in SINGLE.items() if approach in means}
    bayesian = [mean for approach, mean in means.items() if approach not in SINGLE]
    if bayesian:
        found |= {f"{name}_least": min(bayesian), f"{name}_most": max(bayesian)}
        found[f"{name}_middle"] = statistics.median(bayesian)
    return found
