"""The examples of TensorFlow Probability and of Keras: objectives on its layers.

TensorFlow Probability 0.25 needs tf_keras. A loss with a number for each row is summed, as GradientTape sums it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Protocol

from bench.judge.audit.libraries import library
from bench.judge.audit.libraries.examples import N_TRAIN, WINES
from bench.judge.audit.libraries.foreign import SIZES, ForeignObjective, Rows, digits, numbers

INSTALL = "tensorflow tensorflow-probability tf_keras"
HIDDEN = (8, 8)  # of the Keras tutorial

Divergence = Callable[[object, object, object], object]  # of q and p, and of a draw


def _modules() -> tuple[ModuleType, ModuleType, ModuleType]:
    return library("tensorflow", INSTALL), library("tensorflow_probability", INSTALL), library("tf_keras", INSTALL)


def flipout_docstring(corrected: bool, sizes: Sequence[int] = SIZES) -> ForeignObjective:
    """Return each row's cross-entropy + the whole KL, summed over rows; corrected: mean cross-entropy + KL / N."""
    tf, tfp, keras = _modules()
    model = _flipout(keras, tfp, sizes, {})

    def nll(_: object, x: Rows, y: Rows) -> object:
        return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=model(x)))

    def loss(_: object, x: Rows, y: Rows) -> object:
        rows = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=model(x))
        kl = sum(model.losses)
        return tf.reduce_mean(rows) + kl / N_TRAIN if corrected else tf.reduce_sum(rows + kl)

    return ForeignObjective(model, loss, nll, digits(sizes))


def flipout_mnist(corrected: bool, sizes: Sequence[int] = SIZES) -> ForeignObjective:
    """Return the mean cross-entropy + the layers' losses, each a KL / N."""
    del corrected  # no change is needed
    tf, tfp, keras = _modules()

    def divergence(q: object, p: object, _: object) -> object:
        return tfp.distributions.kl_divergence(q, p) / N_TRAIN

    model = _flipout(keras, tfp, sizes, {"kernel_divergence_fn": divergence})

    def entropies(x: Rows, y: Rows) -> object:
        return keras.losses.categorical_crossentropy(y, model(x), from_logits=True)

    def loss(_: object, x: Rows, y: Rows) -> object:
        return tf.reduce_mean(entropies(x, y)) + sum(model.losses)

    def nll(_: object, x: Rows, y: Rows) -> object:
        return tf.reduce_sum(entropies(x, y))

    return ForeignObjective(model, loss, nll, digits(sizes))


def dense_variational(corrected: bool) -> ForeignObjective:
    """Return the mean squared error + the layers' losses, each a drawn KL of all its weights together / N."""
    del corrected  # no change is needed
    tf, tfp, keras = _modules()

    def prior(n_kernel: int, n_bias: int, dtype: object = None) -> object:
        n = n_kernel + n_bias
        normal = tfp.distributions.MultivariateNormalDiag(tf.zeros(n, dtype), tf.ones(n, dtype))
        return keras.Sequential([tfp.layers.DistributionLambda(lambda _: normal)])

    def posterior(n_kernel: int, n_bias: int, dtype: object = None) -> object:
        n = n_kernel + n_bias
        free = tfp.layers.MultivariateNormalTriL.params_size(n)
        return keras.Sequential([tfp.layers.VariableLayer(free, dtype=dtype), tfp.layers.MultivariateNormalTriL(n)])

    layers = [
        tfp.layers.DenseVariational(width, posterior, prior, kl_weight=1 / WINES, activation="sigmoid")
        for width in HIDDEN
    ]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.build((None, 11))

    def squares(x: Rows, y: Rows) -> object:
        return tf.square(model(x) - y)

    def loss(_: object, x: Rows, y: Rows) -> object:
        return tf.reduce_mean(squares(x, y)) + sum(model.losses)

    def nll(_: object, x: Rows, y: Rows) -> object:
        return tf.reduce_sum(squares(x, y))  # of a likelihood with variance 1/2, without its constant

    def kl(_: object) -> object:
        model(batches[0][0])
        return sum(model.losses) * WINES

    batches = numbers(11, 256)
    return ForeignObjective(model, loss, nll, batches, kl)


class Network(Protocol):
    """What is used of a Keras model."""

    losses: Sequence[float]  # scalar tensors
    trainable_variables: Sequence[object]

    def __call__(self, x: Rows) -> object:
        """Return the outputs of a batch."""


def _flipout(keras: ModuleType, tfp: ModuleType, sizes: Sequence[int], options: Mapping[str, Divergence]) -> Network:
    """Return a network of flipout layers with ReLU between them, as built."""
    hidden = [tfp.layers.DenseFlipout(width, activation="relu", **options) for width in sizes[1:-1]]
    built = keras.Sequential([*hidden, tfp.layers.DenseFlipout(sizes[-1], **options)])
    built.build((None, sizes[0]))
    model: Network = built
    return model


TENSORFLOW: dict[str, Callable[[bool], ForeignObjective]] = {
    "DenseFlipout, docstring": flipout_docstring,
    "DenseFlipout, MNIST": flipout_mnist,
    "DenseVariational": dense_variational,
}
"""By the example's name. Each is called with True for the objective with the change."""
