"""Kernels that find the fields of CSV (RFC 4180): a field may stand in quotes, a quote within is doubled, and a quoted
field may hold line breaks and delimiters.

Legend: data uint8[n]; slots int64[C], for each column its place among the F wanted fields or -1; spans int64[R, F, 2];
doubled bool[R, F], the field holds doubled quotes; rows int64[R, 4]: start, end, line (0-based), number of fields, the
last negated minus one where a quote is misplaced.
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Bools, Bytes, Longs
from topicstream.kernels.jit import kernel

QUOTE = 34


@kernel
def _field_end(data: Bytes, p: int, delimiter: int) -> tuple[int, int, int, bool, bool, int]:
    """p at a field -> (first byte, end, position of the delimiter or line break behind it, doubled, misplaced, line
    breaks within)."""
    size = len(data)
    doubled, misplaced, breaks = False, False, 0
    if p < size and data[p] == QUOTE:
        start = p + 1
        p = start
        closed = False
        while p < size:
            if data[p] == QUOTE:
                if p + 1 < size and data[p + 1] == QUOTE:
                    doubled = True
                    p += 2
                    continue
                closed = True
                break
            breaks += data[p] == 10
            p += 1
        end = p
        p = min(p + 1, size)
        if not closed:
            misplaced = True
        while p < size and data[p] != delimiter and data[p] != 10:
            misplaced |= data[p] != 13
            p += 1
        return start, end, p, doubled, misplaced, breaks
    start = p
    while p < size and data[p] != delimiter and data[p] != 10:
        p += 1
    end = p
    if end > start and data[end - 1] == 13 and (p == size or data[p] == 10):
        end -= 1
    return start, end, p, doubled, misplaced, breaks


@kernel
def last_break(data: Bytes, delimiter: int) -> int:
    """The position behind the last line break that ends a record; data begins at a record.  0 when there is none."""
    p, found, size = 0, 0, len(data)
    while p < size:
        _, _, p, _, _, _ = _field_end(data, p, delimiter)
        if p < size and data[p] == 10:
            found = p + 1
        p += 1
    return found


@kernel
def scan(data: Bytes, delimiter: int, slots: Longs, spans: Longs, doubled: Bools, rows: Longs) -> int:
    """The records, at most len(rows): fills spans, doubled and rows; returns R.  Empty lines are passed over."""
    n, line, p, size = 0, 0, 0, len(data)
    while p < size and n < len(rows):
        if data[p] == 10 or (data[p] == 13 and p + 1 < size and data[p + 1] == 10):
            p += 1 if data[p] == 10 else 2
            line += 1
            continue
        rows[n, 0] = p
        rows[n, 2] = line
        fields, wrong = 0, False
        while True:
            start, end, p, double, misplaced, breaks = _field_end(data, p, delimiter)
            wrong |= misplaced
            line += breaks
            if fields < len(slots) and slots[fields] >= 0:
                spans[n, slots[fields], 0] = start
                spans[n, slots[fields], 1] = end
                doubled[n, slots[fields]] = double
            fields += 1
            if p >= size or data[p] == 10:
                break
            p += 1
        rows[n, 1] = p
        rows[n, 3] = -fields - 1 if wrong else fields
        n += 1
        line += 1
        p += 1
    return n


@kernel
def take(data: Bytes, wanted: Longs, fields: Longs, spans: Longs, doubled: Bools, joint: int) -> tuple[Bytes, Longs]:
    """Some fields of some rows as one string each, joined by the byte ``joint``.

    wanted int64[D], fields int64[m] -> (uint8[B], offsets int64[D+1]).
    """
    size = np.int64(0)
    for r in wanted:
        for f in fields:
            size += spans[r, f, 1] - spans[r, f, 0] + 1
    out = np.empty(size, np.uint8)
    offsets = np.empty(len(wanted) + 1, np.int64)
    offsets[0] = 0
    n = np.int64(0)
    for i in range(len(wanted)):
        r = wanted[i]
        for m in range(len(fields)):
            f = fields[m]
            if m > 0:
                out[n] = joint
                n += 1
            p, end = spans[r, f, 0], spans[r, f, 1]
            if doubled[r, f]:
                while p < end:
                    out[n] = data[p]
                    n += 1
                    p += 2 if data[p] == QUOTE else 1
            else:
                for q in range(p, end):
                    out[n] = data[q]
                    n += 1
        offsets[i + 1] = n
    return out[:n], offsets
