"""Makes the ablation of an approach, from its manifest (corrections, variants) and `ablations.toml` (other changes)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.core.errors import ConfigError
from bench.judge.ablation.file import ABLATIONS, SingleChangeEntry, controls, keys, measuring, question, read_entries
from bench.judge.ablation.single_changes import ALONE, CUMULATIVE, VARIANT, Ablation, Keys, SingleChange, between
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import resolve
from bench.plan.registry import manifest


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
