"""Turns the source of a number into an address inside the page; the links of README to what is published."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence

from bench.core.project import IS_CLONE, TOP, VERSION
from bench.core.records import Record
from bench.show.table import of_claim, of_document

RecordPlace = tuple[str, str, str, str, str, str]
"""Approach, recipe, protocol, profile, device, precision: what the records of several seeds have in common."""

WORKFLOW = ".github/workflows/ci.yml"
WHEEL = f"bnn_uncertainty_bench-{VERSION}-py3-none-any.whl"
NOTEBOOKS = {
    "believe-it.html": "Do you believe it?",
    "audit-your-loss.html": "Audit your loss",
    "your-model.html": "Your model in the table",
}
"""Titles of the notebooks of `examples`, which CI runs and puts beside the page."""
ALL_RECORDS = "evidence-records"  # id of the section with all records


def anchor(kind: str, name: str) -> str:
    """Return an id of plain characters for a place of the page. Different names get different ids."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]', lambda found: f'~{ord(found[0]):x}~', name)}"


def record_anchor(key: str) -> str:
    """Return the id of a record's line. The first ten digits of its key, a hash, tell records apart."""
    return anchor("record", key[:10])


def web_address(link: str) -> str:
    """Return the link if it leads to the web, and '' for any other, such as a script."""
    return link if re.match(r"https?://", link) else ""


class Links:
    """Addresses of sources (see `bench.show.table.Linked`): all inside the page, which is passed on without others."""

    def __init__(
        self, records: Sequence[Record], claims: Sequence[str], documents: Sequence[str], approaches: Sequence[str]
    ) -> None:
        """Take what the page shows: records, and the names of claims, documents and approaches."""
        self._places = {str(record.key): record.series for record in records}
        ordered = sorted(set(self._places.values()))
        self._ids = {place: f"run-{number}" for number, place in enumerate(ordered)}  # short: thousands of links
        self._known = {of_claim(name): f"#{anchor('claim', name)}" for name in claims}
        self._known |= {of_document(name): f"#{anchor('document', name)}" for name in documents}
        self._names = {name: f"#{anchor('approach', name)}" for name in approaches}
        self._names |= {name: f"#{anchor('document', name)}" for name in documents}

    def to(self, sources: Sequence[str]) -> str:
        """Return the address of a claim or a record, or of the place that shows several records.

        Records of several places have the address of the section with all records. '' if the page shows no source.
        """
        known = [source for source in sources if source in self._known or source in self._places]
        if not known:
            return ""
        if known[0] in self._known:
            return self._known[known[0]]
        if len(known) == 1:
            return f"#{record_anchor(known[0])}"
        places = {self._places[key] for key in known if key in self._places}
        return f"#{self.place(places.pop())}" if len(places) == 1 else f"#{ALL_RECORDS}"

    def place(self, place: RecordPlace) -> str:
        """Return the id of the part of the page that shows the records of a place."""
        return self._ids[place]

    def name(self, text: str) -> str:
        """Return the address of a document's or an approach's description, '' for any other text."""
        return self._names.get(text, "")


def published_links(urls: Mapping[str, str]) -> str:
    """Return the badge of the tests, the page and the wheel beside it, as Markdown; a name without a URL has no link.

    `urls`: of `[project.urls]` in pyproject.toml, by the names Repository and Page.
    """
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
