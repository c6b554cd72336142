"""The report in a real browser: no error or request, sorting, filters, no overflow; its figures' numbers; on paper."""

import csv

import pytest

from bench.core.project import TOP
from tests.show.browser import column, requested, show

pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra 'browser')")

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
Select = pytest.importorskip("selenium.webdriver.support.select").Select
WebDriverWait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait

AXE = TOP / "node_modules" / "axe-core" / "axe.min.js"


def test_it_opens_without_an_error_or_a_request(opened, page):
    assert requested(opened) == [page.as_uri()]
    assert opened.get_log("browser") == []
    assert opened.execute_script("return document.querySelectorAll('h1').length") == 1


def test_a_script_that_was_smuggled_in_would_not_run(opened):
    script = (
        "const s = document.createElement('script'); s.textContent = 'window.smuggled = 1'; document.body.append(s)"
    )
    opened.execute_script(script)
    assert opened.execute_script("return window.smuggled") is None
    assert "Content Security Policy" in opened.get_log("browser")[0]["message"]


def test_a_name_of_a_column_sorts_up_down_and_back(opened):
    before = column(opened, "table-accuracy", 5)
    button = opened.find_element("css selector", "#table-accuracy th:nth-child(6) button")
    head = opened.find_element("css selector", "#table-accuracy th:nth-child(6)")

    def numbers(texts: list[str]) -> list[float]:
        return [float(text.split()[0].replace("\u2212", "-")) for text in texts if any(map(str.isdigit, text))]

    assert head.get_attribute("aria-sort") == "none"
    button.send_keys(Keys.ENTER)
    up = column(opened, "table-accuracy", 5)
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers(up) == sorted(numbers(before))
    assert len(numbers(up)) > 3
    assert up[-1] == "\N{EN DASH}"  # what is not a number stays last
    button.send_keys(Keys.SPACE)
    down = column(opened, "table-accuracy", 5)
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers(down) == sorted(numbers(before), reverse=True)
    assert down[-1] == "\N{EN DASH}"
    button.click()
    assert column(opened, "table-accuracy", 5) == before


def test_a_column_with_a_word_among_its_numbers_sorts_by_the_numbers(opened):
    heads = opened.find_elements("css selector", "#table-verdicts-feldman2018 th")
    place = [head.text.split()[0] for head in heads].index("margin")
    before = column(opened, "table-verdicts-feldman2018", place)
    assert "digits" in before  # the margin of what is computed
    heads[place].find_element("css selector", "button").send_keys(Keys.ENTER)
    after = column(opened, "table-verdicts-feldman2018", place)
    n_numbers = sum(text[0].isdigit() for text in before)
    assert [float(text) for text in after[:n_numbers]] == sorted(float(text) for text in before if text[0].isdigit())
    assert not any(text[0].isdigit() for text in after[n_numbers:])


def test_a_table_of_several_data_sets_begins_with_the_digits(opened):
    shown = column(opened, "table-ood", 2)
    assert set(shown) == {"mnist"}
    opened.find_element("css selector", "#table-ood select").send_keys("all")
    assert set(column(opened, "table-ood", 2)) > {"mnist", "letters"}


def test_at_phone_width_a_row_is_a_card_that_names_its_numbers(opened):
    show(opened, 390)
    opened.refresh()
    script = """const cell = document.querySelector('#table-choice tbody tr').cells[1]
        return [cell.dataset.column, getComputedStyle(cell).display]"""
    assert opened.execute_script(script) == ["accuracy", "grid"]


def test_at_tablet_width_no_table_is_cut(opened):
    """A table that would be cut becomes a card for each row, also inside parts that are folded at first."""
    show(opened, 900)
    opened.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = true })")
    script = """return [...document.querySelectorAll('.scroll')]
        .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.getAttribute('aria-label'))"""
    WebDriverWait(opened, 600).until(
        lambda _: opened.execute_script(script) == []
    )  # a fold tells the page a moment later


def test_the_filter_keeps_the_rows_with_all_words(opened):
    opened.find_element("css selector", "#table-detection select").send_keys("all")
    field = opened.find_element("css selector", "#table-detection input")
    assert "Out-of-distribution detection" in field.accessible_name
    everything = column(opened, "table-detection", 0)
    field.send_keys("linear_bbb corrected letters")
    left = column(opened, "table-detection", 0)
    assert set(left) == {"linear_bbb"}
    assert 0 < len(left) < len(everything)
    said = opened.find_element("css selector", "#table-detection output").text
    assert said == f"{len(left)} of {len(everything)} rows"
    field.clear()
    field.send_keys("x", Keys.BACKSPACE)
    assert column(opened, "table-detection", 0) == everything


def test_the_address_keeps_a_view_that_can_be_sent(opened, page):
    opened.find_element("css selector", "#table-detection select").send_keys("all")
    opened.find_element("css selector", "#table-detection input").send_keys("linear_bbb")
    opened.find_element("css selector", "#table-detection thead th:nth-child(1) button").send_keys(Keys.ENTER)
    left, address = column(opened, "table-detection", 0), opened.current_url
    assert "#table-detection?" in address
    opened.get("about:blank")
    opened.get(address)
    assert column(opened, "table-detection", 0) == left
    assert opened.find_element("css selector", "#table-detection input").get_attribute("value") == "linear_bbb"
    opened.get(f"{page.as_uri()}#table-detection?words=%3Cb%3E&sort%20x=up&nosuch=1")  # nonsense does nothing
    assert column(opened, "table-detection", 0) == []
    assert opened.get_log("browser") == []


def test_a_recipe_can_be_chosen(opened):
    select = opened.find_elements("css selector", "#table-ood select")[1]  # the first is that of the data sets
    everything = column(opened, "table-ood", 1)
    assert set(everything) > {"corrected"}
    Select(select).select_by_visible_text("corrected")
    assert set(column(opened, "table-ood", 1)) == {"corrected"}
    Select(select).select_by_visible_text("all")
    assert column(opened, "table-ood", 1) == everything


@pytest.mark.parametrize("kind", ["pointerover", "focusin"])
def test_the_rows_of_one_network_are_marked_in_all_tables(opened, kind):
    link = opened.find_element("css selector", "#table-accuracy tbody tr a")
    name = opened.execute_script("return arguments[0].closest('tr').cells[0].textContent.trim()", link)
    opened.execute_script("arguments[0].dispatchEvent(new Event(arguments[1], { bubbles: true }))", link, kind)
    marked = """return [...document.querySelectorAll('.block tbody tr.same')]
        .map((row) => [row.closest('.block').id, row.cells[0].textContent.trim()])"""
    found = opened.execute_script(marked)
    assert {one for _, one in found} == {name}
    assert len({table for table, _ in found}) > 1


def test_a_file_has_the_rows_that_are_shown(opened):
    opened.find_element("css selector", "#table-detection input").send_keys("linear_bbb")
    kept = """window.kept = []; URL.createObjectURL = (blob) => { window.kept.push(blob); return 'about:blank#' };
        HTMLAnchorElement.prototype.click = function () { window.named = this.download }"""
    opened.execute_script(kept)
    opened.execute_script("document.querySelector('#table-detection .tools button').click()")
    text = opened.execute_async_script("window.kept[0].text().then(arguments[0])")
    assert opened.execute_script("return window.named") == "table-detection.csv"
    head, *rows = csv.reader(text.splitlines())
    assert [row[0] for row in rows] == column(opened, "table-detection", 0) != []
    assert len(head) == len(rows[0])


@pytest.mark.parametrize("width", [390, 900, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, width, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm install --no-save axe-core@4.14.1")
    show(opened, width, prefers_color_scheme=scheme)
    opened.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    opened.refresh()
    opened.execute_script(AXE.read_text(encoding="utf-8"))
    opened.set_script_timeout(600)
    run = """const names = ({ violations }) => violations.map((one) => [one.id, one.nodes.map((node) => node.html)]);
        axe.run(document, { resultTypes: ['violations'] }).then((found) => arguments[0](names(found)))"""
    found = opened.execute_async_script(run)
    opened.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
    assert found == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened):
    script = "return document.activeElement.className + '|' + getComputedStyle(document.activeElement).outlineStyle"
    opened.find_element("tag name", "body").send_keys(Keys.TAB)
    assert opened.execute_script(script) == "skip|solid"
    assert opened.switch_to.active_element.rect["x"] >= 0  # the hidden link comes into sight
    opened.switch_to.active_element.send_keys(Keys.ENTER)
    assert opened.switch_to.active_element.get_attribute("id") == "content"
    script = "return [...document.querySelectorAll('.scroll')].every((box) => box.tabIndex === 0)"
    assert opened.execute_script(script)


def test_a_verdict_opens_its_reasoning(opened):
    opened.execute_script("document.querySelectorAll('#evidence details').forEach((box) => { box.open = false })")
    link = opened.find_element("css selector", "#table-headlines .pill")
    link.send_keys(Keys.ENTER)
    target = opened.find_element("id", opened.current_url.partition("#")[2])
    assert target.is_displayed()  # the closed box around it has opened
    assert "measured" in target.text


def test_the_theme_follows_the_system_until_it_is_chosen(opened):
    def paper() -> str:
        colour: str = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
        return colour

    light = paper()
    show(opened, 1280, prefers_color_scheme="dark")
    dark = paper()
    assert dark != light
    opened.find_element("id", "theme").click()  # auto, then light
    assert paper() == light
    opened.find_element("id", "theme").click()
    show(opened, 1280, prefers_color_scheme="light")
    assert paper() == dark
    opened.find_element("id", "theme").click()
    assert paper() == light


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_overflows(opened, width):
    show(opened, width)
    opened.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = true })")
    script = """return [...document.querySelectorAll('main *')]
        .filter((node) => !node.closest('.scroll *, .pan *, .unseen'))
        .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
        .map((node) => node.outerHTML)"""
    assert opened.execute_script(script) == []
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_contents_fold_at_phone_width(opened):
    show(opened, 360)
    opened.refresh()
    button = opened.find_element("id", "menu")
    contents = opened.find_element("id", "toc")
    assert not contents.is_displayed()
    button.send_keys(Keys.ENTER)
    assert contents.is_displayed()
    assert button.get_attribute("aria-expanded") == "true"
    contents.find_element("link text", "Calibration").click()
    assert not contents.is_displayed()


def test_everything_but_the_evidence_is_printed(opened):
    opened.execute_script("document.querySelectorAll('details').forEach((box) => { box.open = false })")
    table = opened.find_element("css selector", "#table-calibration table")
    assert not table.is_displayed()
    closed = "return [...document.querySelectorAll('details:not([open], #evidence *)')].length"
    opened.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.execute_script(closed) == 0
    opened.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert opened.execute_script("return document.querySelectorAll('details[open]').length") == 0
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    script = """const head = arguments[0].querySelector('thead th'), bar = document.querySelector('.top')
        return [arguments[0].checkVisibility({ contentVisibilityAuto: true }), arguments[0].offsetHeight > 0,
                getComputedStyle(bar).display, getComputedStyle(head).position]"""
    found = opened.execute_script(script, table)
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert found == [True, True, "none", "static"]  # the style sheet alone opens the folds


def test_a_mark_says_its_number_to_pointer_and_keyboard_and_marks_its_network(opened):
    first, second = opened.find_elements("css selector", "#figure-made-up .mark")
    tip = opened.find_element("css selector", ".tip")
    assert not tip.is_displayed()
    opened.find_element("css selector", "#figure-made-up .pan").send_keys(Keys.TAB)
    assert opened.switch_to.active_element == first
    assert (tip.is_displayed(), tip.text) == (True, "mlp: 5 %")
    opened.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert opened.switch_to.active_element == second
    assert tip.text == "linear_bbb: 6 %"
    assert [one.get_attribute("tabindex") for one in (first, second)] == ["-1", "0"]
    same = (
        "return [...document.querySelectorAll('#table-accuracy .same')].map((row) => row.cells[0].textContent.trim())"
    )
    assert opened.execute_script(same) == ["linear_bbb"]
    opened.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    over = "arguments[0].dispatchEvent(new Event('pointerover', { bubbles: true }))"
    opened.execute_script(over, opened.find_element("css selector", "#table-accuracy a[href='#approach-mlp']"))
    assert opened.find_elements("css selector", ".mark.same") == [first]
    opened.execute_script(over, first)
    assert tip.text == "mlp: 5 %"
    assert opened.execute_script(same) == ["mlp"]
