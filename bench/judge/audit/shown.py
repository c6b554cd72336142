"""What running showed of the documents' mistakes, as `python -m benchmarks.documents --write` found it (shown.json)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from bench.core.errors import ConfigError

FILE = Path(__file__).with_name("shown.json")


class ShownMistake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one check of a document's code showed."""

    outcome: Literal["found", "not found"]
    ran: Literal["code", "expression"]  # our rewriting of the document's code, or the one expression in question
    detail: str  # what was measured, in words
    measured: Mapping[str, float]


@cache
def shown_mistakes(path: Path = FILE) -> Mapping[str, ShownMistake]:
    """Return what each check showed, by the name of the check; raises ConfigError where the file is at fault."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, ShownMistake])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path.name} cannot be read: {error}; python -m benchmarks.documents --write makes it"
        ) from error
