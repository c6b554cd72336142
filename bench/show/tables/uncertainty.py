"""Tables of the common protocol: out-of-distribution entropy and detection, refusal, calibration, the toys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.core.records import Record
from bench.core.text import FRACTION, THREE, THREE_DIFFERENCE
from bench.data.manifest import OOD_NAMES
from bench.data.manifest import manifest as data_manifest
from bench.judge.claims import NATS_PER_BIT
from bench.judge.samples import metrics_of
from bench.plan.recipes import profile as named
from bench.show.material import Material
from bench.show.table import Entry, Measured, Missing, Number, Table
from bench.show.tables.accuracy import ABSENT, beside_report, headline, truncations

SCORES = ("predictive_entropy", "mutual_information", "max_probability")
N_TEST = 10_000  # images of the MNIST test set
COMMON = "Common protocol: mean of the probabilities of 100 draws (one for a deterministic network), official test set."


def _cells(material: Material) -> Iterator[tuple[str, str, list[Record]]]:
    results = material.results
    for approach in results.classifiers():
        for recipe in results.recipes(approach):
            yield approach, recipe, results.cell(approach, recipe, "common")


def _entry(records: Sequence[Record], key: str) -> Measured:
    return Measured(metrics_of(records, key))


def _reported_and_ours(material: Material, name: str, approach: str, recipe: str, dataset: str) -> list[Entry]:
    """Return the reported number and what the published protocol measured."""
    claim = headline(material.claims, approach, name, dataset) if recipe == "published" else None
    return beside_report(claim, material.results.cell(approach, recipe, "published"))[:2]


def ood_table(material: Material) -> Table:
    """Return entropies on digits and on out-of-distribution images, and how well scores tell the two apart."""
    rows: list[list[Entry]] = []
    for approach, recipe, records in _cells(material):
        for dataset in ("mnist", *OOD_NAMES):
            inside = dataset == "mnist"
            row: list[Entry] = [approach, recipe, dataset]
            row += [_entry(records, f"{dataset}/{name}") for name in ("predictive_entropy", "mutual_information")]
            row += [Missing(ABSENT) if inside else _entry(records, f"{dataset}/geometric_entropy")]
            row += [Missing(ABSENT) if inside else _entry(records, f"{dataset}/auroc_{score}") for score in SCORES]
            rows.append(row + _reported_and_ours(material, "predictive_entropy", approach, recipe, dataset))
    columns = ["approach", "recipe", "data set", "entropy", "mutual information", "geometric estimator"]
    columns += [f"AUROC {score.replace('_', ' ')}" for score in SCORES]
    columns += ["reported, bits", "published x published, bits"]
    caption = (
        "Means over images. Entropies and mutual information in nats (at most log 10 = 2.3026); the last two "
        f"columns in bits, as feldman2018 reports them (1 bit = {NATS_PER_BIT:.4f} nats). Geometric estimator: "
        "feldman2018's entropy of exp(mean log-probability), not normalised. AUROC: area under the ROC curve for "
        f"telling the data set from MNIST; 0.5 is chance. {COMMON}"
    )
    return Table("ood", "Out-of-distribution entropy and detection", caption, columns, rows).of(material.results)


def detection_table(material: Material) -> Table:
    """Return how well every score detects every out-of-distribution set."""
    conditions = material.results.conditions
    rows: list[list[Entry]] = []
    for approach, recipe, records in _cells(material):
        for dataset in OOD_NAMES:
            chance = Number(chance_of_aupr(dataset, conditions[0] if conditions else "full"), FRACTION)
            for score in SCORES:
                areas, fpr = ("auroc", "aupr"), _entry(records, f"{dataset}/fpr95_{score}")
                found = [_entry(records, f"{dataset}/{name}_{score}") for name in areas]
                rows.append([approach, recipe, dataset, score.replace("_", " "), *found, chance, fpr])
    caption = (
        "How well a score tells out-of-distribution images (positive) from the MNIST test set. AUROC, AUPR: areas "
        "under the ROC and the precision-recall curve; 1 is best. By chance, AUROC is 0.5 and AUPR is the share of "
        "out-of-distribution images (column chance), so compare AUPRs only within one data set. FPR95: fraction of "
        f"MNIST images flagged when 95 % of the out-of-distribution images are found; 0 is best. {COMMON}"
    )
    columns = ["approach", "recipe", "data set", "score", "AUROC", "AUPR", "chance", "FPR95"]
    title = "Out-of-distribution detection by score"
    return Table("detection", title, caption, columns, rows).of(material.results)


def chance_of_aupr(dataset: str, profile: str) -> float:
    """Return the AUPR of a score that tells nothing: the share of images that are not of the MNIST test set."""
    most = named(profile).common_rows or N_TEST
    outside = min(data_manifest(dataset).n_rows, most)
    return outside / (outside + min(N_TEST, most))


def refusal_table(material: Material) -> Table:
    """Return how often the two rules refuse, and the accuracy on the accepted images."""
    rows: list[list[Entry]] = []
    for approach, recipe, records in _cells(material):
        for dataset in ("mnist", *OOD_NAMES):
            row: list[Entry] = [approach, recipe, dataset]
            for rule in ("", "_strict"):
                row.append(_entry(records, f"{dataset}/refusal_rate{rule}"))
                labelled = dataset == "mnist"
                row.append(_entry(records, f"mnist/selective_accuracy{rule}") if labelled else Missing(ABSENT))
            for name in ("refusal_rate", "selective_accuracy"):
                row += _reported_and_ours(material, name, approach, recipe, dataset)
            rows.append(row)
    columns = ["approach", "recipe", "data set", "refused", "accuracy of accepted"]
    columns += ["refused, strict", "accuracy of accepted, strict"]
    columns += ["reported refused", "published x published refused"]
    columns += ["reported accuracy", "published x published accuracy"]
    caption = (
        "Fractions of images. Median rule of chopra2018: the network answers if, for some class, the median of its "
        "probability over the draws is above 0.2. Strict rule: if the 10th percentile is above 0.5. Images that show "
        f"no digit have no right answer, so only their refusal counts. {COMMON}"
    )
    notes = truncations(claim for claim in material.claims if claim.metric == "selective_accuracy")
    return Table("refusal", "Refusal: saying 'I don't know'", caption, columns, rows, notes).of(material.results)


CALIBRATION = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE equal width",
    "ece_equal_mass": "ECE equal mass",
    "risk_coverage_area": "risk-coverage area",
    "disagreement_rate": "draws disagree",
    "draw_accuracy_mean": "accuracy of one draw",
    "draw_accuracy_std": "its sd over draws",
    "mean_network/accuracy": "mean network accuracy",
    "mean_network/nll": "mean network NLL",
}


def calibration_table(material: Material) -> Table:
    """Return how well calibrated the probabilities are."""
    rows: list[list[Entry]] = [
        [approach, recipe, *(_entry(records, f"mnist/{name}") for name in CALIBRATION)]
        for approach, recipe, records in _cells(material)
    ]
    caption = (
        "MNIST test images. NLL: negative log-likelihood, nats per image. Brier: squared error summed over classes. "
        "ECE: expected calibration error, 15 bins. Risk-coverage area: mean error over all coverages, the most "
        "certain images first. Draws disagree: fraction of images on which 30 draws do not all give one class. "
        f"Mean network: posterior means, dropout off. {COMMON}"
    )
    columns = ["approach", "recipe", *CALIBRATION.values()]
    return Table("calibration", "Calibration", caption, columns, rows).of(material.results)


TOYS = {
    "toy/rmse": "RMSE at the points",
    "toy/nll": "NLL at the points",
    "toy/band_width_near": "band, -5 to 5",
    "toy/band_width_far": "band, -100 to 100",
}


def toys_table(material: Material) -> Table:
    """Return a row for each toy and recipe."""
    results = material.results
    rows: list[list[Entry]] = []
    for approach in results.toys():
        for recipe in results.recipes(approach):
            records = results.cell(approach, recipe, "common")
            cells = [Measured(metrics_of(records, key), THREE) for key in TOYS]
            claim = headline(material.claims, approach, "prediction", "toy") if recipe == "published" else None
            published = results.cell(approach, recipe, "published")
            rows.append([approach, recipe, *cells, *beside_report(claim, published, THREE, THREE_DIFFERENCE)])
    columns = ["approach", "recipe", *TOYS.values(), "reported at x = 100", "published x published", "difference"]
    caption = (
        "Regression on the six points of feldman2018, target units; NLL in nats per point. Band: mean width "
        "between the 2.5 and 97.5 percentiles over 100 draws of the function, without observation noise."
    )
    return Table("toys", "Six-point regression", caption, columns, rows).of(results)
