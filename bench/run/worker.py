"""One fit and its measurements, in a process of its own: what happens between a cell and its record."""

from __future__ import annotations

import contextlib
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.core import environment, timing
from bench.core.errors import BenchError, Diverged, StoreError, Unsupported
from bench.core.load import OtherLoad
from bench.core.products import BY_ROUNDING, matrix_products, products_by
from bench.core.store import SCHEMA, Store
from bench.data.fingerprint import split_hash
from bench.data.manifest import data_hashes
from bench.data.splits import load_shared, load_split, toy_split
from bench.interface import Approach, Posterior, Split, Task
from bench.measure.measuring import Measurement
from bench.measure.published_protocols import protocol_of
from bench.plan.batches import checkpoint_key, fit_keys, is_posterior_of
from bench.plan.cells import Cell
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest, source_files
from bench.run import output
from bench.run.contexts import Fitting, Measure, OrphanedError, RunContext
from bench.run.events import Measuring, Recorded, Send, Started, Warned
from bench.run.options import Options


def _load_train(cells: Sequence[Cell], options: Options) -> tuple[Split, Tensor | None, Task]:
    """Return the training rows, the task, and between them, for several seeds, which rows are whose (int64 [E, N])."""
    if manifest(cells[0].approach).task == "toy":
        train = toy_split()
        rows = torch.arange(len(train)).expand(len(cells), -1) if len(cells) > 1 else None
        return train, rows, Task("regression", n_outputs=1, n_train=len(train), n_inputs=1)
    data_dir = Path(options.data_dir) if options.data_dir else None
    if len(cells) == 1:
        train, rows = load_split(cells[0].split, cells[0].seed, data_dir), None
    else:
        train, rows = load_shared(cells[0].split, [cell.seed for cell in cells], data_dir)
    device = torch.device(cells[0].device)
    if device.type != "cpu":  # all rows at once, so that no step waits for a batch to be copied
        train = Split(train.name, train.x.to(device), train.y.to(device), train.rows)
    n_train = len(train) if rows is None else rows.shape[1]
    return train, rows, Task("classification", n_outputs=10, n_train=n_train, n_inputs=train.x.shape[1])


@dataclass
class Fit:
    """A fitted posterior and what is to be said of the fit."""

    posterior: Posterior
    info: dict[str, Any]


def fit(
    group: Sequence[Cell], approach: Approach, store: Store, options: Options, send: Send
) -> dict[str, Fit | Diverged]:
    """Return the group's fits by their keys: from the store what is there, the rest trained, together where several.

    An interrupted training goes on from its checkpoint.
    """
    cells = [next(cell for cell in group if cell.fit_key == fit_key) for fit_key in fit_keys(group)]
    train, rows, task = _load_train(cells, options)
    fits: dict[str, Fit | Diverged] = {}
    for cell in cells:
        kept = _kept(store, cell)
        if kept is not None and not (options.renew and is_of_older_code(cell.approach, kept[1])):
            fits[cell.fit_key] = Fit(approach.rebuild(kept[0], task, cell.seed), kept[1])
    places = [place for place, cell in enumerate(cells) if cell.fit_key not in fits]
    if places:
        todo = [cells[place] for place in places]
        checkpoint = store.fit_path(checkpoint_key(group), "checkpoint")
        fitting = Fitting(todo, store, checkpoint, _watchers(todo, options), send, options.checkpoint_every_s)
        fitting.at_once = options.at_once
        fits.update(_train(approach, todo, train, None if rows is None else rows[places], task, fitting))
        trained = [(cell, found) for cell in todo if isinstance(found := fits[cell.fit_key], Fit)]
        if options.retain and not all([_retain(store, cell, found, send) for cell, found in trained]):
            return fits  # the checkpoint is all that is left of it on the disk
    store.fit_path(checkpoint_key(group), "checkpoint").unlink(missing_ok=True)
    return fits


def _kept(store: Store, cell: Cell) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the cell's fitted posterior and what is said of it; one of another fit is set aside."""
    path = store.fit_path(cell.fit_key, "posterior")
    return store.read_tensors(path, lambda info: is_posterior_of(info, cell.fit_key))


def _retain(store: Store, cell: Cell, found: Fit, send: Send) -> bool:
    """Keep a posterior, and return whether it is kept; without, its cells are measured while it is in memory."""
    try:
        store.write_tensors(store.fit_path(cell.fit_key, "posterior"), found.posterior.arrays(), found.info)
    except StoreError as error:
        send(Warned(f"{error}; the fit is measured, but not kept"))
        return False
    return True


def is_of_older_code(approach: str, made: Mapping[str, Any]) -> bool:
    """Return whether an approach's source has changed since a record or a posterior was made."""
    known = made.get("provenance", {}).get("source_sha256")
    return known is not None and known != environment.source_hash(source_files(approach))


def _watchers(cells: Sequence[Cell], options: Options) -> list[Measure]:
    """Return what measures each seed after an epoch, as its document did."""
    data_dir = Path(options.data_dir) if options.data_dir else None
    entry, budget = manifest(cells[0].approach), profile(cells[0].profile)
    device = torch.device(cells[0].device)
    return [protocol_of(entry, "published", cell.seed, budget, data_dir, device).epoch for cell in cells]


def _train(
    approach: Approach, cells: Sequence[Cell], train: Split, rows: Tensor | None, task: Task, fitting: Fitting
) -> dict[str, Fit | Diverged]:
    """Train the seeds of `cells`; rows as `_load_train` returns them."""
    load_before, started = environment.load_average(), environment.now()
    _forget_peak_memory(fitting.device)
    others = OtherLoad(fitting.threads)
    start = time.perf_counter()
    try:
        if rows is None:
            posteriors = [approach.fit(train, task, fitting.contexts[0])]
        else:
            posteriors = approach.fit_many(train, rows, task, fitting.contexts)
        timing.synchronise(fitting.device)
    except Diverged as error:  # every seed has, or the approach itself saw it in the only one
        reasons = [context.diverged or str(error) for context in fitting.contexts]
        return {cell.fit_key: Diverged(reason) for cell, reason in zip(cells, reasons, strict=True)}
    wall_s, load = (time.perf_counter() - start) / len(cells), others.reason()
    fits: dict[str, Fit | Diverged] = {}
    for place, (cell, context, posterior) in enumerate(zip(cells, fitting.contexts, posteriors, strict=True)):
        if context.diverged:
            fits[cell.fit_key] = Diverged(context.diverged)
            continue
        timings = _timings(approach, cell, task, fitting, context, wall_s, load)
        for entry in context.epochs:
            entry.pop("with_measuring_s")
        info = {
            "fit_key": cell.fit_key,
            "epochs": context.epochs,
            "timings": timings,
            "model": _model_size(posterior),
            "provenance": {
                "started": started,
                **_provenance(cell, load_before, fitting.threads),
                "train_sha256": split_hash(train, None if rows is None else rows[place]),
            },
        }
        fits[cell.fit_key] = Fit(posterior, info)
    return fits


def _timings(
    approach: Approach,
    cell: Cell,
    task: Task,
    fitting: Fitting,
    context: RunContext,
    wall_s: float,
    load: str,
) -> dict[str, Any]:
    """Return what one seed's training cost, of seeds trained together its share; `load`: what `OtherLoad` found."""
    seconds = [entry["seconds"] for entry in context.epochs]
    trained_rows = task.n_train
    if context.steps_per_epoch is not None:
        trained_rows = min(trained_rows, context.steps_per_epoch * getattr(approach, "batch_size", trained_rows))
    epoch_s = statistics.median(seconds) if seconds else None
    reason = _why_timings_do_not_count(fitting, cell, load)
    return {
        "fit_s": sum(seconds),
        "wall_s": wall_s,
        "epoch_s_median": epoch_s,
        "epoch_with_measuring_s": statistics.median(e["with_measuring_s"] for e in context.epochs) if seconds else None,
        "train_images_per_s": trained_rows / epoch_s if epoch_s and task.kind == "classification" else None,
        "peak_memory_mib": _peak_memory_mib(),
        **_peak_device_memory(context.device),
        "valid": not reason,
        "reason": reason,
        **({"batched": len(fitting.contexts)} if len(fitting.contexts) > 1 else {}),
    }


def _why_timings_do_not_count(fitting: Fitting, cell: Cell, load: str) -> str:
    reasons = []
    others = len(fitting.contexts) - 1
    if others:
        reasons.append(f"trained together with {others} other seed{'s' if others > 1 else ''}")
    if fitting.at_once > 1:
        reasons.append(f"{fitting.at_once} fits at a time")
    if fitting.resumed:
        reasons.append("the fit was interrupted and resumed")
    steps = profile(cell.profile).steps_per_epoch
    if steps is not None:
        reasons.append(f"profile {cell.profile} runs {steps} steps an epoch")
    if products_by(cell.precision, fitting.device) == BY_ROUNDING:
        reasons.append(f"{cell.device} has no {cell.precision} products: their operands were rounded first")
    return "; ".join(filter(None, [*reasons, load]))


def _peak_memory_mib() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


def _forget_peak_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak_device_memory(device: torch.device) -> dict[str, float]:
    """Return the most that tensors took of a GPU's memory during the fit, beside the process's own peak."""
    if device.type != "cuda":
        return {}
    return {"peak_device_memory_mib": round(torch.cuda.max_memory_allocated(device) / 2**20, 1)}


def _model_size(posterior: Posterior) -> dict[str, int]:
    try:
        marginals = posterior.weights()
    except Unsupported:
        return {}
    weights = sum(marginal.mean.numel() for marginal in marginals.values())
    with_sigma = sum(m.std.numel() for m in marginals.values() if m.std is not None)
    used = sum(int(m.used.sum()) for m in marginals.values())
    return {"n_weights": weights, "n_parameters": weights + with_sigma, "n_used_weights": used}


def _provenance(cell: Cell, load_before: float, threads: int) -> dict[str, Any]:
    return {
        **environment.describe(threads),
        **_machine(cell, threads),
        "load_average": [load_before, environment.load_average()],
        "source_sha256": environment.source_hash(source_files(cell.approach)),
        "data_sha256": data_hashes(),
        "split_looked_at": "none of the test rows enter fit; per-epoch numbers are measured as the document did",
    }


def _machine(cell: Cell, threads: int) -> dict[str, Any]:
    """Return what decides the speed and rounding of this cell here: device, how products are made, how fast."""
    device = torch.device(cell.device)
    return {
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else environment.cpu_name(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "products": products_by(cell.precision, device),
        "matmul_rate": timing.matmul_rate(device, threads),  # measured by `work`, before any precision but float32
    }


def make_record(cell: Cell, fitted: Fit, measured: Measurement) -> dict[str, Any]:
    """Put a fit and a measurement together as a record."""
    training, measuring = fitted.info["timings"]["reason"], measured.timings.get("reason", "")
    reasons = [training, "" if measuring in training else measuring]
    timings = {**fitted.info["timings"], **measured.timings, "reason": "; ".join(filter(None, reasons))}
    timings["valid"] = not timings["reason"]
    return {
        "schema": SCHEMA,
        **cell.naming(),
        "outcome": "done",
        "reason": "",
        "metrics": measured.metrics,
        "missing": measured.missing,
        "arrays": measured.arrays,
        "epochs": fitted.info["epochs"],
        "timings": timings,
        "model": fitted.info["model"],
        "recipe_values": dict(cell.values),
        "corrections": list(cell.corrections),
        "provenance": {**fitted.info["provenance"], "measured": environment.now()},
    }


def empty_record(cell: Cell, outcome: str, reason: str, detail: str = "") -> dict[str, Any]:
    """Make the record of a cell that gave no numbers, with the reason."""
    return {
        "schema": SCHEMA,
        **cell.naming(),
        "outcome": outcome,
        "reason": reason,
        "detail": detail,
        "metrics": {},
        "missing": {},
        "arrays": {},
        "epochs": [],
        "timings": {"valid": False, "reason": reason},
        "model": {},
        "recipe_values": dict(cell.values),
        "corrections": list(cell.corrections),
        "provenance": {"started": environment.now(), **environment.describe(torch.get_num_threads())},
    }


def work(cells: Sequence[Cell], options: Options, send: Send) -> None:
    """Fit once, one seed or several, and measure every cell; each ends as a record, whatever happens."""
    if options.threads:
        torch.set_num_threads(options.threads)
    for kind in (np.float32, np.float64):
        np.finfo(kind)  # NumPy looks at denormal numbers when first asked, and warns if it finds none
    device = torch.device(cells[0].device)
    timing.matmul_rate(device, torch.get_num_threads())
    torch.set_flush_denormal(True)  # numbers below 1e-38 are nothing here, and slow every operation that meets them
    try:
        with matrix_products(cells[0].precision, device):  # predictions too: who trains in bf16 predicts in it
            _work(cells, options, send)
    finally:
        torch.set_flush_denormal(False)


def _work(cells: Sequence[Cell], options: Options, send: Send) -> None:
    store = Store(Path(options.root))
    budget = profile(cells[0].profile)
    data_dir = Path(options.data_dir) if options.data_dir else None
    device = torch.device(cells[0].device)
    fits: Mapping[str, Fit | Exception] = {}
    for cell in cells:
        send(Started(cell.key))
        try:
            if cell.skip:
                raise Unsupported(cell.skip)
            entry = manifest(cell.approach)
            approach = build(entry, resolve(entry, cell.recipe), budget)
            if not fits:
                fits = _fit_or_why_not(cells, approach, store, options, send)
            fitted = fits[cell.fit_key]
            if isinstance(fitted, Exception):
                raise fitted
            send(Measuring(cell.key))
            protocol = protocol_of(entry, cell.protocol, cell.seed, budget, data_dir, device)
            others, start = OtherLoad(torch.get_num_threads()), time.perf_counter()
            measured = protocol.final(fitted.posterior, fitted.info["epochs"])
            measured.timings["measure_s"] = time.perf_counter() - start
            measured.timings["reason"] = others.reason()
            record, scores = make_record(cell, fitted, measured), measured.scores
        except OrphanedError:
            raise
        except Unsupported as error:
            record, scores = empty_record(cell, "skipped", str(error)), None
        except Diverged as error:
            record, scores = empty_record(cell, "diverged", str(error)), None
        except Exception as error:  # noqa: BLE001 - a cell that fails must not take the others along
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}".rstrip(": \n").splitlines()[0]
            place = "" if isinstance(error, BenchError) else f" ({Path(where.filename).name}:{where.lineno})"
            record, scores = empty_record(cell, "failed", text + place, _detail(traceback.format_exc())), None
        send(write_or_say_why(store, cell, record, scores))


def _detail(trace: str) -> str:
    """Return what helps to find the cause of a failure: where it happened and what the worker has printed."""
    printed = output.printed()
    return f"{trace}\nprinted by the worker:\n{printed}" if printed else trace


def write_or_say_why(
    store: Store, cell: Cell, record: Mapping[str, Any], scores: Mapping[str, Any] | None = None
) -> Recorded:
    """Write a record and return the event that tells of it.

    On a full disk a short record of the failure may still fit, and if not, the event has the reason.
    """
    try:
        store.write(record, scores)
    except StoreError as error:
        record = empty_record(cell, "failed", str(error))
        with contextlib.suppress(StoreError):
            store.write(record)
    return Recorded(cell.key, record["outcome"], record["reason"])


def _fit_or_why_not(
    group: Sequence[Cell], approach: Approach, store: Store, options: Options, send: Send
) -> Mapping[str, Fit | Exception]:
    """Return the group's fits, or for all of them the error that kept them from being made."""
    try:
        return fit(group, approach, store, options, send)
    except Exception as error:  # noqa: BLE001 - each cell's record says it
        return dict.fromkeys(fit_keys(group), error)
