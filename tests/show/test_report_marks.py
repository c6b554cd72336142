"""The report in a real browser: its figures say their numbers, and paper has what the screen folds away."""

import pytest

pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra 'browser')")

Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys


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
