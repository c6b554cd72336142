"""Table `libraries`: how often the examples of other people's libraries count the KL."""

from __future__ import annotations

from collections.abc import Mapping

from bench.judge.samples import MissingValue
from bench.show.table import Entry, Missing, Table
from elbo_audit.libraries.audited import LibraryAudit, ObjectiveAudit
from elbo_audit.libraries.examples import EXAMPLES, N_TRAIN, Example

COLUMNS = ["example", "version", "KL an epoch", "gradients are slopes", "prior", "as if N", "follows", "its line"]
COLUMNS += ["change", "KL after it"]
CAPTION = (
    "The objective that each library's README or tutorial trains; for Pyro, which has no such example, a usual one. "
    f"The network is 784-400-400-10 for N = {N_TRAIN:,} images unless the row names others. In brackets: the batch "
    "size. Nothing is trained. KL an epoch: how often an epoch counts the KL of a tensor while it counts the data once;"
    " 1 is an ELBO. W1 to W3 are the weights of the layers, b1 to b3 the biases; one number stands for all equal ones. "
    "Gradients are slopes: whether autograd's gradient is the slope of the loss. Prior: its standard deviation. As if "
    "N: the number of training images for which this weight would be right. KL after it: KL an epoch, audited again "
    "with the change made."
)
TENSORS = ("W1", "b1", "W2", "b2", "W3", "b3")
ALIKE = 0.05  # of a weight: the tolerance of the rule kl-scale


def libraries_table(found: Mapping[str, LibraryAudit]) -> Table:
    """Return a row for each example, also for one that nobody measured."""
    rows: list[list[Entry]] = []
    for example in EXAMPLES.values():
        text = [example.source, example.line, example.change]
        if example.name not in found:
            missing_value = MissingValue("not measured", f"nobody has measured it yet; pip install {example.package}")
            rows.append([_name(example), *[Missing(missing_value)] * 5, *text, Missing(missing_value)])
            continue
        one = found[example.name]
        version = f"{example.package} {one.versions[example.package]}"
        published = one.published
        slopes = {"passes": "yes", "fails": "no"}.get(published.slopes, published.slopes)
        prior = None if published.prior_std is None else f"{published.prior_std:.3g}"
        measured = [weights(published), slopes, prior, as_if_n(published)]
        rows.append([_name(example), version, *measured, *text, weights(one.changed)])
    remarks = sorted({f"torch {one.versions['torch']}" for one in found.values()})
    return Table("libraries", "Other people's libraries", CAPTION, COLUMNS, rows, remarks)


def _name(example: Example) -> str:
    return f"{example.name} ({example.batch_size})"


def weights(one: ObjectiveAudit) -> str:
    """Return how often an epoch counts the KL: one number, or one for each tensor."""
    values = list(one.kl_weights.values())
    if not values:
        return "not measured: gradients are no slopes" if one.slopes == "fails" else "not measured"
    least, most = min(values), max(values)
    if most - least <= ALIKE * abs(most):
        return _number(sum(values) / len(values))
    names = TENSORS if len(values) == len(TENSORS) else one.kl_weights
    return ", ".join(f"{name} {_number(value)}" for name, value in zip(names, values, strict=True))


def _number(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000 else f"{value:.3g}"


def as_if_n(one: ObjectiveAudit) -> str | None:
    """Return the number of training images for which the KL's weight would be right, N / weight; None without one."""
    values = list(one.kl_weights.values())
    if not values or min(values) <= 0:
        return None
    least, most = (_number(N_TRAIN / value) for value in (max(values), min(values)))
    return least if max(values) - min(values) <= ALIKE * max(values) else f"{least} to {most}"
