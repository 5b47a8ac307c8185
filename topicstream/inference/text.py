"""Topics of documents as text, JSON lines or CSV, by kernels: a line costs what its bytes cost.

Shares are written with nine significant digits at most, which read back as the same float32.
"""

from __future__ import annotations

import numpy as np

from topicstream.inference.documents import FLAGS
from topicstream.inference.keep import Lists
from topicstream.kernels.arrays import Bytes, Doubles, Floats, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.model.vocabulary import string_buffers

NUMBER = 40  # bytes of the longest number
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def _bytes(*texts: str) -> tuple[np.ndarray, np.ndarray]:
    parts = [t.encode() for t in texts]
    ends = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    return np.frombuffer(b"".join(parts), np.uint8), ends


@kernel
def _put(out: Bytes, at: int, text: Bytes, ends: Longs, which: int) -> int:
    for i in range(ends[which], ends[which + 1]):
        out[at] = text[i]
        at += 1
    return at


@kernel
def _whole(out: Bytes, at: int, value: int) -> int:
    n, rest = 1, value // 10
    while rest > 0:
        n += 1
        rest //= 10
    for i in range(n):
        out[at + n - 1 - i] = 48 + value % 10
        value //= 10
    return at + n


@kernel
def _decimal(out: Bytes, at: int, x: float) -> int:
    """A number >= 0 with one to nine decimals, without trailing zeros."""
    whole = np.int64(x)
    part = np.int64((x - whole) * 1e9 + 0.5)
    if part >= 1000000000:
        whole, part = whole + 1, np.int64(0)
    at = _whole(out, at, whole)
    out[at] = 46
    at += 1
    return _digits(out, at, part, np.int64(1000000000))  # type: ignore[no-any-return]


@kernel
def _digits(out: Bytes, at: int, part: int, power: int) -> int:
    """The digits of part below power (a power of ten), at least one, without trailing zeros."""
    power //= 10
    out[at] = 48 + part // power
    at += 1
    part %= power
    while part > 0:
        power //= 10
        out[at] = 48 + part // power
        at += 1
        part %= power
    return at


@kernel
def _share(out: Bytes, at: int, x: float) -> int:
    """A number in 0..9 with nine significant digits: 0.0123 or, below 1e-4, 1.23e-05."""
    if not x > 0.0:
        out[at], out[at + 1], out[at + 2] = 48, 46, 48
        return at + 3
    scale, exponent = 1e8, 0
    while x * scale < 99999999.5:
        scale *= 10.0
        exponent += 1
    digits = np.int64(x * scale + 0.5)
    if exponent > 4:
        at = _whole(out, at, digits // 100000000)
        out[at] = 46
        at = _digits(out, at + 1, digits % 100000000, np.int64(100000000))
        out[at], out[at + 1] = 101, 45
        return _whole(out, at + 2, exponent)  # type: ignore[no-any-return]
    power = np.int64(100000000)
    for _ in range(exponent):
        power *= 10
    at = _whole(out, at, digits // power)
    out[at] = 46
    return _digits(out, at + 1, digits % power, power)  # type: ignore[no-any-return]


@kernel
def _json_string(out: Bytes, at: int, data: Bytes, first: int, last: int) -> int:
    out[at] = 34
    at += 1
    for i in range(first, last):
        c = data[i]
        if c == 34 or c == 92:
            out[at] = 92
            out[at + 1] = c
            at += 2
        elif c < 32 or c == 127:
            out[at], out[at + 1], out[at + 2], out[at + 3] = 92, 117, 48, 48
            out[at + 4], out[at + 5] = _HEX[c >> 4], _HEX[c & 15]
            at += 6
        else:
            out[at] = c
            at += 1
    out[at] = 34
    return at + 1


@kernel
def _csv_string(out: Bytes, at: int, data: Bytes, first: int, last: int) -> int:
    quote = first == last
    for i in range(first, last):
        c = data[i]
        quote = quote or c == 34 or c == 44 or c == 10 or c == 13
    if quote:
        out[at] = 34
        at += 1
    for i in range(first, last):
        out[at] = data[i]
        at += 1
        if data[i] == 34:
            out[at] = 34
            at += 1
    if quote:
        out[at] = 34
        at += 1
    return at


_JSON = _bytes(
    '{"id": ', ', "topics": [', '], "shares": [', '], "tokens": ', ', "oov_rate": ', ', "flag": ', ", ", "]}\n", "}\n"
)
_JSON_FLAGS = _bytes("null", *(f'"{f}"' for f in FLAGS[1:]))
_CSV_FLAGS = _bytes(*FLAGS)


@kernel
def _json_lines(
    ids: Longs,
    data: Bytes,
    offsets: Longs,
    topics: Ints,
    shares: Floats,
    tokens: Doubles,
    rates: Doubles,
    flags: Bytes,
    about: bool,
    text: Bytes,
    ends: Longs,
    flag_text: Bytes,
    flag_ends: Longs,
    out: Bytes,
) -> int:
    at = 0
    for d in range(len(offsets) - 1):
        at = _json_string(out, _put(out, at, text, ends, 0), data, ids[d], ids[d + 1])
        at = _put(out, at, text, ends, 1)
        for i in range(offsets[d], offsets[d + 1]):
            if i > offsets[d]:
                at = _put(out, at, text, ends, 6)
            at = _whole(out, at, np.int64(topics[i]))
        at = _put(out, at, text, ends, 2)
        for i in range(offsets[d], offsets[d + 1]):
            if i > offsets[d]:
                at = _put(out, at, text, ends, 6)
            at = _share(out, at, np.float64(shares[i]))
        if about:
            at = _decimal(out, _put(out, at, text, ends, 3), tokens[d])
            at = _decimal(out, _put(out, at, text, ends, 4), rates[d])
            at = _put(out, _put(out, at, text, ends, 5), flag_text, flag_ends, flags[d])
            at = _put(out, at, text, ends, 8)
        else:
            at = _put(out, at, text, ends, 7)
    return at


@kernel
def _csv_lines(
    ids: Longs,
    data: Bytes,
    offsets: Longs,
    topics: Ints,
    shares: Floats,
    tokens: Doubles,
    rates: Doubles,
    flags: Bytes,
    about: bool,
    flag_text: Bytes,
    flag_ends: Longs,
    out: Bytes,
) -> int:
    at = 0
    for d in range(len(offsets) - 1):
        n = offsets[d + 1] - offsets[d]
        for i in range(offsets[d], offsets[d] + max(n, 1)):
            at = _csv_string(out, at, data, ids[d], ids[d + 1])
            out[at] = 44
            at += 1
            if n > 0:
                at = _whole(out, at, np.int64(topics[i]))
                out[at] = 44
                at = _share(out, at + 1, np.float64(shares[i]))
            else:
                out[at] = 44
                at += 1
            if about:
                out[at] = 44
                at = _decimal(out, at + 1, tokens[d])
                out[at] = 44
                at = _decimal(out, at + 1, rates[d])
                out[at] = 44
                at = _put(out, at + 1, flag_text, flag_ends, flags[d])
            out[at] = 10
            at += 1
    return at


_NONE = np.zeros(0), np.zeros(0), np.zeros(0, np.uint8)


def _longest(ids: np.ndarray) -> int:
    return int(np.diff(ids).max(initial=0))


def json_lines(ids: object, lists: Lists, about: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None) -> memoryview:
    """A line a document: id, topics, shares and, with ``about`` (tokens, out-of-vocabulary rates, flags), these three."""
    ends, data = string_buffers(ids)
    docs = len(lists.offsets) - 1
    out = np.empty(6 * len(data) + docs * (160 + 2 * NUMBER) + len(lists.topics) * (14 + 20), np.uint8)
    more = about or _NONE
    n = _json_lines(
        ends, data, lists.offsets, lists.topics, lists.shares, *more, about is not None, *_JSON, *_JSON_FLAGS, out
    )
    return out[:n].data


def csv_lines(ids: object, lists: Lists, about: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None) -> memoryview:
    """A line a document and topic: id, topic, share (and tokens, out-of-vocabulary rate, flag); a document without any
    topic above the limit has one line with both empty."""
    ends, data = string_buffers(ids)
    docs = len(lists.offsets) - 1
    each = 2 * _longest(ends) + 2 + 30 + (2 * NUMBER + 20 if about else 0)
    out = np.empty((len(lists.topics) + docs) * each, np.uint8)
    more = about or _NONE
    n = _csv_lines(ends, data, lists.offsets, lists.topics, lists.shares, *more, about is not None, *_CSV_FLAGS, out)
    return out[:n].data


def csv_head(about: bool) -> bytes:
    """The first line of a CSV file."""
    return b"id,topic,share" + (b",tokens,oov_rate,flag\n" if about else b"\n")
