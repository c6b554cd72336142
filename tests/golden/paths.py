"""The paths of each subject: what is traced, by name, and how."""

from functools import partial

from bench.plan.recipes import recipe_names
from bench.plan.registry import manifest, manifests
from tests.golden.fits import MANY, SEED, fit_trace
from tests.golden.measures import derived_metrics_trace, planned_derived_metrics_trace, planned_trace, protocol_trace
from tests.golden.predictions import data_trace, predict_trace, streams_trace

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
