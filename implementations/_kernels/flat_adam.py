"""PyTorch's Adam on one flat vector, fused if that is faster. Its state can be stored and restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

FUSE_FROM = 2**15  # numbers in the vector; for fewer, waking the fused kernel's threads takes longer than the step

Part = Callable[[Tensor, int], Tensor]
"""(the vector of all seeds, index of a seed) -> view of that seed's numbers."""


def whole(vector: Tensor, index: int) -> Tensor:
    """Return the vector itself, for a vector of one seed."""
    del index
    return vector


class FlatAdam:
    """Adam with PyTorch's defaults (Kingma & Ba 2015), in place; a step on a long vector is one pass."""

    def __init__(self, parameters: Tensor, gradient: Tensor, learning_rate: float, part: Part = whole) -> None:
        """Optimise `parameters` [n] with the gradient that the caller leaves in `gradient` [n] before each step.

        If the vector holds several seeds, `part` returns the numbers of one seed.
        """
        self._parameters = parameters
        self._part = part
        parameters.grad = gradient
        self._adam = torch.optim.Adam([parameters], lr=learning_rate, fused=parameters.numel() >= FUSE_FROM)
        zeros = {name: torch.zeros_like(parameters) for name in ("exp_avg", "exp_avg_sq")}
        self._adam.state[parameters] = {"step": parameters.new_zeros((), dtype=torch.float32), **zeros}

    def step(self) -> None:
        """Take one step."""
        self._adam.step()

    def advance(self) -> tuple[Tensor, Tensor, float, float]:
        """Count a step that the caller makes itself, and return the moments and factors for it.

        Returns:
            Both moments [n], which the caller updates with the decays 0.9 and 0.999; lr / (1 - 0.9^t) and
            (1 - 0.999^t)^-1/2 of this step t.
        """
        state = self._adam.state[self._parameters]
        state["step"] += 1
        step, rate = float(state["step"]), self._adam.param_groups[0]["lr"]
        return state["exp_avg"], state["exp_avg_sq"], rate / (1 - 0.9**step), (1 - 0.999**step) ** -0.5

    def for_graphs(self) -> list[Tensor]:
        """Let a CUDA graph capture `step`; return all tensors that `step` changes."""
        self._adam.param_groups[0]["capturable"] = True
        return [self._parameters, *self._adam.state[self._parameters].values()]

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use another step size from the next step on."""
        self._adam.param_groups[0]["lr"] = learning_rate

    def state(self, index: int = 0) -> dict[str, Tensor]:
        """Return parameters, both moments and the step count [] of one seed as CPU copies."""
        values = {"parameters": self._parameters, **self._adam.state[self._parameters]}
        return {
            name: (value if name == "step" else self._part(value, index).flatten()).detach().to("cpu", copy=True)
            for name, value in values.items()
        }

    def restore(self, *states: Mapping[str, Tensor]) -> None:
        """Resume from the states that `state` returned for each seed."""
        moments = {name: torch.zeros_like(self._parameters) for name in ("exp_avg", "exp_avg_sq")}
        for name, values in {"parameters": self._parameters.detach(), **moments}.items():
            for index, state in enumerate(states):
                view = self._part(values, index)
                view.copy_(state[name].view(view.shape))
        step = states[0]["step"].to(self._parameters.device, copy=True)
        self._adam.state[self._parameters].update({**moments, "step": step})
