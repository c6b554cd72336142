"""The rules over stored records and what lies beside them: seeds, code, draws, raw predictions, kept posteriors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from bench.core.errors import BenchError, Unsupported
from bench.core.records import Record
from bench.core.store import Store
from bench.interface import Posterior, Task
from bench.judge.audit.documents import declared
from bench.judge.audit.elbo.predictions import averages
from bench.judge.audit.findings import Finding, Outcome
from bench.judge.contract import ApproachUnderTest, CheckContext
from bench.judge.stats.verdicts import ENOUGH
from bench.plan.recipes import build, profile, resolve
from bench.plan.registry import manifests
from bench.run.runner import is_stale

STILL = 0.02  # relative change of sigma since its start, below which it never moved
HALF = 0.02  # what half precision makes of a stored entropy, nats
INPUTS, ROWS = 784, 60_000


def audit_records(records: Sequence[Record], store: Store) -> list[Finding]:
    """Apply every rule that finished records can be put to, approach by approach."""
    done = [record for record in records if record.outcome == "done"]
    known = manifests()
    found: list[Finding] = []
    for name in dict.fromkeys(record.approach for record in done):
        own = [record for record in done if record.approach == name]
        found += [_one_seed(name, own), _stale(name, own), *_last_epoch(name, own)]
        if name in known:
            found += list(_predictions(own, store)) + list(_sigma(own, store))
    return found + list(_draws(done))


def _one_seed(name: str, records: Iterable[Record]) -> Finding:
    cells: dict[str, set[int]] = {}
    for record in records:
        cells.setdefault(f"{record.recipe} x {record.protocol}", set()).add(record.seed)
    single = [cell for cell, seeds in cells.items() if len(seeds) == 1]
    few = sum(len(seeds) < ENOUGH for seeds in cells.values())
    least = min(map(len, cells.values()))
    if single:
        detail = f"one seed only in {len(single)} of {len(cells)} cells: {', '.join(single)}"
        return Finding("one-seed", f"records of {name}", "fails", detail, {"seeds": least})
    detail = f"{least} seeds or more in all {len(cells)} cells; less than the {ENOUGH} of a verdict in {few}"
    return Finding("one-seed", f"records of {name}", "passes", detail, {"seeds": least})


def _stale(name: str, records: Sequence[Record]) -> Finding:
    old = sum(is_stale(record) for record in records)
    dirty = sum(record.provenance.dirty for record in records)
    detail = f"{old} of {len(records)} records by other code than today's, {dirty} by code that was never committed"
    measured = {"stale": old, "uncommitted": dirty}
    return Finding("stale-result", f"records of {name}", "fails" if old else "passes", detail, measured)


def _last_epoch(name: str, records: Iterable[Record]) -> Iterator[Finding]:
    """Look whether test numbers that were printed while training chose the epoch that is reported."""
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
        if record.protocol == "common" and record.timings.predict_draws is not None:
            counts.setdefault(record.timings.predict_draws, set()).add(record.approach)
    counts.pop(1, None)  # deterministic networks have one
    if counts:
        shown = ", ".join(f"{n} draws: {', '.join(sorted(names))}" for n, names in sorted(counts.items()))
        outcome: Outcome = "fails" if len(counts) > 1 else "passes"
        yield Finding("unlike-draws", "records, protocol common", outcome, f"among stochastic networks {shown}")


def _predictions(records: Iterable[Record], store: Store) -> Iterator[Finding]:
    """Compute from the raw draws kept of a few rows what the records say of them."""
    for record in records:
        subject = f"record of {record.approach} {record.recipe} x {record.protocol}, seed {record.seed}"
        scores = store.scores(record)
        if "mnist/draws" not in scores or not len(scores["mnist/draws"]):
            continue
        draws = torch.from_numpy(scores["mnist/draws"]).double()  # [S, rows, K], kept in half precision
        draws = draws.clamp(min=-1e4)
        off = float((draws.logsumexp(-1).exp() - 1).abs().max())
        outcome: Outcome = "fails" if off > HALF else "passes"
        yield Finding("unnormalised-probabilities", subject, outcome, f"sums of the kept draws are off 1 by {off:.1g}")
        rows = draws.shape[1]
        entropy = torch.from_numpy(scores["mnist/predictive_entropy"][:rows]).double()
        yield _entropy(draws, entropy, subject)
        largest = torch.from_numpy(scores["mnist/max_probability"][:rows]).double()
        yield _average(draws, largest, subject)


def _average(draws: Tensor, largest: Tensor, subject: str) -> Finding:
    gaps = {name: float((p.amax(-1) - largest).abs().max()) for name, p in averages(draws).items()}
    right = gaps.pop("mean of probabilities")
    shown = (
        f"stored maxima are those of the mean of probabilities to {right:.2g}, of others to {min(gaps.values()):.2g}"
    )
    if right <= HALF / 4:
        return Finding("log-average", subject, "passes", shown, {"difference": right})
    return Finding("log-average", subject, "fails", shown, {"difference": right})


def _entropy(draws: Tensor, stored: Tensor, subject: str) -> Finding:
    probs = averages(draws)["mean of probabilities"]
    gap = float((-torch.xlogy(probs, probs).sum(-1) - stored).abs().max())
    limit = math.log(draws.shape[-1]) + HALF
    good = gap <= HALF and bool((stored <= limit).all())
    detail = f"stored entropies are those of the mean of probabilities to {gap:.2g} nats"
    return Finding("unnormalised-entropy", subject, "passes" if good else "fails", detail, {"difference": gap})


def _sigma(records: Sequence[Record], store: Store) -> Iterator[Finding]:
    """Compare the sigmas of kept posteriors with where they started: those after two steps with the same seed."""
    seen = set()
    for record in records:
        name, recipe = record.approach, record.recipe
        if (name, recipe) in seen or record.device != "cpu":
            continue
        entry = manifests()[name]
        path = store.fit_path(record.fit_key, "posterior")
        if entry.task != "mnist" or "weights" not in entry.capabilities or not path.exists():
            continue
        try:
            subject = ApproachUnderTest(name, recipe)
            kept = store.read_tensors(path)
            if kept is None:
                continue
            task = Task("classification", 10, ROWS, INPUTS)
            approach = build(entry, resolve(entry, recipe), profile(record.profile))
            ended = _stds(approach.rebuild(kept[0], task, record.seed))
            if not ended:
                continue
            started = _stds(subject.fit_with(CheckContext(record.seed)))
            seen.add((name, recipe))
        except Unsupported:
            continue
        except BenchError as error:
            yield Finding("sigma-frozen", f"posterior of {name} {recipe}", "not measured", str(error))
            continue
        change = torch.cat([(ended[key] / started[key]).log().flatten() for key in ended]).double()
        moved = float(change.square().mean().sqrt())
        spread = torch.cat([std.flatten() for std in ended.values()]).double()
        detail = (
            f"after training sigma differs from its start by {moved:.2%} (root mean square of the ratio's log); "
            f"its mean is {float(spread.mean()):.3g}, its standard deviation {float(spread.std()):.2g}"
        )
        subject_name = f"posterior of {name} {recipe}, profile {record.profile}, seed {record.seed}"
        known = declared(entry, resolve(entry, recipe)).get("sigma-frozen")
        if moved >= STILL:
            yield Finding("sigma-frozen", subject_name, "passes", detail, {"change": moved})
        elif known:
            yield Finding("sigma-frozen", subject_name, "known", f"{detail}; {known}", {"change": moved})
        else:
            yield Finding("sigma-frozen", subject_name, "fails", detail, {"change": moved})


def _stds(posterior: Posterior) -> dict[str, Tensor]:
    return {name: m.std for name, m in posterior.weights().items() if m.std is not None}
