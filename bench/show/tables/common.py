"""The regular tables of networks that classify digits: accuracy, calibration, refusal, pictures without digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.core.metric_table import SCORES
from bench.core.text import FRACTION
from bench.data.manifest import OOD_NAMES
from bench.data.manifest import manifest as data_manifest
from bench.judge.claims import NATS_PER_BIT
from bench.judge.samples import MissingValue
from bench.plan.recipes import profile as named
from bench.show.inputs import Inputs
from bench.show.table import Entry, Measured, Missing, Number
from bench.show.tables.declaration import Column, Declaration, Row, each_recipe, for_each, key, metric, reported
from bench.show.tables.reported import ABSENT, at_end, beside_report, headline

MNIST = "mnist"
N_TEST = 10_000  # images of the MNIST test set
COMMON = "Common protocol: mean of the probabilities of 100 draws (one for a deterministic network), official test set."
COMMON_ONLY = MissingValue(
    "common only", "without `--protocol published`, changed recipes are measured by the common protocol only"
)
RECIPE = (key("approach"), key("recipe"))
PICTURES = (*RECIPE, key("data set", "data_set"))
each_picture = for_each(each_recipe, "data_set", (MNIST, *OOD_NAMES))


def _outside(row: Row) -> bool:
    return row["data_set"] != MNIST


def _labelled(row: Row) -> bool:
    return row["data_set"] == MNIST


def _has_corrected(row: Row) -> bool:
    return row["has_corrected"] == "yes"


def _accuracy_rows(inputs: Inputs) -> Iterator[Row]:
    results = inputs.results
    for approach in results.classifiers():
        claim = headline(inputs.claims, approach, "accuracy", MNIST)
        for recipe in (one for one in results.recipes(approach) if one != "corrected"):
            yield {
                "approach": approach,
                "recipe": recipe,
                "label": f"{approach} + {recipe.removeprefix('published+')}" if "+" in recipe else approach,
                "document": (results.manifests[approach].document if approach in results.manifests else "") or "none",
                "measured on": claim.split if claim else "test10k",
                "has_corrected": "yes" if recipe == "published" and results.has_corrected(approach) else "no",
            }


def _beside_report(inputs: Inputs, row: Row) -> Sequence[Entry]:
    """Return the reported accuracy, ours, and the difference; of a variant only ours."""
    approach, recipe = row["approach"], row["recipe"]
    claim = headline(inputs.claims, approach, "accuracy", MNIST)
    own = inputs.results.trained_run(approach, recipe, "published")
    if recipe == "published":
        return beside_report(claim, own)
    return Missing(ABSENT), Measured(at_end(claim, own)[0]) if claim and own else Missing(COMMON_ONLY), Missing(ABSENT)


ACCURACY = Declaration(
    "accuracy",
    "Do the reported accuracies hold?",
    "Accuracy against the reported numbers",
    "Fraction of images classified right. Published x published: published recipe, measured as the document did, "
    "on the rows named. Published x common: the same fits by the common protocol (official test set, mean of the "
    "probabilities of 100 draws, one for a deterministic network). Corrected x common: corrected recipe, common "
    "protocol. Difference: published x published minus reported.",
    _accuracy_rows,
    (
        *(key("approach", "label"), key("document"), key("measured on")),
        Column(("reported", "published x published", "difference"), _beside_report),
        metric("published x common", "mnist/accuracy"),
        metric("corrected x common", "mnist/accuracy", recipe="corrected", only=_has_corrected),
    ),
    truncated="accuracy",
    spare=("document", "measured on"),
)
OOD = Declaration(
    "ood",
    "How unsure are the networks of pictures that show no digit?",
    "Out-of-distribution entropy and detection",
    "Means over images. Entropies and mutual information in nats (at most log 10 = 2.3026); the last two "
    f"columns in bits, as feldman2018 reports them (1 bit = {NATS_PER_BIT:.4f} nats). Geometric estimator: "
    "feldman2018's entropy of exp(mean log-probability), not normalised. AUROC: area under the ROC curve for "
    f"telling the data set from MNIST; 0.5 is chance. {COMMON}",
    each_picture,
    (
        *PICTURES,
        metric("entropy", "{data_set}/predictive_entropy"),
        metric("mutual information", "{data_set}/mutual_information"),
        metric("geometric estimator", "{data_set}/geometric_entropy", only=_outside),
        *(metric(f"AUROC {one.replace('_', ' ')}", f"{{data_set}}/auroc_{one}", only=_outside) for one in SCORES),
        reported(("reported, bits", "published x published, bits"), "predictive_entropy"),
    ),
    spare=(
        *("published x published, bits", "reported, bits", "geometric estimator"),
        *("AUROC max probability", "AUROC mutual information", "mutual information"),
    ),
)


def chance_of_aupr(dataset: str, profile: str) -> float:
    """Return the AUPR of a score that tells nothing: the share of images that are not of the MNIST test set."""
    most = named(profile).common_rows or N_TEST
    outside = min(data_manifest(dataset).n_rows, most)
    return outside / (outside + min(N_TEST, most))


def _chance(inputs: Inputs, row: Row) -> Sequence[Entry]:
    conditions = inputs.results.conditions
    return (Number(chance_of_aupr(row["data_set"], conditions[0] if conditions else "full"), FRACTION),)


def _by_score(inputs: Inputs) -> Iterator[Row]:
    for row in for_each(for_each(each_recipe, "data_set", OOD_NAMES), "score", SCORES)(inputs):
        yield {**row, "title": row["score"].replace("_", " ")}


DETECTION = Declaration(
    "detection",
    "Which score is best at finding pictures that show no digit?",
    "Out-of-distribution detection by score",
    "How well a score tells out-of-distribution images (positive) from the MNIST test set. AUROC, AUPR: areas "
    "under the ROC and the precision-recall curve; 1 is best. By chance, AUROC is 0.5 and AUPR is the share of "
    "out-of-distribution images (column chance), so compare AUPRs only within one data set. FPR95: fraction of "
    f"MNIST images flagged when 95 % of the out-of-distribution images are found; 0 is best. {COMMON}",
    _by_score,
    (
        *(*PICTURES, key("score", "title")),
        metric("AUROC", "{data_set}/auroc_{score}"),
        metric("AUPR", "{data_set}/aupr_{score}"),
        Column(("chance",), _chance),
        metric("FPR95", "{data_set}/fpr95_{score}"),
    ),
    spare=("AUPR", "chance", "FPR95"),
)
REFUSAL = Declaration(
    "refusal",
    "How often do the networks refuse to answer?",
    "Refusal: saying 'I don't know'",
    "Fractions of images. Median rule of chopra2018: the network answers if, for some class, the median of its "
    "probability over the draws is above 0.2. Strict rule: if the 10th percentile is above 0.5. Images that show "
    f"no digit have no right answer, so only their refusal counts. {COMMON}",
    each_picture,
    (
        *PICTURES,
        metric("refused", "{data_set}/refusal_rate"),
        metric("accuracy of accepted", "mnist/selective_accuracy", only=_labelled),
        metric("refused, strict", "{data_set}/refusal_rate_strict"),
        metric("accuracy of accepted, strict", "mnist/selective_accuracy_strict", only=_labelled),
        reported(("reported refused", "published x published refused"), "refusal_rate"),
        reported(("reported accuracy", "published x published accuracy"), "selective_accuracy"),
    ),
    truncated="selective_accuracy",
    spare=(
        *("published x published accuracy", "reported accuracy", "published x published refused", "reported refused"),
        *("accuracy of accepted, strict", "refused, strict"),
    ),
)
CALIBRATION = Declaration(
    "calibration",
    "How well calibrated are the probabilities?",
    "Calibration",
    "MNIST test images. NLL: negative log-likelihood, nats per image. Brier: squared error summed over classes. "
    "ECE: expected calibration error, 15 bins. Risk-coverage area: mean error over all coverages, the most "
    "certain images first. Draws disagree: fraction of images on which 30 draws do not all give one class. "
    f"Mean network: posterior means, dropout off. {COMMON}",
    each_recipe,
    (
        *RECIPE,
        metric("accuracy", "mnist/accuracy"),
        metric("NLL", "mnist/nll"),
        metric("Brier", "mnist/brier"),
        metric("ECE equal width", "mnist/ece"),
        metric("ECE equal mass", "mnist/ece_equal_mass"),
        metric("risk-coverage area", "mnist/risk_coverage_area"),
        metric("draws disagree", "mnist/disagreement_rate"),
        metric("accuracy of one draw", "mnist/draw_accuracy_mean"),
        metric("its sd over draws", "mnist/draw_accuracy_std"),
        metric("mean network accuracy", "mnist/mean_network/accuracy"),
        metric("mean network NLL", "mnist/mean_network/nll"),
    ),
    spare=(
        *("mean network NLL", "mean network accuracy", "its sd over draws", "accuracy of one draw", "draws disagree"),
        *("risk-coverage area", "Brier"),
    ),
)
