"""Adds what the package reads to a wheel: data sets, claims, the committed records and fits, as `bench/_data`.

In a clone (and in an editable install of one) the package reads the clone's own folders; `bench.core.project` decides.
Everything else about the project is in pyproject.toml.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

TOP = Path(__file__).resolve().parent
SHIPPED = (
    "examples/conv_net.*",
    "datasets/*.toml",
    "datasets/mnist/*.gz",
    "datasets/fashion_mnist/*.gz",
    "datasets/letters/*.gz",
    "results/reference/*",
    "results/records/*.jsonl",
    "results/records/*.npz",
    "results/shipped-fits/*/*.safetensors",
    "results/derived_metrics/*.jsonl",
    "results/posterior/*.json",
    "results/posterior/*.npz",
    "results/posterior/*.jsonl",
    "results/posterior/*.csv",
    "results/uci/*.csv",
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
        for source in _shipped():
            copy = target / source
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / source, copy)
        (target / "commit.txt").write_text(_commit(), encoding="ascii")


class SourcesWithData(sdist):
    """Pack the sources, and the files that a wheel of them needs."""

    def make_distribution(self) -> None:
        """Add the files to those that setuptools has found."""
        self.filelist.extend(map(str, _shipped()))
        super().make_distribution()


def _shipped() -> Iterator[Path]:
    """Give the files of `SHIPPED`, relative to the top."""
    for pattern in SHIPPED:
        for source in sorted(TOP.glob(pattern)):
            if source.is_file():
                yield source.relative_to(TOP)


def _commit() -> str:
    """Return the commit that is built, which records name, with "+" if files differ from it; '' outside of a clone."""
    try:
        top, commit, changed = (
            subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (
                ("rev-parse", "--show-toplevel"),
                ("rev-parse", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no"),
            )
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    if top != str(TOP):  # unpacked sources inside an unrelated git repository
        return ""
    return commit + "+" * bool(changed)


setup(cmdclass={"build_py": BuildWithData, "sdist": SourcesWithData})
