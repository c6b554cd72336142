"""`python -m tests.elbo_audit_field --verify [FRAMEWORK ...]`: check the truths; without `--verify`, list the cases."""

import importlib.util
import sys

from tests.elbo_audit_field.case import FRAMEWORKS, cases

NEEDS = {"torch": "torch", "pyro": "pyro", "jax": "jax", "numpyro": "numpyro", "tfp": "tensorflow_probability"}


def main(arguments: list[str]) -> int:
    """Print a line for each case; return 1 if a truth does not hold, 2 for a framework that does not exist."""
    verify, chosen = "--verify" in arguments, [each for each in arguments if each != "--verify"]
    if unknown := set(chosen) - set(FRAMEWORKS):
        sys.stderr.write(f"no such framework: {', '.join(sorted(unknown))}; there are {', '.join(FRAMEWORKS)}\n")
        return 2
    failed = 0
    for framework in chosen or FRAMEWORKS:
        if importlib.util.find_spec(NEEDS[framework]) is None:
            sys.stdout.write(f"{framework}: not installed\n")
            continue
        for each in cases(framework):
            line = f"{each.name}: {'right' if each.right else each.mistake}; {each.truth}"
            if verify:
                from tests.elbo_audit_field.verify import problems

                wrong, shown = problems(each)
                failed += bool(wrong)
                line += "".join(f"\n    {text}" for text in shown) + "".join(f"\n    FAILS {text}" for text in wrong)
            sys.stdout.write(line + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
