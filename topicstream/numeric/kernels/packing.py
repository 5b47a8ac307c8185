"""The sum of some blocks' sparse deltas as bytes, for other processes, and how these add it up.

Deltas are rounded to the quantum of their table, so a sum is a whole number of quanta: nothing is
lost. Rows follow one another in ascending order. Each begins with a byte: how many bits a value
takes, plus ``LISTED`` if its topics are listed. Its topics follow, as a bit for each column, or as
their number and themselves (16 bits each), then the values, bit after bit: whole numbers, the sign
in the last bit, the lowest bits first. The next row begins at a whole byte.
"""

from __future__ import annotations

import numpy as np

from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels.arrays import (
    Bytes,
    DeltaAddresses,
    Doubles,
    Int,
    Ints,
    Longs,
    Shorts,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.scatter import LINE, RowRange, rounded, topic_at
from topicstream.numeric.kernels.simd import fetch

LISTED = 64
MOST_VALUE = 10
"""Bytes of an entry at most: its value and its topic."""
SLACK = 8
"""Bytes after the last one that are read or written with it."""
LANES = 16
"""Columns of a mask."""
NONE = np.int64(1) << np.int64(62)
"""A row after all others."""


def most_bytes(rows: int, entries: int, columns: int) -> int:
    """Return the bytes that so many rows and entries take, at most."""
    return MOST_VALUE * entries + (3 + 2 * -(-columns // LANES)) * rows + SLACK


@kernel
def pack_rows(
    addresses: DeltaAddresses,
    lo: Longs,
    hi: Longs,
    columns: int,
    quantum: float,
    ids: Ints,
    data: Bytes,
) -> tuple[Int, Int]:
    """Sum the deltas of blocks in a range of rows and write the sums as bytes.

    addresses, lo, hi: as of ``scatter_sparse``. ids int32[rows] and data uint8[``most_bytes``]
    receive the rows that change and their bytes. Returns the number of rows and of bytes.
    """
    deltas, wide, _ = addresses
    width = -(-columns // LANES) * LANES
    cursor = lo.copy()
    sums = np.zeros(width)
    numbers = np.zeros(width, np.int64)
    topics = np.empty(width + LANES, np.uint16)
    out = pointers.address_of(data)
    magic = 1.5 * 2.0**52 * quantum
    inverse = 1.0 / quantum
    rows: Int = 0
    at: Int = 0
    while True:
        # the next row that a block changes: ids ascend in every block
        row = NONE
        for r in range(len(deltas)):
            if cursor[r] < hi[r]:
                row = min(row, pointers.int_at(deltas[r, 0], cursor[r]))
        if row == NONE:
            return rows, at
        # the sum of the rounded values of all blocks
        for r in range(len(deltas)):
            u = cursor[r]
            if u < hi[r] and pointers.int_at(deltas[r, 0], u) == row:
                cursor[r] = u + 1
                stop = pointers.long_at(deltas[r, 1], u + 1)
                for j in range(pointers.long_at(deltas[r, 1], u), stop):
                    value = np.float64(pointers.float_at(deltas[r, 3], j))
                    sums[topic_at(deltas, r, j, wide)] += rounded(value, magic)
        # whole numbers of quanta, and all bits that any of them has
        some = np.int64(0)
        for k in range(width):
            number = np.int64(sums[k] * inverse)
            numbers[k] = (number << 1) ^ (number >> 63)
            some |= numbers[k]
            sums[k] = 0.0
        if some != 0:
            ids[rows] = row
            rows += 1
            at = _put_row(out, at, numbers, topics, some)


@kernel(inline="always")
def _put_row(out: int, at: Int, numbers: Longs, topics: Shorts, some: Int) -> Int:
    """Write a row that has changes, and return where the next one begins."""
    # the bits of the largest value
    width = np.int64(1)
    while some >> width:
        width += 1
    # a bit for each column, then the topics as a list instead where that takes less
    head = at
    at += 1
    n = np.int64(0)
    source = pointers.address_of(numbers)
    target = pointers.address_of(topics)
    for k in range(0, len(numbers), LANES):
        mask = pointers.not_zero(source, k)
        pointers.put_pair(out, at + k // 8, np.uint16(mask))
        n += pointers.list_bits(target, n, k, mask)
    bitmap = len(numbers) // 8
    listed = 2 + 2 * n < bitmap
    pointers.put_byte(out, head, np.uint8(width + LISTED * listed))
    if listed:
        pointers.put_pair(out, at, np.uint16(n))
        for i in range(n):
            pointers.put_pair(out, at + 2 + 2 * i, topics[i])
    at += 2 + 2 * n if listed else bitmap
    # the values, eight bytes at once: bits before the first are written again as they were
    bit = np.int64(0)
    begun = np.int64(0)
    for i in range(n):
        byte = bit >> 3
        word = begun | numbers[topics[i]] << (bit & 7)
        pointers.put_bits(out, at + byte, word)
        bit += width
        begun = word >> (8 * ((bit >> 3) - byte))
    return at + ((bit + 7) >> 3)


@kernel
def scatter_packed(
    part: RowRange,
    packed: Longs,
    lo: Longs,
    hi: Longs,
    start: Longs,
    quantum: float,
    factor: float,
) -> None:
    """Add ``factor`` times the sum of packed sums to their rows, as ``scatter_sparse`` does.

    packed int64[P, 2]: the addresses of each one's ids (int32[rows]) and bytes; its rows lo[p] to
    hi[p] - 1 fall into this range, the first one's bytes begin at start[p].
    """
    first_row, table, _, change, _ = part
    width = table.shape[1]
    cursor = lo.copy()
    at = start.copy()
    sums = np.zeros(width)
    topics = np.empty((len(packed) + 1) * width + LANES, np.uint16)
    while True:
        # the next row that a sum changes: ids ascend in every one
        row = NONE
        for p in range(len(packed)):
            if cursor[p] < hi[p]:
                row = min(row, pointers.int_at(packed[p, 0], cursor[p]))
        if row == NONE:
            return
        # the whole numbers of all sums, and the topics that they have
        n = np.int64(0)
        for p in range(len(packed)):
            u = cursor[p]
            if u < hi[p] and pointers.int_at(packed[p, 0], u) == row:
                cursor[p] = u + 1
                at[p], n = _take_row(packed[p, 1], at[p], topics, n, sums)
                # what the next row will touch
                if u + 1 < hi[p] and pointers.byte_at(packed[p, 1], at[p]) < LISTED:
                    ahead = (pointers.int_at(packed[p, 0], u + 1) - first_row) * width
                    for k in range(0, width, LINE):
                        fetch(table, ahead + k)
        # row_k += factor (sum_k quantum), rounded once; the column sums change as stored
        old = table[row - first_row]
        if 2 * n < width:
            for i in range(n):  # of a topic that is listed twice the second is zero
                k = topics[i]
                was = np.float64(old[k])
                new = table.dtype.type(was + factor * (sums[k] * quantum))
                old[k] = new
                change[k] += np.float64(new) - was
                sums[k] = 0.0
        else:
            for k in range(width):
                was = np.float64(old[k])
                new = table.dtype.type(was + factor * (sums[k] * quantum))
                old[k] = new
                change[k] += np.float64(new) - was
                sums[k] = 0.0


@kernel(inline="always")
def _take_row(data: int, at: Int, topics: Shorts, n: Int, sums: Doubles) -> tuple[Int, Int]:
    """Add a row's whole numbers to ``sums`` and its topics to the n that are listed.

    Returns where the next row begins, and the number of topics.
    """
    head = pointers.byte_at(data, at)
    width = head % LISTED
    at += 1
    first = n
    if head >= LISTED:
        count = pointers.pair_at(data, at)
        for i in range(count):
            topics[n + i] = pointers.pair_at(data, at + 2 + 2 * i)
        n += count
        at += 2 + 2 * count
    else:
        target = pointers.address_of(topics)
        for k in range(0, len(sums), LANES):
            mask = pointers.pair_at(data, at + k // 8)
            n += pointers.list_bits(target, n, k, mask)
        at += len(sums) // 8
    ones = (np.int64(1) << width) - 1
    bit = np.int64(0)
    for i in range(first, n):
        number = pointers.bits_at(data, at + (bit >> 3)) >> (bit & 7) & ones
        sums[topics[i]] += np.float64((number >> 1) ^ -(number & 1))
        bit += width
    return at + ((bit + 7) >> 3), n
