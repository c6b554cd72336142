"""Right objectives in TensorFlow Probability, with Keras 2 layers."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras

from tests.elbo_audit_field.case import case, labelled, measured

tfd, tfpl = tfp.distributions, tfp.layers


def tensors(batches):
    """Return the batches as tensors."""
    return [tuple(tf.constant(each) for each in batch) for batch in batches]


def textbook_kl(mu, sigma, prior_sd):
    """Return KL(N(mu, sigma) || N(0, prior_sd)), summed, for the verification."""
    return tf.reduce_sum(tf.math.log(prior_sd / sigma) + (sigma**2 + mu**2) / (2 * prior_sd**2) - 0.5)


def posterior_kl(posterior, prior_sd=1.0):
    """Return the KL of a layer's Gaussian posterior to N(0, prior_sd)."""
    return textbook_kl(posterior.mean(), posterior.stddev(), prior_sd)


def seeded(seed, model, batches):
    """Seed, build the model's variables with the first batch, and return model, variables and batches as arguments."""
    tf.random.set_seed(seed)
    batches = tensors(batches)
    model(batches[0][0])
    return dict(model=model, variables=model.trainable_variables, batches=batches)


@case("tfp_flipout_kl_over_n", "tfp", right=True, kl_per_epoch=1.0, truth="mean loss and KL / N: the KL counts once")
def flipout_kl_over_n():
    """DenseFlipout layers whose divergence function divides by the number of rows, beside a mean cross-entropy."""
    # Biases are points without a divergence. B * loss = summed NLL + KL * B / N; the B add up to N = 2,000.
    tf.random.set_seed(1)
    divergence = lambda q, p, _: tfd.kl_divergence(q, p) / tf.cast(2000, tf.float32)  # noqa: E731
    model = tf_keras.Sequential(
        [
            tfpl.DenseFlipout(12, activation="relu", kernel_divergence_fn=divergence),
            tfpl.DenseFlipout(4, kernel_divergence_fn=divergence),
        ]
    )
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss(x, y):
        logits = model(x, training=True)
        return cross_entropy(y, logits) + tf.add_n(model.losses)

    def nll(x, y):
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True)))

    given = seeded(1, model, labelled([100, 100, 100], 6, 4, 41))

    def pieces(x, y):
        return nll(x, y), sum(posterior_kl(each.kernel_posterior) for each in model.layers)

    return given | dict(loss=loss, n_train=2000, nll=nll, pieces=pieces)


@case("tfp_reparameterised_sum", "tfp", right=True, kl_per_epoch=1.0, truth="summed NLL and losses over the 12 batches")
def reparameterised_sum():
    """DenseReparameterization with random biases; a summed Gaussian NLL and model.losses over the number of batches."""
    # 600 rows in batches of 50 are 12 batches, each with a twelfth of the KL of kernels and biases.
    tf.random.set_seed(2)
    random_bias = dict(
        bias_posterior_fn=tfpl.default_mean_field_normal_fn(), bias_prior_fn=tfpl.default_multivariate_normal_fn
    )
    model = tf_keras.Sequential(
        [
            tfpl.DenseReparameterization(10, activation=tf.nn.tanh, **random_bias),
            tfpl.DenseReparameterization(1, **random_bias),
        ]
    )
    num_batches = 600 // 50

    def nll(x, y):
        return -tf.reduce_sum(tfd.Normal(model(x), 0.1).log_prob(y))

    def loss(x, y):
        negative_log_likelihood = nll(x, y)
        return negative_log_likelihood + sum(model.losses) / num_batches

    def pieces(x, y):
        posteriors = [q for each in model.layers for q in (each.kernel_posterior, each.bias_posterior)]
        return nll(x, y), sum(map(posterior_kl, posteriors))

    given = seeded(2, model, measured([50, 50, 50], 3, 1, 42))
    return given | dict(loss=loss, n_train=600, nll=nll, pieces=pieces)


def mean_field(kernel_size, bias_size=0, dtype=None):
    """Return a posterior with one variable that holds means and untransformed scales."""
    n = kernel_size + bias_size

    def distribution(t):
        return tfd.Independent(tfd.Normal(t[..., :n], 1e-5 + tf.nn.softplus(t[..., n:] - 2.5)), 1)

    return tf_keras.Sequential([tfpl.VariableLayer(2 * n, dtype=dtype), tfpl.DistributionLambda(distribution)])


def trainable_prior(kernel_size, bias_size=0, dtype=None):
    """Return a prior with scale 1 and means that are learned."""
    n = kernel_size + bias_size
    to_normal = tfpl.DistributionLambda(lambda t: tfd.Independent(tfd.Normal(t, 1.0), 1))
    return tf_keras.Sequential([tfpl.VariableLayer(n, dtype=dtype), to_normal])


@case("tfp_dense_variational", "tfp", right=True, kl_per_epoch=1.0, truth="kl_weight = 1 / N beside a mean: once")
def dense_variational():
    """Regression of the DenseVariational kind: learned prior means, a distribution as the output, a sampled KL."""
    # kl_weight 1 / 150 and the mean of -log p over the rows; kl_use_exact is False, so it is log q - log p of the draw.
    tf.random.set_seed(3)
    n = 150
    model = tf_keras.Sequential(
        [
            tfpl.DenseVariational(2, mean_field, trainable_prior, kl_weight=1 / n),
            tfpl.DistributionLambda(lambda t: tfd.Normal(t[..., :1], 1e-3 + tf.nn.softplus(0.1 * t[..., 1:]))),
        ]
    )

    def negloglik(y, rv_y):
        return -rv_y.log_prob(y)

    def loss(x, y):
        return tf.reduce_mean(negloglik(y, model(x))) + sum(model.losses)

    def nll(x, y):
        return tf.reduce_sum(negloglik(y, model(x)))

    given = seeded(3, model, measured([30, 30, 30], 2, 1, 43, 0.3))

    def pieces(x, y):
        value = nll(x, y)
        return value, n * tf.add_n(model.losses)

    def check():
        x = given["batches"][0][0]
        q, p = model.layers[0]._posterior(x), model.layers[0]._prior(x)
        exact = textbook_kl(q.mean() - p.mean(), q.stddev(), 1.0)
        draws = []
        for _ in range(400):
            model(x)
            draws.append(n * float(model.losses[0]))
        return [("mean of the sampled KL", np.mean(draws), float(exact), 5 * np.std(draws) / 20)]

    return given | dict(loss=loss, n_train=n, nll=nll, pieces=pieces, check=check)


class BayesDense(tf_keras.layers.Layer):
    """A dense layer with softplus scales that adds its KL over the number of rows to the model's losses."""

    def __init__(self, units, n_train, prior_sigma=1.0, activation=None, **kwargs):
        super().__init__(**kwargs)
        self.units, self.n_train, self.prior_sigma = units, n_train, prior_sigma
        self.activation = tf_keras.activations.get(activation)

    def build(self, input_shape):
        normal = tf_keras.initializers.RandomNormal(stddev=0.1)
        constant = tf_keras.initializers.Constant(-3.0)
        shape = (input_shape[-1], self.units)
        self.kernel_mu = self.add_weight(name="kernel_mu", shape=shape, initializer=normal)
        self.kernel_rho = self.add_weight(name="kernel_rho", shape=shape, initializer=constant)
        self.bias_mu = self.add_weight(name="bias_mu", shape=(self.units,), initializer=normal)
        self.bias_rho = self.add_weight(name="bias_rho", shape=(self.units,), initializer=constant)

    def kl(self, mu, sigma):
        return tf.reduce_sum(tfd.kl_divergence(tfd.Normal(mu, sigma), tfd.Normal(0.0, self.prior_sigma)))

    def noise(self, like):
        return tf.random.normal(tf.shape(like))

    def call(self, inputs):
        kernel_sigma, bias_sigma = tf.nn.softplus(self.kernel_rho), tf.nn.softplus(self.bias_rho)
        kernel = self.kernel_mu + kernel_sigma * self.noise(self.kernel_mu)
        bias = self.bias_mu + bias_sigma * self.noise(self.bias_mu)
        self.add_loss((self.kl(self.kernel_mu, kernel_sigma) + self.kl(self.bias_mu, bias_sigma)) / self.n_train)
        return self.activation(inputs @ kernel + bias)


def bayes_dense_kl(layer, prior_sd=1.0):
    """Return the KL of a BayesDense layer in closed form."""
    weights = textbook_kl(layer.kernel_mu, tf.nn.softplus(layer.kernel_rho), prior_sd)
    return weights + textbook_kl(layer.bias_mu, tf.nn.softplus(layer.bias_rho), prior_sd)


@case("tfp_own_layer", "tfp", right=True, kl_per_epoch=1.0, truth="mean loss and KL / N from add_loss: once")
def own_layer():
    """Layers of one's own with add_loss(KL / N), a functional model and the mean loss that compile would use."""
    # N = 1,280; B * loss = summed NLL + KL * B / N.
    tf.random.set_seed(4)
    inputs = tf_keras.Input((8,))
    hidden = BayesDense(10, 1280, activation="relu")(inputs)
    model = tf_keras.Model(inputs, BayesDense(3, 1280)(hidden))
    objective = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss(x, y):
        return objective(y, model(x, training=True)) + sum(model.losses)

    def pieces(x, y):
        log_p = tf.nn.log_softmax(model(x, training=True))
        nll = -tf.reduce_sum(tf.gather(log_p, y, batch_dims=1))
        return nll, sum(bayes_dense_kl(each) for each in model.layers[1:])

    return seeded(4, model, labelled([64, 64, 64], 8, 3, 44)) | dict(loss=loss, n_train=1280, pieces=pieces)


@case("tfp_local_unequal_batches", "tfp", right=True, kl_per_epoch=1.0, truth="KL / N beside means of unequal batches")
def local_unequal_batches():
    """DenseLocalReparameterization, a binary target, the mean loss plus KL / N; the last batch is smaller."""
    # B * loss = summed NLL + KL * B / N: with 60, 60, 60 and 40 rows of 220 the shares add up to 1.
    tf.random.set_seed(5)
    model = tf_keras.Sequential(
        [tfpl.DenseLocalReparameterization(9, activation="elu"), tfpl.DenseLocalReparameterization(1)]
    )

    def loss(x, y):
        logits = tf.squeeze(model(x), axis=-1)
        bce = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(y, tf.float32), logits=logits)
        return tf.reduce_mean(bce) + tf.reduce_sum(model.losses) / 220.0

    def nll(x, y):
        return -tf.reduce_sum(tfd.Bernoulli(logits=model(x)[:, 0]).log_prob(y))

    def pieces(x, y):
        return nll(x, y), sum(posterior_kl(each.kernel_posterior) for each in model.layers)

    given = seeded(5, model, labelled([60, 60, 60, 40], 5, 2, 45))
    return given | dict(loss=loss, n_train=220, nll=nll, pieces=pieces)


@case(
    "tfp_three_passes", "tfp", right=True, kl_per_epoch=1.0, truth="the losses of one pass over N: the KL counts once"
)
def three_passes():
    """The mean NLL of three passes, and the model's losses, which Keras clears at each call, once."""
    # model.losses are those of the last call: one KL over N = 900, not three.
    tf.random.set_seed(6)
    model = tf_keras.Sequential([BayesDense(8, 900, 0.5, "tanh"), BayesDense(5, 900, 0.5)])
    samples = 3

    def nll(x, y):
        total = 0.0
        for _ in range(samples):
            total += -tf.reduce_sum(tfd.OneHotCategorical(logits=model(x)).log_prob(tf.one_hot(y, 5)))
        return total / samples

    def loss(x, y):
        data = nll(x, y) / tf.cast(tf.shape(x)[0], tf.float32)
        return data + tf.math.add_n(model.losses)

    def pieces(x, y):
        return nll(x, y), sum(bayes_dense_kl(each, 0.5) for each in model.layers)

    given = seeded(6, model, labelled([90, 90, 90], 6, 5, 46))
    return given | dict(loss=loss, n_train=900, nll=nll, pieces=pieces)


@case("tfp_full_covariance", "tfp", right=True, kl_per_epoch=1.0, truth="kl_weight = B / N beside a sum: once")
def full_covariance():
    """DenseVariational with a lower triangular posterior and the exact KL, weighted by B / N, and a summed NLL."""
    # 25 of 200 rows a batch: eight batches with KL / 8 each.
    tf.random.set_seed(7)

    def posterior(kernel_size, bias_size=0, dtype=None):
        n = kernel_size + bias_size
        size = tfpl.MultivariateNormalTriL.params_size(n)
        start = tf_keras.initializers.RandomNormal(stddev=0.1)
        return tf_keras.Sequential(
            [tfpl.VariableLayer(size, dtype=dtype, initializer=start), tfpl.MultivariateNormalTriL(n)]
        )

    def prior(kernel_size, bias_size=0, dtype=None):
        return lambda _: tfd.MultivariateNormalDiag(tf.zeros(kernel_size + bias_size), tf.ones(kernel_size + bias_size))

    layer = tfpl.DenseVariational(1, posterior, prior, kl_weight=25 / 200, kl_use_exact=True)
    model = tf_keras.Sequential([layer])

    def nll(x, y):
        return -tf.reduce_sum(tfd.Normal(model(x), 0.3).log_prob(y))

    def loss(x, y):
        return nll(x, y) + model.losses[0]

    def pieces(x, y):
        value, q = nll(x, y), layer._posterior(x)
        m, cov = q.mean(), q.covariance()
        kl = 0.5 * (tf.linalg.trace(cov) + tf.reduce_sum(m**2) - 5 - tf.linalg.logdet(cov))
        return value, kl

    return seeded(7, model, measured([25, 25, 25], 4, 1, 47, 0.3)) | dict(
        loss=loss, n_train=200, nll=nll, pieces=pieces
    )
