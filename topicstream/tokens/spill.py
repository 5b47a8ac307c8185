"""Sorted runs of words on disk: sort, write, read back in pieces, merge.

A run is five files of plain little-endian numbers, the words in the order of their bytes: ``.words`` (bytes, end to end),
``.lengths`` int32, ``.counts`` int64, ``.df`` int64, ``.ids`` int32 (the word's number within its generation).
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np

from topicstream.files import owned
from topicstream.kernels.arrays import Bytes, Int, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.kernels.spans import copy_spans

PIECE = 1 << 20
"""Rows gathered or read at once."""

_FEW = 24  # groups up to this size are sorted by insertion


@kernel(forceinline=True)
def _prefix(data: Bytes, start: int, stop: int) -> Int:
    """The first eight bytes as a big-endian number, filled up with zeros: its order is that of the bytes."""
    key = np.uint64(0)
    for k in range(8):
        key <<= np.uint64(8)
        if start + k < stop:
            key |= np.uint64(data[start + k])
    return key


@kernel
def _prefixes(data: Bytes, offsets: Longs, order: Longs, depth: int) -> Words:
    keys = np.empty(order.size, np.uint64)
    for i in range(order.size):
        stop = offsets[order[i] + 1]
        keys[i] = _prefix(data, min(offsets[order[i]] + depth, stop), stop)
    return keys


@kernel
def precedes(a: Bytes, a0: int, a1: int, b: Bytes, b0: int, b1: int) -> int:
    """-1, 0 or 1 as bytes ``a[a0:a1]`` come before, equal or after ``b[b0:b1]``."""
    for k in range(min(a1 - a0, b1 - b0)):
        if a[a0 + k] != b[b0 + k]:
            return -1 if a[a0 + k] < b[b0 + k] else 1
    if a1 - a0 == b1 - b0:
        return 0
    return -1 if a1 - a0 < b1 - b0 else 1


@kernel
def _settle(data: Bytes, offsets: Longs, keys: Words, order: Longs, few: int, large: Longs) -> int:
    """Sort the groups of ``order`` whose ``keys`` tie by insertion; of more than ``few`` it is left, and ``large`` int64[n, 2]
    gets where they begin and end.  Returns how many those are."""
    found = first = 0
    for stop in range(1, order.size + 1):
        if stop < order.size and keys[stop] == keys[first]:
            continue
        if stop - first > few:
            large[found, 0], large[found, 1] = first, stop
            found += 1
        else:
            for i in range(first + 1, stop):
                t = order[i]
                j = i
                while j > first and (
                    precedes(data, offsets[t], offsets[t + 1], data, offsets[order[j - 1]], offsets[order[j - 1] + 1])
                    < 0
                ):
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = t
        first = stop
    return found


def byte_order(data: np.ndarray, offsets: np.ndarray, total: int) -> np.ndarray:
    """int64[total]: the words in the order of their bytes, eight bytes at a time."""
    order = np.arange(total)
    waiting = [(0, total, 0)]
    while waiting:
        low, high, depth = waiting.pop()
        here = order[low:high]
        keys = _prefixes(data, offsets, here, depth)
        by = np.argsort(keys)
        here[:] = here[by]
        whole = depth > 0 and depth >= int((offsets[here + 1] - offsets[here]).max())  # they differ in zeros at the end
        few = high - low if whole else _FEW
        large = np.empty((len(here) // few + 1, 2), np.int64)
        found = _settle(data, offsets, keys[by], here, few, large)
        waiting += [(low + a, low + b, depth + 8) for a, b in large[:found].tolist()]
    return order


def append_array(file: BinaryIO, values: np.ndarray) -> None:
    """Write an array's bytes.  (Not ``tofile``, which says nothing of a full disk but how much it wrote.)"""
    file.write(np.ascontiguousarray(values).view(np.uint8).data)


def write_run(
    base: Path, data: np.ndarray, offsets: np.ndarray, counts: np.ndarray, df: np.ndarray, total: int
) -> None:
    """Write the ``total`` words as the run ``base`` (suffixes are added)."""
    order = byte_order(data, offsets, total)
    with (
        owned.create(f"{base}.words") as words_file,
        owned.create(f"{base}.lengths") as lengths_file,
        owned.create(f"{base}.counts") as counts_file,
        owned.create(f"{base}.df") as df_file,
        owned.create(f"{base}.ids") as ids_file,
    ):
        for at in range(0, total, PIECE):
            part = order[at : at + PIECE]
            out, ends = copy_spans(data, offsets[part], offsets[part + 1])
            append_array(words_file, out)
            append_array(lengths_file, np.diff(ends).astype(np.int32))
            append_array(counts_file, counts[part])
            append_array(df_file, df[part])
            append_array(ids_file, part.astype(np.int32))


@kernel
def _before(g: int, h: int, data: Bytes, ends: Longs, rows: Longs, heads: Words) -> bool:
    """Whether run g's next word comes before run h's."""
    if heads[g] != heads[h]:
        return heads[g] < heads[h]  # type: ignore[no-any-return]
    i, j = rows[g], rows[h]
    return precedes(data[g], ends[g, i], ends[g, i + 1], data[h], ends[h, j], ends[h, j + 1]) < 0  # type: ignore[no-any-return]


@kernel
def _sink(heap: Longs, size: int, at: int, data: Bytes, ends: Longs, rows: Longs, heads: Words) -> None:
    while True:
        least = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < size and _before(heap[child], heap[least], data, ends, rows, heads):
                least = child
        if least == at:
            return
        heap[at], heap[least] = heap[least], heap[at]
        at = least


@kernel
def _enter(g: int, heap: Longs, size: int, data: Bytes, ends: Longs, rows: Longs, heads: Words) -> None:
    heap[size] = g
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if not _before(heap[at], heap[parent], data, ends, rows, heads):
            break
        heap[at], heap[parent] = heap[parent], heap[at]
        at = parent


FLUSH, DONE = -2, -1


@kernel
def enter_run(state: Longs, g: int, heap: Longs, data: Bytes, ends: Longs, rows: Longs, heads: Words) -> None:
    """Put run ``g``, whose next piece was loaded, into the heap (arguments as of ``merge``)."""
    heads[g] = _prefix(data[g], ends[g, 0], ends[g, 1])
    _enter(g, heap, state[0], data, ends, rows, heads)
    state[0] += 1


@kernel
def merge(
    state: Longs,
    heap: Longs,
    data: Bytes,
    ends: Longs,
    sums: Longs,
    rows: Longs,
    loaded: Longs,
    heads: Words,
    ordinals: Longs,
    out: Bytes,
    out_ends: Longs,
    out_sums: Longs,
) -> int:
    """Merge the loaded pieces until one runs empty (its number is returned), the output is full (FLUSH) or all is DONE.

    state     int64[3]   runs in the heap, rows of output (the last one still open), number of the first of them
    data      uint8[G, bytes], ends int64[G, rows + 1], sums int64[G, rows, 2] (count, df): the loaded pieces
    rows, loaded  int64[G]  next row and number of rows of each piece; heads uint64[G]: the next row's first eight bytes
    ordinals  int64[G, rows]  written: the number of the distinct word that each row is
    """
    size, used, first = state[0], state[1], state[2]
    status = DONE
    while size > 0:
        g = heap[0]
        i = rows[g]
        start, stop = ends[g, i], ends[g, i + 1]
        if used == 0 or precedes(data[g], start, stop, out, out_ends[used - 1], out_ends[used]) != 0:
            if used == out_sums.shape[0] or out_ends[used] + stop - start > out.size:
                status = FLUSH
                break
            at = out_ends[used]
            for k in range(stop - start):
                out[at + k] = data[g, start + k]
            out_sums[used, 0], out_sums[used, 1] = 0, 0
            used += 1
            out_ends[used] = at + stop - start
        out_sums[used - 1, 0] += sums[g, i, 0]
        out_sums[used - 1, 1] += sums[g, i, 1]
        ordinals[g, i] = first + used - 1
        rows[g] = i + 1
        if i + 1 == loaded[g]:
            size -= 1
            heap[0] = heap[size]
            _sink(heap, size, 0, data, ends, rows, heads)
            status = g
            break
        heads[g] = _prefix(data[g], ends[g, i + 1], ends[g, i + 2])
        _sink(heap, size, 0, data, ends, rows, heads)
    state[0], state[1] = size, used
    return status
