"""The audit of a loss in TensorFlow, as with TensorFlow Probability's layers in tf_keras."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import cached_property, partial
from typing import Any

import numpy as np
import tensorflow as tf

from elbo_audit import audits
from elbo_audit.errors import AuditError
from elbo_audit.factors import Array, Factor, Gaussian, Gradient, Group
from elbo_audit.findings import ElboReport
from elbo_audit.names import case_of
from elbo_audit.objective import Batch, Objective, Term
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
    n_batches: int | Sized | None = None,
    draws: int = audits.DRAWS,
) -> ElboReport:
    """Audit the loss of a training step in TensorFlow; the arguments are those of `audit_torch`, but for these.

    - `loss(*batch)` is what `GradientTape.gradient` differentiates; its noise comes from TensorFlow's global seed.
    - `variables` are the trained ones, such as `model.trainable_variables`.
    - `model`: its layers of TensorFlow Probability say which weights are Gaussian, and which `prior_std` is meant where
      none is given. Without such layers, the variables' names say what is Gaussian.
    """
    objective = TensorFlowObjective(loss, variables, batches, nll, kl)
    factors = (_of_layers(model) or None) if factors is None else factors
    prior_std = _prior_std(model) if prior_std is None else prior_std
    return audits.report(audits.apply_rules(case_of(objective, factors, n_train, prior_std, draws, n_batches)))


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

    remedies: Mapping[str, str] = {
        "detached-gradient": "remove tf.stop_gradient between parameter and loss, or say which estimator needs it",
        "repeated-noise": "set no seed in the loss, and give no fixed one to a stateless operation",
    }

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
        shapes = {name: tuple(variable.shape) for name, variable in self._variables.items()}
        super().__init__(shapes, batches, loss, nll, kl)

    def value(self, name: str) -> Array:
        """Return a copy of a variable's numbers."""
        return np.array(self._variables[name].numpy(), dtype=np.float64)

    def assign(self, name: str, value: Array) -> None:
        """Give a variable other numbers."""
        self._variables[name].assign(tf.cast(value, self._variables[name].dtype))

    @cached_property
    def epsilon(self) -> float:
        """Return one unit in the last digit of a loss of 1, in the loss's own type."""
        return float(np.finfo(self._term("loss", self.batches[0], 0).dtype.as_numpy_dtype).eps)

    def _term(self, term: Term, batch: Batch, draw: int) -> Any:
        """Return a term as a scalar."""
        with _noise_of(draw):
            value = tf.convert_to_tensor(self.functions[term](*batch))
        if value.shape.num_elements() != 1 or not value.dtype.is_floating:
            given = f"a tensor of {value.dtype.name} of shape {tuple(value.shape)}"
            raise AuditError(f"{term} returned {given}; it must return one number: reduce it as the step does")
        return tf.reshape(value, ())

    def _evaluate(self, term: Term, batch: Batch, draw: int, slopes: bool) -> tuple[float, Gradient]:
        if not slopes:  # a tape would keep all that the loss computes
            return float(self._term(term, batch, draw)), {}
        with tf.GradientTape() as tape:
            value = self._term(term, batch, draw)
        return float(value), self._gradient(tape, value)

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
