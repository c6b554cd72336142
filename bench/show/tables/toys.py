"""The table of the six-point regressions: fit at the points, width of the band, and the prediction far away."""

from __future__ import annotations

from bench.core.text import THREE, THREE_DIFFERENCE
from bench.judge.samples import metrics_of
from bench.show.cells import Entry, Measured, Table, results_table
from bench.show.material import Material
from bench.show.tables.accuracy import beside_report, headline

MEASURED = {
    "toy/rmse": "RMSE at the points",
    "toy/nll": "NLL at the points",
    "toy/band_width_near": "band, -5 to 5",
    "toy/band_width_far": "band, -100 to 100",
}


def toys_table(material: Material) -> Table:
    """One row for each toy and recipe."""
    results = material.results
    rows: list[list[Entry]] = []
    for approach in results.toys():
        for recipe in results.recipes(approach):
            records = results.cell(approach, recipe, "common")
            cells = [Measured(metrics_of(records, key), THREE) for key in MEASURED]
            claim = headline(material.claims, approach, "prediction", "toy") if recipe == "published" else None
            published = results.cell(approach, recipe, "published")
            rows.append([approach, recipe, *cells, *beside_report(claim, published, THREE, THREE_DIFFERENCE)])
    columns = ["approach", "recipe", *MEASURED.values(), "reported at x = 100", "published x published", "difference"]
    caption = (
        "Regression on the six points of feldman2018, target units; NLL in nats per point. Band: mean width "
        "between the 2.5 and 97.5 percentiles over 100 draws of the function, without observation noise."
    )
    return results_table(results, "toys", "Six-point regression", caption, columns, rows)
