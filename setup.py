"""Adds what the package reads to a wheel: data sets, claims, the committed records and fits, as `bench/_data`.

In a clone (and in an editable install of one) the package reads the clone's own folders; `bench.core.project` decides.
Everything else about the project is in pyproject.toml.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TOP = Path(__file__).resolve().parent
SHIPPED = (
    "datasets/*.toml",
    "datasets/mnist/*.gz",
    "datasets/fashion_mnist/*.gz",
    "datasets/letters/*.gz",
    "results/reference/*",
    "results/records/*/*.json",
    "results/records/*/*__seed0__*.npz",
    "results/shipped-fits/SHA256SUMS",
    "results/shipped-fits/*/*.safetensors",
    "results/readings/*/*.json",
    "results/measured/*.json",
)


class BuildWithData(build_py):
    """Build the packages, then copy the files that they read."""

    def run(self) -> None:
        """Copy the shipped files into the build; an editable install reads the clone instead."""
        if not self.editable_mode:  # an earlier build's files may be gone from the clone
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "bench" / "_data"
        for pattern in SHIPPED:
            for source in sorted(TOP.glob(pattern)):
                if source.is_file():
                    copy = target / source.relative_to(TOP)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, copy)
        (target / "commit.txt").write_text(_commit(), encoding="ascii")


def _commit() -> str:
    """Return the commit that is built, which records name; '' outside of a git checkout."""
    try:
        done = subprocess.run(["git", "-C", str(TOP), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


setup(cmdclass={"build_py": BuildWithData})
