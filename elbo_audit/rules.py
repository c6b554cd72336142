"""The rules: mistakes found in published Bayesian networks that an objective, or a prediction, shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["wrong", "misleading", "weak"]
"""What a mistake does to the numbers. `wrong`: they are of another quantity than was meant. `misleading`: a comparison
does not show what it says. `weak`: the reader needs more."""


@dataclass(frozen=True)
class Rule:
    """One mistake."""

    id: str
    title: str
    looks_for: str
    remedy: str  # what to do where it fails
    severity: Severity = "wrong"


_RULES = (
    Rule(
        "kl-scale",
        "KL scaled wrongly per mini-batch",
        "the weight of the KL term summed over an epoch's steps, relative to the data counted once: 1 is an ELBO",
        "divide the KL by the number of batches where the likelihood is a sum over the batch, by N where it is a mean",
    ),
    Rule(
        "kl-sign",
        "KL with the wrong sign",
        "a negative weight of the KL term; weights that only the KL reaches move away from the prior",
        "minimise NLL + KL; look at which log-density the estimator subtracts",
    ),
    Rule(
        "dropout-at-test",
        "dropout on at test",
        "predictions that differ from call to call, of a network that is meant to be deterministic at test",
        "call eval() before predicting, or report it as one Monte Carlo sample",
    ),
    Rule(
        "log-average",
        "logits or log-probabilities averaged instead of probabilities",
        "a reported prediction that is the exponential of mean logs, not the mean of the draws' probabilities",
        "average probabilities: logsumexp over the draws minus log S",
    ),
    Rule(
        "unnormalised-probabilities",
        "probabilities that do not sum to one",
        "rows whose log-probabilities have exponentials that do not sum to 1",
        "apply log_softmax over the classes once, after the last layer",
    ),
    Rule(
        "unnormalised-entropy",
        "entropy of something that is not normalised",
        "-sum p log p of numbers p that sum to less than one, such as exp of mean log-probabilities",
        "take the entropy of the mean of the probabilities",
    ),
    Rule(
        "unused-layer",
        "a layer never used",
        "a parameter tensor whose gradient is the same whatever the data, or whose removal changes no prediction",
        "check the loop over the layers in the forward pass",
    ),
    Rule(
        "detached-gradient",
        "a detached gradient",
        "a parameter along which the slope of the loss differs from the gradient that autograd gives",
        "remove .data, .detach() and no_grad between parameter and loss, or say which estimator needs them",
    ),
    Rule(
        "sigma-frozen",
        "sigma that never moved from its initial value",
        "a sigma without gradient, or one that gradient x rate x steps cannot change",
        "give rho a larger rate or more steps, and report how far sigma moved",
    ),
    Rule(
        "repeated-noise",
        "the same noise in every step",
        "a loss that leaves torch's generator in one state, whatever state it found: it sets a seed",
        "seed once, before training; a posterior that sees one sample fits that sample",
    ),
    Rule(
        "pruned-noise",
        "pruned weights whose noise is not pruned",
        "weights whose mean is exactly zero but whose sigma is not (softplus(0) = 0.69)",
        "set sigma to zero with the mean; rho = 0 is not sigma = 0",
    ),
    Rule(
        "decayed-posterior",
        "weight decay on a posterior's parameters",
        "an optimiser with weight_decay on means or scales of the weights' distributions",
        "weight_decay=0 for means and scales: the prior is in the KL; decay other parameters in a group of their own",
    ),
    Rule(
        "variance-as-std",
        "a prior's variance used as its standard deviation",
        "a prior whose standard deviation in the objective differs from the stated one",
        "hand the square root of the variance to Normal",
    ),
    Rule(
        "wrong-likelihood",
        "a loss that is not the stated likelihood",
        "a loss of a batch that does not grow in proportion to -log p(y | x, w)",
        "use the negative log-likelihood of the stated model; check what the loss function takes for its input",
    ),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _RULES}
