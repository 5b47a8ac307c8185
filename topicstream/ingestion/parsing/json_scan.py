"""Kernels that find the wanted fields of JSON lines and take their strings out (RFC 8259).

``scan`` accepts only what it fully understands; a line with anything else (bad JSON, NaN, a key with an escape, more
than 64 levels) is marked and left to Python's own parser, which knows what to say about it.

Legend: data uint8[n]; starts, ends int64[L] the lines; keys uint8[k] the wanted keys one after the other and
key_offsets int64[F+1]; spans int64[L, F, 2] where each value stands (strings without their quotes); kinds int8[L, F].
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Bool, Bytes, Int, Longs
from topicstream.kernels.byte_masks import WIDE, copy, equal, first_bit, string_stops
from topicstream.kernels.jit import kernel

ABSENT, PLAIN, ESCAPED, WHOLE, REAL, BOOLEAN, NULL, ARRAY, OBJECT = 0, 1, 2, 3, 4, 5, 6, 7, 8
NESTED = 9  # an array with arrays or objects in it
READ, EMPTY, ODD = 0, 1, 2


@kernel
def _space(data: Bytes, p: int, end: int) -> int:
    while p < end and (data[p] == 32 or data[p] == 9 or data[p] == 13 or data[p] == 10):
        p += 1
    return p


@kernel
def _hex(c: Int) -> Int:
    if 48 <= c <= 57:
        return np.int64(c) - 48
    c = np.int64(c) | 32
    return c - 87 if 97 <= c <= 102 else np.int64(-1)


@kernel
def _string_end(data: Bytes, p: int, end: int) -> tuple[Int, Bool]:
    """p behind the opening quote -> (position of the closing one or -1, whether there are escapes)."""
    escaped = False
    while True:
        while p + WIDE <= end:
            stops = string_stops(data, p)
            if stops != 0:
                p += first_bit(stops)
                break
            p += WIDE
        while p < end and data[p] != 34 and data[p] != 92 and data[p] >= 32:
            p += 1
        if p >= end or data[p] < 32:
            return np.int64(-1), escaped
        if data[p] == 34:
            return np.int64(p), escaped
        escaped = True
        p += 1
        if p >= end:
            return np.int64(-1), escaped
        c = data[p]
        if c == 117:
            if p + 4 >= end:
                return np.int64(-1), escaped
            for j in range(1, 5):
                if _hex(data[p + j]) < 0:
                    return np.int64(-1), escaped
            p += 5
        elif c == 34 or c == 92 or c == 47 or c == 98 or c == 102 or c == 110 or c == 114 or c == 116:
            p += 1
        else:
            return np.int64(-1), escaped


@kernel
def _number_end(data: Bytes, p: int, end: int) -> tuple[Int, Int]:
    """(kind, position behind the number or -1)."""
    kind = WHOLE
    negative = data[p] == 45
    if negative:
        p += 1
    first = p
    while p < end and 48 <= data[p] <= 57:
        p += 1
    if p == first or (data[first] == 48 and p > first + 1):
        return kind, np.int64(-1)
    if negative and data[first] == 48:
        kind = REAL
    if p < end and data[p] == 46:
        kind = REAL
        p += 1
        first = p
        while p < end and 48 <= data[p] <= 57:
            p += 1
        if p == first:
            return kind, np.int64(-1)
    if p < end and (data[p] == 101 or data[p] == 69):
        kind = REAL
        p += 1
        if p < end and (data[p] == 43 or data[p] == 45):
            p += 1
        first = p
        while p < end and 48 <= data[p] <= 57:
            p += 1
        if p == first:
            return kind, np.int64(-1)
    return kind, np.int64(p)


@kernel
def _word_at(data: Bytes, p: int, end: int, a: int, b: int, c: int, d: int) -> bool:
    return p + 4 <= end and data[p] == a and data[p + 1] == b and data[p + 2] == c and data[p + 3] == d


@kernel
def _atom_end(data: Bytes, p: int, end: int) -> tuple[Int, Int, Int, Int]:
    """A string, number or literal at p -> (kind, start, position of its end, position behind it or -1)."""
    c = data[p]
    if c == 34:
        q, escaped = _string_end(data, p + 1, end)
        return (ESCAPED if escaped else PLAIN), p + 1, q, (q + 1 if q >= 0 else q)
    if c == 45 or 48 <= c <= 57:
        kind, q = _number_end(data, p, end)
        return kind, p, q, q
    if _word_at(data, p, end, 110, 117, 108, 108):
        return NULL, p, p + 4, p + 4
    if _word_at(data, p, end, 116, 114, 117, 101):
        return BOOLEAN, p, p + 4, p + 4
    if _word_at(data, p, end, 102, 97, 108, 115) and p + 5 <= end and data[p + 4] == 101:
        return BOOLEAN, p, p + 5, p + 5
    return ABSENT, p, p, np.int64(-1)


@kernel
def _container_end(data: Bytes, p: int, end: int) -> tuple[Int, Bool]:
    """p at an opening bracket -> (position behind its closing one; -1 when it is not JSON or deeper than 64, whether
    there are others within)."""
    stack = np.uint64(0)  # one bit a level: 1 within an object
    one = np.uint64(1)
    depth, nested = 0, False
    expect = 0  # 0 value; 1 value or ]; 2 key or }; 3 key; 4 comma or closing
    while True:
        p = _space(data, p, end)
        if p >= end:
            return np.int64(-1), nested
        c = data[p]
        if (expect == 1 and c == 93) or (expect == 2 and c == 125):
            p += 1
            depth -= 1
            stack >>= one
            expect = 4
        elif expect == 4:
            if c == 44:
                expect = 3 if stack & one else 0
                p += 1
            elif (c == 125 and stack & one) or (c == 93 and not stack & one):
                p += 1
                depth -= 1
                stack >>= one
            else:
                return np.int64(-1), nested
        elif expect >= 2:
            if c != 34:
                return np.int64(-1), nested
            q, _ = _string_end(data, p + 1, end)
            if q < 0:
                return np.int64(-1), nested
            p = _space(data, q + 1, end)
            if p >= end or data[p] != 58:
                return np.int64(-1), nested
            p += 1
            expect = 0
            continue
        elif c == 91 or c == 123:
            if depth == 64:
                return np.int64(-1), nested
            nested |= depth > 0
            depth += 1
            stack = (stack << one) | (one if c == 123 else np.uint64(0))
            expect = 2 if c == 123 else 1
            p += 1
            continue
        else:
            _, _, _, p = _atom_end(data, p, end)
            if p < 0:
                return np.int64(-1), nested
            expect = 4
        if depth == 0:
            return np.int64(p), nested


@kernel
def _scan_line(data: Bytes, p: int, end: int, keys: Bytes, key_offsets: Longs, spans: Longs, kinds: Array) -> int:
    """One line's fields into spans int64[F, 2] and kinds int8[F]; READ, EMPTY or ODD."""
    kinds[:] = ABSENT
    p = _space(data, p, end)
    if p >= end:
        return EMPTY
    if data[p] != 123:
        return ODD
    p = _space(data, p + 1, end)
    if p < end and data[p] == 125:
        return READ if _space(data, p + 1, end) >= end else ODD
    while True:
        if p >= end or data[p] != 34:
            return ODD
        key = p + 1
        q, escaped = _string_end(data, key, end)
        if q < 0 or escaped:
            return ODD
        size = q - key
        p = _space(data, q + 1, end)
        if p >= end or data[p] != 58:
            return ODD
        p = _space(data, p + 1, end)
        if p >= end:
            return ODD
        if data[p] == 123 or data[p] == 91:
            kind, begin = (OBJECT if data[p] == 123 else ARRAY), p
            stop, nested = _container_end(data, p, end)
            if nested and kind == ARRAY:
                kind = NESTED
            p = stop
        else:
            kind, begin, stop, p = _atom_end(data, p, end)
        if p < 0:
            return ODD
        for f in range(len(kinds)):
            if key_offsets[f + 1] - key_offsets[f] == size:
                same = True
                for j in range(size):
                    if data[key + j] != keys[key_offsets[f] + j]:
                        same = False
                        break
                if same:
                    kinds[f] = kind
                    spans[f, 0] = begin
                    spans[f, 1] = stop
        p = _space(data, p, end)
        if p >= end:
            return ODD
        if data[p] == 125:
            return READ if _space(data, p + 1, end) >= end else ODD
        if data[p] != 44:
            return ODD
        p = _space(data, p + 1, end)


@kernel
def scan(
    data: Bytes, starts: Longs, ends: Longs, keys: Bytes, key_offsets: Longs, spans: Longs, kinds: Array, status: Array
) -> None:
    """All lines: spans, kinds and status int8[L] (READ, EMPTY, ODD)."""
    for i in range(len(starts)):
        status[i] = _scan_line(data, starts[i], ends[i], keys, key_offsets, spans[i], kinds[i])


@kernel
def _code_unit(data: Bytes, p: int) -> int:
    return (_hex(data[p]) << 12) | (_hex(data[p + 1]) << 8) | (_hex(data[p + 2]) << 4) | _hex(data[p + 3])  # type: ignore[no-any-return]


@kernel
def _unescape(data: Bytes, p: int, end: int, out: Bytes, n: int) -> int:
    """A valid JSON string's content into out at n; the new n.  A lone surrogate becomes U+FFFD."""
    while p < end:
        while p + WIDE <= end:
            copy(data, p, out, n)  # there is room: what is written never overtakes what is read
            escapes = equal(data, p, 92)
            if escapes != 0:
                took = first_bit(escapes)
                p += took
                n += took
                break
            p += WIDE
            n += WIDE
        while p < end and data[p] != 92:
            out[n] = data[p]
            p += 1
            n += 1
        if p >= end:
            break
        c = data[p + 1]
        p += 2
        if c != 117:
            if c == 110:
                c = 10
            elif c == 116:
                c = 9
            elif c == 114:
                c = 13
            elif c == 98:
                c = 8
            elif c == 102:
                c = 12
            out[n] = c
            n += 1
            continue
        unit = _code_unit(data, p)
        p += 4
        if 0xD800 <= unit < 0xE000:
            low = np.int64(0)
            if unit < 0xDC00 and p + 6 <= end and data[p] == 92 and data[p + 1] == 117:
                low = _code_unit(data, p + 2)
            if 0xDC00 <= low < 0xE000:
                unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
                p += 6
            else:
                unit = np.int64(0xFFFD)
        if unit < 0x80:
            out[n] = unit
            n += 1
        elif unit < 0x800:
            out[n] = 0xC0 | (unit >> 6)
            out[n + 1] = 0x80 | (unit & 63)
            n += 2
        elif unit < 0x10000:
            out[n] = 0xE0 | (unit >> 12)
            out[n + 1] = 0x80 | ((unit >> 6) & 63)
            out[n + 2] = 0x80 | (unit & 63)
            n += 3
        else:
            out[n] = 0xF0 | (unit >> 18)
            out[n + 1] = 0x80 | ((unit >> 12) & 63)
            out[n + 2] = 0x80 | ((unit >> 6) & 63)
            out[n + 3] = 0x80 | (unit & 63)
            n += 4
    return n


@kernel
def take(data: Bytes, rows: Longs, fields: Longs, spans: Longs, kinds: Array, joint: int) -> tuple[Bytes, Longs]:
    """The values of some fields of some rows as one string each, joined by the byte ``joint``.

    rows int64[D], fields int64[m] -> (uint8[B], offsets int64[D+1]).  Numbers and booleans as written, null as "".
    """
    size = np.int64(0)
    for r in rows:
        for f in fields:
            size += spans[r, f, 1] - spans[r, f, 0] + 1
    out = np.empty(size, np.uint8)
    offsets = np.empty(len(rows) + 1, np.int64)
    offsets[0] = 0
    n = np.int64(0)
    for i in range(len(rows)):
        r = rows[i]
        for m in range(len(fields)):
            f = fields[m]
            if m > 0:
                out[n] = joint
                n += 1
            kind = kinds[r, f]
            if kind == ESCAPED:
                n = _unescape(data, spans[r, f, 0], spans[r, f, 1], out, n)
            elif kind != NULL and kind != ABSENT:
                for p in range(spans[r, f, 0], spans[r, f, 1]):
                    out[n] = data[p]
                    n += 1
        offsets[i + 1] = n
    return out[:n], offsets
