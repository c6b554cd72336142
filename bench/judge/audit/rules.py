"""The rules of the audit: mistakes found in published Bayesian networks. Add a rule here.

Its `where` says which code applies it: elbo/ (objective), predictions.py, approach.py, records.py, data.py or
documents.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["wrong", "misleading", "weak"]
"""What a mistake does to the numbers. `wrong`: they are of another quantity than was meant. `misleading`: a comparison
does not show what it says. `weak`: the reader needs more."""

Where = Literal["documents", "objective", "approach", "records", "data", "predictions"]


@dataclass(frozen=True)
class AuditRule:
    """One mistake."""

    id: str
    title: str
    looks_for: str
    remedy: str  # what to do where it fails
    where: tuple[Where, ...] = ("documents",)  # what it is applied to; documents are read, and run where possible
    severity: Severity = "wrong"


_RULES = (
    AuditRule(
        "test-looked-at",
        "test set looked at while training",
        "test rows among the training rows, or test numbers made while training that could choose the network shown",
        "choose by held-out training rows; report the last epoch",
        ("documents", "records", "data"),
        severity="misleading",
    ),
    AuditRule(
        "kl-scale",
        "KL scaled wrongly per mini-batch",
        "the weight of the KL term summed over an epoch's steps, relative to the data counted once: 1 is an ELBO",
        "divide the KL by the number of batches where the likelihood is a sum over the batch, by N where it is a mean",
        ("documents", "objective", "approach"),
    ),
    AuditRule(
        "kl-sign",
        "KL with the wrong sign",
        "a negative weight of the KL term; weights that only the KL reaches move away from the prior",
        "minimise NLL + KL; look at which log-density the estimator subtracts",
        ("documents", "objective", "approach"),
    ),
    AuditRule(
        "dropout-at-test",
        "dropout on at test",
        "predictions that differ from call to call, of a network that is meant to be deterministic at test",
        "call eval() before predicting, or report it as one Monte Carlo sample",
        ("documents", "objective", "approach"),
    ),
    AuditRule(
        "log-average",
        "logits or log-probabilities averaged instead of probabilities",
        "a reported prediction that is the exponential of mean logs, not the mean of the draws' probabilities",
        "average probabilities: logsumexp over the draws minus log S",
        ("documents", "records", "predictions"),
    ),
    AuditRule(
        "unnormalised-probabilities",
        "probabilities that do not sum to one",
        "rows whose log-probabilities have exponentials that do not sum to 1",
        "apply log_softmax over the classes once, after the last layer",
        ("documents", "records", "approach", "predictions"),
    ),
    AuditRule(
        "unnormalised-entropy",
        "entropy of something that is not normalised",
        "-sum p log p of numbers p that sum to less than one, such as exp of mean log-probabilities",
        "take the entropy of the mean of the probabilities",
        ("documents", "records", "predictions"),
    ),
    AuditRule(
        "unlike-draws",
        "unlike draw counts compared",
        "numbers set side by side that were made with different numbers of posterior draws",
        "use one number of draws for all stochastic networks, and name it",
        ("documents", "records"),
        severity="misleading",
    ),
    AuditRule(
        "truncated-printing",
        "truncated printing",
        "%d or int() applied to a percentage that is not whole",
        "print with %.2f",
        severity="weak",
    ),
    AuditRule(
        "dropped-class",
        "a class dropped silently",
        "rows of a class that the text counts and the code leaves out",
        "list the classes by name and check their counts",
        ("documents", "data"),
    ),
    AuditRule(
        "ood-transform",
        "OOD images transformed otherwise than the training images",
        "images of another set transposed, scaled or centred otherwise than the training images",
        "send every set through the training images' transform, and look at one picture of it",
        ("documents", "data"),
    ),
    AuditRule(
        "overlap",
        "overlap of train, test and OOD",
        "images that are byte for byte in two sets which should share none",
        "leave the repeated images out of the set that measures",
        ("documents", "data"),
    ),
    AuditRule(
        "one-seed",
        "one seed",
        "a number from a single run, without a seed or a spread",
        "run two seeds or more and report each; a verdict needs five",
        ("documents", "records"),
        severity="weak",
    ),
    AuditRule(
        "unused-layer",
        "a layer never used",
        "a parameter tensor whose gradient is the same whatever the data, or whose removal changes no prediction",
        "check the loop over the layers in the forward pass",
        ("documents", "objective", "approach"),
    ),
    AuditRule(
        "detached-gradient",
        "a detached gradient",
        "a parameter along which the slope of the loss differs from the gradient that autograd gives",
        "remove .data, .detach() and no_grad between parameter and loss, or say which estimator needs them",
        ("documents", "objective", "approach"),
    ),
    AuditRule(
        "sigma-frozen",
        "sigma that never moved from its initial value",
        "a sigma without gradient, or one that gradient x rate x steps cannot change",
        "give rho a larger rate or more steps, and report how far sigma moved",
        ("documents", "objective", "approach", "records"),
    ),
    AuditRule(
        "repeated-noise",
        "the same noise in every step",
        "a loss that leaves torch's generator in one state, whatever state it found: it sets a seed",
        "seed once, before training; a posterior that sees one sample fits that sample",
        ("documents", "objective"),
    ),
    AuditRule(
        "pruned-noise",
        "pruned weights whose noise is not pruned",
        "weights whose mean is exactly zero but whose sigma is not (softplus(0) = 0.69)",
        "set sigma to zero with the mean; rho = 0 is not sigma = 0",
        ("documents", "objective", "approach"),
    ),
    AuditRule(
        "decayed-posterior",
        "weight decay on a posterior's parameters",
        "an optimiser with weight_decay on means or scales of the weights' distributions",
        "weight_decay=0 for means and scales: the prior is in the KL; decay other parameters in a group of their own",
        ("documents", "objective"),
    ),
    AuditRule(
        "stale-result",
        "a result from another run",
        "printed numbers that the code shown cannot have printed",
        "restart and run all before publishing; keep the code's hash with the number",
        ("documents", "records"),
        severity="misleading",
    ),
    AuditRule(
        "confounded-baseline",
        "baseline and method differ in more than the method",
        "another architecture, budget or schedule in the baseline",
        "train the method's own network without the method, with equal budget",
        severity="misleading",
    ),
    AuditRule(
        "variance-as-std",
        "a prior's variance used as its standard deviation",
        "a prior whose standard deviation in the objective differs from the stated one",
        "hand the square root of the variance to Normal",
        ("documents", "objective"),
    ),
    AuditRule(
        "wrong-likelihood",
        "a loss that is not the stated likelihood",
        "a loss of a batch that does not grow in proportion to -log p(y | x, w)",
        "use the negative log-likelihood of the stated model; check what the loss function takes for its input",
        ("documents", "objective"),
    ),
    AuditRule(
        "unshuffled",
        "the same batches in every epoch",
        "training rows in one order throughout",
        "shuffle=True in the training loader",
        severity="weak",
    ),
    AuditRule(
        "lost-schedule",
        "a schedule without effect",
        "a learning rate that the code divides and the optimiser never sees",
        "change param_groups, or use a scheduler",
        severity="weak",
    ),
)

RULES: dict[str, AuditRule] = {rule.id: rule for rule in _RULES}
