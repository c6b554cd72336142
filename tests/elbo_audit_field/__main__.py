"""`python -m tests.elbo_audit_field [--verify | --audit] [FRAMEWORK ...]`: check the truths, or audit the cases.

Without an option, the cases are listed. `--audit` prints a line for each case, as in `first_run.csv`: framework, case,
what is right, what the audit said, the rules that failed with their causes, how often an epoch counts the KL.
"""

import csv
import importlib.util
import sys

from tests.elbo_audit_field.case import FRAMEWORKS, Case, cases

NEEDS = {"torch": "torch", "pyro": "pyro", "jax": "jax", "numpyro": "numpyro", "tfp": "tensorflow_probability"}


def main(arguments: list[str]) -> int:
    """Print a line for each case; return 1 if a truth does not hold, 2 for a framework that does not exist."""
    options, chosen = (
        [each for each in arguments if each.startswith("--") is is_option] for is_option in (True, False)
    )
    if unknown := set(chosen) - set(FRAMEWORKS) | (set(options) - {"--verify", "--audit"}):
        sys.stderr.write(
            f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(FRAMEWORKS)}, --verify, --audit\n"
        )
        return 2
    failed = 0
    for framework in chosen or FRAMEWORKS:
        if importlib.util.find_spec(NEEDS[framework]) is None:
            sys.stdout.write(f"{framework}: not installed\n")
            continue
        for each in cases(framework):
            if "--audit" in options:
                _audit(each)
            else:
                failed += _list(each, "--verify" in options)
            sys.stdout.flush()
    return 1 if failed else 0


def _audit(case: Case) -> None:
    from tests.elbo_audit_field.running import answer

    found = answer(case)
    truth = "right" if case.right else case.mistake
    kl = "" if found.kl is None else f"{found.kl:.4g}"
    csv.writer(sys.stdout, lineterminator="\n").writerow(
        [case.framework, case.name, truth, found.cell, found.fails, kl]
    )


def _list(case: Case, verify: bool) -> bool:
    """Print a case; with `verify`, check its truth, and return whether it fails."""
    line, wrong = f"{case.name}: {'right' if case.right else case.mistake}; {case.truth}", []
    if verify:
        from tests.elbo_audit_field.verify import problems

        wrong, shown = problems(case)
        line += "".join(f"\n    {text}" for text in shown) + "".join(f"\n    FAILS {text}" for text in wrong)
    sys.stdout.write(line + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
