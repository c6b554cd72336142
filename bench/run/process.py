"""The work of a child process: fit once, measure every trained run, and write a record for each."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import torch
from numba.core import event

from bench.core import environment, timing
from bench.core.environment import OtherLoad
from bench.core.errors import BenchError, Diverged, Unsupported
from bench.core.precision import check_gpu, computing_in, without_denormals
from bench.core.reasons import Reason, message_reason
from bench.core.records import SCHEMA, Arrays, Record
from bench.core.row_scores import Scores
from bench.core.store import Store
from bench.interface import Approach
from bench.measure.measuring import Measurement
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifest
from bench.plan.seed_batches import fit_keys
from bench.plan.trained_runs import TrainedRun
from bench.run.events import Measuring, Noted, Options, Send, Started, printed
from bench.run.fitting import Fit, fit, protocol_for
from bench.run.recording import empty_record, write_or_say_why

COMPILES = "loops are compiled, once on this machine, and kept in {} (or in $NUMBA_CACHE_DIR)"
Fits = Mapping[str, Fit | Reason | Exception]  # by fit key: the fit, why it diverged, or the error that ended it


def work(trained_runs: Sequence[TrainedRun], options: Options, send: Send) -> None:
    """Fit the seeds of a seed batch, and measure every trained run. One that fails gets a record too."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = torch.device(trained_runs[0].device)
    with without_denormals():  # before any operation: the first one starts threads, which take over this setting
        # Measured before the fit. `fitting` reads the cache.
        timing.matmul_rate(device, torch.get_num_threads())
        watched = event.install_listener("numba:compile", Compiling(send))
        with watched, computing_in(trained_runs[0].precision, device):  # for training and for predictions
            _work(trained_runs, options, send)


class Compiling(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says that numba compiles, and where it keeps what it makes."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def on_start(self, begun: event.Event) -> None:
        """Say it before a loop is compiled, which takes longer than a short fit."""
        if kept := begun.data["dispatcher"].stats.cache_path:  # None: a part of a loop
            place = Path(kept)
            self._send(
                Noted(COMPILES.format("the folders of their code" if place.stem == "__pycache__" else place.parent))
            )

    def on_end(self, ended: event.Event) -> None:
        """See numba."""


def _work(trained_runs: Sequence[TrainedRun], options: Options, send: Send) -> None:
    store = Store(Path(options.root))
    fits: Fits = {}
    for trained_run in trained_runs:
        send(Started(trained_run.key))
        scores: Scores | None = None
        try:
            if trained_run.skip:
                record = empty_record(trained_run, "skipped", trained_run.skip, torch.get_num_threads())
            else:
                check_gpu(trained_run.precision, trained_run.device)  # another machine may have planned the trained run
                entry = manifest(trained_run.approach)
                approach = build(entry, resolve(entry, trained_run.recipe), profile(trained_run.profile))
                fits = fits or _fit_or_why_not(trained_runs, approach, store, options, send)
                record, scores = _measured(trained_run, fits[trained_run.fit_key], options, send)
        except Exception as error:  # noqa: BLE001 - a trained run that fails must not stop the others
            record = _failed(trained_run, error)
        send(write_or_say_why(store, trained_run, record, scores))


def _measured(
    trained_run: TrainedRun, fitted: Fit | Reason | Exception, options: Options, send: Send
) -> tuple[Record, Scores | None]:
    """Measure a trained run's fit and return its record and scores; without a fit, return why or raise the error."""
    if isinstance(fitted, Exception):
        raise fitted
    if isinstance(fitted, Reason):
        return empty_record(trained_run, "diverged", fitted, torch.get_num_threads()), None
    send(Measuring(trained_run.key))
    protocol = protocol_for(trained_run, trained_run.protocol, options)
    others, start = OtherLoad(torch.get_num_threads()), time.perf_counter()
    measured = protocol.final(fitted.posterior, [epoch.metrics for epoch in fitted.info.epochs])
    measured.timings["measure_s"] = time.perf_counter() - start
    return _record(trained_run, fitted, measured, others.reasons()), measured.scores


def _failed(trained_run: TrainedRun, error: Exception) -> Record:
    """Return the record of a trained run for the error that ended it."""
    if isinstance(error, Unsupported):
        return empty_record(trained_run, "skipped", message_reason("unsupported", error), torch.get_num_threads())
    if isinstance(error, Diverged):
        return empty_record(
            trained_run, "diverged", message_reason("diverged-by-itself", error), torch.get_num_threads()
        )
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = "" if isinstance(error, BenchError) else f"{Path(where.filename).name}:{where.lineno}"
    lines = str(error).rstrip(": \n").splitlines()
    message = lines[0] if lines else ""
    values: dict[str, str | int | float] = {"type": type(error).__name__, "message": message, "place": place}
    detail = "".join(traceback.format_exception(error))
    if output := printed():
        detail += f"\nprinted by the child process:\n{output}"
    return empty_record(trained_run, "failed", Reason("error", values), torch.get_num_threads(), detail)


def _fit_or_why_not(
    group: Sequence[TrainedRun], approach: Approach, store: Store, options: Options, send: Send
) -> Fits:
    """Return the group's fits; if an error ended the seed batch, return this error for every fit."""
    try:
        return fit(group, approach, store, options, send)
    except Exception as error:  # noqa: BLE001 - an approach may raise anything; each trained run's record says what
        return dict.fromkeys(fit_keys(group), error)


def _record(trained_run: TrainedRun, fitted: Fit, measured: Measurement, load: Sequence[Reason]) -> Record:
    """Make the record of a fit and its measurement; `load`: why the times of measuring do not count (`OtherLoad`)."""
    training = fitted.info.timings.reasons
    reasons = [*training, *(reason for reason in load if reason not in training)]
    return Record(
        schema=SCHEMA,
        **msgspec.structs.asdict(trained_run.naming()),
        outcome="done",
        reason=None,
        metrics=measured.metrics,
        missing=measured.missing,
        arrays=msgspec.convert(measured.arrays, Arrays),
        epochs=fitted.info.epochs,
        timings=msgspec.structs.replace(fitted.info.timings, **measured.timings, reasons=reasons, valid=not reasons),
        model=fitted.info.model,
        recipe_values=dict(trained_run.values),
        corrections=list(trained_run.corrections),
        versions=trained_run.versions,
        provenance=msgspec.structs.replace(fitted.info.provenance, measured=environment.now()),
    )
