"""Checks numbers that are known without training: of the worked example, a blind network, a network of zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.core.records import PrunedRow, Record
from bench.data.splits import load_split
from bench.judge.claims import WORKED_EXAMPLE, load_claims, measure
from bench.judge.gate.checks import FAIL, MISSING, PASS, GateCheck
from bench.judge.gate.config import Gate, GatedCell
from bench.judge.gate.exact import TEST_SPLIT
from bench.judge.gate.fresh import BLIND
from bench.judge.gate.samples import Folder, finished, fresh_records, labels_measured, title_of
from bench.judge.stats.rule import EXACT, judge_one

LOG_K = math.log(10)
FLOAT32 = 1e-6  # log-probabilities are float32


def closed_form_checks(gate: Gate, reference: Folder, fresh: Folder) -> list[GateCheck]:
    """Return the checks of all three."""
    blind = fresh.results.cell(BLIND, "published", "common")
    return [_worked_example(), _blind(blind), _zeros(gate, reference, fresh)]


def _worked_example() -> GateCheck:
    claims = [claim for claim in load_claims() if claim.approach == WORKED_EXAMPLE]
    verdicts = [judge_one(claim, measure(claim, [])) for claim in claims]
    wrong = [verdict.claim.id for verdict in verdicts if verdict.outcome != EXACT]
    if wrong or not verdicts:
        return GateCheck("worked example", FAIL, f"outside the printed digits: {', '.join(wrong) or 'no claim'}")
    return GateCheck("worked example", PASS, f"{len(verdicts)} printed numbers")


def _blind(records: Sequence[Record]) -> GateCheck:
    """Check the network that always answers 1/K: its NLL and its entropy are log K on every data set."""
    done = finished(records)
    if not done:
        return GateCheck("uniform", MISSING, "approach uniform was not measured")
    wanted = {"nll", "predictive_entropy"}
    scores = {key: value for key, value in done[0].metrics.items() if key.rsplit("/", 1)[-1] in wanted}
    if lacking := wanted - {key.rsplit("/", 1)[-1] for key in scores}:
        return GateCheck("uniform", MISSING, f"approach uniform has no {' and no '.join(sorted(lacking))}")
    wrong = [key for key, value in scores.items() if value is None or abs(value - LOG_K) > FLOAT32]
    if wrong:
        return GateCheck("uniform", FAIL, f"not log 10: {', '.join(wrong)}")
    return GateCheck("uniform", PASS, f"{len(scores)} scores are log 10")


def _zeros(gate: Gate, reference: Folder, fresh: Folder) -> GateCheck:
    """Check pruned networks without any weight: they always answer class 0, with probability 1/K.

    Not every approach can be pruned. If the reference's records of a cell have such a network, fresh ones must too.
    """
    y = load_split(TEST_SPLIT, 0).y.numpy()
    n_seen, without = 0, []
    for cell in gate.cells:
        for record in _pruning(gate, cell, reference, fresh):
            labels, pruned = labels_measured(fresh, record), _without_weights(record)
            if labels is None or not pruned:
                without.append(title_of(cell, record))
                continue
            n_seen += 1
            if wrong := _no_zeros(pruned[0], y[: labels.size]):
                return GateCheck("network of zeros", FAIL, f"{cell.name}: {wrong}")
    if without:
        text = f"{len(without)} fresh records without pruned network or labels, first {without[0]}"
        return GateCheck("network of zeros", MISSING, text)
    if not n_seen:
        return GateCheck("network of zeros", MISSING, "no fresh record prunes")
    return GateCheck("network of zeros", PASS, f"{n_seen} networks answer class 0")


def _pruning(gate: Gate, cell: GatedCell, reference: Folder, fresh: Folder) -> list[Record]:
    """Return the finished fresh records that have a network without weights or must have one."""
    is_pruned = any(_without_weights(record) for record in finished(reference.cell(cell)))
    records = finished(fresh_records(gate, cell, fresh))
    return [record for record in records if is_pruned or _without_weights(record)]


def _without_weights(record: Record) -> list[PrunedRow]:
    rows = record.arrays.pruning.rows if record.arrays.pruning is not None else []
    return [row for row in rows if row.fraction == 1 and row.network == "mean"]


def _no_zeros(row: PrunedRow, y: NDArray[np.generic]) -> str:
    """Return what is wrong with the numbers of a network of zeros, or ''."""
    share = float((y == 0).mean())  # .098 of all 10,000
    if abs((row.accuracy or 0) - share) > 1e-9 or abs((row.nll or 0) - LOG_K) > FLOAT32:
        return f"{row}, but class 0 has {share}"
    return ""
