"""A folder of sealed files of one type: records, readings or measured tables.

A file is JSON and contains the hash of its content (the seal). A file is accepted only if all this holds: it is a plain
file of bounded size; the path to it has no link; its numbers are finite; its fields are those of its type; its hash
fits; its name is the one that its content gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from bench.core.canonical import plain
from bench.core.errors import StoreError
from bench.core.files import write_atomically
from bench.core.records import Fields
from bench.core.sealed import has_seal, read_json, seal, shorten

T = TypeVar("T", bound=Fields)


@dataclass(frozen=True)
class Problem:
    """A file that cannot be trusted, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class SealedFolder(Generic[T]):
    """The files of one type in a folder of a results folder."""

    results: Path
    folder: str
    kind: type[T]
    what: str  # what errors call one of the files
    schema: int  # version of the files' fields
    name_of: Callable[[T], str]  # content -> path of its file below the root
    pattern: str  # matches the names, for `Path.glob`
    remedy: str  # what a user can do with a file of another schema

    @property
    def root(self) -> Path:
        """Return the folder of the files."""
        return self.results / self.folder

    def path(self, content: T) -> Path:
        """Return the path of a content's file. A content replaces an older one with the same name."""
        return self.root / self.name_of(content)

    def write(self, content: T) -> Path:
        """Check, seal and write a content, with null for NaN and infinity; return its path. Raises StoreError."""
        path = self.path(content)
        try:
            body = seal(msgspec.convert(plain(content), self.kind))
        except (msgspec.ValidationError, TypeError) as error:
            raise StoreError(f"{self.what} {path} cannot be written: {shorten(error)}") from error
        text = json.dumps(body, indent=1, sort_keys=True, allow_nan=False) + "\n"
        write_atomically(path, text.encode(), self.results)
        return path

    def read(self, path: Path) -> T:
        """Read and check a file; raises StoreError that names the file, the bad field and what is wrong there."""
        content = read_sealed(path, self.kind, self.what, self.schema, self.remedy, self.results)
        if self.path(content) != path:
            raise StoreError(
                f"{self.what} {path} is in the wrong place; by its content it is {shorten(self.path(content).name)}"
            )
        return content

    def read_all(self) -> tuple[list[T], list[Problem]]:
        """Return all contents that can be trusted, and the files that cannot."""
        contents: list[T] = []
        problems: list[Problem] = []
        for path in sorted(self.root.glob(self.pattern)):
            try:
                contents.append(self.read(path))
            except StoreError as error:
                problems.append(Problem(path, str(error)))
        return contents, problems


def read_sealed(path: Path, kind: type[T], what: str, schema: int, remedy: str, below: Path | None = None) -> T:
    """Read and check a sealed file, wherever it lies; `below`: see `files.opened_folder`; raises StoreError."""
    body = read_json(path, what, below)
    if not isinstance(body, dict) or "schema" not in body:
        raise StoreError(f"{what} {path} is not a {what} of this suite")
    if body["schema"] != schema:
        raise StoreError(f"{what} {path} has schema {shorten(body['schema'])}; this version reads {schema}: {remedy}")
    if not has_seal(body):
        raise StoreError(f"{what} {path} was changed after it was written (its hash does not fit)")
    try:
        return msgspec.convert(body, kind)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:  # half a surrogate pair is no text
        raise StoreError(f"{what} {path} does not have the fields of a {what}: {shorten(error)}") from error
