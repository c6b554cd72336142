"""What figures are made from: the records of one results folder under one set of conditions, and the data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.core.errors import BenchError
from bench.core.store import Store
from bench.judge.claims import Claim, ClaimRow, Record, load_claims, match
from bench.judge.results import Results, select
from bench.judge.stats.verdicts import Verdict, judge
from bench.plan.registry import manifests


class Source:
    """Records by cell, their per-row scores and the verdicts, each read when first asked for."""

    def __init__(
        self, root: Path, profile: str, device: str, precision: str, records: Sequence[Record] | None = None
    ) -> None:
        """Take the records of a results folder, or read them where they are not given; raises nothing for none."""
        self.store = Store(root)
        self.profile, self.device, self.precision = profile, device.split(":")[0], precision
        records, problems = self.store.all_records() if records is None else (records, [])
        self.problems = [problem.reason for problem in problems]  # files that are no records
        self.results = Results(select(records, profile, self.device, precision), manifests())
        self._scores: dict[str, Mapping[str, NDArray[Any]]] = {}

    @cached_property
    def claims(self) -> list[Claim]:
        """The numbers that the documents report."""
        return load_claims()

    @cached_property
    def rows(self) -> list[ClaimRow]:
        """Every reported number and what the records measured of it."""
        return match(self.claims, self.results.records)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """The verdict of every reported number."""
        return judge(self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """All approaches, whose looks must differ."""
        return tuple(self.results.approaches)

    def cell(self, approach: str, recipe: str = "published", protocol: str = "common") -> list[Record]:
        """Return the finished records of a cell, by seed."""
        found = [r for r in self.results.cell(approach, recipe, protocol) if r["outcome"] == "done"]
        return sorted(found, key=lambda record: int(record["seed"]))

    def classifiers(self, recipe: str = "published", baselines: bool = False) -> list[str]:
        """Return the approaches to MNIST with common records of a recipe; `baselines` are those of no document."""
        known = self.results.manifests
        return [
            name
            for name in self.results.classifiers()
            if self.cell(name, recipe) and (baselines or (name in known and known[name].document))
        ]

    def scores(self, record: Record) -> Mapping[str, NDArray[Any]]:
        """Return the per-row scores beside a record, empty without them."""
        if record["key"] not in self._scores:
            self._scores[record["key"]] = self.store.scores(record)
        return self._scores[record["key"]]

    def scored(self, approach: str, recipe: str = "published") -> Record | None:
        """Return the common record of the first seed that has per-row scores, None without any."""
        return next((record for record in self.cell(approach, recipe) if self.scores(record)), None)

    def conditions(self, records: Sequence[Record]) -> str:
        """Return profile, device, precision and seeds of some records, the end of a caption."""
        seeds = sorted({int(record["seed"]) for record in records})
        span = len(seeds) > 2 and seeds == [*range(seeds[0], seeds[-1] + 1)]
        listed = f"{seeds[0]}-{seeds[-1]}" if span else ", ".join(map(str, seeds))
        smoke = " (a wiring check: few steps, rows and draws)" if self.profile == "smoke" else ""
        word = "seed" if len(seeds) == 1 else "seeds"
        return f"Profile {self.profile}{smoke}, {self.device}, {self.precision}, {word} {listed}."

    def not_run(self, what: str) -> str:
        """Return the sentence for records that are not there."""
        where = f"profile {self.profile}, {self.device}, {self.precision}"
        return f"there is no finished record of {what} ({where}); python -m bench run makes it"


def images(name: str, seed: int) -> NDArray[Any] | str:
    """Return the pixels of a data set [N, 28, 28] in [0, 1], or why it is not there; noise may lie outside."""
    from bench.data.manifest import OOD_NAMES
    from bench.data.splits import load_ood, load_split

    try:
        split = load_ood(name, seed) if name in OOD_NAMES else load_split(name, seed)
    except BenchError as error:
        return str(error)
    return np.asarray(split.x.numpy()).reshape(-1, 28, 28)
