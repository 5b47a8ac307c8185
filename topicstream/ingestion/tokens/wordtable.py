"""The hash table of words that the tokenizer and the vocabulary share.

A word is bytes. Its *key* is a uint64: the bytes themselves (little endian) when there are at most
eight, so that equal keys are equal words; else a hash whose lowest byte is 0, which no short word
without NUL has, so that only equal keys of that form need their bytes compared. Open addressing,
linear probing, at most half full:

table   uint64[2 * slots]   key, then (word id << 32 | whatever the owner keeps there); a pair of
        zeros is an empty slot
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.corpus.vocabulary import string_buffers
from topicstream.numeric.kernels.arrays import Bytes, Int, Ints, Longs, Words
from topicstream.numeric.kernels.intrinsics import I64, Builder, Value, emit
from topicstream.numeric.kernels.jit import kernel

_M1 = np.uint64(0xD6E8FEB86659FD93)
_M2 = np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)
_S29 = np.uint64(29)
_NOT_LOW = np.uint64(0xFFFFFFFFFFFFFF00)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
LOW_HALF = np.uint64(0xFFFFFFFF)


class HashedWords(NamedTuple):
    """Words by number, and the table in which they are found.

    table   uint64[2 * slots], of which ``shift`` takes a key to its slot
    data    uint8[...], the words' bytes one after another, with room behind them
    ends    int64[...], where each begins; ends[t + 1] is its end
    """

    table: Words
    shift: Int
    data: Bytes
    ends: Longs


@emit("uint64", ("uint8",), "int64")
def load8(b: Builder, data: Value, at: Value) -> Value:
    """Eight bytes of uint8 ``data`` from ``at``, little endian."""
    return b.load(b.bitcast(b.gep(data, [at]), I64.as_pointer()), align=1)


@emit("void", ("uint8",), "int64", "uint64")
def store8(b: Builder, data: Value, at: Value, value: Value) -> None:
    """Write eight bytes, little endian."""
    b.store(value, b.bitcast(b.gep(data, [at]), I64.as_pointer()), align=1)


@kernel(forceinline=True)
def fold(hashed: int, eight: int) -> Int:
    """Hash the next eight bytes of a long word (the last ones filled up with zeros)."""
    h = (hashed ^ eight) * _M1
    return h ^ (h >> _S32)


@kernel(forceinline=True)
def long_key(hashed: int, length: int) -> Int:
    """Make the key of a word of more than eight bytes from its folded hash."""
    h = (hashed ^ np.uint64(length)) * _M2
    return (h ^ (h >> _S29)) & _NOT_LOW


@kernel
def word_key(data: Bytes, start: int, length: int) -> Int:
    """Compute the key of ``data[start : start + length]``, length > 0.

    No byte behind the word is read.
    """
    if length <= 8:
        short = _ZERO
        for k in range(length):
            short |= np.uint64(data[start + k]) << np.uint64(8 * k)
        return short
    h = _ZERO
    k = 0
    while k + 8 <= length:
        h = fold(h, load8(data, start + k))
        k += 8
    if k < length:
        last = _ZERO
        for j in range(k, length):
            last |= np.uint64(data[start + j]) << np.uint64(8 * (j - k))
        h = fold(h, last)
    return long_key(h, length)  # type: ignore[no-any-return]


@kernel(forceinline=True)
def slot_of(key: int, shift: int) -> Int:
    """Return where to begin to look for ``key`` in a table of 2**(64 - shift) slots."""
    h = key * _M1
    h = (h ^ (h >> _S32)) * _M2
    return h >> shift


@kernel(forceinline=True)
def same_bytes(a: Bytes, at_a: int, b: Bytes, at_b: int, length: int) -> bool:
    """Tell whether two stretches of bytes are equal."""
    k = 0
    while k + 8 <= length:
        if load8(a, at_a + k) != load8(b, at_b + k):
            return False
        k += 8
    while k < length:
        if a[at_a + k] != b[at_b + k]:
            return False
        k += 1
    return True


@kernel(forceinline=True)
def same_long(data: Bytes, at_a: int, at_b: int, length: int) -> bool:
    """Tell whether two stretches of one buffer are equal, eight bytes at a time.

    Up to seven bytes behind each are read. (The last bytes are compared where they were stored: a
    load across two fresh stores would wait for both.)
    """
    k = 0
    while k + 8 <= length:
        if load8(data, at_a + k) != load8(data, at_b + k):
            return False
        k += 8
    if k == length:
        return True
    unused_bits = np.uint64(8 * (8 - (length - k)))
    difference = load8(data, at_a + k) ^ load8(data, at_b + k)
    return difference << unused_bits == _ZERO  # type: ignore[no-any-return]


@kernel
def doubled(table: Words, shift: int) -> Words:
    """Copy the table into one with twice the slots.

    ``shift`` is that of the given one.
    """
    old = table.size // 2
    new = np.zeros(table.size * 2, np.uint64)
    mask = np.uint64(2 * old - 1)
    smaller = np.uint64(shift) - _ONE
    for s in range(old):
        key = table[2 * s]
        rest = table[2 * s + 1]
        if key == _ZERO and rest == _ZERO:
            continue
        at = slot_of(key, smaller)
        while new[at << _ONE] != _ZERO or new[(at << _ONE) + _ONE] != _ZERO:
            at = (at + _ONE) & mask
        new[at << _ONE] = key
        new[(at << _ONE) + _ONE] = rest
    return new


def table_for(words: int) -> tuple[np.ndarray, np.uint64]:
    """Make an empty table that holds ``words`` words at most three quarters full.

    Also returns its shift.
    """
    slots = 1 << 10
    while 3 * slots < 4 * words:
        slots *= 2
    return np.zeros(2 * slots, np.uint64), np.uint64(64 - (slots.bit_length() - 1))


_AHEAD = 64
"""Words whose slots are touched together: the loads overlap, where one after another waits."""


@kernel
def _fast_key(data: Bytes, start: int, length: int) -> Int:
    """Make the key of a word (``word_key``) by loads of eight bytes where the buffer has them."""
    if start + length + 8 > data.size:
        return word_key(data, start, length)  # type: ignore[no-any-return]
    if length <= 8:
        unused = np.uint64(8 * (8 - length))
        short = load8(data, start)
        return (short << unused) >> unused  # type: ignore[no-any-return]
    hashed = _ZERO
    k = 0
    while k + 8 <= length:
        hashed = fold(hashed, load8(data, start + k))
        k += 8
    if k < length:
        unused = np.uint64(8 * (8 - (length - k)))
        hashed = fold(hashed, (load8(data, start + k) << unused) >> unused)
    return long_key(hashed, length)  # type: ignore[no-any-return]


@kernel
def _hash_ahead(
    table: Words,
    shift: int,
    ends: Longs,
    words: Bytes,
    word_ends: Longs,
    first: int,
    keys: Words,
) -> Int:
    """Fill in the keys of words from ``first`` on, and load their slots.

    Returns how many words these are.

    keys: uint64[_AHEAD + 1]; the last one takes what was loaded, so that the loads are not
    optimised away.
    """
    n = word_ends.size - 1 - first
    if n > _AHEAD:
        n = _AHEAD
    touched = _ZERO
    for q in range(n):
        begin = word_ends[first + q]
        keys[q] = _fast_key(words, begin, word_ends[first + q + 1] - begin)
        touched ^= table[(slot_of(keys[q], shift) << _ONE) + _ONE]
    for q in range(n):
        rest = table[(slot_of(keys[q], shift) << _ONE) + _ONE]
        touched ^= np.uint64(ends[np.int64(rest >> _S32)])
    keys[_AHEAD] = touched
    return n


@kernel
def _find_key(
    table: Words,
    shift: int,
    key: int,
    data: Bytes,
    ends: Longs,
    word: Bytes,
    start: int,
    length: int,
) -> tuple[Int, Int]:
    """Look for a word of this key: (slot, id), id -1 at the free slot where the word belongs."""
    mask = np.uint64(table.size // 2 - 1)
    slot = slot_of(key, shift)
    while True:
        rest = table[(slot << _ONE) + _ONE]
        if rest == _ZERO:
            return slot, np.int64(-1)
        if table[slot << _ONE] == key:
            t = np.int64(rest >> _S32) - 1
            begin = ends[t]
            if ends[t + 1] - begin == length and (
                length <= 8 or same_bytes(data, begin, word, start, length)
            ):
                return slot, t
        slot = (slot + _ONE) & mask


@kernel
def enter_words(table: Words, shift: int, data: Bytes, ends: Longs) -> int:
    """Put words into an empty table, ids in order.

    Returns the first word that stands there already, or -1.
    """
    for t in range(ends.size - 1):
        length = ends[t + 1] - ends[t]
        key = word_key(data, ends[t], length)
        slot, number = _find_key(table, shift, key, data, ends, data, ends[t], length)
        if number >= 0:
            return t
        table[slot << _ONE] = key
        table[(slot << _ONE) + _ONE] = np.uint64(t + 1) << _S32
    return -1


@kernel
def look_up(
    table: Words, shift: int, data: Bytes, ends: Longs, words: Bytes, word_ends: Longs, ids: Ints
) -> None:
    """Write the id of each of ``words`` into ``ids``, -1 where there is none."""
    keys = np.empty(_AHEAD + 1, np.uint64)
    first = 0
    while first < word_ends.size - 1:
        n = _hash_ahead(table, shift, ends, words, word_ends, first, keys)
        for q in range(n):
            begin = word_ends[first + q]
            length = word_ends[first + q + 1] - begin
            _, t = _find_key(table, shift, keys[q], data, ends, words, begin, length)
            ids[first + q] = t
        first += n


@kernel
def _enter_new(
    known: HashedWords, count: int, words: Bytes, word_ends: Longs, first: int, ids: Ints
) -> tuple[Int, Int]:
    """Assign numbers to words from ``first`` on, new ones as they come.

    Stops when the table is half full.

    Returns
    -------
    The words of the table, and the next word to number.
    """
    (table, shift, data, ends) = known
    keys = np.empty(_AHEAD + 1, np.uint64)
    while first < word_ends.size - 1 and 4 * (count + _AHEAD) <= table.size:
        n = _hash_ahead(table, shift, ends, words, word_ends, first, keys)
        for q in range(n):
            begin = word_ends[first + q]
            length = word_ends[first + q + 1] - begin
            slot, t = _find_key(table, shift, keys[q], data, ends, words, begin, length)
            if t < 0:
                t = count
                count += 1
                at = ends[t]
                for k in range(length):
                    data[at + k] = words[begin + k]
                ends[count] = at + length
                table[slot << _ONE] = keys[q]
                table[(slot << _ONE) + _ONE] = np.uint64(count) << _S32
            ids[first + q] = t
        first += n
    return count, first


class WordTable:
    """Words numbered in the order in which they are met.

    ``number`` gives words their numbers, and new ones the next; ``words`` are all so far.
    """

    def __init__(self) -> None:
        self._table, self._shift = table_for(0)
        self._data = np.empty(1 << 16, np.uint8)
        self._ends = np.zeros(1 << 13, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def words(self) -> pa.Array:
        """The words by number, large_string."""
        ends = self._ends[: self._count + 1]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._data[: ends[-1]])]
        return pa.Array.from_buffers(pa.large_string(), self._count, buffers)

    def number(self, words: pa.Array) -> np.ndarray:
        """Assign a number to each word (large_string without nulls), int32."""
        word_ends, text = string_buffers(words)
        numbers = np.empty(len(words), np.int32)
        self._data = _with_room(self._data, int(self._ends[self._count]), len(text))
        self._ends = _with_room(self._ends, self._count + 1, len(words))
        first = 0
        while first < len(words):
            known = HashedWords(self._table, self._shift, self._data, self._ends)
            self._count, first = _enter_new(known, self._count, text, word_ends, first, numbers)
            if first < len(words):
                self._table = doubled(self._table, self._shift)
                self._shift = np.uint64(self._shift - _ONE)
        return numbers

    def bytes_with(self, words: pa.Array) -> int:
        """Return the bytes of the table at most while these words are numbered."""
        grown = len(self._table)
        while 4 * (self._count + len(words) + _AHEAD) > grown:
            grown *= 2
        tables = 8 * (grown if grown == len(self._table) else grown + grown // 2)
        arrays = self._data.nbytes + self._ends.nbytes
        return tables + 2 * (arrays + int(words.nbytes))


def _with_room(values: np.ndarray, used: int, more: int) -> np.ndarray:
    """Return an array with room for so many values more than are used.

    Where it grows it grows by half.
    """
    if used + more <= len(values):
        return values
    longer = np.empty(max(used + more, len(values) * 3 // 2), values.dtype)
    longer[:used] = values[:used]
    return longer
