"""How far a recomputed trace may be from the stored one, and how that was found (docs/freshness.md).

A deviation is a difference divided by the stored scale of the number. Numbers are of four kinds:

losses      and other numbers that a fit reports after an epoch
sums        norms of whole tensors, means over many rows: rounding nearly cancels in them
places      projections on fixed signs and single elements: a parameter whose gradient is nearly zero may take an
            early step of Adam the other way, which the norm does not see
predicted   what a trained posterior predicts, which has the rounding of training in it
"""

LOSSES, SUMS, PLACES, PREDICTED = "losses", "sums", "places", "predicted"
SMALL_SIGMA = "blundell_bbb, sigma below .01"  # float32 keeps fewer digits of how far such a sigma moves
BF16 = "bf16"  # products of rounded operands: the processor's own, or float32 products of operands rounded before


def kind(path, name):
    """Return the kind of a number by its path and name."""
    if "projection" in name or "moved@" in name:
        return PLACES
    if path.rpartition("/")[2] in ("predict", "common", "published", "shift", "readings"):
        return PREDICTED
    return LOSSES if "/epoch" in name and "moved" not in name else SUMS


LARGEST = {
    "dropout_fcn": {SUMS: 1.4e-4, PLACES: 4.5e-3, PREDICTED: 1.7e-8},
    "pyro_hidden_layer": {SUMS: 7.9e-6, PLACES: 1.9e-4, PREDICTED: 7.5e-6},
    "pyro_random_module": {SUMS: 2.4e-6, PLACES: 1.9e-3, PREDICTED: 4.4e-3},
    "mlp": {SUMS: 2.2e-5, PLACES: 8.9e-4, PREDICTED: 1.7e-6},
    "linear_bbb": {SUMS: 2.8e-6, PLACES: 9.2e-4, PREDICTED: 2.4e-6},
    "mxnet_bbb": {SUMS: 2.1e-4, PLACES: 5.5e-3, PREDICTED: 8.4e-4},
    "toy_mlp": {SUMS: 1.5e-5, PLACES: 8.3e-5, PREDICTED: 7.6e-8},
    "toy_bbb": {SUMS: 1.5e-7, PLACES: 5.7e-7, PREDICTED: 7.0e-7},
    "laplace": {SUMS: 1.6e-5, PLACES: 2.4e-5, PREDICTED: 1.2e-5},
    "deep_ensemble": {SUMS: 2.7e-8, PLACES: 3.9e-6, PREDICTED: 1.5e-8},
    "temperature": {SUMS: 1.4e-5, PLACES: 2.1e-5, PREDICTED: 2.1e-7},
    "mc_dropout": {SUMS: 1.5e-7, PLACES: 3.9e-6, PREDICTED: 1.8e-8},
    "swag": {SUMS: 3.4e-7, PLACES: 6.9e-4, PREDICTED: 3.3e-8},
    "sghmc": {SUMS: 1.0e-9, PLACES: 4.0e-7, PREDICTED: 7.4e-9},
    "vi_diag": {SUMS: 1.7e-8, PLACES: 5.6e-6, PREDICTED: 5.8e-8},
    "autonormal": {SUMS: 7.4e-6, PLACES: 7.8e-6, PREDICTED: 1.1e-7},
    "torchbnn_mlp": {SUMS: 2.7e-7, PLACES: 1.6e-5, PREDICTED: 2.2e-7},
    "bayesian_torch_mlp": {SUMS: 3.8e-7, PLACES: 2.5e-5, PREDICTED: 3.1e-7},
    "blundell_bbb": {SUMS: 3.5e-5, PLACES: 7.7e-4, PREDICTED: 4.7e-4},
    SMALL_SIGMA: {SUMS: 4.1e-4, PLACES: 1.8e-2, PREDICTED: 7.7e-5},
    "blundell_sgd": {SUMS: 3.1e-8, PLACES: 2.1e-6, PREDICTED: 1.9e-8},
    "blundell_dropout": {SUMS: 4.5e-8, PLACES: 1.1e-6, PREDICTED: 1.8e-8},
    "measures": {PLACES: 3.6e-6, PREDICTED: 3.7e-8},
    "streams": {SUMS: 5.1e-10, PLACES: 2.1e-7},
    BF16: {SUMS: 2.2e-3, PLACES: 6.5e-2},
}
"""The largest deviation of each subject and kind in the environments of docs/freshness.md; BF16 of all approaches."""
FACTOR = 10  # what other processors may do more than those that were tried
LOSS_FACTOR = 2  # of the sums' deviation: losses were measured among the sums, and deviate least of them
LEAST = 1e-5  # about a hundred roundings of float32


def measured_as(subject, path):
    """Return the name in LARGEST of a path of a subject."""
    if path.endswith("/bf16"):
        return BF16
    is_small = subject == "blundell_bbb" and path.rpartition("/")[0].endswith(("+rho-8", "+rho-6", "+rho-5"))
    return SMALL_SIGMA if is_small else subject


def tolerance(subject, path, name):
    """Return the largest deviation of a number that is allowed: a multiple of the largest that was seen."""
    seen = LARGEST.get(measured_as(subject, path), {})
    of = kind(path, name)
    largest = LOSS_FACTOR * seen.get(SUMS, 0.0) if of == LOSSES else FACTOR * seen.get(of, 0.0)
    return max(LEAST, largest)
