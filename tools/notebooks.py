"""Make the HTML of notebooks self-contained: nbconvert's asks foreign servers for MathJax, Mermaid and require.js.

    python -m tools.notebooks FILE.html ...

changes the files. Nothing in `examples` needs a script. Exit code 1 if a page would still load something.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s;]+)", re.IGNORECASE)


def without_scripts(page: str) -> str:
    """Return a page without its scripts."""
    return SCRIPT.sub("", page)


class _Loaded(HTMLParser):
    """Collects the addresses that a browser asks while it shows a page; not those of links that a reader may follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            is_loaded = name in ("src", "srcset", "poster", "data", "background") or (
                name.endswith("href") and tag != "a"
            )
            if is_loaded and ELSEWHERE.match((value or "").strip()):
                self.found.append(str(value))


def loaded(page: str) -> list[str]:
    """Return the foreign addresses that a browser asks while it shows a page, as far as markup and styles name them."""
    parser = _Loaded()
    parser.feed(page)
    return [*parser.found, *IN_STYLE.findall(page)]


def main(paths: list[str]) -> int:
    """Change the files, and return the exit code."""
    code = 0
    for path in map(Path, paths):
        page = without_scripts(path.read_text(encoding="utf-8"))
        path.write_text(page, encoding="utf-8")
        for address in loaded(page):
            print(f"error: {path} loads {address}; keep what the notebook shows in the notebook", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
