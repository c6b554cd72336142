"""Move what runs have written into the archives: `python -m tools.archive [RESULTS]`.

A run writes a file for each record. What is committed is one archive for each approach, with lines sorted by name, so
that a new record adds its own size to a clone. The scores of seed 0 go into archives too. Those of other seeds do so
for the approaches that `--every-seed` names, but only their kinds `bench.core.row_scores.KEPT`. All others stay where
they are, and are not committed. Also writes `metrics.csv`, which any program can read: a line for each metric of each
record. With `--check`, only says whether metrics.csv is that of the archives.
"""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from bench.cli import FAILED
from bench.cli.main import Parser, guarded
from bench.cli.options import existing_folder, names
from bench.core.canonical import seal
from bench.core.errors import StoreError
from bench.core.files import is_there, remove, write_atomically
from bench.core.folder import ARCHIVE, FILE, SealedFolder, T
from bench.core.project import RESULTS
from bench.core.records import Record
from bench.core.row_scores import Scores, kept
from bench.core.score_files import merged
from bench.core.store import Store
from bench.judge.ablation import derived_metrics
from bench.plan.registry import manifest

METRICS = "metrics.csv"
COLUMNS = ("approach", "recipe", "protocol", "profile", "device", "precision", "seed", "metric", "value")


def main(argv: Sequence[str] | None = None) -> int:
    """Move the files and write the table, or check the table, and return the exit code."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    parser = Parser(
        prog="python -m tools.archive",
        description="Move files of a results folder into its archives.",
        allow_abbrev=False,
    )
    parser.add_argument("results", type=existing_folder, nargs="?", default=RESULTS, metavar="RESULTS")
    parser.add_argument("--check", action="store_true", help="only check that metrics.csv is that of the archives")
    more = "approaches whose scores of every seed are archived, with commas between"
    parser.add_argument("--every-seed", type=names, default=(), metavar="NAMES", help=more)
    arguments = parser.parse_args(argv)
    for name in arguments.every_seed:
        manifest(name)  # raises an error for an unknown name
    return _check(arguments.results) if arguments.check else _archive(arguments.results, arguments.every_seed)


def _archive(results: Path, every_seed: Collection[str] = ()) -> int:
    store = Store(results)
    problems = store.all_records()[1]
    if problems:
        raise StoreError(problems[0].reason)
    archive_scores(store, every_seed)
    moved = sum(map(archive_folder, (store.folder, derived_metrics.folder(store))))
    records, problems = Store(results).all_records()
    if problems:
        raise StoreError(problems[0].reason)
    write_atomically(results / METRICS, metrics_csv(records))
    print(f"{moved} files are now in archives; {results / METRICS} has the metrics of {len(records)} records")
    return 0


def _check(results: Path) -> int:
    records, problems = Store(results).all_records()
    path = results / METRICS
    is_same = not problems and is_there(path) and path.read_bytes() == metrics_csv(records)
    if not is_same:
        print(f"{path} is not that of the records; `python -m tools.archive` makes it", file=sys.stderr)
    return 0 if is_same else FAILED


def archive_folder(folder: SealedFolder[T]) -> int:
    """Move the files of a folder into its archives; return how many there were."""
    by_approach: dict[str, list[Path]] = {}
    for path in sorted(folder.root.glob(f"*/*{FILE}")):
        by_approach.setdefault(path.parent.name, []).append(path)
    for approach, paths in by_approach.items():
        archive = folder.root / f"{approach}{ARCHIVE}"
        contents, problems = folder.archived(archive)
        if problems:
            raise StoreError(problems[0].reason)
        both = {**contents, **{folder.name_of(one): one for path in paths if (one := folder.read(path)) is not None}}
        write_atomically(archive, b"".join(seal(both[name]) for name in sorted(both)), folder.results)
        for path in paths:
            remove(path, folder.results)
    return sum(map(len, by_approach.values()))


def archive_scores(store: Store, every_seed: Collection[str] = ()) -> None:
    """Move scores into the archives: of seed 0, of the seeds there, and of every seed of the named approaches.

    Scores of another seed that older code made, without `bench.core.row_scores.LOG_OTHERS`, stay where they are.

    Raises:
        StoreError: scores are damaged; then none are moved.
    """
    records, _ = store.all_records()
    damaged = next((one for one in records if store.has_damaged_scores(one)), None)
    if damaged is not None:  # they would be gone from the archive
        raise StoreError(f"the scores of {damaged.title} are damaged; `python -m bench run` makes them again")
    for approach in sorted({path.parent.name for path in store.records.glob("*/*.npz")}):
        own = [record for record in records if record.approach == approach]
        there = _prefixes(store.scores_archive(approach))
        if approach not in every_seed:
            own = [record for record in own if record.seed == 0 or store.scores_prefix(record) in there]
        scores = {store.scores_prefix(record): found for record in own if (found := _archivable(store, record))}
        if not scores:
            continue
        write_atomically(store.scores_archive(approach), merged(scores), store.root)
        for path in sorted((store.records / approach).glob("*.npz")):
            if "__seed0__" in path.name or f"{path.stem.rpartition('__')[2]}/" in scores:
                remove(path, store.root)


def _archivable(store: Store, record: Record) -> Scores:
    """Return the scores of a record for the archive. Those of a seed other than 0 are first reduced in their place."""
    found = store.scores(record)
    if record.seed == 0 or not found:
        return found
    reduced = kept(found)
    if reduced and reduced.keys() != found.keys():
        store.write(record, reduced)  # the record has their hash
    return reduced


def _prefixes(archive: Path) -> set[str]:
    """Return how the names of the arrays in an archive begin; nothing without the file."""
    if not is_there(archive):
        return set()
    with zipfile.ZipFile(archive) as file:
        return {f"{name.partition('/')[0]}/" for name in file.namelist()}


def metrics_csv(records: Iterable[Record]) -> bytes:
    """Return the table of all metrics, a line for each; an empty value is a metric that is not finite."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(sorted(_lines(records), key=lambda line: line[:-1]))
    return text.getvalue().encode()


def _lines(records: Iterable[Record]) -> Iterator[tuple[str | int | float, ...]]:
    for record in records:
        named = (*record.combination, *record.conditions, record.seed)
        for metric, value in record.metrics.items():
            yield (*named, metric, "" if value is None else value)


if __name__ == "__main__":
    sys.exit(main())
