"""Accuracy against the share of weights that are removed, ours and the published numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bench.judge.claims import Claim, measured_key
from bench.show.figures.figure import FIELD, Absent, Figure, small_multiples
from bench.show.figures.style import FAINT, REPORTED, Axes, Drawing, look
from bench.show.inputs import Inputs

if TYPE_CHECKING:
    import pandas as pd

NAME, TITLE = "pruning", "Accuracy against the share of weights that are kept"
CHANCE = 0.098  # a network of zeros answers class 0, which 980 of the 10,000 test images are
TRAINED_RUN = ["approach", "recipe"]
KEPT = (100, 50, 25, 10, 5, 2, 1)  # percentages on the axis


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure of all approaches."""
    lines = _lines(inputs)
    if not lines:
        reason = inputs.not_run("an approach that can be pruned, measured by protocol common")
        yield Absent(NAME, TITLE, FIELD, reason)
        return
    claims = [claim for claim in inputs.claims if claim.metric == "pruned_accuracy"]
    images = [inputs.sample(*trained_run, "common", "timings/predict_images") for trained_run in lines]
    test = max((n for one in images for n in one.values), default=0)
    seeds = " mean of the seeds, band: their range;" if max(one.n for one in images) > 1 else ""
    runs = ", ".join(dict.fromkeys(claim.source for claim in claims))
    caption = (
        "Networks of posterior means after the weights with the lowest score are set to zero (|mu|/sigma where there "
        f"is a sigma, else |mu|), on {test:,.0f} test images;{seeds} diamonds: published recipe, mean "
        f"probability of 30 draws. Grey circles and crosses: reported ({runs}). Faint: the other approaches. Dotted: "
        f".098, the accuracy without any weight: the share of zeros among the images. {inputs.conditions(images)}"
    )
    yield Figure(NAME, TITLE, caption, FIELD, partial(_draw, lines, claims, inputs.results.approaches))


def _lines(inputs: Inputs) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the accuracies of pruned networks by approach and recipe.

    Columns: network, percentage kept (above 0), and the mean, min and max over seeds.
    """
    frame = inputs.frame[(inputs.frame.protocol == "common") & (inputs.frame.missing == "")]
    parts = frame.metric.str.extract("^pruning/(.+)@(.+)/accuracy$").dropna()
    found = frame.loc[parts.index].assign(network=parts[0], kept=100 * (1 - parts[1].astype(float)))
    by_share = found[found.kept > 0].groupby([*TRAINED_RUN, "network", "kept"]).value.agg(["mean", "min", "max"])
    by_run = dict(iter(by_share.reset_index().groupby(TRAINED_RUN)))
    return {
        trained_run: by_run[trained_run]
        for recipe in ("published", "corrected")
        for approach in inputs.classifiers(recipe)
        if (trained_run := (approach, recipe)) in by_run
    }


def _draw(lines: Mapping[tuple[str, str], pd.DataFrame], claims: Sequence[Claim], names: Sequence[str]) -> Drawing:
    """Return the drawing: a panel for each approach, the others faint behind it."""
    approaches = list(dict.fromkeys(approach for approach, _ in lines))
    across, up = "weights kept [%, logarithmic]", "test accuracy [fraction of images]"
    drawing, panels = small_multiples(len(approaches), 2.1, across, up)
    panels[0].set_ylim(0, 1.02)
    panels[0].set_xscale("log")
    panels[0].set_xlim(110, 0.9)
    panels[0].set_xticks(KEPT, [f"{share:g}" for share in KEPT])
    panels[0].minorticks_off()
    for axes, approach in zip(panels, approaches, strict=True):
        _panel(axes, approach, lines, claims, names)
    return drawing


def _panel(
    axes: Axes,
    approach: str,
    lines: Mapping[tuple[str, str], pd.DataFrame],
    claims: Sequence[Claim],
    names: Sequence[str],
) -> None:
    for (other, recipe), line in lines.items():
        if other != approach and recipe == "published":
            means = line[line.network == "mean"]
            axes.plot(means.kept, means["mean"], color=FAINT, linewidth=0.7, zorder=1)
    mine = look(approach, names)
    for recipe in ("published", "corrected"):
        if (approach, recipe) not in lines:
            continue
        both = lines[approach, recipe]
        means, draws = (both[both.network == network] for network in ("mean", "30 draws"))
        fill, dash = ("full", "-") if recipe == "published" else ("none", "--")
        colour, x = mine.colour, means.kept
        axes.plot(x, means["mean"], "o", ls=dash, color=colour, fillstyle=fill, markersize=2.5, label=recipe, zorder=3)
        axes.fill_between(x, means["min"], means["max"], color=colour, alpha=0.2, linewidth=0)
        if recipe == "published":
            axes.plot(draws.kept, draws["mean"], "D", color=colour, markersize=3, zorder=4)
    for number, run in enumerate(dict.fromkeys(c.source for c in claims if c.approach == approach)):
        found = sorted((_kept(c), c.value) for c in claims if c.source == run and _kept(c) > 0)
        marker, label = ("o", "reported") if number == 0 else ("x", "reported, other run")
        axes.plot(*zip(*found, strict=True), marker, color=REPORTED, fillstyle="none", label=label, zorder=5)
    axes.axhline(CHANCE, color=FAINT, linewidth=0.6, linestyle=":")
    axes.set_title(approach, color=mine.colour)
    axes.legend(loc="lower left")


def _kept(claim: Claim) -> float:
    """Return the percentage of weights that the network of a claim keeps."""
    return 100 * (1 - float(measured_key(claim)[1].partition("@")[2]))
