"""`audit --library`: the examples of other people's libraries, audited as their texts train them."""

from __future__ import annotations

from bench.core.errors import MissingFramework
from bench.judge.audit.libraries.auditing import audit_example
from bench.judge.audit.libraries.examples import Example, examples_of
from bench.judge.audit.libraries.reading import LibraryReading, keep
from bench.show.screens.audit import library_lines
from bench.show.terminal import shown


def audit_library(library: str, write: bool) -> int:
    """Audit the examples of a library, or of `all`, and tell each as soon as it is there.

    Args:
        library: its name.
        write: keep what was measured as the file that the table reads.

    Raises:
        ConfigError: no library of this name.
        MissingFramework: none of the libraries that were asked for is installed.
    """
    found: dict[str, LibraryReading] = {}
    absent: list[str] = []
    for example in examples_of(library):
        reading = _audited(example, absent)
        if reading is not None:
            found[example.name] = reading
            print(shown(*library_lines(example, reading)), flush=True)
    if not found:
        raise MissingFramework(absent[0])
    for message in dict.fromkeys(absent):
        print(shown(f"not audited: {message}"))
    if write:
        keep(found)
    return 0


def _audited(example: Example, absent: list[str]) -> LibraryReading | None:
    try:
        return audit_example(example)
    except MissingFramework as error:
        absent.append(str(error))
        return None
