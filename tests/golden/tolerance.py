"""How far a recomputed trace may be from the stored one, and how that was found (docs/freshness.md).

A deviation is a difference divided by the stored scale of the number. Numbers are of three kinds:

sums        losses, norms of whole tensors, means over many rows: rounding nearly cancels in them
places      projections on fixed signs and single elements: a parameter whose gradient is nearly zero may take an
            early step of Adam the other way, which the norm does not see
predicted   what a trained posterior predicts, which has the rounding of training in it
"""

SUMS, PLACES, PREDICTED = "sums", "places", "predicted"
BF16 = "bf16"  # products of rounded operands: the processor's own, or float32 products of operands rounded before


def kind(path, name):
    """Return the kind of a number by its path and name."""
    if "projection" in name or "moved@" in name:
        return PLACES
    return PREDICTED if path.rpartition("/")[2] in ("predict", "common", "published", "shift", "readings") else SUMS


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
    "measures": {PLACES: 3.6e-6, PREDICTED: 3.7e-8},
    "streams": {SUMS: 5.1e-10, PLACES: 2.1e-7},
    BF16: {SUMS: 2.2e-3, PLACES: 6.5e-2},
}
"""The largest deviation of each subject and kind in the environments of docs/freshness.md; BF16 of all approaches."""
FACTOR = 10  # what other processors may do more than those that were tried
LEAST = 1e-5  # about a hundred roundings of float32


def tolerance(subject, path, name):
    """Return the largest deviation of a number that is allowed: ten times the largest that was seen."""
    seen = LARGEST.get(BF16 if path.endswith("/bf16") else subject, {})
    return max(LEAST, FACTOR * seen.get(kind(path, name), 0.0))
