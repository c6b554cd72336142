"""Objectives in TensorFlow Probability with one mistake each."""

import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras

from tests.elbo_audit_field.case import case, labelled, measured
from tests.elbo_audit_field.tfp_cases import (
    BayesDense,
    bayes_dense_kl,
    posterior_kl,
    seeded,
)

tfd, tfpl = tfp.distributions, tfp.layers


def class_nll(model, x, y):
    """Return the summed cross-entropy of one draw."""
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x)))


@case(
    "tfp_losses_not_scaled",
    "tfp",
    right=False,
    mistake="weight",
    kl_per_epoch=4000.0,
    mends=1 / 4000,
    truth="the KL counts N = 4,000 times an epoch: model.losses are added whole to a mean loss",
)
def losses_not_scaled():
    """DenseFlipout with the default divergence, and the mean loss plus the sum of model.losses."""
    # B * loss = summed NLL + B * KL, and the B add up to N = 4,000.
    tf.random.set_seed(11)
    model = tf_keras.Sequential([tfpl.DenseFlipout(14, activation="relu"), tfpl.DenseFlipout(5)])
    loss_fn = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss(x, y):
        logits = model(x, training=True)
        loss_value = loss_fn(y, logits)
        return loss_value + sum(model.losses)

    def pieces(x, y):
        return class_nll(model, x, y), sum(posterior_kl(each.kernel_posterior) for each in model.layers)

    return seeded(11, model, labelled([80, 80, 80], 7, 5, 51)) | dict(loss=loss, n_train=4000, pieces=pieces)


class LogSigmaDense(BayesDense):
    """A layer whose closed KL takes log sigma where the formula has log sigma^2."""

    def kl(self, mu, sigma):
        return 0.5 * tf.reduce_sum(sigma**2 + mu**2 - 1.0 - tf.math.log(sigma))


@case(
    "tfp_half_the_entropy",
    "tfp",
    right=False,
    mistake="entropy",
    truth="log sigma stands where log sigma^2 is meant: the entropy counts half",
)
def half_the_entropy():
    """A closed KL 0.5 * sum(s^2 + m^2 - 1 - log s), from the formula with log variances."""
    # The right term is -0.5 * log(s^2) = -log s; here -0.5 * log s. Without data, s^2 goes to 1/2 in place of 1.
    tf.random.set_seed(12)
    n = 1000
    model = tf_keras.Sequential([LogSigmaDense(10, n, activation="tanh"), LogSigmaDense(3, n)])

    def loss(x, y):
        return class_nll(model, x, y) / len(x) + tf.add_n(model.losses)

    def pieces(x, y):
        return class_nll(model, x, y), sum(bayes_dense_kl(each) for each in model.layers)

    def check():
        model(given["batches"][0][0])
        halves = [
            tf.reduce_sum(tf.math.log(tf.nn.softplus(r))) / 2 for m in model.layers for r in (m.kernel_rho, m.bias_rho)
        ]
        right = sum(bayes_dense_kl(each) for each in model.layers)
        return [("KL with half the entropy", n * float(sum(model.losses)), float(right + sum(halves)))]

    given = seeded(12, model, labelled([50, 50, 50], 6, 3, 52))
    return given | dict(loss=loss, n_train=n, nll=lambda x, y: class_nll(model, x, y), pieces=pieces, check=check)


@case(
    "tfp_softmax_as_logits",
    "tfp",
    right=False,
    mistake="likelihood",
    truth="softmax outputs go to a loss that takes logits: softmax is applied twice",
)
def softmax_as_logits():
    """A model that ends in tf.nn.softmax, and a cross-entropy from logits."""
    # The second softmax of probabilities of 4 classes lies between 1 / (e + 3) and e / (e + 3).
    tf.random.set_seed(13)
    n = 1500
    model = tf_keras.Sequential([BayesDense(12, n, activation="relu"), BayesDense(4, n)])

    def loss(x, y):
        probabilities = tf.nn.softmax(model(x))
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=probabilities)
        return tf.reduce_mean(ce) + sum(model.losses)

    def pieces(x, y):
        return class_nll(model, x, y), sum(bayes_dense_kl(each) for each in model.layers)

    given = seeded(13, model, labelled([50, 50, 50], 6, 4, 53))
    return given | dict(loss=loss, n_train=n, nll=lambda x, y: class_nll(model, x, y), pieces=pieces)


@case(
    "tfp_rows_broadcast",
    "tfp",
    right=False,
    mistake="rows",
    truth="log_prob of targets [B] under means [B, 1] is [B, B]: each row is scored with all targets",
)
def rows_broadcast():
    """A distribution with batch shape [B, 1], targets [B], and the mean of -log p over whatever comes out."""
    # The mean over [B, B] pairs each mean with every target; the weight of the KL, 1 / N, is right.
    tf.random.set_seed(14)
    n = 500
    to_normal = tfpl.DistributionLambda(lambda t: tfd.Normal(loc=t, scale=0.2))
    model = tf_keras.Sequential([BayesDense(10, n, activation="relu"), BayesDense(1, n), to_normal])

    def loss(x, y):
        return tf.reduce_mean(-model(x).log_prob(y)) + sum(model.losses)

    def pieces(x, y):
        nll = -tf.reduce_sum(model(x).log_prob(y[:, None]))
        return nll, sum(bayes_dense_kl(each) for each in model.layers[:2])

    batches = [(x, y[:, 0]) for x, y in measured([50, 50, 50], 4, 1, 54, 0.2)]
    return seeded(14, model, batches) | dict(loss=loss, n_train=n, pieces=pieces)


@case(
    "tfp_losses_of_last_layer",
    "tfp",
    right=False,
    mistake="missing KL",
    truth="only the last layer's losses are added: the first layer's KL counts 0 times",
)
def losses_of_last_layer():
    """model.layers[-1].losses in the place of model.losses."""
    # The last layer's KL over 20 batches of 50 of 1,000 rows is right; nothing holds the first layer's weights.
    tf.random.set_seed(15)
    model = tf_keras.Sequential([tfpl.DenseReparameterization(9, activation="tanh"), tfpl.DenseReparameterization(3)])

    def nll(x, y):
        return class_nll(model, x, y)

    def loss(x, y):
        likelihood = nll(x, y)
        return likelihood + sum(model.layers[-1].losses) / 20

    def pieces(x, y):
        return nll(x, y), sum(posterior_kl(each.kernel_posterior) for each in model.layers)

    def check():
        model(given["batches"][0][0])
        last = sum(model.layers[-1].losses)
        return [("the KL that is added", float(last), float(posterior_kl(model.layers[-1].kernel_posterior)))]

    given = seeded(15, model, labelled([50, 50, 50], 5, 3, 55))
    return given | dict(loss=loss, n_train=1000, nll=nll, pieces=pieces, check=check)


@case(
    "tfp_kl_as_a_number",
    "tfp",
    right=False,
    mistake="gradient",
    truth="the KL is added as a NumPy number: its value is right, its gradient is 0",
)
def kl_as_a_number():
    """The loop takes the KL out with .numpy() to print it, and adds the printed number to the loss."""
    # N / B * NLL + KL in value; d loss / d rho is that of the likelihood alone, so sigma shrinks to 0.
    tf.random.set_seed(16)
    model = tf_keras.Sequential([BayesDense(8, 1.0, activation="tanh"), BayesDense(2, 1.0)])

    def nll(x, y):
        return -tf.reduce_sum(tfd.Normal(model(x), 0.25).log_prob(y))

    def loss(x, y):
        data = nll(x, y) * 800 / x.shape[0]
        kl = sum(model.losses).numpy()
        return data + kl

    def check():
        x, y = given["batches"][0]
        gradients = []
        for function in (loss, lambda x, y: nll(x, y) * 800 / x.shape[0]):
            tf.random.set_seed(5)
            with tf.GradientTape() as tape:
                value = function(x, y)
            gradients.append(float(tf.linalg.global_norm(tape.gradient(value, model.trainable_variables))))
        return [("the gradient and that of the likelihood", *gradients)]

    def pieces(x, y):
        return nll(x, y), sum(bayes_dense_kl(each) for each in model.layers)

    given = seeded(16, model, measured([40, 40, 40], 4, 2, 56, 0.25))
    return given | dict(loss=loss, n_train=800, nll=nll, pieces=pieces, check=check)


@case(
    "tfp_prior_variance_as_scale",
    "tfp",
    right=False,
    mistake="prior",
    truth="the prior has scale 0.3^2 = 0.09: tfd.Normal takes an sd, 0.3, and gets its square",
)
def prior_variance_as_scale():
    """A documented prior N(0, 0.3^2), written as tfd.Normal(0, 0.3 ** 2)."""
    # The KL is to N(0, 0.09), the documented one to N(0, 0.3): a ratio of 11 in the squared means' weight.
    tf.random.set_seed(17)
    n, prior_std = 1200, 0.3
    model = tf_keras.Sequential([BayesDense(9, n, prior_std**2, "relu"), BayesDense(3, n, prior_std**2)])

    def loss(x, y):
        return class_nll(model, x, y) / tf.cast(len(y), tf.float32) + sum(model.losses)

    def check():
        model(given["batches"][0][0])
        narrow = sum(bayes_dense_kl(each, 0.09) for each in model.layers)
        return [("the KL is to N(0, 0.09)", n * float(sum(model.losses)), float(narrow))]

    def pieces(x, y):
        return class_nll(model, x, y), sum(bayes_dense_kl(each, prior_std) for each in model.layers)

    given = seeded(17, model, labelled([60, 60, 60], 6, 3, 57))
    given |= dict(loss=loss, n_train=n, nll=lambda x, y: class_nll(model, x, y), prior_std=prior_std)
    return given | dict(pieces=pieces, check=check)


class FrozenNoiseDense(BayesDense):
    """A layer that draws its noise when it is built and keeps it."""

    def build(self, input_shape):
        super().build(input_shape)
        self.kernel_eps = tf.random.normal(self.kernel_mu.shape)
        self.bias_eps = tf.random.normal(self.bias_mu.shape)

    def noise(self, like):
        return self.kernel_eps if len(like.shape) == 2 else self.bias_eps


@case(
    "tfp_noise_drawn_at_build",
    "tfp",
    right=False,
    mistake="noise",
    truth="epsilon is drawn once, when the layers are built, and is the same in all steps",
)
def noise_drawn_at_build():
    """Layers that keep the epsilon of their build."""
    # mu + sigma * eps with a fixed eps is a point estimate; the loss has no randomness. KL / N is right in value.
    tf.random.set_seed(18)
    n = 700
    model = tf_keras.Sequential([FrozenNoiseDense(8, n, activation="tanh"), FrozenNoiseDense(3, n)])

    def loss(x, y):
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x))
        return tf.reduce_mean(ce) + sum(model.losses)

    def check():
        values = []
        for seed in (1, 2):
            tf.random.set_seed(seed)
            values.append(float(loss(*given["batches"][0])))
        return [("the loss with two seeds", *values)]

    given = seeded(18, model, labelled([70, 70, 70], 5, 3, 58))
    return given | dict(loss=loss, n_train=n, check=check)
