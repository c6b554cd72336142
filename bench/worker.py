"""One fit and its measurements, in a process of its own: what happens between a cell and its record."""

from __future__ import annotations

import math
import os
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench import environment, timing
from bench.data import data_hashes, load_split, toy_split
from bench.documents import protocol_of
from bench.errors import BenchError, Diverged, StoreError, Unsupported
from bench.interface import Approach, Context, Posterior, Split, Task
from bench.measuring import Measurement
from bench.plan import Cell
from bench.precision import BY_ROUNDING, matrix_products, products_by
from bench.protocols import Protocol
from bench.recipes import build, profile, resolve
from bench.registry import manifest, source_files
from bench.store import SCHEMA, Store

Send = Callable[[dict[str, Any]], None]

CHECKPOINT_EVERY_S = 2.0  # epochs shorter than this share a checkpoint
BUSY_MARGIN = 0.75  # load beyond the own threads from which timings do not count


@dataclass(frozen=True)
class Options:
    """How a worker runs, whatever the cell."""

    root: str
    data_dir: str | None = None
    threads: int | None = None
    retain: bool = True  # keep the fitted posterior for further protocols and for predict


class OrphanedError(BenchError):
    """The process that asked for this work is gone."""


class RunContext(Context):
    """The harness's side of a fit: clock, per-epoch measuring, checkpoints."""

    def __init__(self, cell: Cell, store: Store, measure: Callable[[Posterior, int], Mapping[str, float]], send: Send):
        self.seed = cell.seed
        self.device = torch.device(cell.device)
        self.steps_per_epoch = profile(cell.profile).steps_per_epoch
        self.threads = torch.get_num_threads()  # before a framework changes it
        self.epochs: list[dict[str, Any]] = []
        self.resumed = False
        self._cell, self._store, self._measure, self._send = cell, store, measure, send
        self._last_checkpoint = self._mark = time.perf_counter()
        self._parent = os.getppid()

    def restore(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """See `Context.restore`."""
        found = self._store.read_tensors(self._store.fit_path(self._cell.fit_key, "checkpoint"))
        self._mark = time.perf_counter()
        if found is None:
            return None
        state, info = found
        self.epochs, self.resumed = info["epochs"], True
        return len(self.epochs), state

    def epoch_end(
        self,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """See `Context.epoch_end`: the clock stops here and starts again on return."""
        timing.synchronise(self.device)  # what the epoch has asked of a GPU belongs to its time
        seconds = time.perf_counter() - self._mark
        if os.getppid() != self._parent:
            raise OrphanedError("the run that started this fit is gone")
        for name, value in trace.items():
            if not math.isfinite(value):
                raise Diverged(f"{name} is {value} in epoch {epoch}; a smaller learning rate may help")
        measured = self._measure(posterior(), epoch)
        timing.synchronise(self.device)
        now = time.perf_counter()
        self.epochs.append(
            {"epoch": epoch, "seconds": seconds, "with_measuring_s": now - self._mark, **trace, **measured}
        )
        if now - self._last_checkpoint > CHECKPOINT_EVERY_S and epoch < self._cell.values["epochs"]:
            path = self._store.fit_path(self._cell.fit_key, "checkpoint")
            self._store.write_tensors(path, state(), {"epochs": self.epochs, "fit_key": self._cell.fit_key})
            self._last_checkpoint = time.perf_counter()
        self._send({"kind": "epoch", "epoch": epoch, "of": self._cell.values["epochs"], "trace": dict(trace)})
        self._mark = time.perf_counter()


def _task(train: Split, kind: str) -> Task:
    if kind == "toy":
        return Task("regression", n_outputs=1, n_train=len(train), n_inputs=1)
    return Task("classification", n_outputs=10, n_train=len(train), n_inputs=train.x.shape[1])


def _load_train(cell: Cell, options: Options) -> tuple[Split, Task]:
    kind = manifest(cell.approach).task
    if kind == "toy":
        train = toy_split()
    else:
        train = load_split(cell.split, cell.seed, Path(options.data_dir) if options.data_dir else None)
    device = torch.device(cell.device)
    if device.type != "cpu":  # all rows at once, so that no step waits for a batch to be copied
        train = Split(train.name, train.x.to(device), train.y.to(device), train.rows)
    return train, _task(train, kind)


@dataclass
class Fit:
    """A fitted posterior and what is to be said of the fit."""

    posterior: Posterior
    info: dict[str, Any]


def fit(cell: Cell, approach: Approach, store: Store, protocol: Protocol, options: Options, send: Send) -> Fit:
    """Return the cell's fit: from the store if it is there, else trained (resumed where a checkpoint is)."""
    train, task = _load_train(cell, options)
    path = store.fit_path(cell.fit_key, "posterior")
    kept = store.read_tensors(path)
    if kept is not None and kept[1].get("fit_key") == cell.fit_key:
        return Fit(approach.rebuild(kept[0], task, cell.seed), kept[1])
    context = RunContext(cell, store, protocol.epoch, send)
    load_before, started = environment.load_average(), environment.now()
    _forget_peak_memory(context.device)
    start = time.perf_counter()
    posterior = approach.fit(train, task, context)
    timing.synchronise(context.device)
    seconds = [entry["seconds"] for entry in context.epochs]
    trained_rows = len(train)
    if context.steps_per_epoch is not None:
        batch = getattr(approach, "batch_size", len(train))
        trained_rows = min(len(train), context.steps_per_epoch * batch)
    epoch_s = statistics.median(seconds) if seconds else None
    reason = _why_timings_do_not_count(context, cell, load_before)
    info = {
        "fit_key": cell.fit_key,
        "epochs": context.epochs,
        "timings": {
            "fit_s": sum(seconds),
            "wall_s": time.perf_counter() - start,
            "epoch_s_median": epoch_s,
            "epoch_with_measuring_s": (
                statistics.median(e["with_measuring_s"] for e in context.epochs) if seconds else None
            ),
            "train_images_per_s": trained_rows / epoch_s if epoch_s and task.kind == "classification" else None,
            "peak_memory_mib": _peak_memory_mib(),
            **_peak_device_memory(context.device),
            "valid": not reason,
            "reason": reason,
        },
        "model": _model_size(posterior),
        "provenance": {"started": started, **_provenance(cell, load_before, context.threads)},
    }
    for entry in context.epochs:
        entry.pop("with_measuring_s")
    if options.retain:
        store.write_tensors(path, posterior.arrays(), info)
    store.drop_checkpoint(cell.fit_key)
    return Fit(posterior, info)


def _why_timings_do_not_count(context: RunContext, cell: Cell, load_before: float) -> str:
    reasons = []
    if context.resumed:
        reasons.append("the fit was interrupted and resumed")
    if cell.profile == "smoke":
        reasons.append("profile smoke runs two steps an epoch")
    if products_by(cell.precision, context.device) == BY_ROUNDING:
        reasons.append(f"{cell.device} has no {cell.precision} products: their operands were rounded first")
    busy = max(load_before, environment.load_average())
    if busy > context.threads + BUSY_MARGIN:
        reasons.append("other load on the machine")
    return "; ".join(reasons)


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
    timings = {**fitted.info["timings"], **measured.timings}
    if fitted.info["timings"]["reason"] and measured.timings.get("reason"):
        timings["reason"] = "; ".join([fitted.info["timings"]["reason"], measured.timings["reason"]])
    timings["valid"] = not timings.get("reason")
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
    """Fit once and measure every cell of the fit; each ends as a record, whatever happens."""
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
    fitted: Fit | None = None
    for cell in cells:
        send({"kind": "start", "key": cell.key})
        try:
            if cell.skip:
                raise Unsupported(cell.skip)
            entry = manifest(cell.approach)
            approach = build(entry, resolve(entry, cell.recipe), budget)
            if fitted is None:
                watcher = protocol_of(entry, "published", cell.seed, budget, data_dir, device)
                fitted = fit(cell, approach, store, watcher, options, send)
            send({"kind": "measure", "key": cell.key})
            protocol = protocol_of(entry, cell.protocol, cell.seed, budget, data_dir, device)
            start = time.perf_counter()
            measured = protocol.final(fitted.posterior, fitted.info["epochs"])
            measured.timings["measure_s"] = time.perf_counter() - start
            record, scores = make_record(cell, fitted, measured), measured.scores
        except OrphanedError:
            raise
        except Unsupported as error:
            record, scores = empty_record(cell, "skipped", str(error)), None
        except Diverged as error:
            record, scores = empty_record(cell, "diverged", str(error)), None
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a cell that fails must not take the others along
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            place = "" if isinstance(error, BenchError) else f" ({Path(where.filename).name}:{where.lineno})"
            record, scores = empty_record(cell, "failed", text + place, traceback.format_exc()), None
        path = store.write(record, scores)
        send(
            {
                "kind": "record",
                "key": cell.key,
                "outcome": record["outcome"],
                "reason": record["reason"],
                "path": str(path),
            }
        )


def child(cells: Sequence[Cell], options: Options, connection: Any) -> None:
    """Entry point of the process: send events, end with {"kind": "end"}; the parent notices if it never comes."""
    try:
        work(cells, options, connection.send)
        connection.send({"kind": "end"})
    except (BrokenPipeError, KeyboardInterrupt, OrphanedError):
        os._exit(1)
    except StoreError as error:
        connection.send({"kind": "error", "message": str(error)})
