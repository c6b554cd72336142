"""Records, fitted posteriors and checkpoints on disk: written atomically, sealed by a hash, never pickled.

A file that is damaged, or of another fit, is named in a warning and left out. It stays where it is until `run` makes it
again in its place.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from safetensors import SafetensorError, safe_open

from bench.core.canonical import canonical
from bench.core.errors import StoreError
from bench.core.files import check_writable, is_there, opened_file, reason, remove, sweep, write_atomically
from bench.core.folder import Problem, SealedFolder, name_once
from bench.core.metric_table import raised
from bench.core.records import SCHEMA, Naming, Record, Versions
from bench.core.row_scores import Scores
from bench.core.score_files import BROKEN as BROKEN_SCORES
from bench.core.score_files import packed, read_scores, scores_hash

if TYPE_CHECKING:
    import torch

WRITTEN = ("records", "fits", "locks", "derived_metrics", "tables", "figures", "report")
"""The folders of a results folder where a killed process may leave half-written files."""
_NOT_IN_FILE_NAME = ("device", "precision")  # fields of `Naming`; the hash in the file's name depends on them

# The errors of safetensors on damaged tensors.
_BROKEN_TENSORS = (
    *(OSError, ValueError, EOFError, LookupError, MemoryError, RuntimeError, TypeError, AttributeError),
    SafetensorError,
)

Info = dict[str, object]  # the description in a file of tensors
AGAIN = "`python -m bench run` makes it again"
LARGEST_TENSORS = 8 << 30  # bytes; a checkpoint of all seeds of a fit has less than 1 GB


class Store:
    """One results folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.records = root / "records"
        self.folder = SealedFolder(root, "records", Record, "record", SCHEMA, _name, AGAIN)

    def check_writable(self) -> None:
        """Raise StoreError if records cannot be written here; remove what killed processes left half-written."""
        check_writable(self.root / "fits", self.root)
        sweep(self.root / folder for folder in WRITTEN)

    # records

    def record_path(self, naming: Naming) -> Path:
        """Return the path of a measurement's record."""
        return self.records / _name(naming)

    def write(self, record: Record, scores: Scores | None = None) -> Path:
        """Write a record and its per-row scores (.npz); the record contains a hash of the scores.

        A record without numbers does not replace a finished one. A fit may be measured again, for example because a
        data set has become available, and this may fail.
        """
        if self.keeps_another(record):
            return self.record_path(record)
        if scores:
            record = msgspec.structs.replace(record, scores_sha256=scores_hash(scores))
            write_atomically(self._scores_path(record), packed(scores), self.root)
        path = self.folder.write(record)
        with contextlib.suppress(StoreError):  # the record itself is written
            self._drop_superseded(record, path)
        return path

    def keeps_another(self, record: Record) -> bool:
        """Return whether a finished record of the same measurement and versions stays in place of an unfinished one."""
        found = None if record.outcome == "done" else self.find(record)
        return found is not None and found.outcome == "done" and _are_alike(found, record)

    def find(self, naming: Naming) -> Record | None:
        """Return the record of a measurement, or None if there is none that can be read."""
        record = self._read(self.record_path(naming))
        if record is not None and record.key != naming.key:
            name_once(f"record {self.record_path(naming)} is of another measurement than the one asked for")
            return None
        return record

    def _read(self, path: Path) -> Record | None:
        try:
            return self.folder.read(path)
        except StoreError as error:
            name_once(str(error))
            return None

    def scores(self, record: Record) -> Scores:
        """Return the per-row scores of a record; {} if there are none that can be read and have the record's hash."""
        return self._read_scores(record) or {}

    def has_damaged_scores(self, record: Record) -> bool:
        """Return whether a record's scores are there and damaged. A clone has the scores of few seeds only."""
        return self._read_scores(record) is None

    def _read_scores(self, record: Record) -> Scores | None:
        """Return the scores of a record, {} if there are none, None if they are damaged, which a warning says."""
        try:
            return self._checked_scores(record)
        except BROKEN_SCORES as error:
            name_once(f"the scores of {record.title} in {self.records} cannot be used: {_line(error)}; {AGAIN}")
            return None

    def _scores_path(self, record: Record) -> Path:
        return self.record_path(record).with_suffix(".npz")

    def scores_prefix(self, record: Record) -> str:
        """Return how the names of a record's arrays begin in the archive of its approach."""
        return f"{record.key[:8]}/"

    def scores_archive(self, approach: str) -> Path:
        """Return the archive of an approach's scores."""
        return self.records / f"{approach}.npz"

    def _checked_scores(self, record: Record) -> Scores:
        """Return the scores of a record; {} if there are none.

        Raises one of `BROKEN_SCORES` if they cannot be read, or if the record has the hash of others.
        """
        path, prefix = self._scores_path(record), ""
        if record.scores_sha256 is None:  # an older record's scores may still be there
            return {}
        if not is_there(path):
            path, prefix = self.scores_archive(record.approach), self.scores_prefix(record)
        if not is_there(path):
            return {}
        found = read_scores(path, prefix, self.root)
        if found and scores_hash(found) != record.scores_sha256:
            raise ValueError("their hash does not fit")
        return found

    def _same_name(self, naming: Naming) -> list[tuple[Path, Record]]:
        """Return the files and records with the given naming fields; only the keys may differ."""
        start = f"{self.record_path(naming).name.rsplit('__', 1)[0]}__"
        try:
            paths = self.folder.paths(naming.approach, start)
        except StoreError as error:
            name_once(str(error))
            return []
        read = [(path, record) for path in paths if (record := self._read(path)) is not None]
        return [one for one in read if all(getattr(one[1], n) == getattr(naming, n) for n in _NOT_IN_FILE_NAME)]

    def _drop_superseded(self, record: Record, written: Path) -> None:
        """Remove `skipped` records of the same trained run, which this record replaces."""
        for path, other in self._same_name(record):
            if path != written and other.outcome == "skipped":
                remove(path, self.root)

    def has_records(self) -> bool:
        """Return whether the folder has any record, whether it can be read or not."""
        try:
            return bool(self.folder.approaches())
        except StoreError:  # it may have some
            return True

    def all_records(self, without: Collection[str] = ()) -> tuple[list[Record], list[Problem]]:
        """Return all records that can be trusted, and the files that cannot, but for those of approaches `without`."""
        return self.folder.read_all(lambda approach: approach not in without)

    def records_of(self, approaches: Iterable[str]) -> tuple[list[Record], list[Problem]]:
        """Return the records of these approaches that can be trusted, and the files that cannot."""
        return self.folder.read_all(set(approaches).__contains__)

    # posteriors and checkpoints

    def fit_path(self, fit_key: str, kind: str) -> Path:
        """Return the path of a fit's `posterior` or `checkpoint`."""
        return self.root / "fits" / fit_key[:16] / f"{kind}.safetensors"

    def has_fit(self, fit_key: str) -> bool:
        """Return whether the posterior of a fit is kept in full length; only `read_tensors` compares its hash."""
        path = self.fit_path(fit_key, "posterior")
        with contextlib.suppress(*_BROKEN_TENSORS), opened_file(path, self.root), safe_open(path, framework="np"):
            return True
        return False

    def drop_checkpoint(self, fit_key: str) -> None:
        """Remove the checkpoint of a fit, if it has one; raises StoreError."""
        remove(self.fit_path(fit_key, "checkpoint"), self.root)

    def write_tensors(self, path: Path, tensors: Mapping[str, torch.Tensor], info: object) -> None:
        """Write tensors, a JSON description, and the hash over both."""
        from safetensors.torch import save  # here: it imports torch, and most commands read records alone

        ready = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        text = canonical(info)
        metadata = {"info": text, "sha256": tensor_hash(ready, text)}
        write_atomically(path, save(ready, metadata=metadata), self.root)

    def read_tensors(
        self, path: Path, belongs: Callable[[Info], bool] | None = None, again: str = AGAIN
    ) -> tuple[dict[str, torch.Tensor], Info] | None:
        """Return tensors and description, or None if the file does not exist or cannot be trusted.

        A warning names a file that cannot be read, whose hash does not fit, or whose description `belongs` refuses, and
        says how it is made `again`.

        Raises:
            StoreError: the machine is short of memory or of open files, so that the file may be intact.
        """
        if not is_there(path):
            return None
        try:
            with opened_file(path, self.root) as opened:  # safetensors opens it again, by its path
                if opened.seek(0, io.SEEK_END) > LARGEST_TENSORS:
                    raise ValueError(f"it has more than {LARGEST_TENSORS:,} bytes")
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            text = metadata.get("info", "")
            if metadata.get("sha256") != tensor_hash(tensors, text):
                raise ValueError("its hash does not fit")
            info: Info | object = json.loads(text)
            if not isinstance(info, dict):
                raise ValueError("its description has no fields")
            if belongs is not None and not belongs(info):
                raise ValueError("it belongs to another fit or another version")
        except _BROKEN_TENSORS as error:
            if _is_out_of_resources(error):
                raise StoreError(f"{path} cannot be read now: {_line(error)}; try again") from error
            name_once(f"{path.stem} {path} cannot be used: {_line(error)}; {again}")
            return None
        return tensors, info


def _name(record: Naming) -> str:
    """Return the path of a record below the folder of records."""
    name = f"{record.recipe}__{record.protocol}__{record.profile}__seed{record.seed}__{record.key[:8]}.json"
    return f"{record.approach}/{name}"


def _are_alike(found: Record, record: Record) -> bool:
    """Return whether a record's numbers were made at the versions of another record of the same measurement."""
    made, today = found.versions or Versions(), record.versions or Versions()
    same = (made.recipe, made.protocol) == (today.recipe, today.protocol)
    return same and not raised(found.keys(), made.metrics, today.metrics)


def _is_out_of_resources(error: Exception) -> bool:
    """Return whether the machine is short of memory or of open files."""
    numbers = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)
    in_text = any(f"os error {number})" in str(error) for number in numbers)  # safetensors gives the number only there
    return isinstance(error, MemoryError) or getattr(error, "errno", None) in numbers or in_text


def _line(error: Exception) -> str:
    return " ".join(reason(error).split())


def tensor_hash(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    """Return the SHA-256 over names, types, shapes and bytes of tensors, and over their description `text`."""
    import torch  # here: most commands read records alone

    parts = [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in sorted(tensors)]
    hasher = hashlib.sha256(canonical([*parts, text]).encode())
    for name in sorted(tensors):
        if tensors[name].numel():
            hasher.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return hasher.hexdigest()
