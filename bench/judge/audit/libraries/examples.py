"""The examples in words: which objective of which library is audited, and the text that it follows."""

from __future__ import annotations

from dataclasses import dataclass

from elbo_audit.errors import unknown_name

N_TRAIN = 60_000  # images of MNIST
BATCH = 128  # rows, unless the library's text names another size
ROWS = 8  # of laplace-torch's batches
WINES = 4163  # rows of the Keras tutorial's training set: 85 % of 4898
HUNDRED = 100  # rows of NumPyro's example, all in one batch


_PACKAGES = {  # by the name that a user gives a library: its name in the package index, and its licence
    "torchbnn": ("torchbnn", "MIT"),
    "bayesian-torch": ("bayesian-torch", "BSD-3-Clause"),
    "blitz": ("blitz-bayesian-pytorch", "GPL-3"),
    "torch-uncertainty": ("torch-uncertainty", "Apache-2.0"),
    "posteriors": ("posteriors", "Apache-2.0"),
    "pyro": ("pyro-ppl", "Apache-2.0"),
    "laplace-torch": ("laplace-torch", "MIT"),
    "torchbayesian": ("torchbayesian", "Apache-2.0"),
    "fastbnns": ("fastbnns", "BSD-3-Clause"),
    "bnn-pytorch": ("bnn-pytorch", "MIT"),
    "bayesnn": ("bayesnn", "MIT"),
    "bayes-regression": ("bayes-regression", "MIT"),
    "lightning-uq-box": ("lightning-uq-box", "Apache-2.0"),
    "tensorflow-probability": ("tensorflow-probability", "Apache-2.0"),
    "numpyro": ("numpyro", "Apache-2.0"),
}


@dataclass(frozen=True)
class Example:
    """One objective of a library, as the library's own text writes it."""

    name: str
    library: str  # as a user calls it
    batch_size: int
    source: str  # the text, and the place in it
    line: str  # the line that says how to train
    change: str  # what makes it an ELBO
    n_train: int = N_TRAIN

    @property
    def package(self) -> str:
        """Return the library's name in the package index."""
        return _PACKAGES[self.library][0]

    @property
    def licence(self) -> str:
        """Return the library's licence."""
        return _PACKAGES[self.library][1]


_PYRO = "no example in the README: a plate of the batch's rows, as for full data"
_PLATE = 'with pyro.plate("data", x.shape[0]): and loss=Trace_ELBO()'
_SCALE = 'with poutine.scale(scale=N / len(x)), pyro.plate("data", len(x)):'
_GUIDES = {  # of Pyro: what is said of the example after `_PYRO`
    "AutoNormal": "",
    "AutoDiagonalNormal": "",
    "AutoMultivariateNormal, 100-10": "; one layer 100-10, because the covariance of 478,410 weights does not fit",
    "AutoLowRankMultivariateNormal, 100-10": "; one layer 100-10, and rank=10 as in its docstring",
    "AutoDelta": "; no distribution, so what counts is the prior's -log p",
}

EXAMPLES = {
    example.name: example
    for example in (
        Example(
            "torchbnn",
            "torchbnn",
            BATCH,
            "demo Bayesian Neural Network Classification (the README has no training code)",
            "cost = ce + kl_weight*kl, with BKLLoss(reduction='mean') and kl_weight = 0.1",
            "BKLLoss(reduction='sum') and kl_weight = 1 / N",
        ),
        Example(
            "bayesian_torch",
            "bayesian-torch",
            BATCH,
            "README, Training snippet",
            "loss = ce_loss + kl / args.batch_size",
            "kl_div returns kl.sum(), and loss = ce_loss + kl / N",
        ),
        Example(
            "bayesian_torch, 2 passes",
            "bayesian-torch",
            BATCH,
            "README, Training snippet, with two passes before one backward",
            "loss = ce_loss + kl / args.batch_size",
            "eps = torch.randn_like(sigma) in the place of self.eps.data.normal_(), or one pass; and the KL as above",
        ),
        Example(
            "blitz",
            "blitz",
            16,
            "README, Our main training and evaluating loop, with CrossEntropyLoss for digits",
            "loss = regressor.sample_elbo(inputs=datapoints, labels=labels, criterion=criterion, sample_nbr=3)",
            "sample_nbr=1 and complexity_cost_weight=1 / N",
        ),
        Example(
            "blitz, 1 sample",
            "blitz",
            16,
            "the same with sample_nbr=1, to see the KL",
            "loss = regressor.sample_elbo(inputs=datapoints, labels=labels, criterion=criterion, sample_nbr=1)",
            "complexity_cost_weight=1 / N",
        ),
        Example(
            "torch-uncertainty",
            "torch-uncertainty",
            BATCH,
            "tutorial Train a Bayesian Neural Network in Three Minutes (the README has no training code)",
            "ELBOLoss(model=model, inner_loss=nn.CrossEntropyLoss(), kl_weight=1 / 10000, num_samples=3)",
            "kl_weight = L / N with L Bayesian layers: ELBOLoss divides the KL by their number",
        ),
        Example(
            "posteriors",
            "posteriors",
            32,
            "README, Quickstart",
            "transform = posteriors.vi.diag.build(log_posterior, torchopt.adam(), temperature=1 / num_data)",
            "none needed; stl=False shows it, whose gradient has the same mean",
        ),
        *(Example(guide, "pyro", BATCH, _PYRO + more, _PLATE, _SCALE) for guide, more in _GUIDES.items()),
        Example(
            "laplace-torch",
            "laplace-torch",
            ROWS,
            "README, Simple usage; the prior's weight beside the data's, of 24 rows",
            'Laplace(model, "classification", subset_of_weights="all", hessian_structure="diag")',
            "none needed; the prior's precision is chosen afterwards",
        ),
        Example(
            "torchbayesian",
            "torchbayesian",
            64,
            "examples/bnn_example.py, with cross-entropy for digits; strict variational inference is not its aim",
            'loss = mse(y, y_pred) + 1e-1 * model.kl_divergence(reduction="mean")',
            "model.kl_divergence() / N beside a mean over rows",
        ),
        Example(
            "fastbnns",
            "fastbnns",
            BATCH,
            "examples/mlp.py, with ten outputs; its likelihood is that of the mean over the weights, without noise",
            "losses.ELBO(torch.nn.GaussianNLLLoss(reduction='sum'), losses.KLDivergence(prior), beta=1.0 / n_batches)",
            "the likelihood of one draw, bnn(x), with a variance of its own; AdamW(weight_decay=0), or it decays rho",
        ),
        Example(
            "bnn-pytorch",
            "bnn-pytorch",
            BATCH,
            "bnn/examples/fully_bayesian.py, with its default prior, a mixture",
            "loss = net_wrapper.fit(x, y, batch_idx=i + 1, total_batches=len(train_loader), samples=1)",
            "none needed",
        ),
        Example(
            "bayesnn",
            "bayesnn",
            BATCH,
            'README, Quickstart, with likelihood="categorical" for digits, and mc=3',
            "criterion = BNN_VBLoss(model, N=1000, mc=50, beta=1.0)",
            "none needed, if N is the number of training rows",
        ),
        Example(
            "bayes-regression",
            "bayes-regression",
            64,
            "README, Training the Model, with CrossEntropyLoss for digits; its default prior is a mixture",
            "trainer.train(X_train, y_train, batch_size=64, epochs=500, samples_nbr=3), whose KL weighs 1 / N",
            "none needed; a mean squared error is a likelihood with variance 1/2",
        ),
        Example(
            "lightning-uq-box",
            "lightning-uq-box",
            BATCH,
            "tutorial classification/bnn_vi_elbo; run on Python 3.11, though it asks for 3.12",
            "BNN_VI_ELBO_Classification(network, criterion=nn.CrossEntropyLoss(), num_mc_samples_train=10): beta=100",
            "num_mc_samples_train=1, kl_div returns kl.sum(), and beta=1",
        ),
        Example(
            "lightning-uq-box, 1 sample",
            "lightning-uq-box",
            BATCH,
            "the same with num_mc_samples_train=1, to see the KL",
            "self.num_training_points * mean_pred_nll_loss + self.beta * mean_kl",
            "kl_div returns kl.sum(), and beta=1",
        ),
        Example(
            "DenseFlipout, docstring",
            "tensorflow-probability",
            BATCH,
            "docstrings of tfp.layers.DenseFlipout and DenseReparameterization, whose biases have no distribution",
            "loss = neg_log_likelihood + kl, a number for each row, with kl = sum(model.losses)",
            "loss = tf.reduce_mean(neg_log_likelihood) + kl / N",
        ),
        Example(
            "DenseFlipout, MNIST",
            "tensorflow-probability",
            BATCH,
            "examples/bayesian_neural_network.py, with dense layers alone; its biases have no distribution",
            "kernel_divergence_fn = kl_divergence(q, p) / NUM_TRAIN_EXAMPLES, and a mean cross-entropy",
            "none needed",
        ),
        Example(
            "DenseVariational",
            "tensorflow-probability",
            256,
            f"keras.io, Probabilistic Bayesian Neural Networks, experiment 2: 11-8-8-1 for N = {WINES:,} wines",
            "tfp.layers.DenseVariational(kl_weight=1 / train_size), and a mean squared error",
            "none needed; a mean squared error is a likelihood with variance 1/2",
            WINES,
        ),
        Example(
            "NUTS",
            "numpyro",
            HUNDRED,
            f"examples/bnn.py: 3-5-5-1 for N = {HUNDRED} rows; it samples, so what counts is the prior's -log p",
            "NUTS(model) on all rows",
            "none needed",
            HUNDRED,
        ),
    )
}


def examples_of(library: str) -> list[Example]:
    """Return the examples of a library, or of all; raises AuditError for an unknown name."""
    known = dict.fromkeys(example.library for example in EXAMPLES.values())
    if library != "all" and library not in known:
        raise unknown_name("library", library, [*known, "all"])
    return [example for example in EXAMPLES.values() if library in ("all", example.library)]
