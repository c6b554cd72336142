"""Events as lines of JSON: an event that is written can be read again, whatever its texts contain."""

import msgspec
import pytest

from bench.run.events import EpochEnded, Recorded, Tick, decode, encode, losses


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Tick(), b'{"kind":"tick"}'),
        (
            EpochEnded(1, 9, losses({"loss": float("nan")}), 2),
            b'{"kind":"epoch","epoch":1,"of":9,"trace":{"loss":null}',
        ),
        (Recorded("k", "failed", "two\nlines\x1b[2J"), b'"reason":"two\\nlines\\u001b[2J"'),
    ],
)
def test_an_event_is_one_line_and_comes_back(event, line):
    assert line in encode(event)
    assert b"\n" not in encode(event)
    assert decode(encode(event)) == event


def test_a_file_name_that_is_not_utf_8_does_not_stop_an_event():
    assert decode(encode(Recorded("k", "failed", "no file a\udc80"))).reason == r"no file a\udc80"


@pytest.mark.parametrize("line", [b"hello", b"[1]", b'{"kind":"other"}', b'{"kind":"start"}', b""])
def test_a_line_that_is_not_an_event_is_refused(line):
    with pytest.raises(msgspec.DecodeError):
        decode(line)
