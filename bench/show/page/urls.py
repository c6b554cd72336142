"""The links at the head of README: the badge of the tests, the published page and the wheel beside it.

They come from `[project.urls]` of pyproject.toml, names Repository and Page. A name without a URL has no link.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from bench.core.project import IS_CLONE, TOP
from bench.core.version import VERSION

WORKFLOW = ".github/workflows/ci.yml"
WHEEL = f"bnn_uncertainty_bench-{VERSION}-py3-none-any.whl"


def links(urls: Mapping[str, str]) -> str:
    """Return the links that the URLs give, as Markdown; '' if they give none."""
    repository, page = (urls.get(name, "").rstrip("/") for name in ("Repository", "Page"))
    found = []
    if repository:
        runs = f"{repository}/actions/workflows/{WORKFLOW.rpartition('/')[2]}"
        found.append(f"[![tests]({runs}/badge.svg)]({runs})")
    if page:
        found.append(f"[The results on one page]({page}/). Without a clone: `pip install {page}/{WHEEL}`")
    return " ".join(found)


def project_urls() -> dict[str, str]:
    """Return the URLs of pyproject.toml by name; none outside of a clone."""
    if not IS_CLONE:
        return {}
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project.get("urls", {}))
