"""The documents: links lead somewhere, sources are named, words are few; files are few, and none of code is long.

Every tolerance of the tests of numbers says where it comes from; elsewhere fewer and fewer do not.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.core.project import TOP
from bench.show.page.content import load_documents
from tools import numerical
from tools.tolerances import all_tolerances, tolerances

README = (TOP / "README.md").read_text(encoding="utf-8")
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
WIDEST = 68  # characters in the widest runs of a row: with their margins at most 830 pixels, a page's width on GitHub
MENTION = re.compile(r"\bdocs/[a-z0-9-]+\.md\b")
SCREEN = 60  # lines
MOST_DOCUMENTS, MOST_WORDS, MOST_TERMS = 16, 16_400, 14  # the auditor has a page of its own
MOST_FILES, MOST_LINES = 800, 300
LINK = re.compile(r"\]\((?!https?://)([^)\s#]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings: lower case, no punctuation, hyphens for spaces."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page):
    for place, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{place} is not there"
        assert not anchor or anchor in anchors(target), f"{place}#{anchor} is no heading"


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


def test_the_documents_can_be_read_in_an_hour():
    """CONTRIBUTING.md and CHANGELOG.md, which have a test of their own below, do not count."""
    assert len(PAGES) <= MOST_DOCUMENTS
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in PAGES}
    assert sum(words.values()) <= MOST_WORDS, words


def test_the_glossary_is_short():
    text = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    glossary = text.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    assert 0 < len(re.findall(r"^- \*\*", glossary, flags=re.MULTILINE)) <= MOST_TERMS


def test_every_document_that_a_file_mentions_is_there():
    command = ["git", "grep", "-hoIE", r"(^|[^:])\bdocs/[a-z0-9-]+\.md"]  # after a colon: of an older commit
    listed = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    named = {name for line in listed.stdout.splitlines() for name in MENTION.findall(line)}
    assert named
    assert sorted(name for name in named if not (TOP / name).exists()) == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_a_page_for_maintainers_is_one_screen(name):
    assert len((TOP / name).read_text(encoding="utf-8").splitlines()) <= SCREEN


def test_files_are_few_and_no_file_of_code_is_long():
    if not (TOP / ".git").exists() or not shutil.which("git"):
        pytest.skip("what is committed can be asked only in a clone, by git")
    answer = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True).stdout
    names = [name for name in answer.splitlines() if (TOP / name).is_file()]
    assert 0 < len(names) <= MOST_FILES, f"{len(names)} files: merge small ones that share a subject"
    lines = {name: len((TOP / name).read_text(encoding="utf-8").splitlines()) for name in names if name.endswith(".py")}
    assert lines
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}


WITHOUT = 220
"""Tolerances of all tests without a derivation. It may only fall: derive those that you add, and lower it."""


def test_the_tests_of_numbers_derive_every_tolerance():
    found = all_tolerances(*(TOP / test for test in numerical.TESTS))
    assert found
    assert [f"{one.file}:{one.line}" for one in found if one.kind == "none"] == []


def test_no_tolerance_without_a_derivation_is_new():
    assert sum(one.kind == "none" for one in all_tolerances()) == WITHOUT


CASES = {
    "assert a == approx(b)": ["none"],
    "assert a == approx(b, rel=0, abs=0)": ["exact"],
    "assert a == approx(b, rel=1e-6)  # tolerance: printed with six digits": ["derived"],
    "# tolerance: one rounding\nassert abs(a - b) < 1e-9": ["derived"],
    "# one rounding\nassert abs(a - b) < 1e-9": ["none"],
    "assert 1e-9 > abs(a - b) > 0": ["none"],
    "assert a < b": [],
    "assert abs(a) > 1": [],
    "# tolerance: two roundings\nLEAST = 2e-16\nassert isclose(a, b, rtol=LEAST, atol=0)": ["derived"],
    "from tests.close import DOUBLE\nassert_close(a, b, rtol=DOUBLE, atol=DOUBLE)": ["derived"],
    "with one:\n    # tolerance: here\n    pass\n    assert a == approx(b)": ["none"],
}


@pytest.mark.parametrize("code", CASES)
def test_what_a_tolerance_is(code, tmp_path):
    (tmp_path / "some.py").write_text(code + "\n")
    assert [one.kind for one in tolerances(tmp_path / "some.py")] == CASES[code]


def test_every_configuration_has_its_turn(monkeypatch):
    """The commit's hash chooses one; together the first hashes choose all but the plain one."""
    seen = set()
    for number in range(len(numerical.CONFIGURATIONS) - 1):
        answer = type("Done", (), {"stdout": f"{number:040x}\n"})
        monkeypatch.setattr(numerical.subprocess, "run", lambda *_, answer=answer, **__: answer)
        seen.add(numerical.chosen())
    assert seen == set(numerical.CONFIGURATIONS) - {"as-it-is"}
