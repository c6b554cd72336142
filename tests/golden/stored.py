"""The paths of each subject, by name, and their stored traces: a file with a line for each path, and how it is written.

A path is stored with the versions of what it traces. Its numbers are replaced only when one of these versions was
raised; a path or a number that is new is added; a path that is gone is dropped.
"""

import functools
import json
from functools import partial
from pathlib import Path

from bench.core.metric_table import metrics
from bench.judge.ablation.derived_metrics import VERSION
from bench.plan.freshness import PROTOCOLS
from bench.plan.recipes import recipe_names, resolve
from bench.plan.registry import manifest, manifests
from tests.golden.fits import MANY, SEED, data_trace, fit_trace, predict_trace, streams_trace
from tests.golden.measures import derived_metrics_trace, planned_derived_metrics_trace, planned_trace, protocol_trace
from tests.golden.numbers import PARTS, complaints

FILE = Path(__file__).parent / "stored.jsonl"
MEASURED = ("common", "published", "derived_metrics")
COMBINED = {
    "dropout_fcn": ("published+cross-entropy+shuffle",),
    "pyro_hidden_layer": ("published+kl-sign+shuffle",),
}
"""Recipes of several changes that ablations train and that are not `corrected`."""
MEASURES = "measures"  # the subject whose paths are protocols of posteriors that are the same everywhere
STREAMS = "streams"  # the subject whose paths are random numbers and rows
SHIFTED = ("mlp", "linear_bbb")  # one network, and many draws with a faster way to predict each row alone


def recipes_of(name):
    """Return the recipes of an approach that are traced."""
    return [*recipe_names(manifest(name)), *COMBINED.get(name, ())]


def missing_framework(subject):
    """Return why a subject cannot be traced here, or "" if it can."""
    return "" if subject in (MEASURES, STREAMS) else manifest(subject).missing_framework()


def subjects():
    """Return the names of all traces: the approaches, the measures and the streams."""
    return [*manifests(), MEASURES, STREAMS]


def paths(subject):
    """Return the paths of a subject by name, each a call that returns its `Trace`."""
    if subject == STREAMS:
        return {"streams": streams_trace, "data": data_trace}
    if subject == MEASURES:
        return _measures()
    entry = manifest(subject)
    found = {}
    for recipe in recipes_of(subject):
        found[f"{recipe}/single"] = partial(fit_trace, subject, recipe)
        if (
            recipe in entry.recipes or recipe.removeprefix("published+") in entry.variants
        ):  # corrections predict as both
            found[f"{recipe}/predict"] = partial(predict_trace, subject, recipe)
        if "fit_many" in entry.capabilities:
            found[f"{recipe}/many"] = partial(fit_trace, subject, recipe, MANY)
            if recipe == "published":  # here, while its first epoch is kept
                found[f"{recipe}/many-resumed"] = partial(fit_trace, subject, recipe, MANY, True)
        if recipe == "published":
            found.update(_of_the_published_fit(subject, entry))
        if recipe in entry.recipes and not untrained(subject):
            found[f"{recipe}/resumed"] = partial(fit_trace, subject, recipe, (SEED,), True)
    return found


def untrained(name):
    return name == "uniform"  # it has no epochs


def _measured_by_others(entry):
    """Return whether the traces of the documents' approaches cover the protocols that measure this one."""
    return entry.group == "methods"


def _of_the_published_fit(name, entry):
    if _measured_by_others(entry):
        return {}
    found = {"published/common": partial(protocol_trace, name, "common")}
    if entry.document:
        found["published/published"] = partial(protocol_trace, name, "published")
    if entry.task == "mnist":
        found["published/derived_metrics"] = partial(derived_metrics_trace, name)
    return found


def _measures():
    found = {}
    for name, entry in manifests().items():
        if _measured_by_others(entry):
            continue
        if entry.document:
            found[f"{name}/published"] = partial(planned_trace, name, "published")
        found[f"{name}/common"] = partial(planned_trace, name, "common")
        if name in SHIFTED:
            found[f"{name}/shift"] = partial(planned_trace, name, "shift")
        if entry.task == "mnist":
            found[f"{name}/derived_metrics"] = partial(planned_derived_metrics_trace, name)
    return found


class RefusedError(Exception):
    """A trace would be replaced without a new version."""


def read(subject):
    """Return the stored paths of a subject, {} where there is none."""
    return _read().get(subject, {})


def _read():
    """Return all stored traces by subject and path."""
    found = {}
    for line in FILE.read_text().splitlines():
        trace = json.loads(line)
        found.setdefault(trace.pop("subject"), {})[trace.pop("path")] = trace
    return found


def versions(subject, path):
    """Return the versions that today's code states for what a path traces."""
    measured = {f"protocol {name}": number for name, number in PROTOCOLS.items()}
    measured |= {f"metric {name}": one.version for name, one in metrics().items() if one.version > 1}
    if path.endswith("/derived_metrics"):
        measured["derived_metrics"] = VERSION
    if subject == MEASURES:
        return measured
    if subject == STREAMS:
        return {name: entry.recipes["published"].version for name, entry in manifests().items()}
    recipe, what = path.rsplit("/", 1)
    own = resolve(manifest(subject), recipe).versions
    return {**own, **(measured if what in MEASURED else {})}


def trace(subject, path):
    """Compute a trace now, as it would be stored but for its versions."""
    return json.loads(json.dumps(paths(subject)[path]().as_json()))


def compare(subject, path, found=None):
    """Return what is not as stored, a line each; `found` is the trace where it was computed already."""
    stored = read(subject).get(path)
    if stored is None:
        return [f"{subject} has no stored trace of {path}: python -m tests.golden --write {subject}"]
    today = versions(subject, path)
    if not is_of(stored["versions"], today):
        how = f"python -m tests.golden --write {subject}"
        return [f"the stored versions are {stored['versions']}, today's are {today}: {how}"]
    found = trace(subject, path) if found is None else found
    return complaints(stored, {part: without_new_metrics(found[part]) for part in PARTS})


def without_new_metrics(numbers):
    """Return a part of a trace without the metrics of `new_metrics`."""
    return {name: value for name, value in numbers.items() if not any(_is_of(one, name) for one in new_metrics())}


@functools.cache
def new_metrics():
    """Return the declared metrics that no stored trace of the measures has; their own tests show their numbers.

    So a new metric changes no other file. `--write measures` stores its numbers.
    """
    stored = {name for one in read(MEASURES).values() for part in PARTS for name in one[part]}
    return [metric for metric in metrics() if not any(_is_of(metric, name) for name in stored)]


def _is_of(metric, name):
    """Return whether a number's name, such as mnist/refusal_rate@0.3, is of a metric: refusal_rate."""
    return f"/{name}".partition("@")[0].endswith(f"/{metric}")


def is_of(stored, today):
    """Return whether stored versions are today's; a protocol or an approach that is new changes no other number.

    A metric is named only if its version is above 1.
    """
    raised = {name: number for name, number in today.items() if name.startswith("metric ")}
    return all(today.get(name) == number for name, number in stored.items()) and raised.items() <= stored.items()


def missing(subject):
    """Return the paths that should be stored and are not, and those that are stored and should not be."""
    return sorted(set(read(subject)) ^ set(paths(subject)))


def write(subject):
    """Write a subject's traces; return the paths that changed.

    Raises:
        RefusedError: a path gives other numbers, and no version of what it traces was raised, or one was lowered.
    """
    stored, result, changed = read(subject), {}, []
    for path in paths(subject):
        old, today = stored.get(path), versions(subject, path)
        if old is None:
            changed.append(path)
            result[path] = {"versions": today, **trace(subject, path)}
            continue
        before = old["versions"]
        if any(today.get(name, 0) < number for name, number in before.items()):
            raise RefusedError(f"{subject} {path}: a version is lower than the stored one: {before}, today {today}")
        if is_of(before, today):
            found = trace(subject, path)
            whole = {part: found[part] | old[part] for part in PARTS}  # the stored numbers, and those that are new
            lines = complaints(whole, found)
            if lines:
                raise RefusedError(
                    f"{subject} {path} gives other numbers at the same versions: {lines[0]}. Raise the version of the "
                    "recipe, the protocol or the metrics, or mend the code."
                )
            result[path] = {"versions": before, **whole}
            changed += [path] if result[path] != old else []
            continue
        changed.append(path)
        result[path] = {"versions": today, **trace(subject, path)}
    store(subject, result)
    return changed


def store(subject, traces):
    """Put the traces of a subject, by path, in the place of those that the file has."""
    every = {**_read(), subject: traces}
    lines = [{"subject": one, "path": path, **trace} for one in every for path, trace in every[one].items()]
    lines.sort(key=lambda line: (line["subject"], line["path"]))
    FILE.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
