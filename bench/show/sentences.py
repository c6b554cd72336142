"""Fill the sentences of sentences.toml with numbers, if what they say is true.

The numbers are of the corrected networks, each the mean over trainings unless its name says otherwise.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, UndefinedError

from bench.core.metric_table import RIGHT_OF_SURE, SHARE_SURE
from bench.core.toml import TomlTable, read_toml
from bench.judge.comparison import ALPHA, CANNOT_TELL, CONFIRMED, CONTRADICTED, holm_over, independent, paired
from bench.judge.samples import Samples
from bench.plan.recipes import profile
from bench.show.inputs import Inputs
from bench.show.row_numbers import LETTERS, SURE_OF, WRONG_OF_SURE, accepted_at, wrong_at
from bench.show.tables.methods_answer import beyond_plain
from bench.show.tables.methods_rows import rows
from bench.show.tables.sure import (
    ACCURACY,
    CALIBRATED,
    CLOTHES,
    FEW,
    MANY,
    NLL,
    NOISE,
    PLAIN,
    TURNED_RIGHT,
    TURNED_SURE,
    Network,
    networks,
)

FILE = Path(__file__).with_suffix(".toml")
KINDS = {"digits": "mnist", "letters": LETTERS, "clothes": CLOTHES, "noise": NOISE}
SINGLE = {PLAIN: "plain", CALIBRATED: "calibrated"}
ON_ONE_NETWORK = {"dropout": "mc_dropout", "ensemble": "deep_ensemble", "swag": "swag"}
WRONG_SIGN = "pyro_hidden_layer"  # as published, it maximises the KL
MISSING = "These results do not have every network that the sentence is about."


class Sentence(TomlTable, frozen=True):
    """A sentence, or a few, with what must hold for it to be true."""

    text: str  # numbers in braces, by the rules of jinja2
    holds: tuple[str, ...]  # comparisons of the same numbers


def filled(sentence: Sentence, numbers: Mapping[str, float]) -> str:
    """Return a sentence with its numbers; or why it is not true of these numbers; or that some are missing."""
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # Markdown, of numbers alone
    environment.filters |= {"whole": _whole, "up": _up, "decimals": _decimals}
    try:
        text = environment.from_string(sentence.text.strip()).render(numbers)
        broken = [one for one in sentence.holds if not environment.compile_expression(one, False)(**numbers)]
    except UndefinedError:
        return MISSING
    return f"Not so in these results: {'; '.join(broken)} does not hold." if broken else unbroken(text)


def unbroken(text: str) -> str:
    """Return the text with percentages that no line breaks: a space that does not break before each percent sign."""
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


def _whole(percent: float) -> str:
    return f"{float(percent):.0f}"


def _decimals(number: float, decimals: int) -> str:
    return f"{float(number):.{decimals}f}"


def _up(number: float) -> str:
    """Round up, so that "at most" holds."""
    return f"{math.ceil(float(number)):d}"


@lru_cache(maxsize=1)  # the page and its findings ask for them
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

    NAME_plain is of the ordinary network, NAME_calibrated of the same with a temperature; NAME_least and NAME_most are
    the least and the largest of the Bayesian networks. NAME_better, NAME_worse, NAME_of_APPROACH: see
    `against_plain`. "Worst" is of 10,000 sure answers, in any training.
    """
    found, numbers = networks(inputs), _outcomes(inputs) | wrong_sign(inputs) | {"draws": profile("full").draws}
    numbers |= _columns(inputs) | _regressions(inputs) | on_one_network(inputs) | _summary("accuracy", found, ACCURACY)
    numbers |= against_plain("accuracy", found, ACCURACY, sign=1) | against_plain("nll", found, NLL, sign=-1)
    for kind, dataset in KINDS.items():
        numbers |= _summary(kind, found, f"{dataset}/{SURE_OF}")
        numbers |= _summary(f"{kind}90", found, f"{dataset}/{accepted_at(MANY)}")
        numbers |= against_plain(f"{kind}90", found, f"{dataset}/{accepted_at(MANY)}", sign=-1)
    numbers |= _summary("turned_right", found, TURNED_RIGHT) | _summary("turned_sure", found, TURNED_SURE)
    numbers |= _summary("wrong75", found, f"mnist/{wrong_at(FEW)}")
    wrong = {one.approach: one.seeds[f"mnist/{WRONG_OF_SURE}"].values for one in found}
    numbers |= {
        f"worst_{SINGLE[name]}": 10_000 * max(found) for name, found in wrong.items() if name in SINGLE and found
    }
    bayesian = [share for one in found if one.is_bayesian for share in wrong[one.approach]]
    return numbers | ({"worst_wrong": 10_000 * max(bayesian), "trainings": len(bayesian)} if bayesian else {})


def _columns(inputs: Inputs) -> dict[str, float]:
    """Return how far methods are from the posterior of the digits task; {} if none is trained."""
    if not (inputs.store.root / "posterior" / "digits-methods.jsonl").is_file():
        return {}
    from bench.posterior.columns import stored_columns  # here: few results have columns, which need PyTorch
    from bench.show.tables.columns import distances

    return next((distances(one) for one in stored_columns(inputs.store.root) if one.name == "digits"), {})


def _regressions(inputs: Inputs) -> dict[str, float]:
    """Return what the UCI table's runs say; {} if there are none."""
    if not (inputs.store.root / "uci").is_dir():
        return {}
    from bench.show.tables.uci import uci_numbers  # here: few results have runs

    return uci_numbers(inputs.store.root)


def _outcomes(inputs: Inputs) -> dict[str, float]:
    """Return how many end results have each outcome; {} if none is judged."""
    found = Counter(verdict.outcome for verdict in inputs.judgement.ends)
    judged = {"confirmed": CONFIRMED, "contradicted": CONTRADICTED, "undecided": CANNOT_TELL}
    numbers: dict[str, float] = {name: found[outcome] for name, outcome in judged.items()}
    return numbers | {"reports": len(inputs.judgement.ends)} if any(numbers.values()) else {}


def _summary(name: str, found: Iterable[Network], key: str) -> dict[str, float]:
    """Return the percentages of the networks by name, from the samples of this key."""
    means = [(one, 100 * samples.mean) for one in found if (samples := one.seeds.get(key)) and samples.mean is not None]
    single = {f"{name}_{SINGLE[one.approach]}": mean for one, mean in means if one.approach in SINGLE}
    bayesian = [mean for one, mean in means if one.is_bayesian]
    return single | ({f"{name}_least": min(bayesian), f"{name}_most": max(bayesian)} if bayesian else {})


def against_plain(name: str, found: Sequence[Network], key: str, sign: int) -> dict[str, float]:
    """Count the Bayesian networks that are better and worse than the ordinary one beyond chance, and say by how much.

    Paired t tests over seeds, with Holm's correction over the networks. NAME_of_APPROACH is the mean difference, of
    shares in percentage points, or 0 where chance can explain it. `sign`: 1 if more is better, -1 if less is.
    """
    plain = next((one.seeds[key] for one in found if one.approach == PLAIN and key in one.seeds), None)
    others = [one for one in found if one.is_bayesian and key in one.seeds]
    if plain is None or not others:
        return {}
    pairs = {one.approach: paired(plain.by_seed, one.seeds[key].by_seed) for one in others}
    adjusted = holm_over(pairs)
    clear = {one: pair.difference for one, pair in pairs.items() if pair and adjusted.get(one, 1.0) < ALPHA}
    scale = 1 if key == NLL else 100
    by = {f"{name}_of_{one}": scale * clear.get(one, 0.0) for one in pairs}
    better = sum(sign * difference > 0 for difference in clear.values())
    return by | {f"{name}_better": better, f"{name}_worse": len(clear) - better}


def on_one_network(inputs: Inputs) -> dict[str, float]:
    """Return how some methods differ from the ordinary network if all train the same architecture.

    Accuracy in percentage points, NLL in nats; 0 where chance can explain the difference, or there is no record of it.
    """
    numbers: dict[str, float] = {}
    for beyond in beyond_plain(rows(inputs)):
        for name, method in ON_ONE_NETWORK.items():
            difference = {**beyond.better, **beyond.worse}.get(method, 0.0)
            if beyond.quality in ("accuracy", "NLL"):
                numbers[f"{name}_{beyond.quality.lower()}"] = (1 if beyond.quality == "NLL" else 100) * difference
    return numbers


def wrong_sign(inputs: Inputs) -> dict[str, float]:
    """Return how often the network with the wrong sign is sure and right, by recipe, and the largest p.

    The seeds of the two recipes need not be the same, so two independent samples are compared.
    """
    numbers, p_values = dict[str, float](), []
    for name, metric in (
        ("digits", f"mnist/{SHARE_SURE}"),
        ("clothes", f"{CLOTHES}/{SHARE_SURE}"),
        ("noise", f"{NOISE}/{SHARE_SURE}"),
        ("accuracy", ACCURACY),
    ):
        pair = {recipe: inputs.sample(WRONG_SIGN, recipe, "common", metric) for recipe in ("published", "corrected")}
        if not all(one.n for one in pair.values()):
            return {}
        if name == "digits":
            seeds = {recipe: one.by_seed.keys() for recipe, one in pair.items()}  # more have an accuracy
        pair = {
            recipe: Samples({seed: value for seed, value in one.by_seed.items() if seed in seeds[recipe]})
            for recipe, one in pair.items()
        }
        numbers |= {f"{recipe}_{name}": 100 * statistics.fmean(one.values) for recipe, one in pair.items()}
        numbers |= {f"{recipe}_n": one.n for recipe, one in pair.items()}
        p_values.append(independent(pair["published"], pair["corrected"]).p)
        if name == "digits":
            numbers |= {f"{recipe}_wrong": _wrong_of_sure(inputs, recipe, one) for recipe, one in pair.items()}
    return numbers | {"wrong_sign_p": max(p_values)}


def _wrong_of_sure(inputs: Inputs, recipe: str, sure: Samples) -> float:
    """Return how many of 10,000 sure answers on digits are wrong; `sure`: the share of digits that are sure."""
    right = inputs.sample(WRONG_SIGN, recipe, "common", f"mnist/{RIGHT_OF_SURE}").by_seed
    return 10_000 * statistics.fmean(1 - right[seed] / share for seed, share in sure.by_seed.items() if share)
