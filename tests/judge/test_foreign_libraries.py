"""Examples in TensorFlow and JAX: how often an epoch counts the KL, by loss - NLL and exact KLs, not by the auditor."""

import math
import sys

import numpy as np
import pytest

from bench.judge.audit.libraries import foreign, library, tensorflow_objectives
from bench.judge.audit.libraries.examples import EXAMPLES
from bench.judge.audit.libraries.foreign_audits import FOREIGN
from elbo_audit.errors import MissingLibrary

pytestmark = [  # two warnings about what TensorFlow Probability itself calls
    pytest.mark.filterwarnings("ignore:.*layer.add_variable. is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:The initializer RandomNormal is unseeded:UserWarning"),
]

N = 60_000
SIZES = (6, 30, 30, 30)
# tolerance: losses of 6e5 at most, rounded at 6e-8 of it, beside 128 KLs that are nearly all of it; or loss - NLL,
# 1e-2 of the loss and rounded at 6e-6 of itself. Sums over rows add rounding: a hundred times that
FLOAT32 = 1e-3

per_epoch = {  # how often an epoch counts the KL, from the line that the example follows
    "DenseFlipout, docstring": N,  # the whole KL for each row
    "DenseFlipout, MNIST": 1.0,
    "DenseVariational": 1.0,
    "NUTS": 1.0,  # the prior
}


def made(make, *arguments, **options):
    try:
        return make(*arguments, **options)
    except MissingLibrary as error:
        pytest.skip(str(error))


def values(objective, batch, seed=1):
    """Return loss and NLL of a batch under one noise."""
    for part in (objective.loss, objective.nll):
        if "tensorflow" in sys.modules:  # it has the objective's noise, if there is any
            sys.modules["tensorflow"].random.set_seed(seed)
        yield float(np.asarray(part(objective.parameters, *batch)))


def counted(objective, kl):
    """Return how often an epoch of N / B batches counts this KL while it counts the data once.

    The slope of the loss on the NLL, between two batches under one noise, is 1 for a sum over rows, 1 / B for a mean.
    The second batch has inputs 1e5 times as large, so that its NLL is, too: a loss of 6e5 has steps of .06 in float32,
    and whichever weights a network begins with, the NLLs differ by far more than 1e3 such steps.
    """
    x, y = objective.batches[0]
    n_rows = len(x)
    (loss, nll), (other_loss, other_nll) = (values(objective, batch) for batch in ((x, y), (1e5 * x, y)))
    slope = (loss - other_loss) / (nll - other_nll)
    weight = min((1.0, 1 / n_rows), key=lambda exact: abs(exact - slope))
    assert slope == pytest.approx(weight, rel=0.01)  # tolerance: ten of 1e3 steps
    return (loss - weight * nll) / kl / weight * N / n_rows


def kl_of(mean, std):
    """Return KL(N(mean, std) || N(0, 1)), summed over the weights: the textbook's formula."""
    return float((-np.log(std) + (std**2 + mean**2) / 2 - 0.5).sum())


def as_float64(tensor):
    return np.asarray(tensor.numpy(), dtype=np.float64)


def test_every_example_has_code_and_a_number():
    assert FOREIGN.keys() == per_epoch.keys() == {*tensorflow_objectives.TENSORFLOW, "NUTS"}


@pytest.mark.parametrize(("name", "make"), [*tensorflow_objectives.TENSORFLOW.items()][:2])
def test_flipout_layers_count_the_kl_as_their_texts_say(name, make):
    objective = made(make, False, sizes=SIZES)
    variables = [as_float64(value) for value in objective.parameters.trainable_variables]
    # of each layer: the kernel's mean and its scale before softplus, and the bias, which has no distribution
    kernels = list(zip(variables[0::3], variables[1::3], strict=True))
    kl = sum(kl_of(mean, np.finfo(np.float32).eps + np.log1p(np.exp(raw))) for mean, raw in kernels)
    assert counted(objective, kl) == pytest.approx(per_epoch[name], rel=FLOAT32)


def test_the_docstring_is_an_elbo_after_its_change():
    objective = made(tensorflow_objectives.flipout_docstring, True, sizes=SIZES)
    layers = objective.parameters.layers
    kl = sum(kl_of(as_float64(q.mean()), as_float64(q.stddev())) for q in (one.kernel_posterior for one in layers))
    assert counted(objective, kl) == pytest.approx(1.0, rel=FLOAT32)


def test_dense_variational_counts_its_drawn_kl_once():
    """Its KL is log q - log p of the draw z that makes the outputs.

    With S the Cholesky factor and z = mean + S e, this is (|z|^2 - |e|^2) / 2 - sum of log |S_ii|.
    """
    objective = made(tensorflow_objectives.dense_variational, False)
    convert, drawn = library("tensorflow").convert_to_tensor, []
    for layer in objective.parameters.layers[:2]:
        layer._posterior = recorded(layer._posterior, drawn)
    loss, nll = values(objective, objective.batches[0])
    kl = 0.0
    for q in drawn[:2]:  # of the loss; two more are of the NLL
        z, mean, root = (as_float64(part) for part in (convert(q), q.loc, q.scale.to_dense()))
        noise = np.linalg.solve(root, z - mean)
        kl += (np.square(z).sum() - np.square(noise).sum()) / 2 - np.log(np.abs(np.diag(root))).sum()
    n_wines = EXAMPLES["DenseVariational"].n_train
    assert (loss - nll / 256) / kl * n_wines == pytest.approx(per_epoch["DenseVariational"], rel=FLOAT32)


def recorded(function, kept):
    def call(given):
        kept.append(function(given))
        return kept[-1]

    return call


def test_layers_of_one_shape_start_alike():
    """TensorFlow Probability's layers share an initialiser without seed: in tf_keras it draws the same again."""
    objective = made(tensorflow_objectives.flipout_docstring, False, sizes=SIZES)
    second, third = (as_float64(layer.kernel_posterior.mean()) for layer in objective.parameters.layers[1:])
    assert second.shape == third.shape
    assert np.array_equal(second, third)


def test_a_taken_part_of_a_shuffled_dataset_is_another_part_in_each_epoch():
    """The Keras tutorial trains on a 30 % subset: shuffle, then take.

    Ten draws of 300 of 1000 rows leave a row out with chance .7^10, so that 972 are seen, with a standard deviation
    below sqrt(1000 .7^10 (1 - .7^10)) = 5.2.
    """
    try:
        import tensorflow as tf
    except ImportError:
        pytest.skip("TensorFlow is not installed")
    rows = tf.data.Dataset.range(1000).shuffle(1000, seed=0).batch(100)
    part = rows.unbatch().take(300).batch(100)
    seen = {int(row) for _ in range(10) for batch in part for row in batch}
    assert abs(len(seen) - 1000 * (1 - 0.7**10)) < 6 * 5.2  # tolerance: six standard deviations


def test_nuts_counts_the_prior_once():
    objective = made(foreign.nuts, False)
    loss, nll = values(objective, objective.batches[0])
    weights = [np.asarray(value, dtype=np.float64) for name, value in objective.parameters.items() if "weights" in name]
    normal = sum((np.square(value) / 2 + math.log(2 * math.pi) / 2).sum() for value in weights)
    precision = float(objective.parameters["precision"])
    gamma = math.lgamma(3) - 2 * math.log(precision) + precision  # -log of p^2 exp(-p) / Gamma(3)
    assert (loss - nll) / (normal + gamma) == pytest.approx(per_epoch["NUTS"], rel=FLOAT32)
