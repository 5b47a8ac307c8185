"""Words beyond ASCII, code point by code point: kernels over the bytes of valid UTF-8 and the class
table.

text uint8[B]; ``i`` and ``end`` are places in it; classes uint8[0x110000], lower_case
int32[LOWERED] (characters.py)."""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Bool, Bytes, Int, Ints
from topicstream.kernels.jit import kernel
from topicstream.tokens.characters import DIGIT, EMOJI, IGNORED, LETTER, LOWERED, MARK, REGIONAL


@kernel(forceinline=True)
def decode(text: Bytes, i: int) -> tuple[Int, Int]:
    """(code point, bytes) at ``i`` of valid UTF-8."""
    b = np.int64(text[i])
    if b < 0x80:
        return b, 1
    if b < 0xE0:
        return (b & 0x1F) << 6 | (np.int64(text[i + 1]) & 0x3F), 2
    if b < 0xF0:
        return (b & 0x0F) << 12 | (np.int64(text[i + 1]) & 0x3F) << 6 | (
            np.int64(text[i + 2]) & 0x3F
        ), 3
    return (
        (b & 0x07) << 18
        | (np.int64(text[i + 1]) & 0x3F) << 12
        | (np.int64(text[i + 2]) & 0x3F) << 6
        | (np.int64(text[i + 3]) & 0x3F)
    ), 4


@kernel(forceinline=True)
def encode(out: Bytes, at: int, c: int) -> int:
    """Write code point ``c`` as UTF-8; returns where it ends."""
    if c < 0x80:
        out[at] = c
        return at + 1
    if c < 0x800:
        out[at] = 0xC0 | c >> 6
        out[at + 1] = 0x80 | c & 0x3F
        return at + 2
    if c < 0x10000:
        out[at] = 0xE0 | c >> 12
        out[at + 1] = 0x80 | c >> 6 & 0x3F
        out[at + 2] = 0x80 | c & 0x3F
        return at + 3
    out[at] = 0xF0 | c >> 18
    out[at + 1] = 0x80 | c >> 12 & 0x3F
    out[at + 2] = 0x80 | c >> 6 & 0x3F
    out[at + 3] = 0x80 | c & 0x3F
    return at + 4


@kernel
def spaced_word(
    text: Bytes,
    i: int,
    end: int,
    classes: Bytes,
    lower_case: Ints,
    lowercase: bool,
    out: Bytes,
    at: int,
) -> tuple[Int, Int, Int, Bool, Int]:
    """Copy the word at ``i``, lower-cased, to ``out[at:]``: (end in text, end in out, letters and
    digits, has a letter, code points)."""
    length = np.int64(0)
    letter = False
    points = np.int64(0)
    while i < end:
        c, n = decode(text, i)
        kind = classes[c]
        if kind == LETTER:
            length += 1
            letter = True
        elif kind == DIGIT:
            length += 1
        elif kind == IGNORED:
            i += n
            points += 1
            continue
        elif kind != MARK:
            break
        if lowercase and c < LOWERED:
            c = np.int64(lower_case[c])
        at = encode(out, at, c)
        points += 1
        i += n
    return i, at, length, letter, points


@kernel
def emoji(text: Bytes, i: int, end: int, classes: Bytes) -> tuple[Int, Int]:
    """(end, code points) of the emoji sequence at ``i``."""
    c, n = decode(text, i)
    regional = classes[c] == REGIONAL
    i += n
    points = np.int64(1)
    if regional:
        if i < end:
            c, n = decode(text, i)
            if classes[c] == REGIONAL:
                return i + n, np.int64(2)
        return i, points
    while i < end:
        c, n = decode(text, i)
        if c == 0xFE0F or 0x1F3FB <= c <= 0x1F3FF or c == 0x20E3 or 0xE0020 <= c <= 0xE007F:
            i += n
            points += 1
        elif c == 0x200D and i + n < end:
            after, m = decode(text, i + n)
            if classes[after] != EMOJI:
                break
            i += n + m
            points += 2
        else:
            break
    return i, points


@kernel
def unspaced_unit(text: Bytes, i: int, end: int, classes: Bytes) -> tuple[Int, Int]:
    """(end, code points) of the letter at ``i`` with the marks on it."""
    c, n = decode(text, i)
    i += n
    points = np.int64(1)
    while i < end:
        c, n = decode(text, i)
        if classes[c] != MARK:
            break
        i += n
        points += 1
    return i, points
