"""When methods that keep weights during training keep them."""

from __future__ import annotations


class Visits:
    """Decides after which steps of an epoch the weights are kept: a few times, at equal distances."""

    def __init__(self, per_epoch: int) -> None:
        """Keep `per_epoch` times an epoch, or after every step of a shorter one."""
        self._per_epoch, self._n_steps, self._taken = per_epoch, 0, 0

    def begin(self, n_steps: int) -> None:
        """Begin an epoch of `n_steps` steps; with 0, nothing is kept in it."""
        self._n_steps, self._taken = n_steps, 0

    def is_due(self) -> bool:
        """Count a step, and return whether the weights are kept after it."""
        self._taken += 1
        before, now = ((n * self._per_epoch) // max(self._n_steps, 1) for n in (self._taken - 1, self._taken))
        return self._n_steps > 0 and now > before
