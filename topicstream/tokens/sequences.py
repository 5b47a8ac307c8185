"""From sequences of words to counts: stems, learned phrases and n-grams.

A sequence is int32[], the words (type ids) of the documents in order, -1 where something was left out; ``indptr``
int64[D+1] cuts it into documents.  Types are bytes: uint8[], with int64[T+1] offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topicstream.kernels.arrays import Bytes, Int, Ints, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.kernels.spans import copy_spans
from topicstream.tokens.wordtable import doubled, find_word, slot_of, table_for, tags_for

_S32, _ONE = np.uint64(32), np.uint64(1)
_ZERO = np.uint64(0)


@kernel
def same_words(types: Bytes, offsets: Longs, tags: Words) -> Ints:
    """int32[T]: for each type the first type with the same bytes."""
    total = offsets.size - 1
    first = np.empty(total, np.int32)
    for t in range(total):
        slot, found, tag = find_word(tags, types, offsets, types, offsets[t], offsets[t + 1] - offsets[t])
        if found < 0:
            tags[slot] = (tag << _S32) | np.uint64(t + 1)
            found = t
        first[t] = found
    return first


@kernel
def _joined(left: int, right: int, table: Words, shift: Int, parts: Ints, used: int) -> tuple[Int, Int]:
    """The type of the pair (left, right), entered when new: (type, pairs in use)."""
    key = (np.uint64(left + 1) << _S32) | np.uint64(right + 1)
    mask = np.uint64(table.size // 2 - 1)
    slot = slot_of(key, shift)
    while table[slot << _ONE] != _ZERO:
        if table[slot << _ONE] == key:
            return np.int64(table[(slot << _ONE) + _ONE]), used
        slot = (slot + _ONE) & mask
    table[slot << _ONE] = key
    table[(slot << _ONE) + _ONE] = np.uint64(used)
    parts[used, 0], parts[used, 1] = left, right
    return used, used + 1


@kernel
def _has_pair(left: int, right: int, table: Words, shift: int) -> bool:
    key = (np.uint64(left + 1) << _S32) | np.uint64(right + 1)
    mask = np.uint64(table.size // 2 - 1)
    slot = slot_of(key, shift)
    while table[slot << _ONE] != _ZERO:
        if table[slot << _ONE] == key:
            return True
        slot = (slot + _ONE) & mask
    return False


@kernel
def _expand(
    sequence: Ints, indptr: Longs, types: int, phrases: Words, phrase_shift: int, table: Words, shift: Int, longest: int
) -> tuple[Ints, Longs, Ints]:
    """The sequence with phrases joined and n-grams added; new types are numbered from ``types`` on.

    Returns the new sequence, its indptr, and parts int32[new types, 2] (what each is joined from).
    """
    documents = indptr.size - 1
    new = np.empty(longest * sequence.size + 1, np.int32)
    starts = np.empty(documents + 1, np.int64)
    parts = np.empty((1024, 2), np.int32)
    used = np.int64(0)
    n = np.int64(0)
    for d in range(documents):
        starts[d] = n
        before = np.int64(-1)
        pair = np.int64(-1)  # the n-gram of the last two words
        i = indptr[d]
        while i < indptr[d + 1]:
            word = np.int64(sequence[i])
            if word < 0:
                before, pair = np.int64(-1), np.int64(-1)
                i += 1
                continue
            if used + 4 > parts.shape[0]:
                bigger = np.empty((2 * parts.shape[0], 2), np.int32)
                for k in range(used):
                    bigger[k, 0], bigger[k, 1] = parts[k, 0], parts[k, 1]
                parts = bigger
            if 4 * (used + 4) > table.size:
                table = doubled(table, shift)
                shift = shift - _ONE
            if (
                phrases.size > 2
                and i + 1 < indptr[d + 1]
                and sequence[i + 1] >= 0
                and _has_pair(word, np.int64(sequence[i + 1]), phrases, phrase_shift)
            ):
                at, used = _joined(word, np.int64(sequence[i + 1]), table, shift, parts, used)
                word = at + types
                i += 1
            i += 1
            new[n] = word
            n += 1
            if longest > 1:
                longer = np.int64(-1)
                if longest > 2 and pair >= 0:
                    at, used = _joined(pair, word, table, shift, parts, used)
                    new[n] = at + types
                    n += 1
                if before >= 0:
                    at, used = _joined(before, word, table, shift, parts, used)
                    longer = at + types
                    new[n] = longer
                    n += 1
                before, pair = word, longer
    starts[documents] = n
    return new[:n], starts, parts[:used]


@kernel
def _phrase_table(pairs: Ints, table: Words, shift: int) -> None:
    mask = np.uint64(table.size // 2 - 1)
    for p in range(pairs.shape[0]):
        key = (np.uint64(pairs[p, 0] + 1) << _S32) | np.uint64(pairs[p, 1] + 1)
        slot = slot_of(key, shift)
        while table[slot << _ONE] != _ZERO and table[slot << _ONE] != key:
            slot = (slot + _ONE) & mask
        table[slot << _ONE] = key


@kernel
def _joined_bytes(types: Bytes, offsets: Longs, parts: Ints, joiner: int) -> tuple[Bytes, Longs]:
    """Bytes and offsets of the types, those joined from ``parts`` behind the given ones."""
    known = offsets.size - 1
    total = known + parts.shape[0]
    ends = np.empty(total + 1, np.int64)
    for k in range(known + 1):
        ends[k] = offsets[k]
    for p in range(parts.shape[0]):
        a, b = parts[p, 0], parts[p, 1]
        ends[known + p + 1] = ends[known + p] + (ends[a + 1] - ends[a]) + 1 + (ends[b + 1] - ends[b])
    data = np.empty(ends[total], np.uint8)
    for i in range(offsets[known]):
        data[i] = types[i]
    for p in range(parts.shape[0]):
        a, b = parts[p, 0], parts[p, 1]
        at = ends[known + p]
        for i in range(ends[a], ends[a + 1]):
            data[at] = data[i]
            at += 1
        data[at] = joiner
        for i in range(ends[b], ends[b + 1]):
            at += 1
            data[at] = data[i]
    return data, ends


@kernel
def _count(sequence: Ints, indptr: Longs, same: Ints, types: int) -> tuple[Longs, Ints, Ints, Ints]:
    """Cells of each document in first-seen order, words renumbered in first-seen order of the run.

    Returns indptr, words int32[], counts int32[], order int32[distinct] (the type each new number stands for).
    """
    documents = indptr.size - 1
    number = np.full(types, np.int32(-1), np.int32)
    cell = np.full(types, np.int64(-1), np.int64)
    order = np.empty(types, np.int32)
    known = 0
    words = np.empty(sequence.size, np.int32)
    counts = np.empty(sequence.size, np.int32)
    starts = np.empty(documents + 1, np.int64)
    n = np.int64(0)
    for d in range(documents):
        starts[d] = n
        first = n
        for i in range(indptr[d], indptr[d + 1]):
            if sequence[i] < 0:
                continue
            t = same[sequence[i]]
            if cell[t] >= first:
                counts[cell[t]] += 1
                continue
            if number[t] < 0:
                number[t] = known
                order[known] = t
                known += 1
            cell[t] = n
            words[n] = number[t]
            counts[n] = 1
            n += 1
    starts[documents] = n
    return starts, words[:n], counts[:n], order[:known]


def gathered(types: np.ndarray, offsets: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and offsets of the types in ``order``."""
    data, ends = copy_spans(types, offsets[order], offsets[order + 1])
    return data, ends


def packed(words: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Words as one uint8 buffer and int64 offsets."""
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=offsets[1:])
    return np.frombuffer(b"".join(words), np.uint8).copy(), offsets


def count_sequence(
    types: np.ndarray,
    offsets: np.ndarray,
    sequence: np.ndarray,
    indptr: np.ndarray,
    *,
    phrases: Sequence[tuple[bytes, bytes]] = (),
    longest: int = 1,
    joiner: int = ord("_"),
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(types, offsets, indptr, words, counts) of the sequences, phrases joined and n-grams up to ``longest`` added.
    Types with equal bytes are merged, types that never occur left out."""
    if phrases or longest > 1:
        same = same_words(types, offsets, tags_for(offsets.size))
        sequence = np.where(sequence >= 0, same[np.maximum(sequence, 0)] if same.size else sequence, np.int32(-1))
        pairs = _known_pairs(types, offsets, same, phrases)
        phrase_table, phrase_shift = table_for(len(pairs)) if len(pairs) else table_for(0, least=1)
        _phrase_table(pairs, phrase_table, phrase_shift)
        table, shift = table_for(offsets.size)
        sequence, indptr, parts = _expand(
            sequence.astype(np.int32), indptr, offsets.size - 1, phrase_table, phrase_shift, table, shift, longest
        )
        types, offsets = _joined_bytes(types, offsets, parts, joiner)
    same = same_words(types, offsets, tags_for(offsets.size))
    starts, words, counts, order = _count(sequence, indptr, same, offsets.size - 1)
    types, offsets = gathered(types, offsets, order)
    return types, offsets, starts, words.copy(), counts.copy()


def _known_pairs(types: Bytes, offsets: Longs, same: Ints, phrases: Sequence[tuple[bytes, bytes]]) -> Ints:
    """int32[P, 2]: the phrases whose two words are both among the types."""
    data = types.tobytes()
    wanted = {word for pair in phrases for word in pair}
    number = {}
    if wanted:
        for t in np.flatnonzero(same == np.arange(same.size)):
            word = data[offsets[t] : offsets[t + 1]]
            if word in wanted:
                number[word] = int(t)
    found = [(number[a], number[b]) for a, b in phrases if a in number and b in number]
    return np.array(found, np.int32).reshape(-1, 2)
