"""Turn the source of a number into an address inside the page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.core.records import Record
from bench.show.cells import of_claim, of_document

RecordPlace = tuple[str, str, str, str, str, str]
"""Approach, recipe, protocol, profile, device, precision: what the records of several seeds have in common."""


ALL_RECORDS = "evidence-records"  # id of the section with all records


def anchor(kind: str, name: str) -> str:
    """Return an id for a place of the page: different names give different ids, of plain characters only."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]', lambda found: f'~{ord(found[0]):x}~', name)}"


def record_anchor(key: str) -> str:
    """Return the id of a record's line, the first digits of its key, which is a hash."""
    return anchor("record", key[:10])


def web_address(link: str) -> str:
    """Return a link to the web as it is, and '' for anything else, such as a script."""
    return link if re.match(r"https?://", link) else ""


class Links:
    """Addresses of sources (see `bench.show.cells.Linked`): all inside the page, which is passed on alone."""

    def __init__(
        self, records: Sequence[Record], claims: Sequence[str], documents: Sequence[str], approaches: Sequence[str]
    ) -> None:
        """Take what the page will show: records by key, and names with an anchor."""
        self._places = {str(record.key): record.series for record in records}
        ordered = sorted(set(self._places.values()))
        self._ids = {place: f"cell-{number}" for number, place in enumerate(ordered)}  # short: they are thousands
        self._known = {of_claim(name): f"#{anchor('claim', name)}" for name in claims}
        self._known |= {of_document(name): f"#{anchor('document', name)}" for name in documents}
        self._names = {name: f"#{anchor('approach', name)}" for name in approaches}
        self._names |= {name: f"#{anchor('document', name)}" for name in documents}

    def to(self, sources: Sequence[str]) -> str:
        """Return the address of one source, or of what shows several records; '' where the page shows none."""
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
        """Return the id of where the records of a place are shown."""
        return self._ids[place]

    def name(self, text: str) -> str:
        """Return where a document or an approach is described, '' for any other text."""
        return self._names.get(text, "")
