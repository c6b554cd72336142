"""The final errors of blundell2015, from the errors after each epoch: of the last epoch and of two chosen epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LAST = 100  # epochs, of a mean that scatters less than the last one
HELD_OUT, TEST = "heldout10k-of-train", "test10k"
Errors = Mapping[str, "float | None"]


def last_epoch(epochs: Sequence[Errors]) -> dict[str, float | None]:
    """Return the final errors of a fit that ends after these epochs: of the last epoch, and of chosen epochs."""
    keys = [f"mnist/{name}/error" for name in (HELD_OUT, TEST)]
    return {key: epochs[-1][key] for key in keys if key in epochs[-1]} | chosen_epochs(epochs)


def chosen_epochs(epochs: Sequence[Errors]) -> dict[str, float | None]:
    """Return the test error of two epochs: the first with the least held-out error, and that with the least test error.

    The first is an honest choice. The second chooses by the test images, and shows how much this gains.
    """
    seen = [(one.get(f"mnist/{HELD_OUT}/error"), one.get(f"mnist/{TEST}/error")) for one in epochs]
    errors = [(held_out, test) for held_out, test in seen if held_out is not None and test is not None]
    if not errors:
        return {}
    return {
        f"mnist/{TEST}/error_at_chosen_epoch": min(errors, key=lambda pair: pair[0])[1],
        f"mnist/{TEST}/error_at_best_test_epoch": min(test for _, test in errors),
    }


def mean_of_last(epochs: Sequence[Errors]) -> dict[str, float | None]:
    """Return the mean test error of the last `LAST` epochs; {} if there are fewer or one has no number."""
    errors = [error for one in epochs[-LAST:] if (error := one.get(f"mnist/{TEST}/error")) is not None]
    return {f"mnist/{TEST}/error_of_last_{LAST}_epochs": sum(errors) / LAST} if len(errors) == LAST else {}
