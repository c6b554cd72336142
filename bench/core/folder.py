"""A folder of sealed contents of one type, such as records: a file for each one, and archives of many.

A run writes one file for each content. The contents that come with the suite are in archives, one for each approach,
whose lines are sorted by name; `python -m tools.archive` moves files into them. A file counts in place of the archive's
line of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from bench.core.canonical import plain
from bench.core.errors import DataCorrupt, StoreError
from bench.core.files import is_there, read_file, write_atomically
from bench.core.sealed import OLDER, OlderForm, Sealed, read_sealed, seal, shorten, unseal
from bench.core.text import counted

T = TypeVar("T", bound=Sealed)

ARCHIVE = ".jsonl"
LARGEST_ARCHIVE = 256 << 20  # bytes; ours have at most 4 MB


@dataclass(frozen=True)
class Problem:
    """A file that cannot be read, or a line of an archive (with the name of its file), and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class SealedFolder(Generic[T]):
    """The contents of one type in a folder of a results folder."""

    results: Path
    folder: str
    kind: type[T]
    what: str  # what errors call one of the contents
    schema: int  # version of the fields
    name_of: Callable[[T], str]  # content -> path of its file below the root
    pattern: str  # matches the names of the files, for `Path.glob`
    remedy: str  # what a user can do with a content that cannot be read
    _archives: dict[Path, tuple[Mapping[str, T], list[Problem]]] = field(default_factory=dict)  # read already

    @property
    def root(self) -> Path:
        """Return the folder of the files."""
        return self.results / self.folder

    def path(self, content: T) -> Path:
        """Return the path of a content's file. A content replaces an older one with the same name."""
        return self.root / self.name_of(content)

    def write(self, content: T) -> Path:
        """Check, seal and write a content; return its path. Raises StoreError."""
        path = self.path(content)
        try:
            line = seal(msgspec.convert(plain(content), self.kind))
        except (msgspec.ValidationError, TypeError) as error:
            raise StoreError(f"{self.what} {path} cannot be written: {shorten(error)}") from error
        write_atomically(path, line, self.results)
        return path

    def read(self, path: Path) -> T | None:
        """Return the content of a file, or of the archive's line of the same name; None if there is neither.

        Raises:
            StoreError: it cannot be read; the error names the file, the bad field and what is wrong there.
        """
        if not is_there(path):
            archive = path.parent.with_name(f"{path.parent.name}{ARCHIVE}")
            return self.archived(archive)[0].get(path.relative_to(self.root).as_posix())
        content = read_sealed(path, self.kind, self.what, self.schema, self.remedy, self.results)
        if self.path(content) != path:
            raise StoreError(
                f"{self.what} {path} is in the wrong place; by its content it is {shorten(self.path(content).name)}"
            )
        return content

    def archived(self, archive: Path) -> tuple[Mapping[str, T], list[Problem]]:
        """Return the contents of an archive by name, and the lines that cannot be read; nothing without the file."""
        if archive not in self._archives:
            self._archives[archive] = self._read_archive(archive)
        return self._archives[archive]

    def _read_archive(self, archive: Path) -> tuple[Mapping[str, T], list[Problem]]:
        if not is_there(archive):
            return {}, []
        try:
            lines = read_file(archive, LARGEST_ARCHIVE, below=self.results).splitlines()
        except DataCorrupt as error:
            return {}, [Problem(archive, str(error))]
        found: dict[str, T] = {}
        problems = []
        for number, line in enumerate(lines, start=1):
            try:
                content = unseal(line, self.kind, f"{self.what} {archive}, line {number}", self.schema, self.remedy)
            except StoreError as error:
                problems.append(Problem(archive, str(error)))
            else:
                found[self.name_of(content)] = content
        return found, problems

    def paths(self, pattern: str = "") -> Iterator[Path]:
        """Yield the paths of the files and of the archives' lines that match, in the order of their names."""
        pattern = pattern or self.pattern
        there = {*self.root.glob(pattern)}
        for archive in self.root.glob(f"*{ARCHIVE}"):
            named = (self.root / name for name in self.archived(archive)[0])
            there.update(path for path in named if path.relative_to(self.root).match(pattern))
        yield from sorted(there)

    def read_all(self) -> tuple[list[T], list[Problem]]:
        """Return all contents that can be read, and the files and lines that cannot.

        The files of an older version of this suite are one problem together.
        """
        contents: list[T] = []
        archives = sorted(self.root.glob(f"*{ARCHIVE}"))
        problems = [problem for archive in archives for problem in self.archived(archive)[1]]
        older = []
        for path in self.paths():
            try:
                content = self.read(path)
            except OlderForm:
                older.append(path)
            except StoreError as error:
                problems.append(Problem(path, str(error)))
            else:
                contents += [] if content is None else [content]
        if older:
            them = f"{counted(len(older), self.what)} in {self.root}"
            problems.append(Problem(self.root, f"{them}: an older form; {OLDER}; {self.remedy}"))
        return contents, problems
