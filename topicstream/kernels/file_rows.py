"""Rows of a file of packed rows, read and written by the thousand without the interpreter.

Row w begins at byte offset[w] and holds length[w] entries of 4 or 8 bytes (the low half first).  Rows that lie near each
other are read at once, through a window; rows that touch are written at once.

    fd      an open file     offset  int64[W], bytes      length  int32[W], entries     size  bytes of an entry: 4 or 8
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.kernels.arrays import Array, Bytes, Ints, Longs
from topicstream.kernels.intrinsics import ANY, I8, I32, I64, Builder, Value, call, emit
from topicstream.kernels.jit import kernel

GAP = 4096  # bytes that are rather read than begun anew behind: a page


def _system(name: str) -> Any:
    """The system's pread or pwrite, of (fd, array, first byte of the array, bytes, offset in the file) -> int64."""

    def run(b: Builder, fd: Value, data: Value, at: Value, size: Value, offset: Value) -> Value:
        place = b.gep(b.bitcast(data, I8.as_pointer()), [at])
        return call(b, name, I64, b.trunc(fd, I32), place, size, offset)

    return emit("int64", "int64", ANY, *["int64"] * 3)(run)


_pread, _pwrite = _system("pread"), _system("pwrite")


@kernel
def _whole(fd: int, array: Array, at: int, size: int, offset: int, write: bool) -> bool:
    """Read or write ``size`` bytes of the array from byte ``at``; False when the system does not."""
    done = np.int64(0)
    while done < size:
        if write:
            n = _pwrite(fd, array, at + done, size - done, offset + done)
        else:
            n = _pread(fd, array, at + done, size - done, offset + done)
        if n <= 0:
            return False
        done += n
    return True


@kernel
def read_rows(
    fd: int, offset: Longs, length: Ints, size: int, vocab: Ints, window: Array, start: Longs, out: Array
) -> int:
    """Rows of vocab (int32[U], ascending) to out[start[u]..].

    window: uint32[...] that holds the longest row; out: uint32|uint64 that holds the counts.  Returns -1, or the place in
    vocab of a row that could not be read.
    """
    u = 0
    while u < len(vocab):
        begin = offset[vocab[u]]
        end = begin
        stop = u
        while stop < len(vocab):
            a = offset[vocab[stop]]
            b = a + np.int64(length[vocab[stop]]) * size
            if stop > u and (a > end + GAP or b - begin > window.size * 4):
                break
            if b > a:
                end = b
            stop += 1
        if not _whole(fd, window, np.int64(0), end - begin, begin, False):
            return u
        for v in range(u, stop):
            w = vocab[v]
            at = start[v]
            i = (offset[w] - begin) // 4
            if size == 4:
                for j in range(length[w]):
                    out[at + j] = window[i + j]
            else:
                for j in range(length[w]):
                    out[at + j] = np.uint64(window[i + 2 * j]) | np.uint64(window[i + 2 * j + 1]) << np.uint64(32)
        u = stop
    return -1


@kernel
def write_rows(fd: int, offset: Longs, size: int, numbers: Ints, ptr: Longs, entries: Bytes) -> int:
    """Rows of the words ``numbers`` (int32[n], ascending): row i is entries ptr[i] .. ptr[i+1] of ``entries``, whose bytes
    uint8[...] are as in the file.  Returns -1, or the place in ``numbers`` of a row that could not be written."""
    i = 0
    while i < len(numbers):
        begin = offset[numbers[i]]
        stop = i + 1
        while stop < len(numbers) and offset[numbers[stop]] == begin + (ptr[stop] - ptr[i]) * size:
            stop += 1
        if not _whole(fd, entries, ptr[i] * size, (ptr[stop] - ptr[i]) * size, begin, True):
            return i
        i = stop
    return -1
