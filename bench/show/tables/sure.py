"""Tables `sure` and `coverage`: how often a network is 99 % sure, and what it answers at equal coverage.

Both take the corrected networks of the source documents, and the ordinary network with a fitted temperature: what
calibration gives without Bayes. They read the answers to each picture, so they show only records that have these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from bench.core.metric_table import SHARE_SURE
from bench.core.records import Record
from bench.core.text import WHOLE, Digits, counted
from bench.judge.samples import MissingValue, Samples, gather, metric
from bench.measure.metrics.shifts import ROTATED, step_key
from bench.plan.freshness import NOT_RETRAINED
from bench.plan.recipes import profile
from bench.show.inputs import Inputs
from bench.show.row_numbers import (
    LETTERS,
    LETTERS_LIKE_DIGITS,
    NO_ROWS,
    REFUSED,
    SURE_OF,
    WRONG_OF_SURE,
    accepted_at,
    numbers_of_rows,
    wrong_at,
)
from bench.show.table import Entry, Measured, Table

QUESTION = "A Bayesian network is 99 % sure. Is it right?"  # README's and the page's title
PLAIN, CALIBRATED = "mlp", "temperature"
ONE_DECIMAL, TWO_DECIMALS = Digits(decimals=1), Digits(decimals=2)
NOTHING = Samples(missing_value=NO_ROWS)
CLOTHES, NOISE, UNIFORM = "fashion_mnist", "noise_gaussian", "noise_uniform"
TURNED = 90  # degrees
TURNED_RIGHT, TURNED_SURE = "turned/right", "turned/sure"  # of digits rotated so
ACCURACY, NLL = "mnist/accuracy", "mnist/nll"
FEW, MANY = 0.75, 0.9  # coverages


@dataclass(frozen=True)
class Network:
    """One network, with its numbers of every seed."""

    approach: str
    title: str
    is_bayesian: bool  # its draws differ
    seeds: Mapping[str, Samples]  # by "SET/NAME" of `numbers_of_rows`, and ACCURACY, NLL, TURNED_RIGHT, TURNED_SURE


@lru_cache(maxsize=1)  # two tables, a figure and sentences ask for it
def networks(inputs: Inputs) -> list[Network]:
    """Return the ordinary network, the same with a temperature, then the Bayesian ones, the surest of digits first.

    Models that were not retrained come last; no sentence counts them.
    """
    found = {name: _network(inputs, name, "corrected") for name in inputs.classifiers("corrected")}
    calibrated = _network(inputs.of("methods"), CALIBRATED, "published")
    first = [found.pop(PLAIN)] if PLAIN in found else []
    others = sorted(found.values(), key=lambda one: -(one.seeds[f"mnist/{SURE_OF}"].mean or 0))
    given = [_network(inputs, name, NOT_RETRAINED) for name in inputs.results.not_retrained]
    every = [*first, calibrated, *others, *given]
    return [one for one in every if one.seeds[f"mnist/{SURE_OF}"].n]


def _network(inputs: Inputs, approach: str, recipe: str) -> Network:
    records = inputs.results.trained_run(approach, recipe, "common")
    numbers = {one.key: numbers_of_rows(inputs.scores(one)) for one in records if one.outcome == "done"}

    def sample(name: str) -> Samples:
        return gather(records, lambda record: numbers[record.key].get(name, NO_ROWS))

    names = {name for found in numbers.values() for name in found} | {f"mnist/{SURE_OF}"}
    shifted = inputs.results.trained_run(approach, recipe, "shift")
    stored = {
        **{key: gather(records, _reader(key)) for key in (ACCURACY, NLL)},
        TURNED_RIGHT: gather(shifted, _reader(step_key(ROTATED, TURNED, "accuracy"))),
        TURNED_SURE: gather(shifted, _reader(step_key(ROTATED, TURNED, SHARE_SURE))),
    }
    entry = inputs.results.manifests.get(approach)
    title = (entry.in_words if entry else "") or approach
    is_bayesian = approach not in (PLAIN, CALIBRATED) and (entry is None or entry.noise != "none")
    is_bayesian &= recipe != NOT_RETRAINED
    return Network(approach, title, is_bayesian, {one: sample(one) for one in names} | stored)


def _reader(key: str) -> Callable[[Record], float | MissingValue]:
    return lambda record: metric(record, key)


def sure_table(inputs: Inputs) -> Table:
    """Return a row for each network: how often it is sure of each kind of picture, and how often wrong then."""
    shown = {
        "digits": (f"mnist/{SURE_OF}", 100),
        "wrong of 10,000": (f"mnist/{WRONG_OF_SURE}", 10_000),
        "letters": (f"{LETTERS}/{SURE_OF}", 100),
        "clothes": (f"{CLOTHES}/{SURE_OF}", 100),
        "noise": (f"{NOISE}/{SURE_OF}", 100),
    }
    found = networks(inputs)
    return _table(
        inputs,
        "sure",
        QUESTION,
        "Percent of the pictures of which a network is at least 99 % sure that they show one and the same digit; "
        "wrong among 10,000 such answers on digits. Calibrated: the ordinary network with one temperature, fitted to "
        f"held-out digits. {_bayesian(inputs)}Mistakes of the tutorials' code are corrected.",
        ["99 % sure of", *shown],
        [[one.title, *(_shown(one, *place, WHOLE) for place in shown.values())] for one in found],
        [_of_letters_like_digits(found), _of_uniform_noise(found)],
    )


def coverage_table(inputs: Inputs) -> Table:
    """Return a row for each network: its mistakes if every network answers the same share of the digits."""
    shown = {
        "75 %": (f"mnist/{wrong_at(FEW)}", TWO_DECIMALS),
        "90 %": (f"mnist/{wrong_at(MANY)}", TWO_DECIMALS),
        "letters": (f"{LETTERS}/{accepted_at(MANY)}", WHOLE),
        "clothes": (f"{CLOTHES}/{accepted_at(MANY)}", WHOLE),
        "noise": (f"{NOISE}/{accepted_at(MANY)}", WHOLE),
        "refused": (f"mnist/{REFUSED}", ONE_DECIMAL),
        "turned": (TURNED_RIGHT, WHOLE),
        "sure": (TURNED_SURE, WHOLE),
    }
    return _table(
        inputs,
        "coverage",
        "If all networks answer equally often, which errs least?",
        "All in percent. 75 %, 90 %: wrong answers, if only this share of the digits is answered, the "
        "surest first. Letters, clothes, noise: how many of them are answered with the threshold that answers 90 % of "
        "the digits. Refused: how many digits to leave out, the least sure first, to be 99 % right on the rest "
        f"(chosen with their labels). Turned: right answers to digits rotated by {TURNED} degrees; sure: of how "
        "many rotated digits the network is at least 99 % sure.",
        ["network", *shown],
        [[one.title, *(_shown(one, name, 100, digits) for name, digits in shown.values())] for one in networks(inputs)],
        [],
    )


def _table(
    inputs: Inputs,
    name: str,
    title: str,
    caption: str,
    columns: Sequence[str],
    rows: list[list[Entry]],
    notes: Sequence[str],
) -> Table:
    found = networks(inputs)
    shown = [samples for one in found for samples in one.seeds.values()]
    lines = [_line(one) for one in found]
    conditions = inputs.conditions(shown) if found else "No records."
    caption = " ".join(filter(None, [caption, _seeds(found)]))
    remarks = [note for note in notes if note]
    return Table(name, title, caption, columns, rows, remarks, conditions, inputs.results.origin(), lines)


def _shown(one: Network, name: str, whole: float, digits: Digits) -> Measured:
    return Measured(one.seeds.get(name, NOTHING).converted(lambda share: whole * share), digits, has_spread=False)


def _line(one: Network) -> dict[str, str | float | None]:
    """Return mean and standard deviation of every number, as fractions, for machines."""
    line: dict[str, str | float | None] = {"network": one.approach, "seeds": one.seeds[f"mnist/{SURE_OF}"].n}
    for name, samples in sorted(one.seeds.items()):
        line |= {name: samples.mean, f"{name} sd": samples.sd}
    return line


def _bayesian(inputs: Inputs) -> str:
    """Say which rows are Bayesian."""
    found = networks(inputs)
    n_last = sum(one.is_bayesian for one in found)
    if not n_last or not all(one.is_bayesian for one in found[-n_last:]):
        return ""
    return f"The last {n_last} are Bayesian, with {profile(inputs.profile).draws} draws for each answer. "


def _of_letters_like_digits(found: Sequence[Network]) -> str:
    """Say how often networks are sure of D and I, which the table leaves out."""
    shares = [one.seeds[name].mean for one in found if (name := f"{LETTERS_LIKE_DIGITS}/{SURE_OF}") in one.seeds]
    known = sorted(100 * share for share in shares if share is not None)
    if not known:
        return ""
    return (
        f"Letters: A to J without D and I, which are read as 0 and 1; of these two the networks are sure in "
        f"{known[0]:.0f} to {known[-1]:.0f} %."
    )


def _of_uniform_noise(found: Sequence[Network]) -> str:
    """Say how often networks are sure of the other noise."""
    shares = [100 * mean for one in found if (mean := one.seeds.get(f"{UNIFORM}/{SURE_OF}", NOTHING).mean) is not None]
    if not shares:
        return ""
    return f"Noise: Gaussian. Of uniform noise, the networks are sure in {min(shares):.0f} to {max(shares):.0f} %."


def _seeds(found: Sequence[Network]) -> str:
    """Say over how many trainings the means are, and which network has fewer."""
    counts = {one.title: one.seeds[f"mnist/{SURE_OF}"] for one in found}
    if not counts:
        return ""
    most = max(one.n for one in counts.values())
    fewer = [f"{title}: {one.n}" for title, one in counts.items() if one.n < most]
    return f"Means of {counted(most, 'training')}{' (' + '; '.join(fewer) + ')' if fewer else ''}."
