"""The forms of a table: the terminal, Markdown, CSV, files and the blocks of the README; and how numbers look."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from bench.core.errors import ConfigError
from bench.core.text import FRACTION, SIX, THREE, Digits
from bench.judge.claims import load_claims
from bench.judge.samples import MissingValue, Samples
from bench.show.screens.summary import summary
from bench.show.table import Measured, Missing, Number, Table
from bench.show.tables.files import readme_body, update_readme, write_tables
from bench.show.tables.registry import one_table
from bench.show.tables.render import escape, markdown, render
from bench.show.terminal import shown
from tests.synthetic import record
from tests.tables import Tables, inputs, small, small_accuracy

CLAIMS = load_claims()
ABSENT = "-: no such number: no document reports it, or this protocol did not measure the recipe"


def test_the_rows_of_one_data_set_keep_no_remark_on_other_rows():
    rows = [["a", "alone", "mnist", "+1"], ["b", "alone", "letters", "+2*"]]
    remarks = ["*: seed 1 failed", "a (alone): A.", "b (alone): B.", "all: C."]
    table = Table("t", "T", "", ["change", "kind", "data set", "n"], rows, remarks)
    assert list(table.of_data_set("mnist").remarks) == ["a (alone): A.", "all: C."]
    assert list(table.of_data_set("letters").remarks) == ["*: seed 1 failed", "b (alone): B.", "all: C."]


# numbers


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.97256, FRACTION, "0.9726"),
        (-0.00001, Digits(decimals=4, signed=True), "+0.0000"),  # what rounds to zero has no minus
        (0.0013, Digits(decimals=4, signed=True), "+0.0013"),
        (9806.669921875, SIX, "9806.67"),
        (0.0741234, SIX, "0.0741234"),
        (4.190066e-05, SIX, "4.19007e-05"),
        (1234567.0, THREE, "1234567"),  # digits before the point are never replaced by zeros
        (0.0, THREE, "0.00"),
        (-13.2, THREE, "-13.2"),
    ],
)
def test_rounding(value, digits, shown):
    assert digits.text(value) == shown


@given(st.floats(1e-3, 1e6), st.integers(1, 8))
def test_rounding_to_significant_digits_is_that_close(value, significant):
    shown = float(Digits(significant=significant).text(value))
    # One unit of the last of n significant digits is at most 10^(1-n) of the number.
    assert abs(shown - value) <= 0.5001 * 10 ** (1 - significant) * value


def test_missing_values_are_numbered_only_where_one_word_has_several_reasons():
    missing_values = [
        MissingValue("n/a", "no sigma"),
        MissingValue("n/a", "no draws"),
        MissingValue("not run", "no record"),
    ]
    rows = [
        [Missing(missing_value), Number(1.0, FRACTION), "x"] for missing_value in [*missing_values, missing_values[0]]
    ]
    table = Table("t", "T", "C", ["a", "b", "c"], rows, ["last"], conditions="D", origin=["made"])
    assert table.labels == {missing_values[0]: "n/a [1]", missing_values[1]: "n/a [2]", missing_values[2]: "not run"}
    assert table.notes == ("n/a [1]: no sigma", "n/a [2]: no draws", "not run: no record", "last", "made")
    assert table.caption == "C D"


def test_the_summary_as_a_reader_sees_it():
    # Seeds 0.979 and 0.981: mean 0.98, sd 0.001 * sqrt(2) = 0.0014. Reported 0.9800237: difference -0.00002.
    assert summary(small()).splitlines() == [
        "Accuracy against the reported numbers",
        "",
        "approach    reported  published x published    diff.  published x common  corrected x common",
        "─" * 92,
        "mlp           0.9800   0.9800 +- 0.0014 (2)  +0.0000              0.9801              failed",
        "+ lr-decay         -            common only        -              0.9850                   -",
        "uniform            -                      -        -             not run                   -",
        "",
        "Profile full, cpu, float32, seeds 0, 1; mean +- standard deviation (number of seeds).",
        "failed: a | b",
        ABSENT,
        "common only: without `--protocol published`, changed recipes are measured by the common protocol only",
        "not run: no record of this trained run; python -m bench run makes it",
        "Made on made-up CPU, 2 threads; python 3.11.9, torch 2.13.0. Code: 0123456789.",
        "2 of 2 reported numbers are measured; 0 give the digits that the document prints.",
    ]
    short = summary(small(), more="python -m bench table accuracy").splitlines()
    assert not any(line.startswith("uniform") for line in short)  # at the end of a run, what did not run is left out
    assert any(line.startswith("mlp") for line in short)
    assert short[-2:] == [
        "notes: python -m bench table accuracy",
        "2 of 2 reported numbers are measured; 0 give the digits that the document prints.",
    ]
    own = inputs([record("uniform", protocol="common", metrics={"mnist/accuracy": 0.1})])
    assert summary(own, more="more").splitlines()[-1] == "notes: more"  # no document reports a number of it


# rendering


def test_markdown_shows_every_character_as_it_is():
    assert escape("|mu|/sigma <!-- x --> `a` *b*\nc") == r"\|mu\|/sigma &lt;!-- x --> \`a\` \*b\* c"
    table = Table("t", "T|", "a < b", ["c|d"], [[Missing(MissingValue("failed", "x | y"))], ["p|q"]], [])
    assert markdown(table) == (
        "# T\\|\n\na &lt; b\n\n|   c\\|d |\n|-------:|\n| failed |\n|   p\\|q |\n\n- failed: x \\| y\n"
    )


def test_csv_has_unrounded_numbers_and_reasons_in_words():
    content = render(small_accuracy(), "csv")
    rows = list(csv.DictReader(io.StringIO(content)))
    assert list(rows[0])[4:9] == [
        "published x published",
        "published x published sd",
        "published x published n",
        "difference",
        "published x common",
    ]
    assert float(rows[0]["published x published"]) == pytest.approx(0.98, abs=1e-15)
    assert float(rows[0]["published x published sd"]) == pytest.approx(0.001 * math.sqrt(2), rel=1e-12)
    assert rows[0]["published x published n"] == "2"
    assert float(rows[0]["reported"]) == 0.9800237341772152
    assert (rows[0]["corrected x common"], rows[0]["corrected x common n"]) == ("failed: a | b", "0")
    assert rows[1]["reported"] == "-"


def printed(table: Table, width: int, **options: Any) -> list[str]:
    return shown(table, console=Console(width=width, markup=False, highlight=False, **options)).splitlines()


def made_up(*notes: str) -> Table:
    rows = [
        ["a_name", Measured(Samples.of((0.5, 0.5))), "one two"],
        ["b", Measured(Samples(missing_value=MissingValue("failed", "why"))), "t"],
    ]
    return Table("t", "Title", "Caption.", ["name", "x", "y"], rows, notes)


FOLDED = {  # by the width of the screen
    80: [
        "name                       x  y",
        "─────────────────────────────────────",
        "a_name  0.5000 +- 0.0000 (2)  one two",
        "b                     failed  t",
    ],
    # The longest words take 6 + 10 + 3 columns ("0.0000 (2)" counts as one word), the gaps 4; x and y share
    # the 4 left.
    27: [
        "name               x  y",
        "───────────────────────────",
        "a_name     0.5000 +-  one",
        "          0.0000 (2)  two",
        "b             failed  t",
    ],
    # Only with narrower gaps it fits: the longest words take 6 + 6 + 3 columns, the gaps 2.
    17: [
        "name        x y",
        "─────────────────",
        "a_name 0.5000 one",
        "           +- two",
        "       0.0000",
        "          (2)",
        "b      failed t",
    ],
    # It does not fit: row by row.
    16: ["a_name", "  x  0.5000 +-", "     0.0000 (2)", "  y  one two", "b", "  x  failed", "  y  t"],
}


@pytest.mark.parametrize("width", FOLDED)
def test_a_table_is_folded_to_the_width_of_the_screen(width):
    assert printed(made_up(), width) == FOLDED[width]


def test_verdicts_are_coloured_where_colours_are_shown(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    table = Table("t", "T", "C", ["claim", "verdict"], [["c", "contradicted"]])
    assert "\x1b[31mcontradicted" in "\n".join(printed(table, 80, force_terminal=True, color_system="standard"))
    assert "\x1b" not in "\n".join(printed(table, 80))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in "\n".join(printed(table, 80, force_terminal=True, color_system="standard"))


def test_a_reason_gives_no_orders_to_the_terminal():
    table = Table("t", "T", "C", ["why"], [["\x1b[2J[bold]:smile:"]])
    assert printed(table, 80)[-1] == r"\x1b[2J[bold]:smile:"


# files


def test_tables_are_written_as_markdown_and_csv(tmp_path):
    written = write_tables([small_accuracy()], tmp_path / "tables")
    assert written == [tmp_path / "tables" / "accuracy.md", tmp_path / "tables" / "accuracy.csv"]
    assert written[0].read_text() == markdown(small_accuracy())


def named() -> dict[str, Table]:
    return {name: one_table(small(), name) for name in ("accuracy", "ood", "toys")}


def test_the_readme_is_brought_up_to_date_once(tmp_path):
    path = tmp_path / "README.md"
    old = (
        "# Title\n\n<!-- table:accuracy -->\nold\n<!-- /table -->\n\ntext\n\n<!-- table:toys --><!-- /table -->\nend\n"
    )
    path.write_text(old)
    assert update_readme(path, named(), check=True)
    assert path.read_text() == old
    assert update_readme(path, named())
    assert not update_readme(path, named(), check=True)
    new = path.read_text()
    assert new.startswith("# Title\n\n<!-- table:accuracy -->\n" + readme_body(small_accuracy()))
    assert new.endswith("<!-- /table -->\nend\n")
    assert "old" not in new
    assert not update_readme(path, named())
    assert path.read_text() == new


def test_a_reason_cannot_break_the_readmes_markers(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("<!-- table:accuracy -->\n<!-- /table -->\n")
    reason = "<!-- /table --> and <!-- table:x -->"
    built = {"accuracy": Tables(record("mlp", "published", "common", outcome="failed", reason=reason))["accuracy"]}
    assert update_readme(path, built)
    assert not update_readme(path, built)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no markers", "has no block"),
        ("<!-- table:accuracy -->\n", "has no block"),
        ("<!-- table:accuracy --> <!-- table:ood --> <!-- /table -->", "without its other end"),
        ("<!-- table:accuracy --> <!-- /table --> <!-- /table -->", "without its other end"),
        ("<!-- table:accurcy --> <!-- /table -->", "unknown table in .* 'accurcy'; known: .*did you mean 'accuracy'"),
    ],
)
def test_a_readme_with_bad_markers_is_left_alone(tmp_path, content, message):
    path = tmp_path / "README.md"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        update_readme(path, named())
    assert path.read_text() == content


def test_a_readme_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"^\S+README\.md cannot be read: No such file or directory$"):  # named once
        update_readme(Path(tmp_path / "README.md"), named())
