"""The sum of some blocks' sparse deltas as bytes, for another process.

Deltas are rounded to the quantum of their table, so a sum is a whole number of quanta: nothing is
lost. Rows follow one another in ascending order. Each begins with a byte: how many bytes a value
takes, plus ``LISTED`` if its topics are listed. Its topics follow, as a bit for each column, or as
their number and themselves (16 bits each), then the values: whole numbers, the sign in the last
bit, the lowest byte first.
"""

from __future__ import annotations

import numpy as np

from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels.arrays import Array, Bool, Bytes, Float, Floats, Int, Ints, Longs
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.scatter import rounded, topic_at

LISTED = 64
MOST_VALUE = 10
"""Bytes of an entry at most: its value and its topic."""
SLACK = 8
"""Bytes after the last one that are read or written with it."""


def most_bytes(rows: int, entries: int, columns: int) -> int:
    """Return the bytes that so many rows and entries take, at most."""
    return MOST_VALUE * entries + (3 + -(-columns // 8)) * rows + SLACK


@kernel(inline="always")
def fits(number: Float, width: int) -> Bool:
    """Tell whether a whole number, its sign behind it, fits ``width`` bytes."""
    return 2.0 * number + 1.0 < np.float64(np.int64(1) << np.int64(8 * width))


@kernel
def pack_deltas(
    deltas: Longs, wide: bool, rows: Longs, columns: int, quantum: float, ids: Ints, data: Bytes
) -> tuple[Int, Int, Int]:
    """Sum the deltas of blocks and write them as bytes.

    deltas, wide: as of ``scatter_sparse``; rows: int64[blocks], rows of each. ids int32[rows] and
    data uint8[``most_bytes``] receive the rows that change and their bytes. Returns the number of
    rows, of bytes, and of the entries that ``unpack_deltas`` makes of them, at most.
    """
    blocks = len(deltas)
    cursor = np.zeros(blocks, np.int64)
    acc = np.zeros(columns)
    topics = np.empty(columns + 1, np.int32)
    out = pointers.address_of(data)
    magic = 1.5 * 2.0**52 * quantum
    inverse = 1.0 / quantum
    bitmap = (columns + 7) // 8
    none = np.int64(1) << np.int64(62)
    packed = at = parts = 0
    while True:
        row = none
        for r in range(blocks):
            if cursor[r] < rows[r]:
                row = min(row, pointers.int_at(deltas[r, 0], cursor[r]))
        if row == none:
            return packed, at, parts
        for r in range(blocks):
            u = cursor[r]
            if u < rows[r] and pointers.int_at(deltas[r, 0], u) == row:
                cursor[r] = u + 1
                stop = pointers.long_at(deltas[r, 1], u + 1)
                for j in range(pointers.long_at(deltas[r, 1], u), stop):
                    value = np.float64(pointers.float_at(deltas[r, 3], j))
                    acc[topic_at(deltas, r, j, wide)] += rounded(value, magic)
        # topics whose sum is not zero, and the largest sum
        n = 0
        largest = 0.0
        for k in range(columns):
            topics[n] = k
            n += acc[k] != 0.0
            largest = max(largest, abs(acc[k]))
        if n == 0:
            continue
        largest *= inverse
        width = 1
        while not fits(largest, width):
            width += 1
        parts += n * (1 + (largest >= 2.0**24) + (largest >= 2.0**47))
        ids[packed] = row
        packed += 1
        listed = 2 + 2 * n < bitmap
        data[at] = width + LISTED * listed
        at += 1
        if listed:
            data[at] = n & 255
            data[at + 1] = n >> 8
            for i in range(n):
                data[at + 2 + 2 * i] = topics[i] & 255
                data[at + 3 + 2 * i] = topics[i] >> 8
            at += 2 + 2 * n
        else:
            for i in range(bitmap):
                data[at + i] = 0
            for i in range(n):
                data[at + (topics[i] >> 3)] |= 1 << (topics[i] & 7)
            at += bitmap
        for i in range(n):
            whole = np.int64(acc[topics[i]] * inverse)
            # eight bytes, of which the next value takes what is not needed
            pointers.put_long(out + at, 0, (whole << 1) ^ (whole >> 63))
            at += width
            acc[topics[i]] = 0.0


@kernel
def unpack_deltas(
    data: Bytes, columns: int, quantum: float, ptr: Longs, topic: Array, values: Floats
) -> Int:
    """Read what ``pack_deltas`` wrote as the entries of one SparseDelta.

    data has eight bytes more. ptr: int64[rows + 1]; topic, values: two entries more than it said. A
    value of more than 24 bits becomes several entries. Returns the number of bytes read.
    """
    bitmap = (columns + 7) // 8
    topics = np.empty(columns + 1, np.int32)
    start = pointers.address_of(data)
    at: Int = 0
    j: Int = 0
    ptr[0] = 0
    for u in range(len(ptr) - 1):
        width = np.int64(data[at]) % LISTED
        listed = data[at] >= LISTED
        mask = (np.int64(1) << (8 * width)) - 1
        at += 1
        n: Int = 0
        if listed:
            n = np.int64(data[at]) | np.int64(data[at + 1]) << 8
            for i in range(n):
                low = np.int64(data[at + 2 + 2 * i])
                topics[i] = low | np.int64(data[at + 3 + 2 * i]) << 8
            at += 2 + 2 * n
        else:
            for k in range(columns):
                topics[n] = k
                n += (data[at + (k >> 3)] >> (k & 7)) & 1
            at += bitmap
        for i in range(n):
            number = pointers.long_at(start + at, 0) & mask
            at += width
            k = topics[i]
            value = np.float64((number >> 1) ^ -(number & 1)) * quantum
            part = np.float32(value)
            topic[j] = k
            values[j] = part
            # what one number has no bits for, mostly nothing; two have bits for 47
            value -= np.float64(part)
            part = np.float32(value)
            topic[j + 1] = k
            values[j + 1] = part
            j += 1 + np.int64(part != np.float32(0.0))
            if width > 5:
                value -= np.float64(part)
                topic[j] = k
                values[j] = np.float32(value)
                j += np.int64(value != 0.0)
        ptr[u + 1] = j
    return at
