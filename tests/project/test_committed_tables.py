"""The committed tables are those that a document links, made from the committed records."""

import re
import subprocess
from pathlib import Path

import pytest

from bench.core.project import RESULTS
from bench.show.inputs import Inputs
from bench.show.tables.registry import one_table
from bench.show.tables.render import render

TOP = Path(__file__).resolve().parents[2]
TABLES = "results/tables"
LINK = re.compile(rf"\]\((?:\.\./)?{TABLES}/([\w.]+)")


def linked() -> list[str]:
    """Return the names of the files of tables that a document links."""
    texts = [page.read_text(encoding="utf-8") for page in (TOP / "README.md", *(TOP / "docs").glob("*.md"))]
    return sorted({name for text in texts for name in LINK.findall(text)})


@pytest.fixture(scope="module")
def inputs():
    return Inputs(RESULTS)


def test_the_committed_tables_are_those_that_a_document_links():
    told = subprocess.run(["git", "ls-files", TABLES], cwd=TOP, capture_output=True, text=True, check=True).stdout
    committed = sorted(Path(line).name for line in told.splitlines())
    assert committed == linked(), f"git rm what no document links; git add -f {TABLES}/NAME.md what one does"


@pytest.mark.parametrize("name", linked())
def test_a_committed_table_is_that_of_the_records(name, inputs):
    path = TOP / TABLES / name
    made = render(one_table(inputs, path.stem), path.suffix.removeprefix("."))
    assert path.read_text(encoding="utf-8") == made, "run python -m bench table --write"
