"""Run the auditor on the whole corpus and print the confusion table: python -m tests.judge.corpus (a minute or two).

Exit code 1 if a right objective fails or a mistake is missed.
"""

import sys
import time
from collections import Counter

import torch

from tests.judge.corpus.objectives import plan
from tests.judge.corpus.test_corpus import outcome_of, report_of


def main():
    """Print a line an objective that is judged wrongly, then how many of each kind are judged rightly."""
    torch.set_num_threads(1)  # the tensors are small, and a second thread only waits
    counts, cases, begin = Counter(), plan(), time.perf_counter()
    for index, case in enumerate(cases, start=1):
        found, report = report_of(*case)
        outcome = outcome_of(found, report)
        counts[found.fault.name if found.fault else "none: right", outcome] += 1
        if outcome in ("false failure", "missed"):
            sys.stdout.write(f"{outcome}: {found.name}\n{report}\n")
        sys.stderr.write(f"\r{index} of {len(cases)}, {time.perf_counter() - begin:.0f} s ")
    columns = ("passes", "false failure", "fails by its rule", "missed")
    sys.stdout.write("\n| planted mistake | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns) + "\n")
    for name in dict.fromkeys(name for name, _ in counts):
        sys.stdout.write(f"| {name} | " + " | ".join(str(counts[name, column]) for column in columns) + " |\n")
    return int(any(outcome in ("false failure", "missed") for _, outcome in counts))


if __name__ == "__main__":
    sys.exit(main())
