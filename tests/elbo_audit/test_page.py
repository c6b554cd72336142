"""The page's first example runs as it stands, and prints what the page shows."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "elbo-audit.md").read_text(encoding="utf-8")
DIGITS = re.compile(r"\(95 % interval [^)]*\)|\(standard error [^)]*\)")  # rounding, which processors do unlike


def words(text):
    return DIGITS.sub("()", " ".join(text.split()))


def test_the_first_example_prints_what_the_page_shows():
    example, shown, *_ = re.findall(r"```(?:python)?\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert words(done.stdout) == words(shown)
