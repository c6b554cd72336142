"""The audit of a loss in TensorFlow, as with TensorFlow Probability's layers in tf_keras."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from elbo_audit.audits import DRAWS, apply_rules, report
from elbo_audit.errors import AuditError
from elbo_audit.factors import Array, Factor, Gaussian, Gradient, Group
from elbo_audit.names import alone, gaussians
from elbo_audit.objective import Batch, Case, Objective, Term
from elbo_audit.report import ElboReport
from elbo_audit.streams import SHORT, seed_of

Loss = Callable[..., Any]  # called with a batch; returns a tensor of one number


def audit_tensorflow(
    loss: Loss,
    variables: Sequence[Any],
    batches: Sequence[object],
    n_train: int,
    *,
    nll: Loss | None = None,
    kl: Callable[[], Any] | None = None,
    model: Any = None,
    factors: Sequence[Factor | Gaussian] | None = None,
    prior_std: float | None = None,
    draws: int = DRAWS,
) -> ElboReport:
    """Audit the loss of a training step in TensorFlow.

    Args:
        loss: `loss(*batch)` is what `GradientTape.gradient` differentiates; noise from TensorFlow's global seed.
        variables: the trained variables, such as `model.trainable_variables`.
        batches: three or more batches of one size, each the arguments of `loss`, rows first.
        n_train: N, rows of the training set.
        nll: `nll(*batch)` is -log p(y | x, w) summed over the batch, with the noise of the loss.
        kl: the unscaled KL, for posteriors that are not independent Gaussians.
        model: its layers of TensorFlow Probability say which weights are Gaussian; else the variables' names do.
        factors: means and standard deviations of the weights.
        prior_std: the standard deviation that the prior should have; by default that of the layers' kernels.
        draws: number of seeds to average over.

    Raises:
        AuditError: arguments that do not fit together, or a loss that is not finite.
    """
    objective = TensorFlowObjective(loss, variables, batches, nll, kl)
    lone: dict[str, str] = {}
    if factors is None:
        factors = _of_layers(model)
    if not factors:
        pairs = gaussians(objective.parameters, objective.shapes)
        lone = alone(objective.shapes, pairs) if kl is None else {}
        factors = pairs
    groups = [objective.group(factor) for factor in factors]
    prior_std = _prior_std(model) if prior_std is None else prior_std
    return report(apply_rules(Case(objective, groups, n_train, prior_std, draws, lone)))


def _of_layers(model: Any) -> list[Factor | Gaussian]:
    """Return the random weights of the layers of TensorFlow Probability: each kernel, each bias, or a whole layer's."""
    found: dict[str, Callable[[], Any]] = {}
    for layer in getattr(model, "submodules", ()):
        for word in ("kernel_posterior", "bias_posterior"):
            if hasattr(getattr(layer, word, None), "stddev"):
                found[f"{layer.name}/{word}"] = partial(getattr, layer, word)
        if callable(getattr(layer, "_posterior", None)):  # of DenseVariational: a function of the layer's inputs
            found[f"{layer.name}/posterior"] = partial(layer._posterior, tf.zeros((1, 1)))
    spread = {name: of for name, of in found.items() if np.all(of().stddev().numpy() > 0)}  # a bias may have none
    return [_factor(name, of) for name, of in spread.items()]


def _prior_std(model: Any) -> float | None:
    """Return the standard deviation of the kernels' prior, if it is one number for all layers and the mean is 0."""
    priors = [layer.kernel_prior for layer in getattr(model, "submodules", ()) if hasattr(layer, "kernel_prior")]
    priors = [prior for prior in priors if hasattr(prior, "stddev")]
    stds = {float(std) for prior in priors for std in np.unique(prior.stddev().numpy())}
    is_centred = not any(np.any(prior.mean().numpy()) for prior in priors)
    return stds.pop() if len(stds) == 1 and is_centred else None


def _factor(name: str, of: Callable[[], Any]) -> Factor:
    return Factor(name, lambda: of().mean(), lambda: of().stddev())


@contextlib.contextmanager
def _noise_of(draw: int) -> Iterator[None]:
    """Draw the noise of a draw. A graph function keeps its own counters, so functions run eagerly."""
    eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    tf.random.set_seed(seed_of(draw, bits=SHORT))
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(eager)


class TensorFlowObjective(Objective):
    """Losses of TensorFlow. An audit sets the global seed, which cannot be read: set it anew after it."""

    def __init__(
        self,
        loss: Loss,
        variables: Sequence[Any],
        batches: Sequence[object],
        nll: Loss | None = None,
        kl: Callable[[], Any] | None = None,
    ) -> None:
        """Keep the arguments; raises AuditError if they cannot be audited."""
        self._variables: dict[str, Any] = {}
        for variable in variables:
            if not isinstance(variable, tf.Variable):
                raise AuditError(f"variables hold a {type(variable).__name__}; give model.trainable_variables")
            name = variable.name.removesuffix(":0")
            alike = sum(other.partition("#")[0] == name for other in self._variables)
            self._variables[f"{name}#{alike + 1}" if alike else name] = variable
        if not self._variables:
            raise AuditError("no variable was given; give model.trainable_variables of a model that is built")
        functions: dict[Term, Loss | None] = {"loss": loss, "nll": nll, "kl": kl}
        self._functions = {term: function for term, function in functions.items() if function is not None}
        shapes = {name: tuple(variable.shape) for name, variable in self._variables.items()}
        super().__init__(shapes, batches, frozenset(self._functions))

    def value(self, name: str) -> Array:
        """Return a copy of a variable's numbers."""
        return np.array(self._variables[name].numpy(), dtype=np.float64)

    def assign(self, name: str, value: Array) -> None:
        """Give a variable other numbers."""
        self._variables[name].assign(tf.cast(value, self._variables[name].dtype))

    @property
    def epsilon(self) -> float:
        """Return one unit in the last digit of a loss of 1, in the loss's own type."""
        return float(np.finfo(self._term("loss", self.batches[0], 0)[0].dtype.as_numpy_dtype).eps)

    def _term(self, term: Term, batch: Batch, draw: int) -> tuple[Any, Any]:
        """Return a term as a scalar, and the tape that recorded it."""
        with _noise_of(draw), tf.GradientTape() as tape:
            value = tf.convert_to_tensor(self._functions[term](*batch))
            if value.shape.num_elements() != 1 or not value.dtype.is_floating:
                given = f"a tensor of {value.dtype.name} of shape {tuple(value.shape)}"
                raise AuditError(f"{term} returned {given}; it must return one number: reduce it as the step does")
            return tf.reshape(value, ()), tape

    def _evaluate(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[float, Gradient]:
        value, tape = self._term(term, batch, draw)
        return float(value), self._gradient(tape, value) if slopes else {}

    def _gradient(self, tape: Any, value: Any) -> Gradient:
        slopes = tape.gradient(value, self._variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return {name: np.array(tf.convert_to_tensor(slope).numpy(), np.float64) for name, slope in slopes.items()}

    def group(self, factor: object) -> Group:
        """Return the weights of a pair of names, or of a `Factor` whose functions return tensors."""
        if not isinstance(factor, Factor):
            return super().group(factor)

        def pullback(by_mean: Array, by_std: Array) -> Gradient:
            with tf.GradientTape() as tape:
                parts = [tf.convert_to_tensor(part()) for part in (factor.mean, factor.std)]
                pairs = zip(parts, (by_mean, by_std), strict=True)
                value = tf.add_n([tf.reduce_sum(part * tf.cast(slope, part.dtype)) for part, slope in pairs])
            return self._gradient(tape, value)

        mean, std = (lambda part=part: np.array(part(), dtype=np.float64) for part in (factor.mean, factor.std))
        return Group(factor.name, mean, std, pullback, factor.may_be_layer)

    def take(self, batch: Batch, rows: Sequence[int]) -> Batch:
        """Return these rows of a batch, which may repeat."""
        return tuple(tf.gather(part, list(rows)) if len(getattr(part, "shape", ())) else part for part in batch)
