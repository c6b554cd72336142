"""Check files that come with the suite against lists of hashes, which have the format of `sha256sum`.

Records, readings and measured tables are not listed: each contains its own hash, which is checked when it is read.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from bench.core.errors import DataCorrupt
from bench.core.files import corrupt, is_there, read_file
from bench.core.project import REFERENCE, RESULTS
from bench.data.idx import check_hash
from bench.data.inventory import DatasetCheck

LIST = "SHA256SUMS"
FOLDERS = (REFERENCE, RESULTS / "shipped-fits")
LARGEST = 64 << 20  # bytes of one file; the largest has 5 MB
REMEDY = "take the file from the repository, or install the package again"
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64}) [ *](?P<name>\S.*)")


def verify_listed(folders: tuple[Path, ...] = FOLDERS) -> list[DatasetCheck]:
    """Read every file that the lists of the folders name, and compare its hash. Return one check for each file."""
    return [check for folder in folders for check in _of_list(folder)]


def listing(folder: Path) -> str:
    """Return the list of hashes for a folder: all its files by name, without the list itself."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / LIST)
    hashes = (hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    return "".join(f"{one}  {path.relative_to(folder).as_posix()}\n" for one, path in zip(hashes, files, strict=True))


def _of_list(folder: Path) -> list[DatasetCheck]:
    path = folder / LIST
    try:
        lines = read_file(path, LARGEST, REMEDY, below=folder).decode("utf-8", errors="replace").splitlines()
        found = [_LINE.fullmatch(line) for line in lines]
        if not found or None in found:
            raise corrupt(str(path), "not a list of hashes", "a hash and a name a line", REMEDY)
    except DataCorrupt as error:
        return [_check(folder, LIST, str(error))]
    return [_check(folder, one["name"], _problem(folder, one["name"], one["sha256"])) for one in found if one]


def _problem(folder: Path, name: str, sha256: str) -> str:
    """Return in one line what is wrong with a file; '' if it is intact."""
    try:
        check_hash(read_file(folder / name, LARGEST, REMEDY, below=folder), sha256, str(folder / name), REMEDY)
    except DataCorrupt as error:
        return str(error)
    return ""


def _check(folder: Path, name: str, problem: str) -> DatasetCheck:
    missing = bool(problem) and not is_there(folder / name)
    return DatasetCheck(folder.name, name, problem, missing)
