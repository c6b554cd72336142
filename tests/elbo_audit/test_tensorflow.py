"""The adapter for TensorFlow, on small networks of TensorFlow Probability's layers whose KL's weight is known."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
tf_keras = pytest.importorskip("tf_keras")
tfp = pytest.importorskip("tensorflow_probability")

from elbo_audit import AuditError
from elbo_audit.tensorflow_audits import TensorFlowObjective, audit_tensorflow

N, B = 600, 20
SOURCE = np.random.default_rng(0)
X = SOURCE.normal(size=(N, 5)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)
BATCHES = [(X[start : start + B], Y[start : start + B]) for start in (0, B, 2 * B)]
CROSS_ENTROPY = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LAYERS = tfp.layers


def network(kind, divisor):
    """Return a network of two layers, each with its KL divided."""

    def divergence(posterior, prior, _):
        return tfp.distributions.kl_divergence(posterior, prior) / divisor

    layers = [kind(8, activation="tanh", kernel_divergence_fn=divergence), kind(2, kernel_divergence_fn=divergence)]
    model = tf_keras.Sequential(layers)
    model(X[:2])
    return model


def loss_and_nll(model):
    return (
        lambda x, y: CROSS_ENTROPY(y, model(x)) + tf.add_n(model.losses),
        lambda x, y: x.shape[0] * CROSS_ENTROPY(y, model(x)),
    )


# a mean over rows: KL / N is an ELBO, KL / B counts it N / B = 30 times an epoch
@pytest.mark.parametrize(("divisor", "times"), [(N, 1.0), (B, 30.0)])
@pytest.mark.parametrize("kind", [LAYERS.DenseFlipout, LAYERS.DenseReparameterization])
@pytest.mark.parametrize("are_layers_known", [True, False])  # else the variables' names say what is Gaussian
def test_layers_with_their_divergence(divisor, times, kind, are_layers_known):
    model = network(kind, divisor)
    loss, nll = loss_and_nll(model)
    given = model if are_layers_known else None
    report = audit_tensorflow(loss, model.trainable_variables, BATCHES, N, nll=nll, model=given, prior_std=1.0)
    # tolerance: float32 keeps 6 digits of a gradient; differences of losses lose three of them
    assert report.numbers["kl_per_epoch"] == pytest.approx(times, rel=1e-2)
    assert report.ok == (times == 1.0)
    assert len(report.kl_weights) == 2


def test_a_forgotten_divergence():
    """The pattern of many questions: the loss leaves `model.losses` out, so that no KL counts."""
    model = network(LAYERS.DenseFlipout, N)
    _, nll = loss_and_nll(model)
    report = audit_tensorflow(lambda x, y: nll(x, y) / B, model.trainable_variables, BATCHES, N, nll=nll, model=model)
    assert report.of("kl-scale").outcome == "fails"


def posterior(kernel_size, bias_size=0, dtype=None):
    n = kernel_size + bias_size
    return tf_keras.Sequential(
        [
            LAYERS.VariableLayer(2 * n, dtype=dtype),
            LAYERS.DistributionLambda(
                lambda t: tfp.distributions.Independent(
                    tfp.distributions.Normal(t[..., :n], 1e-5 + tf.nn.softplus(t[..., n:])), 1
                )
            ),
        ]
    )


def prior(kernel_size, bias_size=0, dtype=None):
    n = kernel_size + bias_size
    return lambda t: tfp.distributions.Independent(tfp.distributions.Normal(tf.zeros(n), 1.0), 1)


def test_dense_variational_and_functions_that_are_graphs():
    """Its posterior is one variable for means and scales. A graph function keeps its noise unless it runs eagerly."""
    layer = LAYERS.DenseVariational(2, posterior, prior, kl_weight=1 / N, kl_use_exact=True)
    model = tf_keras.Sequential([layer])
    model(X[:2])
    loss, nll = map(tf.function, loss_and_nll(model))
    report = audit_tensorflow(loss, model.trainable_variables, BATCHES, N, nll=nll, model=model)
    assert report.numbers["kl_per_epoch"] == pytest.approx(1, rel=1e-2)  # tolerance: as above
    assert report.ok


@pytest.mark.parametrize("kind", [LAYERS.DenseFlipout, LAYERS.DenseReparameterization])
def test_a_loss_has_the_same_number_with_its_gradient_and_without(kind):
    model = network(kind, N)
    loss, nll = loss_and_nll(model)
    objective = TensorFlowObjective(loss, model.trainable_variables, BATCHES, nll)
    for term in ("loss", "nll"):
        values = [objective._evaluate(term, BATCHES[0], draw, True)[0] for draw in range(3)]
        assert values == [objective._evaluate(term, BATCHES[0], draw, False)[0] for draw in range(3)]
        assert len(set(values)) == 3


def test_a_cut_gradient_is_named_in_tensorflows_words_and_the_number_of_batches_is_taken():
    model = network(LAYERS.DenseReparameterization, N)
    loss, nll = loss_and_nll(model)

    def cut(x, y):
        return loss(x, y) - tf.stop_gradient(tf.add_n(model.losses)) / 2

    def audit(term, **options):
        return audit_tensorflow(term, model.trainable_variables, BATCHES, N, nll=nll, model=model, **options)

    answer = audit(cut).of("detached-gradient")
    assert answer.outcome == "fails"
    assert "remove tf.stop_gradient between parameter and loss" in answer.words()
    with pytest.raises(AuditError, match="n_batches is 12"):
        audit(loss, n_batches=12)


def test_what_cannot_be_audited_is_one_line():
    with pytest.raises(AuditError, match="no variable was given"):
        audit_tensorflow(lambda x, y: 0.0, [], BATCHES, N)
    with pytest.raises(AuditError, match="it must return one number"):
        audit_tensorflow(lambda x, y: x * tf.Variable(1.0), [tf.Variable(1.0)], BATCHES, N)
