"""Texts from outside and reasons: one line that cannot control a terminal; their words, and what is refused as one."""

import pytest

from bench.core.canonical import plain, seal
from bench.core.errors import StoreError
from bench.core.reasons import LONGEST, Reason, in_words, message_reason
from bench.core.store import Store
from bench.core.text import one_line
from tests.synthetic import read_record, record

WORDS = [
    ("the fit was interrupted and resumed", Reason("resumed")),
    ("trained together with 1 other seed", Reason("seeds-together", {"n": 1})),
    ("trained together with 4 other seeds", Reason("seeds-together", {"n": 4})),
    ("profile smoke runs 2 steps an epoch", Reason("short-epochs", {"profile": "smoke", "steps": 2})),
    (
        "mnist/train60k/train_loss is nan in epoch 3; a smaller learning rate may help",
        Reason("diverged", {"metric": "mnist/train60k/train_loss", "value": "nan", "epoch": 3}),
    ),
    (
        "ZeroDivisionError: division by zero (mlp.py:7)",
        Reason("error", {"type": "ZeroDivisionError", "message": "division by zero", "place": "mlp.py:7"}),
    ),
    (
        "DataMissing: no letters here",
        Reason("error", {"type": "DataMissing", "message": "no letters here", "place": ""}),
    ),
    ("its process was ended by SIGKILL", message_reason("crashed", "its process was ended by SIGKILL")),
]


@pytest.mark.parametrize(("words", "reason"), WORDS)
def test_words_and_reasons(words, reason):
    assert in_words(reason) == words


def test_a_kind_has_its_new_name_when_an_older_record_is_read():
    assert Reason("diverged-as-told", {"message": "loss is nan"}) == message_reason("diverged-by-itself", "loss is nan")


def test_several_reasons_are_one_text_and_none_is_empty():
    assert in_words(Reason("resumed"), None, Reason("other-load")) == (
        "the fit was interrupted and resumed; other load on the machine"
    )
    assert in_words(None) == ""


def test_a_record_of_another_schema_is_refused(tmp_path):
    path = tmp_path / "one.json"
    path.write_bytes(seal({**plain(record("mlp", metrics={"mnist/accuracy": 0.98})), "schema": 4}))
    with pytest.raises(StoreError, match=r"schema 4; this version reads 3: `bench run` makes it again"):
        read_record(path)


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("no file a\udc80", r"no file a\udc80"),
        ("half of \ud83d", r"half of \ud83d"),
        ("\x00 \x1b[2J \x9b \u202e \u2028 \r\n", "\x00 \x1b[2J \x9b \u202e \u2028 \r\n"),
        ("\ud800" * 3 * LONGEST, (r"\ud800" * LONGEST)[:LONGEST] + "..."),
    ],
)
def test_a_record_keeps_the_message_of_any_error(tmp_path, message, stored):
    made = record("mlp", outcome="failed", reason=message_reason("crashed", message))
    path = Store(tmp_path).write(made)
    assert path.read_bytes().count(b"\n") == 1
    assert read_record(path).reason == Reason("crashed", {"message": stored})


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
