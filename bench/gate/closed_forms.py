"""Numbers that are known without training: the worked example, a blind network, a network of zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.claims import WORKED_EXAMPLE, Record, load_claims, match
from bench.data.splits import load_split
from bench.gate.checks import FAIL, MISSING, PASS, Check
from bench.gate.config import Gate
from bench.gate.exact import TEST_SPLIT
from bench.gate.samples import Folder, fresh_records
from bench.stats.verdicts import EXACT, judge

LOG_K = math.log(10)
FLOAT32 = 1e-6  # log-probabilities are float32


def closed_form_checks(gate: Gate, uniform: Sequence[Record], fresh: Folder) -> list[Check]:
    """Return the checks; `uniform` has the fresh records of the approach of that name."""
    return [_worked_example(), _blind(uniform), _zeros(gate, fresh)]


def _worked_example() -> Check:
    claims = [claim for claim in load_claims() if claim.approach == WORKED_EXAMPLE]
    verdicts = judge(match(claims, []))
    wrong = [verdict.claim.id for verdict in verdicts if verdict.outcome != EXACT]
    if wrong or not verdicts:
        return Check("worked example", FAIL, f"outside the printed digits: {', '.join(wrong) or 'no claim'}")
    return Check("worked example", PASS, f"{len(verdicts)} printed numbers")


def _blind(records: Sequence[Record]) -> Check:
    """Check that a network that answers 1/K scores log K exactly, and log K of entropy on every data set."""
    done = [record for record in records if record["outcome"] == "done"]
    if not done:
        return Check("uniform", MISSING, "approach uniform was not measured")
    wanted = ("nll", "predictive_entropy")
    scores = {key: value for key, value in done[0]["metrics"].items() if key.rsplit("/", 1)[-1] in wanted}
    wrong = [key for key, value in scores.items() if value is None or abs(value - LOG_K) > FLOAT32]
    if wrong or not scores:
        return Check("uniform", FAIL, f"not log 10: {', '.join(wrong) or 'no score'}")
    return Check("uniform", PASS, f"{len(scores)} scores are log 10")


def _zeros(gate: Gate, fresh: Folder) -> Check:
    """Check that networks whose every weight is pruned answer class 0 always, with the probability of a blind one."""
    y = load_split(TEST_SPLIT, 0).y.numpy()
    n_seen = 0
    for cell in gate.cells:
        for record in fresh_records(gate, cell, fresh):
            labels = fresh.store.scores(record).get("mnist/label")
            rows = record["arrays"].get("pruning", {}).get("rows", [])
            pruned = [row for row in rows if row["fraction"] == 1 and row["network"] == "mean"]
            if labels is None or not pruned:
                continue
            n_seen += 1
            share = float((y[: len(labels)] == 0).mean())  # .098 of all 10,000
            if abs(pruned[0]["accuracy"] - share) > 1e-9 or abs((pruned[0]["nll"] or 0) - LOG_K) > FLOAT32:
                return Check("network of zeros", FAIL, f"{cell.name}: {pruned[0]}, but class 0 has {share}")
    if not n_seen:
        return Check("network of zeros", MISSING, "no fresh record prunes")
    return Check("network of zeros", PASS, f"{n_seen} networks answer class 0")
