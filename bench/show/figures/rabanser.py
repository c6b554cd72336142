"""rabanser2017's density of one weight."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bench.core.fits import read_posterior
from bench.core.records import Record
from bench.judge.ablation.derived_metrics import SHOWN_WEIGHTS, weight_keys
from bench.measure.metrics.arrays import FloatArray
from bench.show.figures.figure import Absent, Figure
from bench.show.figures.style import FAINT, INK, REPORTED, WIDTH, Drawing, canvas, look
from bench.show.inputs import Inputs

DOCUMENT, APPROACH = "rabanser2017", "mxnet_bbb"
DENSITY, DENSITY_TITLE = f"{DOCUMENT}-weight-density", "Posterior density of one weight"


def make(inputs: Inputs) -> Iterator[Figure | Absent]:
    """Give the figure."""
    records = inputs.finished(APPROACH)
    if not records:
        yield Absent(DENSITY, DENSITY_TITLE, DOCUMENT, inputs.not_run(f"{APPROACH} published x common"))
        return
    for record in records:
        read = _read(inputs, record)
        found = _fitted(inputs, record) if read is None else read
        if found is not None:
            caption = (
                "Solid: the weight that the document shows, from the first pixel to the first hidden unit. That pixel "
                "is blank in every image: no data ever reach this weight, and only the pull of the prior changes its "
                "density. Dashed: the weight of the same unit from the pixel in the middle (row 14, "
                "column 14, counted from 0). Grey: the prior N(0, 1). Read from the fitted posterior. "
                f"{inputs.conditions([record])}"
            )
            yield Figure(DENSITY, DENSITY_TITLE, caption, DOCUMENT, partial(_draw_density, *found))
            return
    reason = (
        "records hold no weights, and this results folder has neither the fitted posterior (fits/, which git does not "
        f"keep) nor derived metrics of it (derived_metrics/); python -m bench ablation {APPROACH} --run --results DIR "
        "makes both in "
        "another folder"
    )
    yield Absent(DENSITY, DENSITY_TITLE, DOCUMENT, reason)


def _read(inputs: Inputs, record: Record) -> FloatArray | None:
    """Return means and standard deviations [2, weights] from a derived metric of the fit, None without one."""
    for derived in inputs.derived_metrics:
        if derived.fit_key == record.fit_key:
            pairs = [[derived.metrics.get(name) for name in names] for names in weight_keys(APPROACH)]
            if all(None not in pair for pair in pairs):
                return np.array(pairs, dtype=np.float64).T
    return None


def _fitted(inputs: Inputs, record: Record) -> FloatArray | None:
    """Return means and standard deviations [2, weights] from the fit itself, None if it was not kept."""
    tensors = read_posterior(inputs.store, record.fit_key)
    if tensors is None or not {"mu", "sigma"} <= set(tensors[0]):
        return None
    places = [place for place in SHOWN_WEIGHTS[APPROACH] if place < len(tensors[0]["mu"])]
    return np.array([tensors[0][name].double().numpy()[places] for name in ("mu", "sigma")])


def _draw_density(means: FloatArray, sigmas: FloatArray) -> Drawing:
    colour = look(APPROACH).colour
    drawing = canvas(WIDTH * 0.75, 2.9)
    axes = drawing.subplots()
    reach = float((np.abs(means) + 5 * sigmas).max())
    x = np.linspace(-reach, reach, 401)
    names = ("first pixel", "middle pixel")
    for mu, sigma, name, line in zip(means, sigmas, names, ("-", "--"), strict=False):
        axes.plot(x, _normal(x, mu, sigma), line, color=colour)
        axes.fill_between(x, _normal(x, mu, sigma), color=colour, alpha=0.15, linewidth=0)
        text = f"{name}\nmean {mu:.3f}\nsigma {sigma:.4f}"
        place = (mu, 1.02 * _normal(mu, mu, sigma))
        axes.annotate(text, place, ha="center", va="bottom", fontsize=7.5, color=INK)
    axes.plot(x, _normal(x, 0.0, 1.0), color=FAINT)
    axes.annotate("prior", (-reach, 0.42), ha="left", va="bottom", fontsize=7.5, color=REPORTED)
    axes.set_ylim(0, 1.35 * float(_normal(0.0, 0.0, float(sigmas.min()))))
    axes.set_xlabel("weight [1]")
    axes.set_ylabel("density [1]")
    return drawing


def _normal(x: FloatArray | float, mu: float, sigma: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * ((x - mu) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi)))
