"""The faults whose effects the gate was measured with; `benchmarks.power` plants them in the code.

Each is a slip in the code, not an edited recipe: `plan` says the same with and without it. The gate sees an edited
recipe at once, by its key.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlantedFault:
    """A fault, what it does, and the exact check that always catches it ('': the metrics must)."""

    name: str
    title: str
    caught_by: str = ""


_ALL = (
    PlantedFault("kl-scale", "the KL weighs twice as much"),
    PlantedFault("learning-rate", "the learning rate is twice as high"),
    PlantedFault("dropout-on", "dropout stays on where it should be off"),
    PlantedFault("wrong-split", "training on the test rows", "rows learnt from"),
    PlantedFault("seed-ignored", "every seed draws what seed 0 draws", "seeds"),
)
FAULTS = {fault.name: fault for fault in _ALL}
EXACTLY_CAUGHT = {fault.name: fault.caught_by for fault in _ALL if fault.caught_by}
"""The exact check that always catches a fault, by the name of the fault."""
