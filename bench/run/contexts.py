"""What a fit calls after each epoch, for one or several seeds: it takes the time, measures, and writes checkpoints."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from bench.core import timing
from bench.core.errors import ContractViolation, Diverged, StoreError
from bench.core.fits import CheckpointInfo, OpenEpoch, SeedProgress, described
from bench.core.precision import dtype_of
from bench.core.reasons import Reason, in_words
from bench.core.records import MOST_EPOCHS, Versions
from bench.core.store import Store
from bench.data.manifest import TASKS
from bench.interface import Context, Posterior
from bench.plan.recipes import profile
from bench.plan.seed_batches import is_checkpoint_of
from bench.plan.trained_runs import TrainedRun
from bench.run.events import EpochEnded, Options, Send, Warned, losses

Measure = Callable[[Posterior, int], Mapping[str, float]]

CHECKPOINT_EVERY_S = 2.0  # epochs shorter than this share a checkpoint


class SeedBatch:
    """The training of some seeds together: its times, the reports of each seed, and its checkpoint.

    An epoch ends when the last seed has reported it. Only then is a checkpoint written, with all seeds, so that an
    interrupted seed batch resumes all of them from the same epoch. Each seed gets an equal share of the time.
    """

    def __init__(
        self,
        trained_runs: Sequence[TrainedRun],
        store: Store,
        checkpoint: Path,
        measures: Sequence[Measure],
        send: Send,
        options: Options,
    ) -> None:
        """Make a context for each trained run; the trained runs differ only in their seeds."""
        self.contexts = [
            RunContext(self, trained_run, measure) for trained_run, measure in zip(trained_runs, measures, strict=True)
        ]
        self.device = torch.device(trained_runs[0].device)
        self.threads = torch.get_num_threads()  # before a framework changes it
        self.resumed = False
        self.at_once = options.at_once
        self._store, self._checkpoint, self._send = store, checkpoint, send
        every_s = options.checkpoint_every_s
        self._checkpoint_every_s = CHECKPOINT_EVERY_S if every_s is None else every_s
        self._fit_keys = {
            each.name: trained_run.fit_key for each, trained_run in zip(self.contexts, trained_runs, strict=True)
        }
        self._approach, self._versions = trained_runs[0].approach, Versions(recipe=trained_runs[0].versions.recipe)
        self._n_epochs = trained_runs[0].epochs
        self._n_reported = 0
        self._trained_s = self._measured_s = 0.0  # seconds of this epoch, over all seeds
        self._last_checkpoint = self._mark = time.perf_counter()

    def restore(self, context: RunContext) -> tuple[int, Mapping[str, Tensor]] | None:
        """Return the epoch of the checkpoint and the seed's state; None without a checkpoint of all seeds of this fit.

        The state is on the device of the fit. A fused optimiser needs even its count of steps there.
        """
        found = self._found
        self._mark = time.perf_counter()
        if found is None:
            return None
        tensors, info = found
        self.resumed = True
        kept = info.seeds[context.name]
        context.resume(info.epoch, kept)
        prefix = f"{context.name}/"
        state = {name[len(prefix) :]: t.to(self.device) for name, t in tensors.items() if name.startswith(prefix)}
        return info.epoch, state

    @cached_property
    def _found(self) -> tuple[dict[str, Tensor], CheckpointInfo] | None:
        """The tensors and the description of the checkpoint; None unless it has every seed of this fit."""
        is_ours = partial(is_checkpoint_of, fit_keys=self._fit_keys, approach=self._approach)
        read = self._store.read_tensors(self._checkpoint, is_ours)
        if read is None:
            return None
        info = described(read[1], CheckpointInfo)
        return (read[0], info) if all(each.name in info.seeds for each in self.contexts) else None

    def report(
        self,
        context: RunContext,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """Take one seed's report of an epoch. The time of this call does not count as training."""
        timing.synchronise(self.device)  # queued work of a GPU belongs to the epoch's time
        start = time.perf_counter()
        self._trained_s += start - self._mark
        context.take(epoch, trace, posterior)
        if all(each.diverged for each in self.contexts):
            raise Diverged(in_words(context.diverged))
        context.state = state
        timing.synchronise(self.device)
        self._measured_s += time.perf_counter() - start
        self._n_reported += 1
        if self._n_reported == len(self.contexts):
            self._end(epoch, trace)
        self._mark = time.perf_counter()

    def _end(self, epoch: int, trace: Mapping[str, float]) -> None:
        """Store the times of an epoch that every seed has reported, and write a checkpoint if one is due."""
        n_seeds = len(self.contexts)
        for context in self.contexts:
            if not context.diverged:
                with_measuring_s = (self._trained_s + self._measured_s) / n_seeds
                context.epochs[-1] = msgspec.structs.replace(
                    context.epochs[-1], seconds=self._trained_s / n_seeds, with_measuring_s=with_measuring_s
                )
        self._trained_s = self._measured_s = 0.0
        self._n_reported = 0
        if time.perf_counter() - self._last_checkpoint > self._checkpoint_every_s and epoch < self._n_epochs:
            self._write_checkpoint(epoch)
        self._send(EpochEnded(epoch, self._n_epochs, losses(trace), n_seeds))

    def _write_checkpoint(self, epoch: int) -> None:
        tensors = {f"{each.name}/{name}": t for each in self.contexts for name, t in each.state().items()}
        seeds = {each.name: SeedProgress(epochs=each.epochs, diverged=each.diverged) for each in self.contexts}
        info = CheckpointInfo(epoch=epoch, seeds=seeds, fit_keys=self._fit_keys, versions=self._versions)
        try:
            self._store.write_tensors(self._checkpoint, tensors, info)
        except StoreError as error:  # for example a full disk; training is lost only if the process ends early
            self._send(Warned(f"{error}; training goes on without a checkpoint"))
        self._last_checkpoint = time.perf_counter()


class RunContext(Context):
    """The context of one seed, and the numbers that the seed reported."""

    def __init__(self, seed_batch: SeedBatch, trained_run: TrainedRun, measure: Measure) -> None:
        self.seed = trained_run.seed
        self.name = str(trained_run.seed)  # key of the seed in a checkpoint
        self.device, self.dtype = torch.device(trained_run.device), dtype_of(trained_run.precision)
        budget = profile(trained_run.profile)
        self.steps_per_epoch = budget.steps_per_epoch
        self._learnt = TASKS[budget.task].inside  # name of the data set that is learnt
        self.epochs: list[OpenEpoch] = []
        self.diverged: Reason | None = None  # the seed may train on, but its later reports are ignored
        self.state: Callable[[], Mapping[str, Tensor]] = dict
        self._seed_batch, self._measure = seed_batch, measure
        self._reported, self._n_epochs = (
            0,
            trained_run.epochs or MOST_EPOCHS,
        )  # the last epoch; 0: planned without the framework

    def resume(self, epoch: int, kept: SeedProgress) -> None:
        """Take what a checkpoint has of this seed; `epoch`: the last one that was trained."""
        self._reported, self.epochs, self.diverged = epoch, list(kept.epochs), kept.diverged

    def restore(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """See `Context.restore`."""
        return self._seed_batch.restore(self)

    def epoch_end(
        self,
        epoch: int,
        trace: Mapping[str, float],
        posterior: Callable[[], Posterior],
        state: Callable[[], Mapping[str, Tensor]],
    ) -> None:
        """See `Context.epoch_end`.

        Raises:
            Diverged: the last seed of the fit has diverged.
            ContractViolation: the epoch does not come after the one before it, or is above the approach's `epochs`.
        """
        if not self._reported < epoch <= self._n_epochs:
            raise ContractViolation(
                f"epoch_end was called with epoch {epoch!r:.50} after {self._reported}; epochs are whole numbers that "
                f"increase, up to {self._n_epochs}"
            )
        self._reported = operator.index(epoch)
        self._seed_batch.report(self, self._reported, trace, posterior, state)

    def take(self, epoch: int, trace: Mapping[str, float], posterior: Callable[[], Posterior]) -> None:
        """Measure the epoch and keep its numbers, or keep the reason if the seed diverged."""
        if self.diverged:
            return
        for name, value in trace.items():
            if not math.isfinite(value):
                self.diverged = Reason("diverged", {"metric": name, "value": str(value), "epoch": epoch})
                return
        named = {self._of_task(name): value for name, value in trace.items()}
        self.epochs.append(OpenEpoch(epoch=epoch, metrics={**named, **self._measure(posterior(), epoch)}))

    def _of_task(self, name: str) -> str:
        """Return the name of a number with the data set's real name: approaches write mnist for any data set."""
        return f"{self._learnt}/{name.removeprefix('mnist/')}" if name.startswith("mnist/") else name
