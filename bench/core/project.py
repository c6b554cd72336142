"""The version; paths of the project's own files, in a clone or in an installed wheel; how to install more."""

from __future__ import annotations

from pathlib import Path

VERSION = "0.2.0"  # pyproject.toml reads it here
_ABOVE = Path(__file__).resolve().parents[2]
IS_CLONE = (_ABOVE / "pyproject.toml").is_file()
TOP = _ABOVE if IS_CLONE else _ABOVE / "bench" / "_data"
PACKAGE = _ABOVE / "bench"
RESULTS = TOP / "results"
"""The records that come with the suite. A command writes here only if a user of a clone gives it as `--results`."""
REFERENCE = RESULTS / "reference"
DATASETS = TOP / "datasets"
COMMIT = TOP / "commit.txt"
"""In a wheel, the commit that it was built from."""
OWN = Path("results")
"""The user's results folder, unless an option names another."""


def usual_results(*kinds: str) -> Path:
    """Return the results folder to read if no option names one: the user's, or the one that comes with the suite.

    Args:
        kinds: the user's folder is taken if it has one of these folders; by default `records`.
    """
    return OWN if any((OWN / kind).is_dir() for kind in kinds or ("records",)) else RESULTS


def install(extra: str) -> str:
    """Return how to install an extra: as tested, or in a wheel beside this PyTorch (pip would choose one for CUDA)."""
    if IS_CLONE:
        return f"pip install -c constraints.txt -e '.[{extra}]'"
    from importlib.metadata import version  # here: few need it

    return f"pip install torch=={version('torch')} 'bnn-uncertainty-bench[{extra}]'"
