"""Golden traces: `python -m tests.golden --check`, `--write SUBJECT`, `--trace FILE SUBJECT` or `--deviations FILE`."""

import argparse
import json
import os
import sys
from pathlib import Path

import torch


def main(argv=None):
    """Run one of the forms; return the exit code: 1 where a trace is not as stored or may not be replaced."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__, allow_abbrev=False)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--check", action="store_true", help="compute the traces and compare them with the stored ones")
    how.add_argument("--write", action="store_true", help="store the traces; refused without a new version")
    how.add_argument("--trace", type=Path, metavar="FILE", help="compute traces and write them to a file")
    how.add_argument("--plants", action="store_true", help="plant changes in every training path that they reach")
    how.add_argument("--deviations", type=Path, nargs="+", metavar="FILE", help="the largest of each subject in them")
    parser.add_argument("subject", nargs="*", help="an approach, measures or streams (default: all)")
    parser.add_argument("--path", action="append", help="only this path, such as published/single")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    from bench.core.project import TOP
    from tests.golden.stored import missing_framework, paths, subjects

    names = arguments.subject or subjects()
    if unknown := sorted(set(names) - set(subjects())):
        parser.error(f"no subject is named {unknown[0]}; known: {', '.join(subjects())}")
    if Path.cwd().resolve() != TOP:
        parser.error(f"the code of {TOP} is traced; go there, or set PYTHONPATH to this folder")
    if arguments.write:
        return _write(names)
    if arguments.deviations:
        return _deviations(arguments.deviations)
    if arguments.plants:
        return _plants(names)
    found, bad = {}, 0
    for subject in names:
        if without := missing_framework(subject):
            sys.stdout.write(f"{subject}: not traced, {without}\n")
            bad += subject in arguments.subject  # who names a subject wants it traced
            continue
        known = paths(subject)
        for path in arguments.path or known:
            if path not in known and arguments.trace:
                continue
            if arguments.trace:
                found.setdefault(subject, {})[path] = known[path]().as_json()
                continue
            from tests.golden.stored import compare

            lines = compare(subject, path)
            bad += bool(lines)
            sys.stdout.write(
                f"{subject} {path}: {'as stored' if not lines else f'{len(lines)} differences; {lines[0]}'}\n"
            )
    if arguments.trace:
        arguments.trace.write_text(json.dumps(found))
    return 1 if bad else 0


def _deviations(files):
    """Print the largest deviation of each subject in files of --trace, and where it is."""
    from tests.golden.numbers import deviations
    from tests.golden.stored import read

    found = {}
    for file in files:
        for subject, traces in json.loads(file.read_text()).items():
            for path, trace in traces.items():
                for name, value in deviations(read(subject)[path], trace).items():
                    found.setdefault(subject, []).append((value, f"{path} {name} ({file.name})"))
    for subject, values in sorted(found.items(), key=lambda one: -max(one[1])[0]):
        value, where = max(values)
        sys.stdout.write(f"{subject}: {value:.1e}, {where}\n")
    return 0


def _plants(names):
    """Print the smallest deviation of each planted change, in tolerances; 1 if one is smaller than `ENOUGH`."""
    from tests.golden.plants import ENOUGH, PLANTS, deviation, reached

    least = {}
    for name in names:  # the paths of an approach together, because they share their rows
        for what in PLANTS:
            for one in (one for one in reached(what) if one[0] == name):
                value = deviation(what, *one)
                least[what] = min(least.get(what, (value, one)), (value, one))
                sys.stdout.write(f"{what}\t{' '.join(one)}\t{value:.1e}\n")
                sys.stdout.flush()
    for what, (value, one) in least.items():
        sys.stdout.write(f"{what}: at least {value:.1e} tolerances, in {' '.join(one)}\n")
    return int(any(value < ENOUGH for value, _ in least.values()))


def _write(names):
    from tests.golden.stored import RefusedError, write

    for name in names:
        try:
            changed = write(name)
        except RefusedError as error:
            sys.stderr.write(f"refused: {error}\n")
            return 1
        sys.stdout.write(f"{name}: {len(changed)} paths written\n")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
