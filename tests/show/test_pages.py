"""Long tables as a screen: main rows first, as many as fit, and how to see the others."""

import re

import pytest
from rich.cells import cell_len

from bench.cli.main import parse
from bench.cli.table import _chosen, _printed
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.show.inputs import Inputs
from bench.show.table import Table
from bench.show.tables.registry import all_tables
from bench.show.terminal import LONGEST, SCREEN, page, text


@pytest.fixture(scope="module")
def shipped():
    return Inputs(RESULTS)


@pytest.fixture(scope="module")
def tables(shipped):
    return all_tables(shipped)


def printed(table, *options):
    arguments = parse(["table", table.name, *options])
    return _printed(_chosen(table, arguments), arguments)


@pytest.mark.parametrize("more", [[], ["--all"], ["--format", "csv"], ["--column", "p"]])
def test_a_screen_of_verdicts_has_the_end_results_and_files_every_number(more, shipped, tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    out = printed(tables["verdicts"], *more)
    every, ends = ({one.claim.id for one in group} for group in (shipped.judgement.verdicts, shipped.judgement.ends))
    assert len(ends) < len(every) == len(tables["verdicts"].rows)
    is_short = more in ([], ["--column", "p"])
    names = {re.split("[ ,]", line)[0] for line in out.splitlines()}
    assert names & every == (ends if is_short else every)
    assert (f"{len(ends)} of {len(every)} rows (end results; " in out) == is_short


def test_every_table_is_a_screen_and_all_shows_every_row(tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for name, table in tables.items():
        out, whole = printed(table), printed(table, "--all")
        assert out.count("\n") < LONGEST, name
        assert max(map(cell_len, out.splitlines())) <= 100
        assert whole == text(table)
        said = " ".join(out.split())
        assert "--all every row" in said or "--data-set NAME or all" in said or out == whole, name


@pytest.mark.parametrize(("options", "rows"), [([], "mnist/"), (["--data-set", "letters"], "letters/")])
def test_metrics_are_in_columns_digits_first(options, rows, tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    lines = printed(tables["metrics"], *options).splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("metric "))
    assert lines[head].split() == list(tables["metrics"].columns)
    end = lines.index("", head)
    assert {line.partition("/")[0] + "/" for line in lines[head + 2 : end]} == {rows}
    assert end - head - 2 == sum(str(row[0]).startswith(rows) for row in tables["metrics"].rows)


def test_a_row_is_chosen_by_its_text(tables, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    pruning = tables["pruning"]
    lines = printed(pruning, "--row", "mlp published ", "--all").splitlines()
    assert sum(line.startswith("mlp ") for line in lines) == sum(
        row[:2] == ["mlp", "published"] for row in pruning.rows
    )
    assert not any(line.startswith("linear_bbb ") for line in lines)
    with pytest.raises(ConfigError, match="no row of table pruning has the text 'nonsense'; --all shows every row"):
        printed(pruning, "--row", "nonsense")


def long_table(names, **more):
    rows = [[name, "same", name[-1], f"{place:_>40}"] for place, name in enumerate(names)]
    remarks = [f"{names[0]}: first", f"{names[-1]}: last", "of all: stays"]
    return Table("t", "T", "Caption.", ("name", "kind", "letter", "spare"), rows, remarks, **more)


def test_a_page_has_the_users_rows_says_what_is_alike_and_leaves_out_remarks_on_other_rows(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    names = [*(f"row{place}" for place in range(LONGEST)), "mine: z"]
    main = long_table(names, main=lambda row: row[0] == "row1", main_says="some")
    lines = page(main).splitlines()
    assert lines[1].startswith(f"2 of {len(names)} rows (some). ")
    assert "The same in all: kind same." in " ".join(lines[1:4])
    assert [line.split()[0] for line in lines if line.startswith(("row", "mine"))] == ["row1", "mine:", "mine:"]
    assert lines[-2:] == ["mine: z: last", "of all: stays"]
    few = page(long_table(names, main=lambda row: row[0] == "", main_says="none")).splitlines()
    assert len(few) > 4
    assert few[-1] == "of all: stays"
    shown = [line.split()[0] for line in page(long_table(names[:-1])).splitlines() if line.startswith("row")]
    assert shown[:-1] == names[: len(shown) - 1]  # the last one is the remark on the first row
    assert len(page(long_table(names[:-1])).splitlines()) == SCREEN
    short = long_table(names[:5])
    assert page(short) == text(short)


def test_a_wide_column_gives_way_before_a_row_takes_two_lines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "45")
    table = long_table([f"row{place}" for place in range(LONGEST)], spare=("spare",))
    lines = page(table).splitlines()
    assert [line for line in lines if line.startswith("name")] == ["name   letter"]
    assert 'Left out: "spare". --wide shows all columns.' in " ".join(" ".join(lines).split())
