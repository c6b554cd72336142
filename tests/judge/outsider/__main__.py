"""Audit the sixty objectives and print what a user is told beside what should be told, and the confusion table.

python -m tests.judge.outsider [NAME ...]
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import Counter
from dataclasses import dataclass

import torch

from bench.judge.audit import elbo
from tests.judge.outsider import library_styles, network_styles, pyro_styles, torch_styles
from tests.judge.outsider.common import SEED, Objective, Style, sizes

STYLES: list[Style] = network_styles.STYLES + torch_styles.STYLES + library_styles.STYLES + pyro_styles.STYLES


def drawn_faults() -> dict[str, str]:
    """Return the mistake of each style: one of those used least so far, drawn from the seed."""
    draw, used, found = random.Random(f"{SEED}/faults"), Counter[str](), {}
    for style in draw.sample(STYLES, len(STYLES)):
        least = min(used[each] for each in style.faults)
        found[style.name] = draw.choice([each for each in style.faults if used[each] == least])
        used[found[style.name]] += 1
    return found


@dataclass(frozen=True)
class Told:
    """What the audit said of one objective."""

    fails: tuple[str, ...]
    kl: float | None
    text: str


def audited(objective: Objective) -> Told:
    """Audit one objective."""
    torch.manual_seed(0)
    report = (elbo.audit_pyro if objective.pyro else elbo.audit_torch)(**objective.arguments)
    fails = tuple(finding.rule for finding in report.findings if finding.outcome == "fails")
    return Told(fails, report.numbers.get("kl_per_epoch"), str(report))


def agrees(objective: Objective, told: Told) -> str:
    """Return the cell of the confusion table, and whether the number is right."""
    wanted = objective.expected
    if not wanted.fails:
        if told.fails:
            return "false failure"
        near = wanted.kl is None or (told.kl is not None and abs(told.kl - wanted.kl) < 0.1 * wanted.kl)
        return "passes" if near else "passes without the number"
    if set(told.fails) & set(wanted.fails):
        near = wanted.kl is None or told.kl is None or abs(told.kl - wanted.kl) <= 0.1 * abs(wanted.kl) + 0.01
        return "caught" if near else "caught, other number"
    if told.fails:
        return "another rule"
    withheld = told.kl is None and "not measured" in told.text
    return "withheld as expected" if wanted.withheld and withheld else "missed, KL withheld" if withheld else "missed"


def main(names: list[str]) -> None:
    """Audit all, or the styles named."""
    faults, table = drawn_faults(), Counter[tuple[str, str]]()
    for style in STYLES:
        if names and style.name not in names:
            continue
        if style.needs and importlib.util.find_spec(style.needs) is None:
            sys.stdout.write(f"{style.name}: {style.needs} is not installed\n")
            continue
        for fault in (None, faults[style.name]):
            objective = style.build(sizes(style.name), fault)
            told = audited(objective)
            cell = agrees(objective, told)
            table["wrong" if fault else "right", cell] += 1
            given = f"expected {objective.expected}; told {told.fails} {told.kl}"
            sys.stdout.write(f"{cell:26} {style.name}: {fault or 'right'}; {given}\n")
            if names:
                sys.stdout.write(f"{told.text}\n")
            sys.stdout.flush()
    for (kind, cell), count in sorted(table.items()):
        sys.stdout.write(f"{kind}: {count} {cell}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
