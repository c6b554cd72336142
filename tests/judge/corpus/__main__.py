"""Run the auditor on the whole corpus and print the confusion table: python -m tests.judge.corpus."""

import sys

from tests.judge.corpus.objectives import plan
from tests.judge.corpus.test_corpus import report_of

if __name__ == "__main__":
    counts = {"right, passes": 0, "right, fails": 0, "wrong, fails by its rule": 0, "wrong, missed": 0}
    for case in plan():
        found, report = report_of(*case)
        failed = {finding.rule for finding in report.findings if finding.outcome == "fails"}
        if found.fault is None:
            outcome = "right, fails" if failed else "right, passes"
        else:
            outcome = "wrong, fails by its rule" if failed & set(found.fault.rules) else "wrong, missed"
        counts[outcome] += 1
        if outcome in ("right, fails", "wrong, missed"):
            sys.stdout.write(f"{outcome}: {found.name}: {sorted(failed)}\n{report}\n")
    sys.stdout.write("\n".join(f"{count:4} {outcome}" for outcome, count in counts.items()) + "\n")
