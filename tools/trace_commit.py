"""Carry records over to versions: show that the commits that made them give today's golden traces, and stamp them.

    python -m tools.trace_commit trace OUT        # run the traces that the records need inside every commit, to OUT/
    python -m tools.trace_commit judge OUT        # compare them with the stored ones: results/reference/carried.json
                                                  # and the table of docs/freshness.md
    python -m tools.trace_commit stamp            # put today's versions into the records that are shown

A record needs the traces of its fit (single or several seeds), of its predictions and of its protocol. A record that
is not shown gets no versions, so that it is stale and `python -m bench run` makes it again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CARRIED = ROOT / "results" / "reference" / "carried.json"
PAGE, BEGIN, END = ROOT / "docs" / "freshness.md", "<!-- carried -->\n", "<!-- /carried -->"
FOLDERS = ("records", "readings", "throughput")
ALSO = {"94a5500089": "93c0200"}
"""Commits whose working tree had changes when it made readings, each with the commit that added these changes and the
readings: both are traced."""

Record = dict[str, Any]


def records() -> Iterator[tuple[Path, str, Record]]:
    """Yield every stored record, reading and speed: its file, the folder it is in, and what it says."""
    for folder in FOLDERS:
        for path in sorted((ROOT / "results" / folder).rglob("*.json")):
            yield path, folder, json.loads(path.read_text())


def paths_of(folder: str, record: Record) -> list[tuple[str, str]]:
    """Return the traces, (subject, path), that show how a record's numbers were made."""
    name = record["approach"]
    if folder == "throughput":
        return [(name, "published/single"), (name, "published/predict"), ("streams", "streams")]
    recipe, protocol = record["recipe"], "common" if folder == "readings" else record["protocol"]
    batched = "batched" in record["timings"]
    found = [(name, f"{recipe}/{'many' if batched else 'single'}")]
    found += [(name, f"{base}/predict") for base in (recipe, "published", "corrected")]
    if _was_resumed(record):
        found += [(name, f"{base}/resumed") for base in ("published", "corrected")]
    found += [(name, f"published/{protocol}"), ("measures", f"{name}/{protocol}")]
    if folder == "readings":
        found += [(name, "published/readings"), ("measures", f"{name}/readings")]
    if record["precision"] == "bf16":
        found.append((name, "published/bf16"))
    found += [("streams", "streams"), ("streams", "data")]
    known = {subject: stored(subject) for subject, _ in found}
    return [(subject, path) for subject, path in dict.fromkeys(found) if path in known[subject]]


def _was_resumed(record: Record) -> bool:
    return any(reason["kind"] == "resumed" for reason in record["timings"].get("reasons", ()))


def stored(subject: str) -> dict[str, Any]:
    """Return the stored traces of a subject."""
    from tests.golden.stored import read

    found: dict[str, Any] = read(subject)
    return found


def commits_of(record: Record) -> list[str]:
    """Return the commits that are traced for a record, 10 digits each."""
    commit = record["provenance"]["commit"][:10]
    return [commit, *([ALSO[commit]] if record["provenance"].get("dirty") else [])]


def wanted() -> dict[str, dict[str, list[str]]]:
    """Return the paths to trace by commit and subject."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for _, folder, record in records():
        for commit in commits_of(record):
            for subject, path in paths_of(folder, record):
                found.setdefault(commit, {}).setdefault(subject, {})[path] = None
    return {commit: {name: list(paths) for name, paths in of.items()} for commit, of in found.items()}


def trace(out: Path) -> None:
    """Write OUT/COMMIT.SUBJECT.json for every commit and subject that is not there yet."""
    out.mkdir(parents=True, exist_ok=True)
    for commit, subjects in wanted().items():
        todo = {name: paths for name, paths in subjects.items() if not (out / f"{commit}.{name}.json").exists()}
        if not todo:
            continue
        with tempfile.TemporaryDirectory(prefix="bench-trace-") as folder:
            place = Path(folder) / commit
            subprocess.run(
                ["git", "-C", str(ROOT), "worktree", "add", "--detach", "-q", str(place), commit], check=True
            )
            try:
                for name, paths in todo.items():
                    _trace_one(place, out.resolve() / f"{commit}.{name}.json", name, paths)
            finally:
                subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(place)], check=True)


def _trace_one(place: Path, file: Path, subject: str, paths: list[str]) -> None:
    """Run today's trace with the code of a commit's worktree; an error is kept as the answer."""
    if not (place / "tests" / "golden").exists():
        copytree(ROOT / "tests" / "golden", place / "tests" / "golden")
    command = [sys.executable, "-m", "tests.golden", "--trace", str(file), subject]
    for path in paths:
        command += ["--path", path]
    run = subprocess.run(
        command,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        file.write_text(json.dumps({"error": run.stderr.strip().splitlines()[-1]}))
    _say(f"{place.name} {subject}: {len(paths)} paths{', failed' if run.returncode else ''}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def judge(out: Path) -> list[dict[str, Any]]:
    """Return for each commit, approach, recipe, protocol and way of fitting whether its records are shown."""
    groups: dict[tuple[Any, ...], list[tuple[str, Record]]] = {}
    for _, folder, record in records():
        for commit in commits_of(record):
            groups.setdefault((*naming(folder, record), commit), []).append((folder, record))
    rows = []
    for key, members in groups.items():
        needed = [path for folder, record in members for path in paths_of(folder, record)]
        readers = {_reader(name) for folder, record in members if folder == "readings" for name in record["metrics"]}
        verdict = _verdict(out, key[-1], list(dict.fromkeys(needed)), readers)
        rows.append({**dict(zip(FIELDS, key, strict=True)), **verdict, "records": len(members)})
    return sorted(rows, key=lambda row: [str(row[field]) for field in FIELDS])


def _reader(name: str) -> str:
    """Return the reader of a reading "DATA_SET/READER" or "DATA_SET/READER@PARAMETER"."""
    return name.partition("/")[2].partition("@")[0]


def _asked(traced: dict[str, Any], other: dict[str, Any], readers: set[str]) -> dict[str, Any]:
    """Return a trace without the readings that the records do not have and the commit did not know yet."""
    prefix = "reading/"

    def asked(part: str) -> dict[str, Any]:
        return {
            name: value
            for name, value in traced[part].items()
            if not name.startswith(prefix) or name in other[part] or _reader(name.removeprefix(prefix)) in readers
        }

    return {**traced, "numbers": asked("numbers"), "counted": asked("counted")}


FIELDS = ("kind", "approach", "recipe", "protocol", "fit", "precision", "dirty", "commit")


def naming(folder: str, record: Record) -> tuple[Any, ...]:
    """Return what decides which traces a record needs: all of FIELDS but the commit."""
    fit = "several seeds" if "batched" in record["timings"] else "single"
    if _was_resumed(record):
        fit += ", resumed"
    recipe, protocol = record.get("recipe", "published"), record.get("protocol", "")
    return (
        folder,
        record["approach"],
        recipe,
        protocol,
        fit,
        record["precision"],
        bool(record["provenance"].get("dirty")),
    )


def _verdict(out: Path, commit: str, needed: list[tuple[str, str]], readers: set[str]) -> dict[str, Any]:
    from tests.golden.numbers import complaints, deviations
    from tests.golden.tolerance import tolerance

    largest, reasons = 0.0, []
    for subject, path in needed:
        file = out / f"{commit}.{subject}.json"
        if not file.exists():
            reasons.append(f"{subject} was not traced")
            continue
        found = json.loads(file.read_text())
        if "error" in found or path not in found.get(subject, {}):
            reasons.append(f"{subject} {path}: {found.get('error', 'the commit has no such path')}")
            continue
        new = found[subject][path]
        old = _asked(stored(subject)[path], new, readers)
        largest = max(largest, *deviations(old, new).values()) if old["numbers"] else largest
        reasons += [f"{subject} {path}: {line}" for line in complaints(old, new, partial(tolerance, subject, path))]
    return {
        "largest_deviation": float(f"{largest:.2g}"),
        "shown": not reasons,
        "reason": reasons[0] if reasons else "",
        "traces": len(needed),
    }


def _table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown, recipes of one commit, kind and approach together."""
    lines = ["| commit | approach | what | records | largest deviation | verdict |", "|---|---|---|---|---|---|"]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        verdict = "carried" if row["shown"] else f"not shown: {row['reason']}"
        groups.setdefault((row["commit"], row["approach"], row["kind"], verdict), []).append(row)
    for (commit, approach, kind, verdict), own in sorted(groups.items()):
        recipes = ", ".join(dict.fromkeys(row["recipe"] for row in own))
        what = f"{kind}: {recipes}" if kind != "throughput" else "speeds"
        number, largest = sum(row["records"] for row in own), max(row["largest_deviation"] for row in own)
        lines.append(f"| {commit} | {approach} | {what} | {number} | {largest:.2g} | {verdict} |")
    return "\n".join([*lines, ""])


def stamp() -> int:
    """Put today's versions into the records that are shown and seal them; return how many are not shown."""
    from bench.core.canonical import plain
    from bench.core.files import write_atomically
    from bench.core.sealed import seal
    from bench.plan.freshness import versions_today

    shown = {tuple(row[field] for field in FIELDS): row["shown"] for row in json.loads(CARRIED.read_text())["rows"]}
    left = 0
    for path, folder, record in records():
        if not all(shown.get((*naming(folder, record), commit)) for commit in commits_of(record)):
            _say(f"not shown: {path.relative_to(ROOT)}")
            left += 1
            continue
        today = versions_today(record["approach"], record.get("recipe", "published"), record.get("protocol", "common"))
        assert today is not None, "a record that is shown has a recipe of today"
        record["versions"] = {"recipe": today.recipe} if folder == "throughput" else plain(today)
        text = json.dumps(seal(record), indent=1, sort_keys=True, allow_nan=False) + "\n"
        write_atomically(path, text.encode())
    return left


def main() -> int:
    """Run one of the three steps; the exit code is 1 if a record could not be shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("trace", "judge", "stamp"))
    parser.add_argument("out", type=Path, nargs="?", help="folder of the traces of the commits")
    arguments = parser.parse_args()
    if arguments.step == "trace":
        trace(arguments.out)
        return 0
    if arguments.step == "judge":
        rows = judge(arguments.out)
        CARRIED.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{_table(rows)}{END}{rest.partition(END)[2]}")
        for row in rows:
            if not row["shown"]:
                _say(f"{row['commit']} {row['approach']} {row['recipe']} {row['protocol']}: {row['reason']}")
        return int(not all(row["shown"] for row in rows))
    return int(stamp() > 0)


if __name__ == "__main__":
    raise SystemExit(main())
