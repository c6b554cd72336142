"""Tell whether a record, posterior or checkpoint was made at today's versions of recipe, protocol and metrics.

Only version numbers count, not the text of the code. Golden traces in the tests show whether the code still gives the
numbers of its version (docs/freshness.md). The versions of protocols are here: raise one when its numbers change. Those
of recipes are in the manifests (`version` of a recipe, a correction or a variant), that of a metric in its declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.core.errors import ConfigError
from bench.core.metric_table import Rows, metrics, name_of, raised
from bench.core.records import DerivedMetrics, Record, Versions
from bench.data.manifest import TASKS
from bench.plan.manifests import ApproachManifest
from bench.plan.recipes import Recipe, is_profile, profile, resolve
from bench.plan.registry import manifests

PROTOCOLS = {
    "common": 2,
    "toy-common": 2,
    "shift": 1,
    "alsibahi2019": 2,
    "chopra2018": 2,
    "feldman2018": 2,
    "rabanser2017": 2,
    "blundell2015": 2,
}
"""Versions of the protocols common and shift, of the toys' protocol common, and of each document's own protocol."""
NOT_RETRAINED = "not-retrained"  # recipe of a record of somebody's trained model (`bench.score`), which has no manifest
MOST_NAMED = 3  # metrics that a record lacks
UNKNOWN = 0  # version for a document that the suite does not know
DERIVED = "derived"  # protocol of an ablation's derived metrics; it has the version of protocol common


def protocol_version(protocol: str, task: str, document: str) -> int:
    """Return the version of a protocol for an approach with this task and document."""
    name = document if protocol == "published" else "toy-common" if task == "toy" else protocol
    return PROTOCOLS.get(name, UNKNOWN)


def versions_of(entry: ApproachManifest, recipe: Recipe, protocol: str) -> Versions:
    """Return today's versions of recipe, protocol and metrics."""
    name = "common" if protocol == DERIVED else protocol
    return _with_metrics(recipe.versions, protocol_version(name, entry.task, entry.document))


def _with_metrics(recipe: Mapping[str, int], protocol: int) -> Versions:
    metric_versions = {name: one.version for name, one in metrics().items() if one.version > 1}
    return Versions(recipe=dict(recipe), protocol=protocol, metrics=metric_versions)


def versions_today(approach: str, recipe: str, protocol: str) -> Versions | None:
    """Return `versions_of` by names; None for an unknown approach or recipe."""
    if recipe == NOT_RETRAINED:
        return _with_metrics({}, PROTOCOLS.get(protocol, UNKNOWN))
    entry = manifests().get(approach)
    try:
        return None if entry is None else versions_of(entry, resolve(entry, recipe), protocol)
    except ConfigError:
        return None


def why_stale(record: Record | DerivedMetrics) -> str:
    """Return why a record is stale, or '' if it is fresh or its approach is unknown."""
    today = versions_today(record.approach, record.recipe, record.protocol)
    if today is None:
        return f"today's {record.approach} has no recipe {record.recipe}" if record.approach in manifests() else ""
    if record.versions is None:
        return "the record does not say at which versions it was made"
    metrics_raised = raised(record.keys(), record.versions.metrics, today.metrics)
    of_metrics = [_differ(f"metric {name}", *pair) for name, pair in metrics_raised.items()]
    return "; ".join([*_raised(record.versions, today), *of_metrics])


def _raised(made: Versions, today: Versions) -> list[str]:
    """Return a text for each version that differs today."""
    before, now = made.recipe, today.recipe
    pairs = [(f"recipe part {part}", before.get(part), now.get(part)) for part in {**before, **now}]
    pairs.append(("protocol", made.protocol, today.protocol))
    return [_differ(name, old, new) for name, old, new in pairs if old != new]


def _differ(name: str, old: int | None, new: int | None) -> str:
    return f"{name} had version {old} and has {new}"


def is_stale(record: Record | DerivedMetrics) -> bool:
    """Return whether a record was made at other versions of recipe, protocol or metrics than today's."""
    return bool(why_stale(record))


def lacks(record: Record) -> list[str]:
    """Return the metrics that a record has neither a value nor a reason for, because they were declared after it.

    Protocols `common` and `shift` measure all declared metrics; a document's protocol has its own. A data set that was
    not there lacks none: `missing` names it.
    """
    entry = manifests().get(record.approach)
    if record.outcome != "done" or entry is None or entry.task != "mnist" or not is_profile(record.profile):
        return []
    if record.protocol == "shift":
        measured = set(map(name_of, record.keys()))
        return [each.key for each in metrics().values() if each.rows == "moved" and each.name not in measured]
    if record.protocol != "common":
        return []
    task, known = TASKS[profile(record.profile).task], record.metrics.keys() | record.missing.keys()
    rows: dict[str, tuple[Rows, ...]] = {
        name: ("every", "outside") for name in task.outside if name not in record.missing
    }
    rows[task.inside] = ("test", "every", "mean network")
    return [
        each.key
        for each in metrics().values()
        if any(each.rows in of_set and f"{name}/{each.key}" not in known for name, of_set in rows.items())
    ]


def in_text(lacking: Sequence[str]) -> str:
    """Return the sentence that a record lacks metrics (from `lacks`); '' if it lacks none."""
    more = len(lacking) - MOST_NAMED
    named = [*lacking[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
    return f"lacks metric{'s' if len(lacking) > 1 else ''} {', '.join(named)}" if lacking else ""


def is_fit_stale(approach: str, made: Versions | None) -> bool:
    """Return whether a posterior or a checkpoint was trained at other versions of its recipe than today's.

    The versions of the recipe's parts are compared, not its name: one fit can have two names, such as corrected and
    published+kl-scale.
    """
    entry = manifests().get(approach)
    if entry is None or made is None or not made.recipe:
        return True
    today = {name: change.version for name, change in entry.changes.items()}
    today.update({name: spec.version for name, spec in entry.recipes.items()})
    return any(today.get(name) != version for name, version in made.recipe.items())
