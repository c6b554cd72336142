"""What the tests of the page do with a browser: set its screen, read its log and a table's columns."""

from __future__ import annotations

import json
from typing import Any

from bench.show.figures.figure import Figure
from bench.show.figures.style import canvas
from bench.show.figures.svg import mark

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)


def marked() -> Figure:
    """Return a figure with two marks."""

    def draw() -> Any:
        drawing = canvas(height=1.0)
        axes = drawing.subplots()
        axes.plot([0], [0], "o", gid=mark(("mlp", "ordinary"), "mlp: 5 %"))
        axes.plot([1], [0], "o", gid=mark(("linear_bbb",), "linear_bbb: 6 %"))
        return drawing

    return Figure("made-up", "Two marks", "Two marks.", "field", draw)


def show(browser: Any, width: int, **features: str) -> None:
    """Set the width of the window in CSS pixels, and the reader's preferences, such as the colour scheme."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wishes = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wishes})


def drain(browser: Any) -> None:
    browser.get_log("browser")
    browser.get_log("performance")


def requested(browser: Any) -> list[str]:
    """Return the addresses asked for by the page, without data in the page and the browser's own pages."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("data:", "chrome:", "about:"))]


def column(browser: Any, table: str, place: int) -> list[str]:
    """Return the texts of a column's visible rows."""
    script = """return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter((row) => !row.hidden)
        .map((row) => row.cells[arguments[1]].textContent.trim())"""
    texts: list[str] = browser.execute_script(script, table, place)
    return texts
