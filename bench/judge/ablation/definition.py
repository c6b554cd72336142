"""Makes the ablation of an approach (manifest, `ablations.toml`); chooses ablations and their trained runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.core.errors import ConfigError
from bench.judge.ablation.file import ABLATIONS, SingleChangeEntry, controls, keys, measuring, question, read_entries
from bench.judge.ablation.single_changes import ALONE, CUMULATIVE, VARIANT, Ablation, Keys, SingleChange, between
from bench.judge.flatness import from_longer, longer_recipe
from bench.judge.results import Results
from bench.plan.manifests import DOCUMENTS, ApproachManifest
from bench.plan.recipes import resolve
from bench.plan.registry import manifest, of_group
from bench.plan.trained_runs import Selection, TrainedRun, trained_runs


def ablation(approach: str, path: Path = ABLATIONS) -> Ablation:
    """Return an approach's ablation; raises ConfigError for an unknown approach, a toy, or a bad entry of the file."""
    entry = manifest(approach)
    if entry.task != "mnist":
        raise ConfigError(f"{approach} is not a classifier: ablations compare classifiers; see `python -m bench list`")
    written = read_entries(path).get(approach, SingleChangeEntry())
    where = f"ablation of {approach} in {path.name}"
    compared = keys(written, where)
    single_changes = (
        *_corrections(entry, compared),
        *controls(written, compared, where),
        *_variants(entry, written, compared),
        *measuring(written, approach, where),
    )
    return Ablation(approach, written.ood, compared, single_changes, question(written, where))


def _corrections(entry: ApproachManifest, compared: Keys) -> Iterator[SingleChange]:
    """Yield a single change for each correction alone, then for each one added to those before, up to `corrected`."""
    if "corrected" not in entry.recipes:
        return
    names = entry.recipes["corrected"].corrections
    if len(names) > 1:
        for name in names:
            yield _trained(entry, name, ALONE, "published", _with(entry, (name,)), compared)
    reached = "published"
    for count, name in enumerate(names, start=1):
        recipe = _with(entry, names[:count])
        yield _trained(entry, name, CUMULATIVE, reached, recipe, compared)
        reached = recipe
    if reached != "corrected":
        rows = [entry.recipes[recipe].split for recipe in ("corrected", "published")]
        title = "trained on {} instead of {}".format(*rows)
        numbers = between((entry.name, reached), (entry.name, "corrected"), compared)
        yield SingleChange(rows[0], CUMULATIVE, title, numbers)


def _with(entry: ApproachManifest, names: tuple[str, ...]) -> str:
    """Return the published recipe with these corrections; `corrected` if that trains the same."""
    recipe = "+".join(["published", *names])
    given, corrected = resolve(entry, recipe), resolve(entry, "corrected")
    same = (given.split, given.values) == (corrected.split, corrected.values)
    return "corrected" if same else recipe


def _variants(entry: ApproachManifest, written: SingleChangeEntry, compared: Keys) -> Iterator[SingleChange]:
    """Yield a single change for each variant of the base, and for the base itself if it is a variant of `published`."""
    *_, own = written.base.split("+")
    for name in entry.variants if written.variants is None else written.variants:
        before = "published" if name == own else written.base
        after = written.base if name == own else f"{written.base}+{name}"
        resolve(entry, after)
        yield _trained(entry, name, VARIANT, before, after, compared)


def _trained(entry: ApproachManifest, name: str, kind: str, before: str, after: str, compared: Keys) -> SingleChange:
    return SingleChange(
        name, kind, entry.changes[name].title, between((entry.name, before), (entry.name, after), compared)
    )


def chosen(approaches: Sequence[str]) -> list[Ablation]:
    """Return the ablations of these approaches, by default of all approaches of the documents; raises ConfigError."""
    if not approaches:
        found = [ablation(entry.name) for entry in of_group(DOCUMENTS).values() if entry.task == "mnist"]
        return [one for one in found if one.single_changes]
    found = [ablation(name) for name in dict.fromkeys(approaches)]
    for one in found:
        if not one.single_changes:
            raise ConfigError(
                f"{one.approach} has no ablation: it has no corrections, no variants and no entry in ablations.toml"
            )
    return found


def trained_runs_of(
    ablations: Iterable[Ablation], selection: Selection, results: Results | None = None
) -> list[TrainedRun]:
    """Return the trained runs that the ablations compare, each once.

    A shorter fit is left out if its numbers can be read from a longer fit (`bench.judge.flatness`): one of these
    trained runs, or one that has finished in `results`. `selection` gives seeds, profile, device and precision.
    """
    wanted = dict.fromkeys(
        (place.approach, place.recipe, "common" if place.source == "derived" else place.source)
        for one in ablations
        for place in one.places()
    )
    found = []
    for fit in wanted:
        approach, recipe, protocol = fit
        if (approach, longer_recipe(*fit)[0], protocol) in wanted:
            continue
        have = {record.seed for record in from_longer(results, *fit)} if results else set()
        made = trained_runs(
            dataclasses.replace(selection, approaches=(approach,), recipes=(recipe,), protocols=(protocol,))
        )
        found += [trained_run for trained_run in made if trained_run.seed not in have]
    return found
