"""Changes of the training code, planted one at a time: every one must move a trace a thousand tolerances away.

`python -m tests.golden --plants` plants each change in every training path that it reaches, and prints the smallest
deviation of each over these paths. What a change does not reach is named at its place below.
"""

import dataclasses
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch

from bench.plan.recipes import build, resolve
from bench.plan.registry import manifest, manifests
from tests.golden import fits
from tests.golden.numbers import TOLERANCE, deviations
from tests.golden.stored import missing_framework, read, recipes_of, untrained

TOYS = ("toy_mlp", "toy_bbb")
WITH_KL = (
    *("pyro_hidden_layer", "pyro_random_module", "linear_bbb", "mxnet_bbb", "blundell_bbb", "vi_diag", "autonormal"),
    *("torchbnn_mlp", "bayesian_torch_mlp"),
)
ENOUGH = 1000  # tolerances


@contextmanager
def built_with(change):
    """Build approaches with the hyper-parameters that `change` returns for an approach."""
    with patch.object(fits, "build", lambda *given: dataclasses.replace(made := build(*given), **change(made))):
        yield


def approach_of(name, recipe):
    """Return an approach as its recipe says."""
    entry = manifest(name)
    return build(entry, resolve(entry, recipe), fits.budget())


def has(name, recipe, *fields):
    """Return whether an approach has one of these hyper-parameters, and it is not zero."""
    return any(getattr(approach_of(name, recipe), field, 0) for field in fields)


# --- Adam's beta2 is .998 -------------------------------------------------------------------------------------------


@contextmanager
def another_beta2():
    """Patch PyTorch's Adam, and torchopt's, from which vi_diag takes its own."""
    init = torch.optim.Adam.__init__

    def changed(self, *given, **named):
        init(self, *given, **{"betas": (0.9, 0.998), **named})

    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.optim.Adam, "__init__", changed))
        if not missing_framework("vi_diag"):
            from implementations import vi_diag

            whole = vi_diag.torchopt.adam
            stack.enter_context(patch.object(vi_diag.torchopt, "adam", lambda lr: whole(lr, betas=(0.9, 0.998))))
        yield


def by_adam(name, recipe):
    """Not those that take steps of SGD or random walks."""
    sgd = ("dropout_fcn", "pyro_hidden_layer", "mxnet_bbb", "toy_mlp", "blundell_dropout", "blundell_sgd", "sghmc")
    if name == "blundell_bbb":
        return approach_of(name, recipe).optimiser != "sgd"
    return name not in sgd


# --- the stream of the orders has another name ----------------------------------------------------------------------


@contextmanager
def another_stream():
    """Rename `shuffle` where contexts make generators."""
    drawn = fits.TraceContext.generator

    def renamed(self, name, *place):
        return drawn(self, "shuffled" if name == "shuffle" else name, *place)

    with patch.object(fits.TraceContext, "generator", renamed):
        yield


def in_batches(name, recipe):
    """Not where a step takes all rows: their sums do not depend on the order."""
    return name not in TOYS and not fits.UNSTABLE & set(resolve(manifest(name), recipe).versions)


def shuffled(name, recipe):
    """Nor where the document keeps the order of the rows."""
    return in_batches(name, recipe) and getattr(approach_of(name, recipe), "shuffle", True)


# --- the KL is divided by one batch more ----------------------------------------------------------------------------


@contextmanager
def one_batch_more():
    """Say that there are as many training rows more as a batch has: KL / M becomes KL / (M + 1)."""
    rows_of = fits.rows_of

    def more(entry, recipe, approach, seeds):
        train, rows, task = rows_of(entry, recipe, approach, seeds)
        return train, rows, dataclasses.replace(task, n_train=task.n_train + approach.batch_size)

    with patch.object(fits, "rows_of", more):
        yield


def divides_kl(name, recipe):
    """Not where the whole KL counts in every batch, where a library divides it by P, or where its weights halve."""
    approach = approach_of(name, recipe)
    if name == "blundell_bbb" and approach.kl_weights == "halving":
        return False
    if name == "bayesian_torch_mlp":
        return approach.whole_kl
    if name == "torchbnn_mlp":
        return not approach.kl_weight
    return name in WITH_KL and getattr(approach, "divide_kl", True)


# --- rates, priors, batches -----------------------------------------------------------------------------------------

DROPOUTS = ("hidden_dropout", "dropout")
PRIORS = ("prior_std", "mixture_wide_std")


def less_dropout(approach):
    """Return the rate of dropout less .01."""
    return {field: getattr(approach, field) - 0.01 for field in DROPOUTS if hasattr(approach, field)}


def longer_steps(approach):
    """Return the learning rate times 1.000001."""
    return {"learning_rate": approach.learning_rate * 1.000001}


def wider_prior(approach):
    """Return the standard deviations of the prior times 1.0001."""
    return {field: getattr(approach, field) * 1.0001 for field in PRIORS if hasattr(approach, field)}


def has_prior(name, recipe):
    """Not the priors N(0, 1) that pyro_hidden_layer and pyro_random_module have in their code, nor no prior at all."""
    return name in (*WITH_KL, "toy_bbb", "sghmc") and has(name, recipe, *PRIORS)


# --- one bias is missing in the KL ----------------------------------------------------------------------------------


@contextmanager
def one_bias_missing():
    """Leave out the KL of the last bias, of one output, in the networks of linear_bbb, toy_bbb and blundell_bbb."""
    from implementations._kernels.mixture_mlp import MixtureMlp
    from implementations._kernels.sampled_mlp import SampledMlp

    complexity, mixture = SampledMlp._add_complexity, MixtureMlp.add_gradient

    def of_sampled(self):
        of_data = [half[-1].clone() for half in self.gradient.chunk(2)]  # G, and d sigma / d rho
        complexity(self)
        mu_gradient, rho_gradient = self.gradient.chunk(2)
        mu_gradient[-1] = of_data[0]
        rho_gradient[-1] = of_data[0] * self.epsilon[-1] * of_data[1]

    def of_mixture(self, gradient, kl, share):
        before = gradient[[len(self.mu) - 1, -1]]
        mixture(self, gradient, kl, share)
        of_rho = self.from_data[-1] * self.epsilon[-1] * torch.sigmoid(self.rho[-1])
        gradient[len(self.mu) - 1] = before[0] + share * self.from_data[-1]
        gradient[-1] = before[1] + share * of_rho

    with patch.object(SampledMlp, "_add_complexity", of_sampled), patch.object(MixtureMlp, "add_gradient", of_mixture):
        yield


def sums_kl_itself(name, recipe):
    """Not where MXNet, Pyro or a library sums the KL: their sums are over whole tensors."""
    return name in ("linear_bbb", "toy_bbb", "blundell_bbb")


# --- rows -----------------------------------------------------------------------------------------------------------


@contextmanager
def swapped_rows():
    """Swap the first training row with the last one."""
    rows_of = fits.rows_of

    def swapped(*given):
        train, rows, task = rows_of(*given)
        rows = rows.clone()
        rows[:, [0, -1]] = rows[:, [-1, 0]]
        return train, rows, task

    with patch.object(fits, "rows_of", swapped):
        yield


PLANTS = {
    "Adam's beta2 is .998": (another_beta2, by_adam),
    "stream shuffle is renamed": (another_stream, shuffled),
    "KL / (M + 1)": (one_batch_more, divides_kl),
    "dropout .01 less": (lambda: built_with(less_dropout), lambda *one: has(*one, *DROPOUTS)),
    "learning rate x 1.000001": (lambda: built_with(longer_steps), lambda *one: has(*one, "learning_rate")),
    "prior sd x 1.0001": (lambda: built_with(wider_prior), has_prior),
    "one bias is missing in the KL": (one_bias_missing, sums_kl_itself),
    "batches of 127": (lambda: built_with(lambda _: {"batch_size": 127}), in_batches),
    "two rows are swapped": (swapped_rows, in_batches),
}
"""Name -> (context that plants the change, (approach, recipe) -> whether it reaches the training)."""


def reached(what):
    """Return the (approach, recipe) that a plant reaches, of those whose libraries are installed."""
    names = [name for name in manifests() if not untrained(name) and not missing_framework(name)]
    return [(name, recipe) for name in names for recipe in recipes_of(name) if PLANTS[what][1](name, recipe)]


def deviation(what, name, recipe):
    """Return the largest deviation, in tolerances, from the stored trace of one seed's training."""
    fits.fitted.cache_clear()
    try:
        with PLANTS[what][0]():
            found = fits.fit_trace(name, recipe).as_json()
    finally:
        fits.fitted.cache_clear()
    return max(deviations(read(name)[f"{recipe}/single"], found).values()) / TOLERANCE
