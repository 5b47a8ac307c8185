"""Access to memory by address, as ``kernels.simd`` accesses arrays.

It serves helpers that are called once a cell, and arrays of which a kernel knows only the address.

numba counts the references of every array that is passed to a function, atomically, even when the
function is inlined: a helper of six arrays pays a hundred nanoseconds. An address is an integer,
and a borrowed array has no references to count. Whoever takes one keeps the array alive.

``borrow(array)``       the array, or the arrays of a tuple, without an owner

``address_of(array)``   address of a C-contiguous array's first entry
``load(p, i)``          16 floats from entry i on;  ``store(p, i, v)`` the reverse
``load_row(p, i, n)``   the same where a row ends at entry n: zeros from there on, which are not
                        read;  ``store_row(p, i, v, n)`` the reverse: nothing is written there
``float_at(p, i)``      one float32;  ``put_float(p, i, x)`` the reverse;  ``double_at``,
                        ``put_double`` of float64; ``long_at``, ``put_long`` of int64; ``int_at(p,
                        i)`` one int32 and ``short_at(p, i)`` one uint16, as int64
``fetch(p, i)``         ask for the cache line of float i, into the first cache
``bits_at(p, i)``       the eight bytes from byte i on as int64;  ``put_bits(p, i, x)`` the reverse;
                        ``byte_at``, ``put_byte``, ``pair_at``, ``put_pair`` of one and two bytes
``not_zero(p, i)``      which of 16 int64 from entry i on are not zero, a bit each
``list_bits(p, i, first, mask)``   first + the number of each of the 16 bits that is set, as uint16
                        to entry i and on (16 entries are written); returns how many there are
``append(p, i, v, a, b)``   the lanes of v where a >= b to entry i and on, in order, then zeros (16
                            entries are written);
                        returns how many there are

Arrays that kernels take, by what is in them, and the cells of a block.

Names are for readers and mypy: numba infers its own types.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from topicstream.numeric.kernels import intrinsics as llvm
from topicstream.numeric.kernels.intrinsics import (
    ANY,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INTS,
    VECTOR,
    WIDTH,
    Builder,
    Value,
    emit,
    vector,
)
from topicstream.numeric.kernels.jit import kernel

_AT = ("int64", "int64")


def _pointer(b: Any, p: Any, i: Any, kind: Any, unit: Any = F32) -> Any:
    return b.bitcast(b.gep(b.inttoptr(p, unit.as_pointer()), [i]), kind.as_pointer())


def _reader(result: Any, kind: Any, unit: Any, align: int, turn: Any = lambda b, x: x) -> Any:
    def read(b: Builder, p: Value, i: Value) -> Value:
        return turn(b, b.load(_pointer(b, p, i, kind, unit), align=align))

    return emit(result, *_AT)(read)


def _writer(given: Any, kind: Any, unit: Any, align: int) -> Any:
    def write(b: Builder, p: Value, i: Value, x: Value) -> None:
        b.store(x, _pointer(b, p, i, kind, unit), align=align)

    return emit("void", *_AT, given)(write)


load = _reader(vector, VECTOR, F32, 4)
store = _writer(vector, VECTOR, F32, 4)
float_at = _reader("float32", F32, F32, 4)
put_float = _writer("float32", F32, F32, 4)
double_at = _reader("float64", F64, F64, 8)
put_double = _writer("float64", F64, F64, 8)
long_at = _reader("int64", I64, I64, 8)
put_long = _writer("int64", I64, I64, 8)
int_at = _reader("int64", I32, I32, 4, lambda b, x: b.sext(x, I64))
short_at = _reader("int64", I16, I16, 2, lambda b, x: b.zext(x, I64))
bits_at = _reader("int64", I64, I8, 1)
put_bits = _writer("int64", I64, I8, 1)
byte_at = _reader("int64", I8, I8, 1, lambda b, x: b.zext(x, I64))
put_byte = _writer("uint8", I8, I8, 1)
pair_at = _reader("int64", I16, I8, 1, lambda b, x: b.zext(x, I64))
put_pair = _writer("uint16", I16, I8, 1)


@emit(vector, *_AT, "int64")
def _load_first(b: Builder, p: Value, i: Value, n: Value) -> Value:
    return llvm.load_first(b, _pointer(b, p, i, VECTOR), n)


@emit("void", *_AT, vector, "int64")
def _store_first(b: Builder, p: Value, i: Value, v: Value, n: Value) -> None:
    llvm.store_first(b, _pointer(b, p, i, VECTOR), n, v)


@kernel(forceinline=True)
def load_row(p: int, i: int, n: int) -> Any:
    """Load 16 floats of a row of n, from entry i on, with zeros past its end."""
    return load(p, i) if i + WIDTH <= n else _load_first(p, i, n - i)


@kernel(forceinline=True)
def store_row(p: int, i: int, v: Any, n: int) -> None:
    """Store 16 floats of a row of n, from entry i on, up to its end."""
    if i + WIDTH <= n:
        store(p, i, v)
    else:
        _store_first(p, i, v, n - i)


@emit("int64", ANY)
def address_of(b: Builder, data: Value) -> Value:
    """Return the address of a C-contiguous array as int64."""
    return b.ptrtoint(data, I64)


@emit("void", *_AT)
def fetch(b: Builder, p: Value, i: Value) -> None:
    """Prefetch an address into the first cache."""
    llvm.fetch(b, _pointer(b, p, i, I8))


@emit("int64", *_AT)
def not_zero(b: Builder, p: Value, i: Value) -> Value:
    """Mark which of 16 int64 are not zero, in the last 16 bits of the result."""
    kind = ir.VectorType(I64, WIDTH)
    numbers = b.load(_pointer(b, p, i, kind, I64), align=8)
    marked = b.icmp_unsigned("!=", numbers, ir.Constant(kind, [0] * WIDTH))
    return b.zext(b.bitcast(marked, I16), I64)


@emit("int64", *_AT, "int64", "int64")
def list_bits(b: Builder, p: Value, i: Value, first: Value, mask: Value) -> Value:
    """Store first + the number of each set bit as uint16, side by side, and count them."""
    marked = b.bitcast(b.trunc(mask, I16), ir.VectorType(I1, WIDTH))
    lanes = ir.Constant(INTS, list(range(WIDTH)))
    numbers = b.add(llvm.spread(b, b.trunc(first, I32)), lanes)
    kept = b.trunc(llvm.compress(b, numbers, marked), ir.VectorType(I16, WIDTH))
    b.store(kept, _pointer(b, p, i, kept.type, I16), align=2)
    return llvm.count(b, marked)


@emit("int64", *_AT, vector, vector, vector)
def append(b: Builder, p: Value, i: Value, v: Value, x: Value, y: Value) -> Value:
    """Store the lanes of v where x >= y side by side and count them.

    v, x, y: SIMD values -> int64.
    """
    kept = b.fcmp_ordered(">=", x, y)
    packed = b.bitcast(llvm.compress(b, b.bitcast(v, INTS), kept), VECTOR)
    b.store(packed, _pointer(b, p, i, VECTOR), align=4)
    return llvm.count(b, kept)


def _borrow(typing_context: Any, given: Any) -> Any:
    """Return the array, or the tuple with its arrays, without an owner.

    numba counts no references of what has no owner, so a kernel can be split into steps that take
    borrowed arrays: once inlined they cost nothing. The lender keeps the arrays alive. The
    arguments of a kernel live as long as its call, so it may borrow them, and must not return them.
    """

    def bare(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        is_tuple = isinstance(kind, types.BaseTuple)
        if is_tuple:
            members: Any = cgutils.unpack_tuple(builder, value)
            lent = [bare(context, builder, k, members[i]) for i, k in enumerate(kind.types)]
            return context.make_tuple(builder, kind, lent)
        if not isinstance(kind, types.Array):
            return value
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()

    def generate(context: Any, builder: Builder, sig: Any, args: Any) -> Value:
        return bare(context, builder, given, args[0])

    return given(given), generate


borrow: Any = intrinsic(_borrow)
"""See ``_borrow``."""


Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Shorts = np.ndarray[Any, np.dtype[np.uint16]]
Ints = np.ndarray[Any, np.dtype[np.int32]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
# numbers that kernels return: Python's or numba's own
Int = int | np.integer[Any]
Float = float | np.floating[Any]
Bool = bool | np.bool_


class Cells(NamedTuple):
    """The cells of a block, by document.

    Document d has indptr[d] .. indptr[d + 1], each with a local word and a count.

    indptr int64[D + 1];  words int32[nnz];  counts int32 or float32[nnz]
    """

    indptr: Longs
    words: Ints
    counts: Array


class RowCells(NamedTuple):
    """The cells of documents whose words are rows of a gathered table.

    indptr int64[D + 1];  rows int64[nnz], of the table;  counts float32[nnz]
    """

    indptr: Longs
    rows: Longs
    counts: Array


class TopicWeights(NamedTuple):
    """The weights of topics for the rows of a gathered table: (base + beta) inverse, as p(w|k).

    base float32[R, C], K <= C;  inverse float32[KP] or float64[K], as its kernel says
    """

    base: Floats
    beta: float
    inverse: Array


class CellsByWord(NamedTuple):
    """The cells of a block, by word and then by document.

    Word u has ptr[u] .. ptr[u + 1].

    ptr int64[U + 1];  doc int32[nnz], row of the document;  x float32[nnz], count (an ingest keeps
    the type it has)
    """

    ptr: Longs
    doc: Ints
    x: Array


class RowEntries(NamedTuple):
    """Entries of a table, row by row, as of a SparseDelta.

    Row u has topic[j] and value[j] for j in ptr[u] .. ptr[u + 1] - 1.
    """

    ptr: Array
    topic: Array
    value: Array


class DeltaAddresses(NamedTuple):
    """Where the SparseDeltas of some blocks lie.

    where int64[R, 4]: the addresses of each block's ids (int32[U]), ptr (int64[U+1]), topics (int32
    if ``wide``, else uint16) and values;  long: whether whole values take 64 bits, not 32
    """

    where: Longs
    wide: bool
    long: bool


@kernel
def most_in_row(indptr: Longs) -> Int:
    """Return the number of entries of the longest row, as the cells of the longest document."""
    most = np.int64(0)
    for d in range(len(indptr) - 1):
        most = max(most, indptr[d + 1] - indptr[d])
    return most


@kernel
def word_ends(words: Ints, ptr: Longs) -> None:
    """Count where each word's cells end, ptr: int64[U + 1].

    The last entry is the number of all cells. Placing the cells from the last one on, each before
    the previous one of its word, leaves ptr where each word's cells begin.
    """
    ptr[:] = 0
    for i in range(len(words)):
        ptr[words[i]] += 1
    for u in range(len(ptr) - 1):
        ptr[u + 1] += ptr[u]


@kernel
def sort_by_word(cells: Cells, out: CellsByWord) -> None:
    """Sort the cells by word into the arrays of ``out`` (a counting sort)."""
    (indptr, words, counts) = cells
    (ptr, doc, x) = out
    word_ends(words, ptr)
    for d in range(len(indptr) - 2, -1, -1):
        for i in range(indptr[d + 1] - 1, indptr[d] - 1, -1):
            ptr[words[i]] -= 1
            j = ptr[words[i]]
            doc[j] = d
            x[j] = counts[i]


@kernel
def checksum(data: Bytes) -> Int:
    """Compute Fletcher's checksum of 32-bit words in 64-bit sums.

    It detects any change of one word, and nearly any change of two. It is for files that a run
    writes for itself. Unlike a library's checksum it does not make other threads wait.
    """
    words = data[: len(data) // 4 * 4].view(np.uint32)
    once = np.uint64(0)
    weighted = np.uint64(0)
    n = np.uint64(len(data))
    for i in range(len(words)):
        once += np.uint64(words[i])
        weighted += np.uint64(words[i]) * (n - np.uint64(i))
    for i in range(4 * len(words), len(data)):
        once += np.uint64(data[i]) << np.uint64(32)
    return np.int64(once * np.uint64(0x9E3779B97F4A7C15) ^ weighted)
