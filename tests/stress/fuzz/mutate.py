"""Mutations: what a bad disk, a bad copy or bad intent makes of bytes, of JSON values and of argument lists."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

NUMBERS = (b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff" * 8, b"\x00" * 8)
PATHS = (b"../", b"/etc/passwd", b"C:\\")
TEXTS = (b"", *PATHS, b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\x1b[2K", b"NaN", b"1e999", b"-1", b"9" * 400)
DEEP = b"[" * 3000  # deeper than any parser's stack
LARGEST = 1 << 16  # bytes of an input; longer ones are cut, so that the time goes to many

SCALARS = (None, True, -1, 0, 2**63, 10**400, 1e308, -0.0)
STRINGS = ("", "../../etc/passwd", "\x00", "\ud800", "x" * 5000)
VALUES: tuple[Any, ...] = (*SCALARS, *STRINGS, [], {}, [[]], {"": 0})


def mutated(data: bytes, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """Return the bytes after one to four random changes; `others` are spliced in, `tokens` inserted."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        _OPERATIONS[rng.randrange(len(_OPERATIONS))](changed, rng, others, tokens)
    return bytes(changed[:LARGEST])


def mutated_value(value: Any, rng: random.Random) -> Any:
    """Return a JSON value of which one part, anywhere in it, is another value, gone, or doubled."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.85:
        copy = value.copy()
        place = rng.choice(list(copy)) if isinstance(copy, dict) else rng.randrange(len(copy))
        if rng.random() < 0.1:
            del copy[place]
        else:
            copy[place] = mutated_value(copy[place], rng)
        return copy
    if rng.random() < 0.02:
        return _nested(rng.choice((50, 400, 900)))
    return rng.choice(VALUES)


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def _place(data: bytearray, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others, tokens
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others, tokens
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _cut_end(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others, tokens
    del data[_place(data, rng) :]


def _cut_out(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others, tokens
    start = _place(data, rng)
    del data[start : start + rng.randint(1, 64)]


def _number(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others, tokens
    value, start = rng.choice(NUMBERS), _place(data, rng)
    data[start : start + len(value)] = value


def _insert(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others
    value, start = rng.choice((*tokens, *tokens, *TEXTS)), _place(data, rng)
    data[start:start] = value


def _repeat(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others, tokens
    start = _place(data, rng)
    piece = bytes(data[start : start + rng.randint(1, 64)])
    data[start:start] = piece * rng.choice((1, 2, 40))


def _splice(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del tokens
    other = rng.choice(others)
    data[_place(data, rng) :] = other[rng.randrange(len(other) + 1) :]


def _replace(data: bytearray, rng: random.Random, others: Sequence[bytes], tokens: Sequence[bytes]) -> None:
    del others, tokens
    if rng.random() < 0.2:
        data[:] = DEEP if rng.random() < 0.1 else rng.randbytes(rng.randrange(300))


_OPERATIONS = (_flip, _flip, _set, _set, _cut_end, _cut_out, _number, _insert, _insert, _repeat, _splice, _replace)
