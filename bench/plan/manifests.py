"""The manifest of an approach (NAME.toml beside NAME.py), which is read without importing its framework."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from bench.core.errors import check_known
from bench.core.project import install
from bench.core.toml import TomlTable, read_toml

REMEDY = "docs/your-approach.md shows the form"

Capability = Literal["weights", "masked", "mean_network", "log_density_ratio", "fit_many"]
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)
ApproachGroup = Literal["documents", "paper", "methods"]
GROUPS: tuple[ApproachGroup, ...] = get_args(ApproachGroup)
DOCUMENTS: ApproachGroup = "documents"
"""The group of an approach that names none. Tables, figures and findings about the documents show this group only."""
ManifestValue = bool | int | float | str
Version = Annotated[int, msgspec.Meta(ge=1)]


class Cost(TomlTable, frozen=True):
    """What a method costs, in units of the training, the forward pass and the weights of the plain network `mlp`."""

    training: float = 1.0  # multiplications of a training with as many epochs as `mlp` has
    shared: float = 0.0  # multiplications for one row that all draws share
    draw: float = 1.0  # multiplications of one draw for one row, without those that sample the draw itself
    stored: float = 1.0  # numbers in a fitted posterior

    def answer(self, n_draws: int) -> float:
        """Return the multiplications of the answer to one row."""
        return self.shared + self.draw * n_draws


class RecipeChange(TomlTable, frozen=True):
    """A named change of a recipe: a correction of a mistake, or a variant of interest."""

    title: str
    why: str
    values: dict[str, ManifestValue] = msgspec.field(name="set")  # fields of the approach's dataclass and their values
    in_all: bool = False  # whether `run --all` trains it
    version: Version = 1  # raise it when the change gives other numbers
    cost: Cost | None = None  # of the changed recipe; None: this change does not change the cost


class RecipeSpec(TomlTable, frozen=True):
    """A recipe of the manifest: which rows it trains on and which corrections it makes."""

    split: str
    corrections: tuple[str, ...] = ()
    version: Version = 1  # raise it when the recipe gives other numbers


class ApproachManifest(TomlTable, frozen=True, kw_only=True):
    """The fields of a manifest."""

    name: str  # of the file
    module: str = ""  # of the class; "" for implementations.NAME
    title: str
    in_words: str = ""  # its name in tables for readers who do not know the suite
    document: str = ""  # "" for a baseline
    group: ApproachGroup = DOCUMENTS  # `--all` runs one group: the documents, or the one that `--group` names
    class_name: str = msgspec.field(name="class")
    task: Literal["mnist", "toy"]
    requires: tuple[str, ...] = ()  # packages
    extra: str = ""  # extra of this suite that installs the packages
    noise: Literal["none", "row", "weights", "shared"]  # of a draw, as `bench.interface.Noise`
    capabilities: tuple[Capability, ...] = ()
    recipes: dict[str, RecipeSpec]
    corrections: dict[str, RecipeChange] = msgspec.field(default_factory=dict)
    variants: dict[str, RecipeChange] = msgspec.field(default_factory=dict)
    cpu_float32_only: str = ""  # why neither another device nor reduced precision can be chosen; "" if they can
    cost: Cost | None = None  # None: not stated
    known: dict[str, str] = msgspec.field(default_factory=dict)
    """Audit rules that `published` fails, each with the correction that mends it, or with the reason."""

    def __post_init__(self) -> None:
        """Raise ValueError if there is no published recipe, ConfigError for an unknown correction."""
        if "published" not in self.recipes:
            raise ValueError("no [recipes.published]; it is the recipe that runs by default")
        for recipe in self.recipes.values():
            check_known(f"correction in manifest {self.name}.toml:", self.changes, *recipe.corrections)

    @property
    def changes(self) -> dict[str, RecipeChange]:
        """Return corrections and variants by name."""
        return {**self.corrections, **self.variants}

    def cost_of(self, changes: Iterable[str]) -> Cost | None:
        """Return the cost of a recipe with these changes: of the last change that has one, or of the approach."""
        known = [change for name in changes if (change := self.changes.get(name)) is not None]
        return [self.cost, *(change.cost for change in known if change.cost is not None)][-1]

    def missing_framework(self) -> str:
        """Return why the approach cannot run here, or '' if it can."""
        absent = [name for name in self.requires if importlib.util.find_spec(name) is None]
        if not absent:
            return ""
        hint = "" if self.module else f": {install(self.extra)}"
        return f"{self.name} needs {', '.join(absent)}, which is not installed{hint}"


def read_manifest(path: Path, module: str = "") -> ApproachManifest:
    """Read the manifest of a class in `module`; raises ConfigError that names the file and the field."""
    return read_toml(path, ApproachManifest, "manifest", REMEDY, name=path.stem, module=module)
