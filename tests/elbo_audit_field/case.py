"""A case, its declaration, the registry of all, and rows of data for them."""

import dataclasses
import importlib
from collections.abc import Callable

import numpy as np

FRAMEWORKS = ("torch", "pyro", "jax", "numpyro", "tfp")
MISTAKES = ("weight", "entropy", "prior", "another KL", "likelihood", "rows", "gradient", "noise", "missing KL")
MODULES = {
    "torch": ("torch_cases", "torch_more_cases", "torch_wrong_cases"),
    "pyro": ("pyro_cases", "pyro_wrong_cases"),
    "jax": ("jax_cases",),
    "numpyro": ("numpyro_cases",),
    "tfp": ("tfp_cases", "tfp_wrong_cases"),
}
EVIDENCE = ("pieces", "check", "likelihood_factor")  # what only the verification reads
REGISTRY: dict[str, "Case"] = {}


@dataclasses.dataclass(frozen=True)
class Case:
    """An objective and what is true of it; a call builds it."""

    name: str
    framework: str
    right: bool
    truth: str
    build: Callable[[], dict]
    mistake: str | None = None
    kl_per_epoch: float | None = None
    mends: float | None = None

    def __call__(self) -> dict:
        """Return the arguments of an audit."""
        return {name: value for name, value in self.build().items() if name not in EVIDENCE}

    def with_evidence(self) -> tuple[dict, dict]:
        """Return the arguments of an audit, and those of the verification, of one build."""
        built = self.build()
        evidence = {name: built.pop(name) for name in EVIDENCE if name in built}
        return built, evidence


def case(
    name: str,
    framework: str,
    *,
    right: bool,
    truth: str,
    mistake: str | None = None,
    kl_per_epoch: float | None = None,
    mends: float | None = None,
) -> Callable[[Callable[[], dict]], Case]:
    """Register the decorated builder under a name."""
    if framework not in FRAMEWORKS or name in REGISTRY:
        raise ValueError(f"{name}: unknown framework, or a name twice")
    if right == (mistake in MISTAKES):
        raise ValueError(f"{name}: a right case has no mistake, a wrong one has one of {MISTAKES}")

    def register(build: Callable[[], dict]) -> Case:
        REGISTRY[name] = Case(name, framework, right, truth, build, mistake, kl_per_epoch, mends)
        return REGISTRY[name]

    return register


def cases(framework: str) -> list[Case]:
    """Return the cases of a framework, in the order of their files; ImportError where it is not installed."""
    for module in MODULES[framework]:
        importlib.import_module(f"{__package__}.{module}")
    return [each for each in REGISTRY.values() if each.framework == framework]


def labelled(sizes: list[int], features: int, classes: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches of inputs [B, features] (float32) and labels [B] (int64) that follow them."""
    rng = np.random.default_rng(seed)
    to_logits = rng.normal(size=(features, classes))
    batches = []
    for size in sizes:
        x = rng.normal(size=(size, features)).astype(np.float32)
        y = (x @ to_logits + rng.gumbel(size=(size, classes))).argmax(1)
        batches.append((x, y.astype(np.int64)))
    return batches


def measured(
    sizes: list[int], features: int, outputs: int, seed: int, noise: float = 0.1
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches of inputs [B, features] and targets [B, outputs], both float32, with Gaussian noise."""
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(features, outputs))
    batches = []
    for size in sizes:
        x = rng.normal(size=(size, features)).astype(np.float32)
        y = np.sin(x @ slope) + noise * rng.normal(size=(size, outputs))
        batches.append((x, y.astype(np.float32)))
    return batches
