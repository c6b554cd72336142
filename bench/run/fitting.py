"""Get the fit of each cell: load its stored posterior or train it, and describe what training cost."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from bench.core import environment, timing
from bench.core.errors import Diverged, StoreError, Unsupported
from bench.core.fits import FitInfo, read_posterior
from bench.core.load import OtherLoad
from bench.core.precision import dtype_of
from bench.core.reasons import RESUMED, SEEDS_TOGETHER, Reason, told
from bench.core.records import NetworkSize, Provenance, Timings, Versions
from bench.core.store import Store
from bench.data.manifest import data_hashes
from bench.data.splits import load_shared, load_split, split_hash, toy_split
from bench.interface import Approach, Posterior, Split, Task
from bench.measure.measuring import check_fit, posterior_of
from bench.measure.protocols import Protocol, protocol_of
from bench.plan.cells import Cell
from bench.plan.computations import checkpoint_key, fit_keys
from bench.plan.freshness import is_fit_stale
from bench.plan.recipes import profile
from bench.plan.registry import manifest
from bench.plan.source_code import source_files
from bench.run.contexts import Computation, Measure, RunContext
from bench.run.events import Send, Warned
from bench.run.options import Options


def _load_train(cells: Sequence[Cell], options: Options) -> tuple[Split, Tensor | None, Task]:
    """Return the training rows, which of them each of E seeds uses (indices, int64 [E, N]; None: all), and the task."""
    if manifest(cells[0].approach).task == "toy":
        train = toy_split().to(torch.device("cpu"), dtype_of(cells[0].precision))
        rows = torch.arange(len(train)).expand(len(cells), -1) if len(cells) > 1 else None
        return train, rows, Task("regression", n_outputs=1, n_train=len(train), n_inputs=1)
    data_dir, task = options.data_path(), profile(cells[0].profile).task
    if len(cells) == 1:
        train, rows = load_split(cells[0].split, cells[0].seed, data_dir, task), None
    else:
        train, rows = load_shared(cells[0].split, [cell.seed for cell in cells], data_dir, task)
    # all rows at once, so that no step waits for a copy
    train = train.to(torch.device(cells[0].device), dtype_of(cells[0].precision))
    n_train = len(train) if rows is None else rows.shape[1]
    return train, rows, Task("classification", n_outputs=10, n_train=n_train, n_inputs=train.x.shape[1])


@dataclass
class Fit:
    """A fitted posterior and the description of the fit."""

    posterior: Posterior
    info: FitInfo


def fit(
    group: Sequence[Cell], approach: Approach, store: Store, options: Options, send: Send
) -> dict[str, Fit | Reason]:
    """Return the group's fits by key; for a fit that diverged, the reason.

    Fits with a stored posterior are loaded. The others are trained in one computation, which resumes from its
    checkpoint if it was interrupted.
    """
    cells = [next(cell for cell in group if cell.fit_key == fit_key) for fit_key in fit_keys(group)]
    train, rows, task = _load_train(cells, options)
    fits: dict[str, Fit | Reason] = {}
    for cell in cells:
        kept = read_posterior(store, cell.fit_key)
        if kept is not None and not is_fit_stale(cell.approach, kept[1].versions):
            fits[cell.fit_key] = Fit(posterior_of(approach, kept[0], task, cell.seed), kept[1])
    places = [place for place, cell in enumerate(cells) if cell.fit_key not in fits]
    if places:
        todo = [cells[place] for place in places]
        checkpoint = store.fit_path(checkpoint_key(group), "checkpoint")
        measures = _epoch_measures(todo, options)
        computation = Computation(todo, store, checkpoint, measures, send, options)
        fits.update(_train(approach, todo, train, None if rows is None else rows[places], task, computation))
        trained = [(cell, found) for cell in todo if isinstance(found := fits[cell.fit_key], Fit)]
        if options.retain and not all([_retain(store, cell, found, send) for cell, found in trained]):
            return fits  # keep the checkpoint: the posterior could not be written
    store.drop_checkpoint(checkpoint_key(group))
    return fits


def _retain(store: Store, cell: Cell, found: Fit, send: Send) -> bool:
    """Store a posterior and return whether that succeeded. If it failed, the fit is measured all the same."""
    try:
        store.write_tensors(store.fit_path(cell.fit_key, "posterior"), found.posterior.arrays(), found.info)
    except StoreError as error:
        send(Warned(f"{error}; the fit is measured, but not kept"))
        return False
    return True


def _epoch_measures(cells: Sequence[Cell], options: Options) -> list[Measure]:
    """Return for each seed the function that measures after an epoch what the approach's document printed on MNIST."""
    has_document = bool(manifest(cells[0].approach).document) and profile(cells[0].profile).task == "mnist"
    name = "published" if has_document else "common"
    return [protocol_for(cell, name, options).epoch for cell in cells]


def protocol_for(cell: Cell, name: str, options: Options) -> Protocol:
    """Return the protocol of this name for the fit of a cell."""
    data_dir = options.data_path()
    entry, budget = manifest(cell.approach), profile(cell.profile)
    device, dtype = torch.device(cell.device), dtype_of(cell.precision)
    return protocol_of(entry, name, cell.seed, budget, data_dir, device, dtype)


def _train(
    approach: Approach, cells: Sequence[Cell], train: Split, rows: Tensor | None, task: Task, computation: Computation
) -> dict[str, Fit | Reason]:
    """Train the seeds of `cells` and return their fits by key; `rows`: see `_load_train`."""
    load_before, started = environment.load_average(), environment.now()
    _forget_peak_memory(computation.device)
    others = OtherLoad(computation.threads)
    start = time.perf_counter()
    try:
        if rows is None:
            posteriors = [check_fit(approach.fit(train, task, computation.contexts[0]), approach)]
        else:
            posteriors = approach.fit_many(train, rows, task, computation.contexts)
        timing.synchronise(computation.device)
    except Diverged as error:  # every seed diverged, or the approach itself raised it for its only seed
        reasons = [context.diverged or told("diverged-as-told", error) for context in computation.contexts]
        return {cell.fit_key: reason for cell, reason in zip(cells, reasons, strict=True)}
    wall_s, load = (time.perf_counter() - start) / len(cells), others.reasons()
    fits: dict[str, Fit | Reason] = {}
    for place, (cell, context, posterior) in enumerate(zip(cells, computation.contexts, posteriors, strict=True)):
        if context.diverged:
            fits[cell.fit_key] = context.diverged
            continue
        learnt = split_hash(train, None if rows is None else rows[place])
        made = _provenance(cell, load_before, computation.threads)
        info = FitInfo(
            fit_key=cell.fit_key,
            versions=Versions(recipe=cell.versions.recipe),
            epochs=[epoch.closed() for epoch in context.epochs],
            timings=_timings(approach, cell, task, computation, context, wall_s, load),
            model=_model_size(posterior),
            provenance=msgspec.structs.replace(made, started=started, train_sha256=learnt),
        )
        fits[cell.fit_key] = Fit(posterior, info)
    return fits


def _timings(
    approach: Approach,
    cell: Cell,
    task: Task,
    computation: Computation,
    context: RunContext,
    wall_s: float,
    load: Sequence[Reason],
) -> Timings:
    """Return what one seed's training cost, or its share of a shared computation; `load`: reasons of `OtherLoad`."""
    trained_rows = task.n_train
    if context.steps_per_epoch is not None:
        trained_rows = min(trained_rows, context.steps_per_epoch * getattr(approach, "batch_size", trained_rows))
    seconds = [epoch.seconds for epoch in context.epochs]
    epoch_s = statistics.median(seconds) if seconds else None
    with_measuring_s = [epoch.with_measuring_s for epoch in context.epochs]
    reasons = [*_why_timings_do_not_count(computation, cell), *load]
    n_seeds = len(computation.contexts)
    return Timings(
        fit_s=sum(seconds),
        wall_s=wall_s,
        epoch_s_median=epoch_s,
        epoch_with_measuring_s=statistics.median(with_measuring_s) if seconds else None,
        train_images_per_s=trained_rows / epoch_s if epoch_s and task.kind == "classification" else None,
        peak_memory_mib=_peak_memory_mib(),
        peak_device_memory_mib=_peak_device_memory(context.device),
        valid=not reasons,
        reasons=reasons,
        batched=n_seeds if n_seeds > 1 else None,
    )


def _why_timings_do_not_count(computation: Computation, cell: Cell) -> list[Reason]:
    """Return why the measured times do not count as the times of training one seed alone."""
    reasons = []
    others = len(computation.contexts) - 1
    if others:
        reasons.append(Reason(SEEDS_TOGETHER, {"n": others}))
    if computation.at_once > 1:
        reasons.append(Reason("fits-at-once", {"n": computation.at_once}))
    if computation.resumed:
        reasons.append(Reason(RESUMED))
    steps = profile(cell.profile).steps_per_epoch
    if steps is not None:
        reasons.append(Reason("short-epochs", {"profile": cell.profile, "steps": steps}))
    return reasons


def _peak_memory_mib() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def _forget_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak_device_memory(device: torch.device) -> float | None:
    """Return the peak of the GPU memory of all tensors during the fit; None on a CPU."""
    return round(torch.cuda.max_memory_allocated(device) / 2**20, 1) if device.type == "cuda" else None


def _model_size(posterior: Posterior) -> NetworkSize:
    try:
        marginals = posterior.weights()
    except Unsupported:
        return NetworkSize()
    weights = sum(marginal.mean.numel() for marginal in marginals.values())
    with_sigma = sum(m.std.numel() for m in marginals.values() if m.std is not None)
    used = sum(int(m.used.sum()) for m in marginals.values())
    return NetworkSize(n_weights=weights, n_parameters=weights + with_sigma, n_used_weights=used)


def _provenance(cell: Cell, load_before: float, threads: int) -> Provenance:
    """Return the machine, code and data of this fit, and the settings that affect its speed and rounding."""
    device = torch.device(cell.device)
    return msgspec.structs.replace(
        environment.describe(threads),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else environment.cpu_name(),
        vector_instructions=torch.backends.cpu.get_cpu_capability(),
        matmul_rate=timing.matmul_rate(device, threads),  # cached: `process.work` measured it before the fit
        load_average=(load_before, environment.load_average()),
        source_sha256=environment.source_hash(source_files(cell.approach)),
        data_sha256=data_hashes(profile(cell.profile).task),
        split_looked_at="none of the test rows enter fit; per-epoch numbers are measured as the document did",
    )
