"""Text from outside cannot control a terminal: it is shown on one line, and unprintable characters are escaped."""

import pytest

from bench.cli.main import main
from bench.core.text import one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain text", "plain text"),
        ("größer als 1 µs", "größer als 1 µs"),
        ("two\n lines\tand a tab ", "two lines and a tab"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("\u202eabc", r"\u202eabc"),  # it would write from right to left
        ("\udc80", r"\udc80"),  # a byte of a file's name that is not UTF-8
    ],
)
def test_any_text_becomes_one_line_that_is_safe_to_print(text, line):
    assert one_line(text) == line


def test_a_long_text_is_cut():
    assert one_line("a" * 10, longest=4) == "aaaa..."


def test_an_error_of_the_command_line_moves_no_cursor(capsys):
    assert main(["run", "\x1b[2Jmlp"]) == 2
    assert r"unknown approach '\x1b[2Jmlp'" in capsys.readouterr().err
