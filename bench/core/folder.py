"""A folder of sealed contents of one type, such as records: a file for each one, and archives of many.

A run writes one file for each content, APPROACH/NAME.json. The contents that come with the suite are in archives,
APPROACH.jsonl, whose lines are sorted by name; `python -m tools.archive` moves files into them. A file counts in place
of the archive's line of the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from bench.core.canonical import LARGEST_RECORD, OLDER, OlderForm, Sealed, plain, read_sealed, seal, shorten, unseal
from bench.core.errors import DataCorrupt, StoreError
from bench.core.files import is_there, names_in, read_file, reason, write_atomically
from bench.core.text import as_called, counted, one_line

T = TypeVar("T", bound=Sealed)

FILE, ARCHIVE = ".json", ".jsonl"
_log = logging.getLogger("bench")  # Python's logging shows it on stderr by default
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
        """Seal a content, check it as `read` does, and write it; return its path. Raises StoreError."""
        path = self.path(content)
        try:
            line = seal(msgspec.convert(plain(content), self.kind))
            if len(line) > LARGEST_RECORD:
                raise ValueError(f"it has {len(line):,} bytes; at most {LARGEST_RECORD:,} are read")
            unseal(line, self.kind, "it", self.schema, "")
        except (msgspec.ValidationError, TypeError, ValueError, RecursionError, StoreError) as error:
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
                if self.path(content).parent.name != archive.stem:
                    raise StoreError(f"{self.what} {archive}, line {number} is of another approach")
                found[self.name_of(content)] = content
            except StoreError as error:
                problems.append(Problem(archive, str(error)))
        return found, problems

    def paths(self, approach: str, start: str = "") -> list[Path]:
        """Return the paths of an approach's files and archived lines whose names begin with `start`, by name.

        Raises:
            StoreError: the folder of the files cannot be listed.
        """
        folder = self.root / approach
        there = {name for name in self._names_in(folder) if name.endswith(FILE)}
        archive = folder.with_name(f"{approach}{ARCHIVE}")
        there |= {Path(name).name for name in self.archived(archive)[0]}
        return [folder / name for name in sorted(there) if name.startswith(start)]

    def _names_in(self, folder: Path) -> list[str]:
        try:
            return names_in(folder, self.results)
        except OSError as error:
            raise StoreError(f"the {self.what}s in {folder} cannot be read: {reason(error)}") from error

    def approaches(self) -> list[str]:
        """Return the names of the approaches that have files or an archive; raises StoreError as `paths` does."""
        names = self._names_in(self.root)
        return sorted({name.removesuffix(ARCHIVE) for name in names if "." not in name or name.endswith(ARCHIVE)})

    def read_all(self, wanted: Callable[[str], bool] = lambda _: True) -> tuple[list[T], list[Problem]]:
        """Return all contents of the wanted approaches that can be read, and the files and lines that cannot.

        The files of an older version of this suite are one problem together.
        """
        contents: list[T] = []
        problems: list[Problem] = []
        older = []
        for path in self._all_paths(problems, wanted):
            try:
                content = self.read(path)
            except OlderForm:
                older.append(path)
            except StoreError as error:
                problems.append(Problem(path, str(error)))
            else:
                contents += [] if content is None else [content]
        for archive, (_, found) in self._archives.items():
            problems += found if wanted(archive.stem) else []
        if older:
            them = f"{counted(len(older), self.what)} in {self.root}"
            problems.append(Problem(self.root, f"{them}: an older form; {OLDER}; {self.remedy}"))
        return contents, problems

    def _all_paths(self, problems: list[Problem], wanted: Callable[[str], bool]) -> list[Path]:
        """Return the paths of all files and archived lines; add a problem for each folder that cannot be listed."""
        found: list[Path] = []
        try:
            names = [name for name in self.approaches() if wanted(name)]
        except StoreError as error:
            problems.append(Problem(self.root, str(error)))
            return []
        for name in names:
            try:
                found += self.paths(name)
            except StoreError as error:
                problems.append(Problem(self.root / name, str(error)))
        return found


@lru_cache(maxsize=1_000)
def name_once(reason: str) -> None:
    """Say in one line what is wrong with a file, once in this process: it is read again and again, and stays."""
    _log.warning("warning: %s", as_called(one_line(reason)))
