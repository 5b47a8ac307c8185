"""Rows of a file of packed rows, read and written by the thousand without the interpreter.

Row w begins at byte offset[w] and holds length[w] entries of 4 or 8 bytes (the low half first).  Rows that lie near each
other are read at once, through a window; rows that touch are written at once.

    fd      an open file     offset  int64[W], bytes      length  int32[W], entries     size  bytes of an entry: 4 or 8
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from topicstream.kernels.jit import kernel
from topicstream.kernels.lazy import cgutils, intrinsic, types

GAP = 4096  # bytes that are rather read than begun anew behind: a page
_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _system(name: str) -> Any:
    """The system's pread or pwrite, of (fd, array, first byte of the array, bytes, offset in the file) -> int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        fd, array, at, size, offset = args
        data = context.make_array(sig.args[1])(context, builder, array).data
        place = builder.gep(builder.bitcast(data, _I8.as_pointer()), [at])
        kind = ir.FunctionType(_I64, [_I32, place.type, _I64, _I64])
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [builder.trunc(fd, _I32), place, size, offset])

    @intrinsic
    def call(typing_context, fd, array, at, size, offset):
        if not (isinstance(array, types.Array) and array.layout == "C"):
            return None
        i = types.int64
        return i(i, array, i, i, i), generate

    return call


_pread, _pwrite = _system("pread"), _system("pwrite")


@kernel
def _whole(fd, array, at, size, offset, write):
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
def read_rows(fd, offset, length, size, vocab, window, start, out):
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
def write_rows(fd, offset, size, numbers, ptr, entries):
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
