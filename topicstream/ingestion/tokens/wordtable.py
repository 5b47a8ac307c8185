"""The hash table of words that the tokenizer and the vocabulary share.

A word is bytes. Its *key* is a uint64: the bytes themselves (little endian) when there are at most
eight, so that equal keys are equal words; else a hash whose lowest byte is 0, which no short word
without NUL has, so that only equal keys of that form need their bytes compared. Open addressing,
linear probing, at most half full:

table   uint64[2 * slots]   key, then (word id << 32 | whatever the owner keeps there); a pair of
        zeros is an empty slot
"""

from __future__ import annotations

import numpy as np

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
    """The hash of a long word after its next eight bytes (the last ones filled up with zeros)."""
    h = (hashed ^ eight) * _M1
    return h ^ (h >> _S32)


@kernel(forceinline=True)
def long_key(hashed: int, length: int) -> Int:
    """The key of a word of more than eight bytes from its folded hash."""
    h = (hashed ^ np.uint64(length)) * _M2
    return (h ^ (h >> _S29)) & _NOT_LOW


@kernel
def word_key(data: Bytes, start: int, length: int) -> Int:
    """The key of ``data[start : start + length]``, length > 0; reads no byte behind the word."""
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
    """Where to begin to look for ``key`` in a table of 2**(64 - shift) slots."""
    h = key * _M1
    h = (h ^ (h >> _S32)) * _M2
    return h >> shift


@kernel(forceinline=True)
def same_bytes(a: Bytes, at_a: int, b: Bytes, at_b: int, length: int) -> bool:
    """Whether two stretches of bytes are equal."""
    for k in range(length):  # noqa: SIM110 (compiled)
        if a[at_a + k] != b[at_b + k]:
            return False
    return True


@kernel(forceinline=True)
def same_long(data: Bytes, at_a: int, at_b: int, length: int) -> bool:
    """Whether two stretches of one buffer are equal, eight bytes at a time; reads up to seven bytes
    behind each. (The last bytes are compared where they were stored: a load across two fresh
    stores would wait for both.)
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
    """The table with twice the slots; ``shift`` is that of the given one."""
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
    """An empty table (and its shift) that holds ``words`` words at most three quarters full."""
    slots = 1 << 10
    while 3 * slots < 4 * words:
        slots *= 2
    return np.zeros(2 * slots, np.uint64), np.uint64(64 - (slots.bit_length() - 1))


@kernel
def find_word(
    table: Words, shift: int, data: Bytes, ends: Longs, word: Bytes, start: int, length: int
) -> tuple[Int, Int, Int]:
    """Look for ``word[start : start + length]`` among the words of ``data`` and ``ends``: (slot,
    id, key); id -1 at the free slot where the word belongs.
    """
    key = word_key(word, start, length)
    mask = np.uint64(table.size // 2 - 1)
    slot = slot_of(key, shift)
    while True:
        rest = table[(slot << _ONE) + _ONE]
        if rest == _ZERO:
            return slot, np.int64(-1), key
        if table[slot << _ONE] == key:
            t = np.int64(rest >> _S32) - 1
            begin = ends[t]
            if ends[t + 1] - begin == length and (
                length <= 8 or same_bytes(data, begin, word, start, length)
            ):
                return slot, t, key
        slot = (slot + _ONE) & mask


@kernel
def enter_words(table: Words, shift: int, data: Bytes, ends: Longs) -> int:
    """Put words into an empty table, ids in order; the first word that stands there
    already, or -1.
    """
    for t in range(ends.size - 1):
        slot, number, key = find_word(
            table, shift, data, ends, data, ends[t], ends[t + 1] - ends[t]
        )
        if number >= 0:
            return t
        table[slot << _ONE] = key
        table[(slot << _ONE) + _ONE] = np.uint64(t + 1) << _S32
    return -1


@kernel
def look_up(
    table: Words, shift: int, data: Bytes, ends: Longs, words: Bytes, word_ends: Longs, ids: Ints
) -> None:
    """The id of each of ``words``, -1 where there is none, into ``ids``."""
    for q in range(word_ends.size - 1):
        _, ids[q], _ = find_word(
            table, shift, data, ends, words, word_ends[q], word_ends[q + 1] - word_ends[q]
        )
