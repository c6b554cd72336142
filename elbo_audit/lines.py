"""Which line of a loss holds the KL, as far as a name shows it?"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

_NAMES = re.compile(r"(?i)(?<![a-z])(kl|kld|kl_\w+|\w+_kl|complexity\w*|log_q\w*)(?![a-z])")


def line_of_kl(function: object) -> str:
    """Return file, number and text of the last line that names the KL; '' without one, or without a source."""
    try:
        lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]  # TypeError for what is no function
        name = Path(inspect.getsourcefile(function) or "").name  # type: ignore[arg-type]  # likewise
    except (OSError, TypeError):
        return ""
    hits = [(first + k, line.strip()) for k, line in enumerate(lines) if _NAMES.search(line.partition("#")[0])]
    return f"{name}:{hits[-1][0]}: {hits[-1][1]}" if hits else ""
