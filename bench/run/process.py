"""The work of a child process: fit once, measure every cell, and write a record for each."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import torch

from bench.core import environment, timing
from bench.core.errors import BenchError, Diverged, Unsupported
from bench.core.load import OtherLoad
from bench.core.precision import check_gpu, computing_in, without_denormals
from bench.core.reasons import Reason, told
from bench.core.records import SCHEMA, Arrays, Record
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.interface import Approach
from bench.measure.measuring import Measurement
from bench.plan.cells import Cell
from bench.plan.computations import fit_keys
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from bench.run import output
from bench.run.contexts import OrphanedError
from bench.run.events import Measuring, Send, Started
from bench.run.fitting import Fit, fit, protocol_for
from bench.run.options import Options
from bench.run.recording import empty_record, write_or_say_why

Fits = Mapping[str, Fit | Reason | Exception]  # by fit key: the fit, why it diverged, or the error that ended it


def work(cells: Sequence[Cell], options: Options, send: Send) -> None:
    """Fit the seeds of the cells in one computation, and measure every cell. A cell that fails gets a record too."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = torch.device(cells[0].device)
    with without_denormals():  # before any operation: the first one starts threads, which take over this setting
        # Measured before the fit. `fitting` reads the cache.
        timing.matmul_rate(device, torch.get_num_threads())
        with computing_in(cells[0].precision, device):  # for training and for predictions
            _work(cells, options, send)


def _work(cells: Sequence[Cell], options: Options, send: Send) -> None:
    store = Store(Path(options.root))
    fits: Fits = {}
    for cell in cells:
        send(Started(cell.key))
        scores: Scores | None = None
        try:
            if cell.skip:
                record = empty_record(cell, "skipped", cell.skip, torch.get_num_threads())
            else:
                check_gpu(cell.precision, cell.device)  # another machine may have planned the cell
                entry = manifest(cell.approach)
                approach = build(entry, resolve(entry, cell.recipe), profile(cell.profile))
                fits = fits or _fit_or_why_not(cells, approach, store, options, send)
                record, scores = _measured(cell, fits[cell.fit_key], options, send)
        except OrphanedError:
            raise
        except Exception as error:  # noqa: BLE001 - a cell that fails must not stop the others
            record = _failed(cell, error)
        send(write_or_say_why(store, cell, record, scores))


def _measured(
    cell: Cell, fitted: Fit | Reason | Exception, options: Options, send: Send
) -> tuple[Record, Scores | None]:
    """Measure a cell's fit and return its record and scores; without a fit, return why or raise the error."""
    if isinstance(fitted, Exception):
        raise fitted
    if isinstance(fitted, Reason):
        return empty_record(cell, "diverged", fitted, torch.get_num_threads()), None
    send(Measuring(cell.key))
    protocol = protocol_for(cell, cell.protocol, options)
    others, start = OtherLoad(torch.get_num_threads()), time.perf_counter()
    measured = protocol.final(fitted.posterior, [epoch.metrics for epoch in fitted.info.epochs])
    measured.timings["measure_s"] = time.perf_counter() - start
    return _record(cell, fitted, measured, others.reasons()), measured.scores


def _failed(cell: Cell, error: Exception) -> Record:
    """Return the record of a cell for the error that ended it."""
    if isinstance(error, Unsupported):
        return empty_record(cell, "skipped", told("unsupported", error), torch.get_num_threads())
    if isinstance(error, Diverged):
        return empty_record(cell, "diverged", told("diverged-as-told", error), torch.get_num_threads())
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = "" if isinstance(error, BenchError) else f"{Path(where.filename).name}:{where.lineno}"
    lines = str(error).rstrip(": \n").splitlines()
    values: dict[str, str | int | float] = {
        "type": type(error).__name__,
        "message": lines[0] if lines else "",
        "place": place,
    }
    detail = "".join(traceback.format_exception(error))
    printed = output.printed()
    if printed:
        detail += f"\nprinted by the child process:\n{printed}"
    return empty_record(cell, "failed", Reason("error", values), torch.get_num_threads(), detail)


def _fit_or_why_not(group: Sequence[Cell], approach: Approach, store: Store, options: Options, send: Send) -> Fits:
    """Return the group's fits; if an error ended the computation, return this error for every fit."""
    try:
        return fit(group, approach, store, options, send)
    except Exception as error:  # noqa: BLE001 - an approach may raise anything; each cell's record says what
        return dict.fromkeys(fit_keys(group), error)


def _record(cell: Cell, fitted: Fit, measured: Measurement, load: Sequence[Reason]) -> Record:
    """Make the record of a fit and its measurement; `load`: why the times of measuring do not count (`OtherLoad`)."""
    training = fitted.info.timings.reasons
    reasons = [*training, *(reason for reason in load if reason not in training)]
    return Record(
        schema=SCHEMA,
        **msgspec.structs.asdict(cell.naming()),
        outcome="done",
        reason=None,
        metrics=measured.metrics,
        missing=measured.missing,
        arrays=msgspec.convert(measured.arrays, Arrays),
        epochs=fitted.info.epochs,
        timings=msgspec.structs.replace(fitted.info.timings, **measured.timings, reasons=reasons, valid=not reasons),
        model=fitted.info.model,
        recipe_values=dict(cell.values),
        corrections=list(cell.corrections),
        versions=cell.versions,
        provenance=msgspec.structs.replace(fitted.info.provenance, measured=environment.now()),
    )
