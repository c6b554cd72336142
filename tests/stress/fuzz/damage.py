"""What a bad disk, a bad copy or bad intent makes of bytes and of JSON values, as hypothesis strategies."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

NUMBERS = (b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff" * 8, b"\x00" * 8)
PATHS = (b"../", b"/etc/passwd", b"C:\\")
TEXTS = (b"", *PATHS, b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\x1b[2K", b"NaN", b"1e999", b"-1", b"9" * 400)
DEEP = b"[" * 3000  # deeper than any parser's stack
LARGEST = 1 << 16  # bytes of an input; longer ones are cut, so that the time goes to many

SHARES = st.floats(0, 1, exclude_max=True)

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
VALUES: tuple[Json, ...] = (
    *(None, True, -1, 0, 1.5, 2**62, 2**63, 10**400, 1e99, 1e308, -0.0),
    *("", "../../etc/passwd", "\x00", "\ud800", "x" * 5000, "\x1b[2K\rdone\x9b2J\u202etxt"),
    *([], {}, [[]], {"": 0}),
)


Edit = tuple[float, int, bytes]  # where, as a share of the length; how many bytes go; what comes instead


def damaged(corpus: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Good input, of which up to three pieces are something else: noise, a word of the format, other good input."""
    pieces = st.one_of(
        st.sampled_from((*words, *TEXTS, *NUMBERS, DEEP, *(word * 40 for word in words))),
        st.integers(0, 255).map(lambda value: bytes([value])),
        st.binary(max_size=32),
        st.tuples(st.sampled_from(corpus), SHARES).map(lambda pair: pair[0][int(pair[1] * len(pair[0])) :]),
    )
    edit = st.tuples(SHARES, st.sampled_from((0, 0, 1, 1, 1, 4, 64, LARGEST)), pieces)
    edits = st.one_of(st.tuples(edit), st.tuples(edit), st.tuples(edit, edit), st.tuples(edit, edit, edit))
    return st.one_of(st.sampled_from(corpus), *[st.builds(_edited, st.sampled_from(corpus), edits)] * 9)


def _edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    for share, length, piece in edits:
        start = int(share * (len(data) + 1))
        data = data[:start] + piece + data[start + length :]
    return data[:LARGEST]


@st.composite
def damaged_value(draw: st.DrawFn, value: Json) -> Json:
    """A JSON value of which one part, anywhere in it, is another value or gone."""
    if isinstance(value, (dict, list)) and value and draw(st.integers(0, 6)):
        copy = value.copy()
        place = draw(st.sampled_from(list(copy) if isinstance(copy, dict) else range(len(copy))))
        if draw(st.integers(0, 9)) == 9:
            del copy[place]
        else:
            copy[place] = draw(damaged_value(copy[place]))
        return copy
    return draw(st.one_of(st.sampled_from(VALUES), st.sampled_from((50, 400, 900)).map(_nested)))


def _nested(depth: int) -> Json:
    value: Json = 0
    for _ in range(depth):
        value = [value]
    return value
