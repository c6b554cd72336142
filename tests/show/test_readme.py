"""The README names every document with its author, title, year and link, and no line of its tables is wide."""

from __future__ import annotations

import re
from pathlib import Path

from bench.show.page.content import load_documents

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
WIDEST = 68  # characters in the widest cells of a row: with their margins at most 830 pixels, a page's width on GitHub


def test_every_document_is_named_with_author_title_year_and_link():
    for name, facts in load_documents().items():
        if "first-run" not in name:
            row = next(line for line in README.splitlines() if line.startswith(f"| {name} |"))
            for part in (facts.author.split(",")[0], facts.title, str(facts.date.year), facts.link):
                assert part in row


def test_generated_tables_are_narrow():
    blocks = re.findall(r"<!-- table:\S+ -->(.*?)<!-- /table -->", README, re.DOTALL)
    assert blocks
    for block in blocks:
        rows = [line.strip("|").split("|") for line in block.splitlines() if line.startswith("|") and "---" not in line]
        assert sum(max(len(row[place].strip()) for row in rows) for place in range(len(rows[0]))) <= WIDEST
