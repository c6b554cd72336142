"""Get the fit of each trained run: load its stored posterior or train it, and describe what training cost."""

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
from bench.core.environment import OtherLoad
from bench.core.errors import Diverged, StoreError, Unsupported
from bench.core.fits import FitInfo, read_posterior
from bench.core.precision import dtype_of
from bench.core.reasons import RESUMED, SEEDS_TOGETHER, Reason, message_reason
from bench.core.records import NetworkSize, Provenance, Timings, Versions
from bench.core.store import Store
from bench.data.manifest import data_hashes
from bench.data.splits import load_shared, load_split, split_hash, toy_split
from bench.interface import Approach, Posterior, Split, Task
from bench.measure.measuring import check_fit, posterior_of
from bench.measure.protocols import Protocol, protocol_of
from bench.plan.freshness import is_fit_stale
from bench.plan.recipes import profile
from bench.plan.registry import manifest
from bench.plan.seed_batches import checkpoint_key, fit_keys
from bench.plan.source_code import source_files
from bench.plan.trained_runs import TrainedRun
from bench.run.contexts import Measure, RunContext, SeedBatch
from bench.run.events import Options, Send, Warned


def _load_train(trained_runs: Sequence[TrainedRun], options: Options) -> tuple[Split, Tensor | None, Task]:
    """Return the training rows, which of them each of E seeds uses (indices, int64 [E, N]; None: all), and the task."""
    if manifest(trained_runs[0].approach).task == "toy":
        train = toy_split().to(torch.device("cpu"), dtype_of(trained_runs[0].precision))
        rows = torch.arange(len(train)).expand(len(trained_runs), -1) if len(trained_runs) > 1 else None
        return train, rows, Task("regression", n_outputs=1, n_train=len(train), n_inputs=1)
    data_dir, task = options.data_dir, profile(trained_runs[0].profile).task
    if len(trained_runs) == 1:
        train, rows = load_split(trained_runs[0].split, trained_runs[0].seed, data_dir, task), None
    else:
        train, rows = load_shared(
            trained_runs[0].split, [trained_run.seed for trained_run in trained_runs], data_dir, task
        )
    # all rows at once, so that no step waits for a copy
    train = train.to(torch.device(trained_runs[0].device), dtype_of(trained_runs[0].precision))
    n_train = len(train) if rows is None else rows.shape[1]
    return train, rows, Task("classification", n_outputs=10, n_train=n_train, n_inputs=train.x.shape[1])


@dataclass
class Fit:
    """A fitted posterior and the description of the fit."""

    posterior: Posterior
    info: FitInfo


def fit(
    group: Sequence[TrainedRun], approach: Approach, store: Store, options: Options, send: Send
) -> dict[str, Fit | Reason]:
    """Return the group's fits by key; for a fit that diverged, the reason.

    Fits with a stored posterior are loaded. The others are trained in one seed batch, which resumes from its
    checkpoint if it was interrupted.
    """
    trained_runs = [
        next(trained_run for trained_run in group if trained_run.fit_key == fit_key) for fit_key in fit_keys(group)
    ]
    train, rows, task = _load_train(trained_runs, options)
    fits: dict[str, Fit | Reason] = {}
    for trained_run in trained_runs:
        kept = read_posterior(store, trained_run.fit_key)
        if kept is not None and not is_fit_stale(trained_run.approach, kept[1].versions):
            fits[trained_run.fit_key] = Fit(posterior_of(approach, kept[0], task, trained_run.seed), kept[1])
    places = [place for place, trained_run in enumerate(trained_runs) if trained_run.fit_key not in fits]
    if places:
        todo = [trained_runs[place] for place in places]
        checkpoint = store.fit_path(checkpoint_key(group), "checkpoint")
        measures = _epoch_measures(todo, options)
        seed_batch = SeedBatch(todo, store, checkpoint, measures, send, options)
        fits.update(_train(approach, todo, train, None if rows is None else rows[places], task, seed_batch))
        trained = [(trained_run, found) for trained_run in todo if isinstance(found := fits[trained_run.fit_key], Fit)]
        if options.retain and not all([_retain(store, trained_run, found, send) for trained_run, found in trained]):
            return fits  # keep the checkpoint: the posterior could not be written
    try:
        store.drop_checkpoint(checkpoint_key(group))
    except StoreError as error:  # the fits are there
        send(Warned(str(error)))
    return fits


def _retain(store: Store, trained_run: TrainedRun, found: Fit, send: Send) -> bool:
    """Store a posterior and return whether that succeeded. If it failed, the fit is measured all the same."""
    try:
        store.write_tensors(store.fit_path(trained_run.fit_key, "posterior"), found.posterior.arrays(), found.info)
    except StoreError as error:
        send(Warned(f"{error}; the fit is measured, but not kept"))
        return False
    return True


def _epoch_measures(trained_runs: Sequence[TrainedRun], options: Options) -> list[Measure]:
    """Return for each seed the function that measures after an epoch what the approach's document printed on MNIST."""
    has_document = (
        bool(manifest(trained_runs[0].approach).document) and profile(trained_runs[0].profile).task == "mnist"
    )
    name = "published" if has_document else "common"
    return [protocol_for(trained_run, name, options).epoch for trained_run in trained_runs]


def protocol_for(trained_run: TrainedRun, name: str, options: Options) -> Protocol:
    """Return the protocol of this name for the fit of a trained run."""
    data_dir = options.data_dir
    entry, budget = manifest(trained_run.approach), profile(trained_run.profile)
    device, dtype = torch.device(trained_run.device), dtype_of(trained_run.precision)
    return protocol_of(entry, name, trained_run.seed, budget, data_dir, device, dtype)


def _train(
    approach: Approach,
    trained_runs: Sequence[TrainedRun],
    train: Split,
    rows: Tensor | None,
    task: Task,
    seed_batch: SeedBatch,
) -> dict[str, Fit | Reason]:
    """Train the seeds of `trained_runs` and return their fits by key; `rows`: see `_load_train`."""
    load_before, started = environment.load_average(), environment.now()
    _forget_peak_memory(seed_batch.device)
    others = OtherLoad(seed_batch.threads)
    start = time.perf_counter()
    try:
        if rows is None:
            posteriors = [check_fit(approach.fit(train, task, seed_batch.contexts[0]), approach)]
        else:
            posteriors = approach.fit_many(train, rows, task, seed_batch.contexts)
        timing.synchronise(seed_batch.device)
    except Diverged as error:  # every seed diverged, or the approach itself raised it for its only seed
        reasons = [context.diverged or message_reason("diverged-by-itself", error) for context in seed_batch.contexts]
        return {trained_run.fit_key: reason for trained_run, reason in zip(trained_runs, reasons, strict=True)}
    wall_s, load = (time.perf_counter() - start) / len(trained_runs), others.reasons()
    fits: dict[str, Fit | Reason] = {}
    for place, (trained_run, context, posterior) in enumerate(
        zip(trained_runs, seed_batch.contexts, posteriors, strict=True)
    ):
        if context.diverged:
            fits[trained_run.fit_key] = context.diverged
            continue
        learnt = split_hash(train, None if rows is None else rows[place])
        made = _provenance(trained_run, load_before, seed_batch.threads)
        info = FitInfo(
            fit_key=trained_run.fit_key,
            versions=Versions(recipe=trained_run.versions.recipe),
            epochs=[epoch.closed() for epoch in context.epochs],
            timings=_timings(approach, trained_run, task, seed_batch, context, wall_s, load),
            model=_model_size(posterior),
            provenance=msgspec.structs.replace(made, started=started, train_sha256=learnt),
        )
        fits[trained_run.fit_key] = Fit(posterior, info)
    return fits


def _timings(
    approach: Approach,
    trained_run: TrainedRun,
    task: Task,
    seed_batch: SeedBatch,
    context: RunContext,
    wall_s: float,
    load: Sequence[Reason],
) -> Timings:
    """Return what one seed's training cost, or its share of a shared seed batch; `load`: reasons of `OtherLoad`."""
    trained_rows = task.n_train
    if context.steps_per_epoch is not None:
        trained_rows = min(trained_rows, context.steps_per_epoch * getattr(approach, "batch_size", trained_rows))
    seconds = [epoch.seconds for epoch in context.epochs]
    epoch_s = statistics.median(seconds) if seconds else None
    with_measuring_s = [epoch.with_measuring_s for epoch in context.epochs]
    reasons = [*_why_timings_do_not_count(seed_batch, trained_run), *load]
    n_seeds = len(seed_batch.contexts)
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


def _why_timings_do_not_count(seed_batch: SeedBatch, trained_run: TrainedRun) -> list[Reason]:
    """Return why the measured times do not count as the times of training one seed alone."""
    reasons = []
    others = len(seed_batch.contexts) - 1
    if others:
        reasons.append(Reason(SEEDS_TOGETHER, {"n": others}))
    if seed_batch.at_once > 1:
        reasons.append(Reason("fits-at-once", {"n": seed_batch.at_once}))
    if seed_batch.resumed:
        reasons.append(Reason(RESUMED))
    steps = profile(trained_run.profile).steps_per_epoch
    if steps is not None:
        reasons.append(Reason("short-epochs", {"profile": trained_run.profile, "steps": steps}))
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


def _provenance(trained_run: TrainedRun, load_before: float, threads: int) -> Provenance:
    """Return the machine, code and data of this fit, and the settings that affect its speed and rounding."""
    device = torch.device(trained_run.device)
    return msgspec.structs.replace(
        environment.describe(threads),
        device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else environment.cpu_name(),
        vector_instructions=torch.backends.cpu.get_cpu_capability(),
        matmul_rate=timing.matmul_rate(device, threads),  # cached: `process.work` measured it before the fit
        load_average=(load_before, environment.load_average()),
        source_sha256=environment.source_hash(source_files(trained_run.approach)),
        data_sha256=data_hashes(profile(trained_run.profile).task),
        split_looked_at="none of the test rows enter fit; per-epoch numbers are measured as the document did",
    )
