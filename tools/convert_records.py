"""Convert the records and readings of a results folder to the form of today.

Usage: python tools/convert_records.py FOLDER

Schema 2 has reasons as data, and the metrics of an epoch apart from its number and seconds. Names of files, keys and
numbers stay. A record that has scores beside it and no hash of them, as the oldest have not, gets the hash. All other
files of schema 2 stay as they are; a file that cannot be trusted is named and left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.core.errors import StoreError
from bench.core.files import write_atomically
from bench.core.reasons import Reason, in_words, told
from bench.core.records import SCHEMA, Reading, Record
from bench.core.sealed import has_seal, read_json, seal

Content = dict[str, object]

FOLDERS: dict[str, type[Record]] = {"records": Record, "readings": Reading}
OUTCOME_KINDS = {"skipped": "unsupported", "out-of-time": "out-of-time", "diverged": "diverged-as-told"}
# The words of schema 1, the more special first. Numbers in `INTEGERS` are stored as such.
PATTERNS = {
    "other-load": r"other load on the machine",
    "seeds-together": r"trained together with (?P<n>\d+) other seeds?",
    "fits-at-once": r"(?P<n>\d+) fits at a time",
    "resumed": r"the fit was interrupted and resumed",
    "short-epochs": r"profile (?P<profile>\w+) runs (?P<steps>\d+) steps an epoch",
    "rounded-operands": r"(?P<device>\S+) has no (?P<precision>\w+) products: their operands were rounded first",
    "one-draw": r"one draw: nothing varies",
    "row-noise": r"noise is drawn for each row: a draw is not one network",
    "shared-noise": r"one noise vector serves all rows: .*",
    "rows-refused": r"every row is refused",
    "images-refused": r"the rule refused every image",
    "label-impossible": r"infinite: a label has probability exactly 0",
    "not-finite": r"the number is not finite",
    "no-observation-noise": r"the network states no observation noise",
    "no-spread": r"one network has no spread",
    "diverged": r"(?P<metric>\S.*) is (?P<value>\S+) in epoch (?P<epoch>\d+); a smaller learning rate may help",
    "cpu-float32-only": r"(?P<approach>\w+) runs on cpu in float32 only: (?P<why>.*)",
    "crashed": r"(?P<message>its process .*|interpreter .*)",
    "not-written": r"(?P<message>cannot write .*)",
    "error": r"(?P<type>\w+(?:Error|Missing|Corrupt|Violation|Exception)): (?P<message>.*?)"
    r"(?: \((?P<place>[^()]+:\d+)\))?",
}
INTEGERS = ("n", "steps", "epoch")


def reason_of(text: str, kind: str = "text") -> Reason:
    """Take the words of schema 1 apart; `kind` is that of words that are none of the known ones."""
    for known, pattern in PATTERNS.items():
        found = re.fullmatch(pattern, text)
        if found is not None:
            values = {name: value or "" for name, value in found.groupdict().items()}
            reason = Reason(known, {name: int(v) if name in INTEGERS else v for name, v in values.items()})
            if in_words(reason) == text:
                return reason
    return told(kind, text)


def converted(old: Content) -> Content:
    """Return a record or reading of schema 1 as one of schema 2, not sealed."""
    outcome, timings, epochs, missing = old["outcome"], old["timings"], old["epochs"], old["missing"]
    assert isinstance(timings, dict)
    assert isinstance(epochs, list)
    assert isinstance(missing, dict)
    reason = _plain(reason_of(str(old["reason"]), OUTCOME_KINDS.get(str(outcome), "text"))) if old["reason"] else None
    words = str(timings.get("reason", ""))
    parts = [words] if outcome != "done" else words.split("; ")
    reasons = [reason if part == old["reason"] else _plain(reason_of(part)) for part in parts if part]
    return {
        **old,
        "schema": SCHEMA,
        "reason": reason,
        "missing": {key: _plain(_why_missing(key, str(text))) for key, text in missing.items()},
        "timings": {
            **{name: value for name, value in timings.items() if name != "reason" and value is not None},
            **({"reasons": reasons} if reasons else {}),
        },
        "epochs": [_epoch(entry) for entry in epochs],
    }


def _why_missing(key: str, text: str) -> Reason:
    # A data set that was not there has its own name as key, or was read for a ladder.
    is_data = "/" not in key and key != "pruning"
    return reason_of(text, "no-data" if is_data or " data fetch" in text else "unsupported")


def _epoch(entry: Mapping[str, object]) -> Content:
    own = ("epoch", "seconds")
    metrics = {name: value for name, value in entry.items() if name not in own}
    return {**{name: entry[name] for name in own}, "metrics": metrics}


def _plain(reason: Reason) -> object:
    return msgspec.to_builtins(reason)


def convert(path: Path, kind: type[Record]) -> bool:
    """Convert one file, and return whether it was changed; raises StoreError for one that cannot be trusted."""
    old = read_json(path, "record")
    if not isinstance(old, dict) or "schema" not in old:
        raise StoreError(f"{path} is no record of this suite")
    if old["schema"] not in (1, SCHEMA):
        return False
    if not has_seal(old):
        raise StoreError(f"{path} was changed after it was written (its hash does not fit)")
    try:
        new = seal({**(converted(old) if old["schema"] == 1 else old), **_hash_of_scores(old, path)})
        msgspec.convert(new, kind)
    except (msgspec.ValidationError, KeyError, AssertionError) as error:
        raise StoreError(f"{path} has not the form of a record of schema {old['schema']}: {error}") from error
    if new == old:
        return False
    write_atomically(path, (json.dumps(new, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())
    return True


def _hash_of_scores(old: Content, path: Path) -> Content:
    scores = path.with_suffix(".npz")
    if old.get("scores_sha256") is not None or not scores.is_file():
        return {}
    return {"scores_sha256": hashlib.sha256(scores.read_bytes()).hexdigest()}


def main() -> int:
    """Convert the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a results folder, which has records/")
    folder = parser.parse_args().folder
    if not (folder / "records").is_dir():
        print(f"error: {folder} has no folder records; give a results folder", file=sys.stderr)
        return 2
    n_converted = n_others = n_problems = 0
    for name, kind in FOLDERS.items():
        for path in sorted((folder / name).glob("*/*.json")):
            try:
                was_old = convert(path, kind)
            except StoreError as error:
                print(f"not converted: {error}", file=sys.stderr)
                n_problems += 1
                continue
            n_converted, n_others = n_converted + was_old, n_others + (not was_old)
    print(f"{n_converted} files converted, {n_others} of another schema left as they are, {n_problems} not trusted")
    return 1 if n_problems else 0


if __name__ == "__main__":
    sys.exit(main())
