"""Which line of a loss holds the KL, as far as a name shows it?"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

_KL = r"(?<![a-z])(?:kl|kld|kl_\w+|\w+_kl|complexity\w*|log_q\w*)(?![a-z])"
_NAMED = re.compile(rf"(?i){_KL}")
_WEIGHED = re.compile(rf"(?i)[-+*/]=?\s*\(*[\w.]*{_KL}|{_KL}[\w.()\[\]]*\s*[-+*/]")  # added, or multiplied
_SAID = re.compile(r"""#.*|(["']).*?\1""")  # comments, and text


def line_of_kl(function: Callable[..., object] | None) -> str:
    """Return file, number and text of the last line that weighs or adds the KL, else that names it; or ''."""
    if function is None:
        return ""
    function = inspect.unwrap(function)  # of jax.jit and the like
    try:
        lines, first = inspect.getsourcelines(function)
        name = Path(inspect.getsourcefile(function) or "").name
    except (OSError, TypeError):
        return ""
    for pattern in (_WEIGHED, _NAMED):
        hits = [k for k, line in enumerate(lines) if pattern.search(_SAID.sub("", line))]
        if hits:
            return f"{name}:{first + hits[-1]}: {lines[hits[-1]].strip()}"
    return ""
