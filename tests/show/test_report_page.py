"""The page of the report: escaping, links, files, and that it depends on the records alone."""

import dataclasses
import math
import multiprocessing
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from bench.cli import USAGE
from bench.cli.main import main
from bench.core.errors import ConfigError
from bench.core.project import RESULTS
from bench.judge.claims import load_claims
from bench.judge.samples import Samples
from bench.judge.stats.rule import Verdict, judge_one
from bench.show.figures.figure import Figure
from bench.show.inputs import Inputs
from bench.show.page.build import made_of, render_page, write_report
from bench.show.page.content import ReportContent, collect
from bench.show.page.grid import Strip, strip
from bench.show.page.images import Drawings
from bench.show.page.links import anchor
from bench.show.table import Linked, Table
from bench.show.tables.registry import TABLES
from tests.show.browser import marked
from tests.synthetic import HOSTILE, write_records

CLAIM = load_claims()[1]  # a training accuracy
MOST_BYTES = 2_100_000


class Page(HTMLParser):
    """Ids, addresses and tags of a page, and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        self.ids += [str(found["id"])] if "id" in found else []
        self.addresses += [str(found["href"])] if tag == "a" else []

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.said += data

    def tag(self, name: str) -> list[dict[str, str | None]]:
        return [found for tag, found in self.tags if tag == name]


def drawn(name: str = "made-up", group: str = "feldman2018") -> Figure:
    def draw() -> Any:
        from matplotlib.figure import Figure as Drawing

        drawing = Drawing(figsize=(2, 1))
        drawing.subplots().plot([0, 1], [0.123456789, 1])
        return drawing

    return Figure(name, HOSTILE, HOSTILE, group, draw)


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> ReportContent:
    root = tmp_path_factory.mktemp("results")
    write_records(root, reason=HOSTILE)
    (root / "records" / "mlp" / "broken.json").write_text("{")
    return dataclasses.replace(collect(Inputs(root), with_figures=False), figures=[drawn(), drawn("other", "field")])


@pytest.fixture(scope="module")
def written(content, tmp_path_factory) -> tuple[Path, list[Path]]:
    page = tmp_path_factory.mktemp("report") / "index.html"
    return page, write_report(content, page)


@pytest.fixture(scope="module")
def page(written) -> Page:
    return Page(written[0].read_text(encoding="utf-8"))


def test_what_records_and_figures_say_is_never_markup(written, page):
    text = written[0].read_text(encoding="utf-8")
    # The page has only its own script. Markup and template code in the texts are shown as text.
    assert text.count("<script") == 1
    assert HOSTILE in page.said
    assert "49" not in HOSTILE
    drawings = [found for found in page.tag("svg") if found.get("role") == "img" and found.get("viewbox")]
    assert any(HOSTILE in str(found["aria-label"]) for found in drawings)


def test_nothing_is_asked_of_another_host(written, page):
    for tag, found in page.tags:
        for name in ("src", "srcset", "action", "data", "poster"):
            assert str(found.get(name, "data:")).startswith("data:"), (tag, found)
    assert [found["href"] for found in page.tag("link")] == ["data:,"]
    style = re.search(r"<style>(.*?)</style>", written[0].read_text(encoding="utf-8"), re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    (policy,) = [found["content"] for found in page.tag("meta") if found.get("http-equiv")]
    assert str(policy).startswith("default-src 'none'; img-src data:")
    assert "unsafe" not in str(policy)


def test_every_link_leads_to_a_place_of_the_page_or_to_the_web(page):
    """The page may be passed on alone: no link leads to a file beside it."""
    assert len(page.ids) == len(set(page.ids))
    assert len(page.addresses) > 1000
    for address in set(page.addresses):
        assert address[1:] in page.ids if address.startswith("#") else address.startswith("https://"), address


def test_notebooks_that_are_beside_the_page_are_linked_by_their_titles(content, page, tmp_path):
    (tmp_path / "believe-it.html").touch()
    with_one = render_page(content, tmp_path)
    assert {*Page(with_one).addresses} - {*page.addresses} == {"believe-it.html"}
    assert '<a href="believe-it.html">Do you believe it?</a>' in with_one


def test_every_number_of_the_main_table_leads_to_records_or_to_the_reported_number(written):
    text = written[0].read_text(encoding="utf-8")
    table = text[text.index('id="table-accuracy"') :]
    cells = re.findall(r"<td>(.*?)</td>", table[: table.index("</section>")])
    numbers = [cell for cell in cells if re.search(r"^(<a[^>]*>)?[\u2212+\d]", cell)]
    assert len(numbers) > 20
    assert all(re.match(r'<a href="#(run|record|claim)-', cell) for cell in numbers)


def test_every_verdict_has_its_reasoning(content, page):
    judgement = content.inputs.judgement
    first = {one.first.id for one in judgement.curves}
    for verdict in judgement.verdicts:
        is_shown = not verdict.is_point or verdict.claim.id in first  # a curve's verdict is at its first point
        assert (anchor("claim", verdict.claim.id) in page.ids) == is_shown
    assert "#claim-chopra2018.prose.forced_accuracy" in page.addresses
    assert "how sharply?   h =" in page.said


def test_every_record_is_a_line_with_its_facts(content, page):
    records = [place for place in page.ids if place.startswith("record-")]
    assert len(records) == len(content.records)


def test_a_file_that_cannot_be_trusted_is_named(page):
    assert "broken.json" in page.said


def test_sections_come_in_the_order_of_the_questions(page):
    article = "question finding-reports finding-worth finding-which_network choice documents appendix"
    rest = "numbers accuracies calibration ood refusal pruning speed papers faults definitions provenance"
    wanted = f"{article} {rest} evidence".split()
    assert [name for name in page.ids if name in wanted] == wanted


def test_all_forms_hold_the_same_tables(written):
    _, files = written
    names = {form: {path.stem for path in files if path.suffix == f".{form}"} for form in ("md", "csv", "tex")}
    assert names["md"] == names["csv"] == names["tex"]
    assert {"accuracy", "verdicts", "headlines", "definitions", "provenance", "unfinished"} <= names["md"]


def test_equal_records_make_an_equal_page(content, written, tmp_path):
    again = render_page(content)
    assert again == written[0].read_text(encoding="utf-8")
    assert "measured 2026-01-01" in again  # the records' date, not today's


def test_records_of_other_groups_that_tables_show_are_counted_too():
    content = ReportContent(Inputs(RESULTS), {})
    first, second, *_ = content.inputs.of("methods").records
    rows = [[Linked("x", (first.key,))], [Linked("y", (second.key, content.inputs.records[0].key))]]
    vars(content)["tables"] = {"methods": Table("methods", "T", "", ["a"], rows)}
    assert content.other_records == [first, second]
    said = made_of(content.records, content.other_records, content.inputs.results)
    n = len(content.records)
    assert said.startswith(f"Made from {n + 2} records of ")
    assert f" Below, {n} of these are listed." in said


def test_the_page_is_small(written):
    assert written[0].stat().st_size < MOST_BYTES


def test_an_empty_folder_makes_a_page_that_says_so(tmp_path):
    empty = collect(Inputs(tmp_path / "nothing"), with_figures=False)
    found = Page(render_page(empty))
    assert "No records." in found.said
    assert all(address[1:] in found.ids for address in found.addresses if address.startswith("#"))


def verdict(difference: float, margin: float, sd: float = 0.0) -> Verdict:
    """Return a verdict on five seeds (one without a standard deviation) whose mean lies this far from the report."""
    claim = structs.replace(CLAIM, printed="0.5", precision_kind="exact", margin=margin)
    places = (-2, -1, 0, 1, 2) if sd else (0,)  # squares of .632456 (-2, -1, 0, 1, 2) add up to 4
    return judge_one(claim, Samples.of(tuple(0.5 + difference + sd * math.sqrt(0.4) * z for z in places)))


def test_a_strip_is_drawn_in_margins():
    # 3 margins to either side of 50: a margin is 50/3 = 16.67 wide. 1.5 margins lie at 75; h = 3.0414 x .02 / 4 = .0152
    # is .76 margins, 62.33 to 87.67.
    made = strip(verdict(0.03, 0.02, 0.005))
    assert made is not None
    assert made == Strip((33.33, 33.34), (62.33, 25.34), 75.0, "", made.text)
    assert "+1.50 margins" in made.text
    assert "+0.74 to +2.26" in made.text
    claim = structs.replace(CLAIM, printed="0.5", precision_kind="truncated", precision=0.02, margin=0.02)
    coarse = strip(judge_one(claim, Samples.of(tuple(0.53 + 0.005 * math.sqrt(0.4) * z for z in (-2, -1, 0, 1, 2)))))
    assert coarse is not None
    assert "-0.26 to +2.26" in coarse.text  # .5 stands for .5 to .52, a margin wide
    far = strip(verdict(-0.2, 0.02))  # 10 margins below
    assert far is not None
    assert (far.mean, far.outside, far.interval) == (0.0, "below", None)
    assert strip(verdict(0.1, 0.0)) is None  # no margin is declared where digits decide


def test_a_drawing_is_an_element_of_the_page_and_the_tab_key_reaches_only_its_first_mark():
    one, other = Drawings([marked(), marked()]).images()
    assert str(one.wide).startswith('<svg role="group" aria-label="')
    assert re.findall(r'tabindex="(-?\d)" role="img"', one.wide) == ["0", "-1"]
    assert re.findall(r"<title>(.*?)</title>", one.wide) == ["mlp: 5 %", "linear_bbb: 6 %"]
    assert "style=" not in one.wide  # the page's content policy refuses it
    assert not set(re.findall(r' id="(.*?)"', one.wide)) & set(re.findall(r' id="(.*?)"', other.wide))
    (plain,) = Drawings([drawn()]).images()
    assert str(plain.wide).startswith('<svg role="img" aria-label="')
    assert "tabindex" not in plain.wide


def test_an_error_ends_what_is_being_drawn():
    """Otherwise the command would wait for the drawings before it prints the error."""
    others = set(multiprocessing.active_children())
    endless = dataclasses.replace(drawn(), draw=lambda: threading.Event().wait())
    with pytest.raises(ConfigError), Drawings([endless, endless]):
        raise ConfigError("no such claim")
    assert set(multiprocessing.active_children()) <= others


def test_a_drawing_for_narrow_pages_has_other_ids_than_the_wide_one():
    (image,) = Drawings([dataclasses.replace(drawn(), narrow=drawn().draw)]).images()
    assert image.narrow is not None
    ids = re.findall(r' id="(.*?)"', image.wide + image.narrow)
    assert len(ids) == len(set(ids)) > 0
    assert Drawings([drawn()]).images()[0].narrow is None


def test_the_picture_for_posts_is_the_first_figure(content, tmp_path, monkeypatch):
    monkeypatch.setattr("bench.show.page.build.project_urls", lambda: {"Page": "https://x.org/p/"})
    shown = dataclasses.replace(content, figures=[drawn("sure", "field")])
    files = write_report(shown, tmp_path / "index.html", ["html"])
    assert files == [tmp_path / "index.html", tmp_path / "social.png"]
    assert files[1].read_bytes().startswith(b"\x89PNG")
    found = Page(files[0].read_text(encoding="utf-8")).tag("meta")
    said = {str(one.get("property", one.get("name"))): one.get("content") for one in found}
    assert said["og:image"] == "https://x.org/p/social.png"
    assert said["og:image:alt"] == HOSTILE
    assert said["description"] == said["og:description"] != ""


def test_every_table_is_on_the_page(content, page):
    for name in content.tables:
        assert any(place == f"table-{name}" or place.startswith(f"table-{name}-") for place in page.ids), name
    absent = {"methods", "methods_fashion", "uci"}  # this folder has none of these
    assert {kind.name for kind in TABLES if "*" not in kind.name} - absent <= set(content.tables)


def test_mistakes_and_ablations_stand_with_their_document(written):
    text = written[0].read_text(encoding="utf-8")
    names = ("document-feldman2018", "table-audit_feldman2018", "table-ablation_mlp", "document-rabanser2017")
    places = [text.index(f'id="{name}"') for name in names]
    assert places == sorted(places)


def test_the_page_says_once_what_holds_for_all_its_tables(written, page):
    assert page.said.count("Profile full, cpu, float32, seeds 0-4") == 1


@pytest.mark.parametrize(
    ("output", "message"),
    [(".", "is a folder; give the page's file, as .*index.html"), ("file/index.html", "cannot write .*; free space")],
)
def test_a_place_that_cannot_be_written_is_told_before_the_work(output, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("bench.cli.report.collect", lambda *_, **__: pytest.fail("the work has begun"))
    assert main(["report", "--results", str(tmp_path), "--output", str(tmp_path / output)]) == USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
