"""Makes derived metrics: loads stored posteriors and measures what an ablation or a figure needs and no record has.

A derived metric uses the data sets, the draws and the precision of the common protocol, so that it can be compared with
the record of the same fit. `bench.judge.ablation.readers` defines the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import torch

from bench.core import environment
from bench.core.canonical import digest
from bench.core.errors import BenchError
from bench.core.fits import read_posterior
from bench.core.metric_table import N_CLASSES
from bench.core.precision import computing_in, dtype_of, without_denormals
from bench.core.records import SCHEMA, DerivedMetrics, Record, Timings
from bench.core.store import Store
from bench.data.splits import load_split
from bench.interface import Task
from bench.judge.ablation.derived_metrics import VERSION, folder, keys_of, read_all
from bench.judge.ablation.readers import read_keys
from bench.judge.ablation.single_changes import Ablation
from bench.measure.measuring import posterior_of
from bench.measure.protocols import Common
from bench.plan.freshness import DERIVED, is_fit_stale, versions_of
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from bench.run.recording import is_data_present


def read_missing(
    ablation: Ablation, records: Iterable[Record], store: Store, data_dir: Path | None, tell: Callable[[str], None]
) -> list[str]:
    """Make the derived metrics that are missing or incomplete, and return why others could not be made.

    Args:
        ablation: says which numbers are needed.
        records: of one profile, device and precision, finished or not; those of the approach's published fits count.
        store: has the posteriors, and gets the derived metrics.
        data_dir: folder to look for data sets in first.
        tell: called with a line before each fit is read.
    """
    have = {derived.fit_key: derived for derived in read_all(store)[0]}
    wanted, reasons = keys_of(ablation), []
    for record in records if wanted else ():
        if record.outcome != "done" or record.combination != (ablation.approach, "published", "common"):
            continue
        old = have.get(record.fit_key)
        if old is not None and _is_complete(old, wanted, data_dir):
            continue
        name = f"{record.approach} {record.recipe}, seed {record.seed}"
        kept = read_posterior(store, record.fit_key)
        if kept is None or is_fit_stale(record.approach, kept[1].versions):
            reasons.append(f"{name}: {store.root} has no usable posterior of it; another --results trains it again")
            continue
        tell(f"derived metric {name}")
        try:
            folder(store).write(_read(record, kept[0], wanted, data_dir))
        except BenchError as error:
            reasons.append(f"{name}: {error}")
    return reasons


def _is_complete(derived: DerivedMetrics, wanted: Sequence[str], data_dir: Path | None) -> bool:
    """Return whether a derived metric has every number or its reason, and no missing data set has come since."""
    is_whole = all(key in derived.metrics or key in derived.missing for key in wanted)
    return is_whole and not is_data_present(derived.missing, data_dir)


def _read(
    record: Record, arrays: Mapping[str, torch.Tensor], keys: Sequence[str], data_dir: Path | None
) -> DerivedMetrics:
    entry, budget, seed = manifest(record.approach), profile(record.profile), record.seed
    recipe = resolve(entry, record.recipe)
    approach = build(entry, recipe, budget)
    train = load_split(recipe.split, seed, data_dir)
    task = Task("classification", n_outputs=N_CLASSES, n_train=len(train), n_inputs=train.x.shape[1])
    device = torch.device(record.device)
    posterior = posterior_of(approach, arrays, task, seed)
    with without_denormals(), computing_in(record.precision, device):  # as when it was measured
        protocol = Common(entry, seed, budget, data_dir, device, dtype_of(record.precision))
        metrics, missing = read_keys(posterior, protocol, keys)
    made = environment.describe(torch.get_num_threads())
    return DerivedMetrics(
        schema=SCHEMA,
        approach=record.approach,
        recipe=record.recipe,
        protocol=DERIVED,
        profile=record.profile,
        seed=seed,
        device=record.device,
        precision=record.precision,
        fit_key=record.fit_key,
        key=digest({"fit": record.fit_key, "derived": VERSION}),
        version=VERSION,
        outcome="done",
        reason=None,
        metrics=metrics,
        missing=missing,
        versions=versions_of(entry, recipe, DERIVED),
        epochs=[],
        timings=Timings(),
        provenance=msgspec.structs.replace(made, measured=environment.now()),
    )
