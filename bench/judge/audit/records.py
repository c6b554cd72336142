"""The rules for stored records: their seeds, code, numbers of draws, raw predictions and kept posteriors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from bench.core.errors import BenchError, Unsupported
from bench.core.fits import read_posterior
from bench.core.records import Record
from bench.core.store import Store
from bench.interface import Posterior, Task
from bench.judge.audit.documents import declared
from bench.judge.audit.rules import Finding
from bench.judge.comparison import ENOUGH
from bench.judge.contract import ApproachUnderTest, CheckContext
from bench.measure.measuring import posterior_of
from bench.plan.freshness import why_stale
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifests
from elbo_audit.findings import FindingOutcome, Seen
from elbo_audit.predictions import MEAN, averages, entropies_by_average, off_one

STILL = 0.02  # relative change of sigma in training; below it, sigma counts as never moved
HALF = 0.02  # nats; how far half precision rounds a stored entropy
INPUTS, ROWS = 784, 60_000


def audit_records(records: Sequence[Record], store: Store) -> list[Finding]:
    """Apply every rule for records to the finished ones, approach by approach."""
    done = [record for record in records if record.outcome == "done"]
    known = manifests()
    found: list[Finding] = []
    for name in dict.fromkeys(record.approach for record in done):
        own = [record for record in done if record.approach == name]
        diverged = [record for record in records if record.approach == name and record.outcome == "diverged"]
        declared_reason = known[name].known.get("one-seed", "") if name in known else ""
        found += [_one_seed(name, own, diverged, declared_reason), _stale(name, own), *_last_epoch(name, own)]
        if name in known:
            found += [*_predictions(own, store), *_sigma(own, store)]
    return found + list(_draws(done))


def _one_seed(name: str, done: Iterable[Record], diverged: Iterable[Record], reason: str) -> Finding:
    """Count the seeds of each run that has a finished record. A diverged seed counts too, because it is reported.

    `reason`: why there is one seed only, if the manifest declares that; else ''.
    """
    finished: dict[str, set[int]] = {}
    for record in done:
        finished.setdefault(_trained_run(record), set()).add(record.seed)
    trained_runs = {trained_run: {*seeds} for trained_run, seeds in finished.items()}
    for record in diverged:
        trained_runs.get(_trained_run(record), set()).add(record.seed)
    single = [trained_run for trained_run, seeds in trained_runs.items() if len(seeds) == 1]
    few = sum(len(seeds) < ENOUGH for seeds in finished.values())  # a verdict counts finished seeds only
    least = min(map(len, trained_runs.values()))
    if single:
        detail = f"one seed only in {len(single)} of {len(trained_runs)} trained runs: {', '.join(single)}"
        outcome: FindingOutcome = "known" if reason else "fails"
        detail += f"; {reason}" if reason else ""
        return Finding("one-seed", f"records of {name}", outcome, detail, {"seeds": least})
    where = "the only trained run" if len(trained_runs) == 1 else f"all {len(trained_runs)} trained runs"
    detail = f"{least} seeds or more in {where}; trained runs with fewer than the {ENOUGH} that a verdict needs: {few}"
    return Finding("one-seed", f"records of {name}", "passes", detail, {"seeds": least})


def _trained_run(record: Record) -> str:
    return f"{record.recipe} x {record.protocol}"


def _stale(name: str, records: Sequence[Record]) -> Finding:
    reasons = {_name(record): why for record in records if (why := why_stale(record))}
    old = len(reasons)
    dirty = sum(record.provenance.dirty for record in records)
    detail = f"{old} of {len(records)} records made at other versions, {dirty} by code that was never committed"
    detail += "".join(f"; {name}: {why}" for name, why in reasons.items())
    measured = {"stale": old, "uncommitted": dirty}
    return Finding("stale-result", f"records of {name}", "fails" if old else "passes", detail, measured)


def _name(record: Record) -> str:
    return f"{_trained_run(record)} {record.profile} seed {record.seed} {record.key[:8]}"


def _last_epoch(name: str, records: Iterable[Record]) -> Iterator[Finding]:
    """Check that a record reports its last epoch, not one chosen by the test numbers of all epochs."""
    compared, other = 0, []
    for record in records:
        last = record.epochs[-1].metrics if record.epochs else {}
        for key in set(last) & set(record.metrics):
            if "/test10k/" in key:
                compared += 1
                if last[key] != record.metrics[key]:
                    other.append(key)
    if compared:
        detail = f"{compared - len(other)} of {compared} test numbers of every epoch are reported from the last epoch"
        yield Finding("test-looked-at", f"records of {name}", "fails" if other else "passes", detail)


def _draws(records: Iterable[Record]) -> Iterator[Finding]:
    counts: dict[int, set[str]] = {}
    for record in records:
        n = record.timings.predict_draws
        if record.protocol == "common" and n is not None and not _are_all(n, record):
            counts.setdefault(n, set()).add(record.approach)
    counts.pop(1, None)  # of deterministic networks
    if counts:
        shown = ", ".join(f"{n} draws: {', '.join(sorted(names))}" for n, names in sorted(counts.items()))
        outcome: FindingOutcome = "fails" if len(counts) > 1 else "passes"
        yield Finding("unlike-draws", "records, protocol common", outcome, f"among stochastic networks {shown}")


def _are_all(draws: int, record: Record) -> bool:
    """Return whether an approach that stores whole networks, such as an ensemble, predicted with all of them.

    The manifest says how many networks' numbers are stored. Two may be a mean and a standard deviation for each weight,
    so only more than two are taken for networks.
    """
    known = manifests().get(record.approach)
    cost = None if known is None else known.cost_of(record.recipe.split("+")[1:])
    return cost is not None and draws == cost.stored > 2


def _predictions(records: Iterable[Record], store: Store) -> Iterator[Finding]:
    """Compute scores again for the few rows whose raw draws were kept, and compare them with the stored ones."""
    for record in records:
        scores = store.scores(record)
        if "mnist/draws" not in scores or not len(scores["mnist/draws"]):
            continue
        draws = torch.from_numpy(scores["mnist/draws"]).double().clamp(min=-1e4)  # [S, rows, K], half precision
        largest, entropy = (
            torch.from_numpy(scores[f"mnist/{name}"][: draws.shape[1]]).double()
            for name in ("max_probability", "predictive_entropy")
        )
        subject = f"record of {record.title}"
        off = off_one(draws)
        sums = Seen("fails" if off > HALF else "passes", f"sums of the kept draws are off 1 by {off:.1g}")
        yield Finding("unnormalised-probabilities", subject, *sums)
        yield Finding("unnormalised-entropy", subject, *_entropy(draws, entropy))
        yield Finding("log-average", subject, *_average(draws, largest))


def _entropy(draws: Tensor, stored: Tensor) -> Seen:
    difference = float((entropies_by_average(draws)[MEAN] - stored).abs().max())
    limit = math.log(draws.shape[-1]) + HALF
    good = difference <= HALF and bool((stored <= limit).all())
    detail = f"stored entropies differ from those of the {MEAN} by at most {difference:.2g} nats"
    return Seen("passes" if good else "fails", detail, {"difference": difference})


def _average(draws: Tensor, largest: Tensor) -> Seen:
    differences = {name: float((p.amax(-1) - largest).abs().max()) for name, p in averages(draws).items()}
    right = differences.pop(MEAN)
    others = f"from those of other averages by {min(differences.values()):.2g} or more"
    detail = f"stored maxima differ from those of the {MEAN} by at most {right:.2g}, {others}"
    return Seen("passes" if right <= HALF / 4 else "fails", detail, {"difference": right})


def _sigma(records: Sequence[Record], store: Store) -> Iterator[Finding]:
    """Compare the sigmas of a kept posterior with their start: a fit of two steps with the same seed.

    One record of each recipe is enough.
    """
    seen = set()
    for record in records:
        name, recipe = record.approach, record.recipe
        if (name, recipe) in seen or record.device != "cpu":
            continue
        try:
            both = _sigmas(record, store)
        except BenchError as error:
            yield Finding("sigma-frozen", f"posterior of {name} {recipe}", "not measured", str(error))
            continue
        if both is None:
            continue
        seen.add((name, recipe))
        entry = manifests()[name]
        found = _moved(*both)
        if found.outcome == "fails" and (reason := declared(entry, resolve(entry, recipe)).get("sigma-frozen")):
            found = Seen("known", f"{found.detail}; {reason}", found.measured)
        yield Finding(
            "sigma-frozen", f"posterior of {name} {recipe}, profile {record.profile}, seed {record.seed}", *found
        )


def _sigmas(record: Record, store: Store) -> tuple[Tensor, Tensor] | None:
    """Return all sigmas [n] of a record's fit, at its start and at its end; None without sigmas or a kept posterior."""
    entry = manifests()[record.approach]
    if entry.task != "mnist" or "weights" not in entry.capabilities:
        return None
    kept = read_posterior(store, record.fit_key)
    if kept is None:
        return None
    try:
        approach = build(entry, resolve(entry, record.recipe), profile(record.profile))
        task = Task("classification", 10, ROWS, INPUTS)
        ended = _stds(posterior_of(approach, kept[0], task, record.seed))
        if not ended:
            return None
        subject = ApproachUnderTest(record.approach, record.recipe)
        started = _stds(subject.fit_with(CheckContext(record.seed)))
    except Unsupported:
        return None
    first, last = (torch.cat([stds[name].flatten() for name in ended]) for stds in (started, ended))
    return first, last


def _moved(started: Tensor, ended: Tensor) -> Seen:
    moving = (started > 0) & (ended > 0)  # a sigma of zero has no logarithm
    if not moving.any():
        return Seen("fails", "every sigma is zero before training or after it", {"change": 0.0})
    started, ended = started[moving], ended[moving]
    moved = float((ended / started).log().double().square().mean().sqrt())
    spread = ended.double()
    detail = (
        f"after training sigma differs from its start by {moved:.2%} (root mean square of the ratio's log); "
        f"its mean is {float(spread.mean()):.3g}, its standard deviation {float(spread.std()):.2g}"
    )
    return Seen("passes" if moved >= STILL else "fails", detail, {"change": moved})


def _stds(posterior: Posterior) -> dict[str, Tensor]:
    return {name: m.std for name, m in posterior.weights().items() if m.std is not None}
