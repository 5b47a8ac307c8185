"""The tokenizer's kernel: bytes of UTF-8 in, words of each document with counts out, in one pass.

ASCII words are cut out of windows of 64 bytes, whose letters and digits are one mask of bits, and
lower-cased eight bytes at a time in one register; a word of at most eight bytes is its own key in
the table, so that most words are never compared byte by byte. Everything else goes code point by
code point through the class table.

text     uint8[B]      the run's UTF-8              offsets  int64[D+1]   documents in it
classes  uint8[0x110000]  characters.py             lower_case  int32[LOWERED]
types    uint8[...]    the distinct words' bytes    ends     int64[...]   where each begins; ends[t
         + 1] is its end
table    uint64[2 * slots]  key, then (t + 1) << 32 | index of its newest cell: that index lies
         behind the first cell of
                       the document exactly when the word was seen in this document already
rules    int64[6]      lowercase, min_length, numbers, windows on, words left out break a sequence,
         list the words
registers uint64[2]    of the windows: the mask that lower-cases, all ones when underscores belong
                       to words
indptr int64[D+1], words int32[...], counts int32[...]  the cells, entry 0 unused; listed: the
sequence, -1 a break
The first ``stops`` types are the stop words; they stand in the table and give no cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from topicstream.ingestion.tokens.characters import (
    DIGIT,
    EMOJI,
    LETTER,
    REGIONAL,
    SPACE,
    UNSPACED,
    decode,
    emoji,
    spaced_word,
    unspaced_unit,
)
from topicstream.ingestion.tokens.vocabulary import word_array
from topicstream.ingestion.tokens.wordtable import (
    LOW_HALF,
    doubled,
    enter_words,
    fold,
    load8,
    long_key,
    same_long,
    slot_of,
    store8,
    table_for,
    word_key,
)
from topicstream.numeric.kernels.arrays import Bytes, Int, Ints, Longs, Words
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import (
    WIDE,
    beyond_ascii,
    blanks,
    count_bits,
    digits,
    equal,
    first_bit,
    letters,
)

_CASE = np.uint64(0x2020202020202020)
_UNDERSCORES = np.uint64(0x5F5F5F5F5F5F5F5F)
_LOW7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_ZERO, _ONE, _TWO, _S32 = (np.uint64(v) for v in (0, 1, 2, 32))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_WINDOW = WIDE + 8  # bytes that must be there: a load of eight may begin at the last of a window
_TAIL = 64  # spare bytes behind the newest type, for stores of eight bytes


(
    DOCUMENT,
    AT,
    TYPES,
    TAIL,
    CELLS,
    SPACES,
    KEPT,
    PAIRED,
    FIRST_CELL,
    RUN_FROM,
    RUN_TO,
    QUEUED,
    TOP,
    TOUCHED,
) = range(14)
"""Places in ``state``: the document and byte to go on at, distinct words, bytes of them, cells,
what was counted, the document's first cell, the last unit of a run without spaces, words in the
queue, end of their bytes."""

_QUEUE = 64
_LARGE_TABLE = 16 << 20
_A_TYPE = 160  # bytes that a different word of a piece takes at most until it is written


@kernel(forceinline=True)
def _lower8(x: int, lower_mask: int, underscores: int) -> Int:
    """Lower-case eight bytes of a word of letters, digits and underscores.

    A letter has bit 6, as has the underscore.
    """
    case = (x >> _ONE) & lower_mask
    if underscores != _ZERO:
        case &= (((x ^ _UNDERSCORES) & _LOW7) + _LOW7 & _HIGH) >> _TWO
    return x | case


@kernel
def _scan(
    state: Longs,
    text: Bytes,
    offsets: Longs,
    classes: Bytes,
    lower_case: Ints,
    types: Bytes,
    ends: Longs,
    stops: int,
    table: Words,
    shift: int,
    registers: Words,
    rules: Longs,
    indptr: Longs,
    words: Ints,
    counts: Ints,
    queue: Words,
) -> bool:
    """Count the words of each document, or list them, until the table is half full.

    Returns whether all is done.

    Words are cut into a queue and then looked up together: the table is mostly not in the nearest
    cache, and the loads of a queue overlap where those of one word after another would wait. queue
    uint64[3, 64]: key, length, slot; the words' bytes stand one after another behind those of the
    types. A length of 0 is a break.

    No array is made or replaced here: numba then keeps reference counting out of the loop, which
    halves its time.
    """
    lowercase = rules[0] != 0
    min_length = rules[1]
    numbers = rules[2] != 0
    fast = rules[3] != 0
    breaks = rules[4] != 0
    listing = rules[5] != 0
    lower_mask = registers[0]
    underscores = registers[1]
    n_types = state[TYPES]
    tail = state[TAIL]
    cells = state[CELLS]
    spaces = state[SPACES]
    kept = state[KEPT]
    unspaced = state[PAIRED]
    queued = state[QUEUED]
    top = state[TOP]
    touched = np.uint64(state[TOUCHED])
    mask = np.uint64(table.size // 2 - 1)
    for d in range(state[DOCUMENT], offsets.size - 1):
        i = offsets[d]
        end = offsets[d + 1]
        if state[AT] >= 0:
            i = state[AT]
            state[AT] = -1
            first_cell = state[FIRST_CELL]
            run_from = state[RUN_FROM]
            run_to = state[RUN_TO]
        else:
            indptr[d] = cells - 1
            first_cell = cells
            run_from = np.int64(-1)
            run_to = np.int64(-1)
        while True:
            while i < end and queued < _QUEUE:
                if fast and text[i] < 0x80 and i + _WINDOW <= text.size:
                    limit = min(WIDE, end - i)
                    word_bits = digits(text, i) | (equal(text, i, np.uint8(95)) & underscores)
                    letter_bits = letters(text, i)
                    blank_bits = blanks(text, i)
                    beyond = beyond_ascii(text, i)
                    word_bits |= letter_bits
                    if beyond != _ZERO:
                        limit = min(limit, first_bit(beyond))
                    inside = _ALL >> np.uint64(WIDE - limit)
                    word_bits &= inside
                    took = limit
                    whole = (
                        i + limit == end
                    )  # else a word that reaches the limit may go on behind it
                    while word_bits != _ZERO:
                        begin = first_bit(word_bits)
                        rest = ~(word_bits >> np.uint64(begin))
                        size = first_bit(rest) if rest != _ZERO else WIDE
                        if queued == _QUEUE or (begin + size == limit and not whole):
                            took = begin
                            break
                        word_bits &= word_bits + (_ONE << np.uint64(begin))
                        at = i + begin
                        lettered = (letter_bits >> np.uint64(begin)) & (
                            _ALL >> np.uint64(WIDE - size)
                        ) != _ZERO
                        if size < min_length or not (lettered or numbers):
                            if breaks and listing:
                                queue[1, queued] = _ZERO
                                queued += 1
                            continue
                        kept += size
                        if size <= 8:
                            key = _lower8(load8(text, at), lower_mask, underscores)
                            key &= _ALL >> np.uint64(8 * (8 - size))
                            store8(types, top, key)
                        else:
                            hashed = _ZERO
                            j = np.int64(0)
                            while j + 8 <= size:
                                low = _lower8(load8(text, at + j), lower_mask, underscores)
                                hashed = fold(hashed, low)
                                store8(types, top + j, low)
                                j += 8
                            if j < size:
                                low = _lower8(load8(text, at + j), lower_mask, underscores)
                                low &= _ALL >> np.uint64(8 * (8 - size + j))
                                hashed = fold(hashed, low)
                                store8(types, top + j, low)
                            key = long_key(hashed, size)
                        queue[0, queued] = key
                        queue[1, queued] = np.uint64(size)
                        queued += 1
                        top += size
                    if took > 0:
                        spaces += count_bits(blank_bits & (_ALL >> np.uint64(WIDE - took)))
                        i += took
                        continue
                    if queued == _QUEUE:
                        continue
                    # A word too long for the window, or one that continues beyond ASCII.
                c, n = decode(text, i)
                kind = classes[c]
                if kind in (LETTER, DIGIT):
                    i, out, long, lettered, points = spaced_word(
                        text, i, end, classes, lower_case, lowercase, types, top
                    )
                    if long < min_length or not (lettered or numbers):
                        if breaks and listing:
                            queue[1, queued] = _ZERO
                            queued += 1
                        continue
                    length = out - top
                    kept += points
                elif kind == UNSPACED:
                    past, points = unspaced_unit(text, i, end, classes)
                    kept += points
                    unspaced += points
                    start = i
                    if run_from >= 0 and run_to == i:
                        start = run_from
                    elif past < end and classes[decode(text, past)[0]] == UNSPACED:
                        start = -1  # the first of a run: a word once the next is there
                    run_from = i
                    run_to = past
                    i = past
                    if start < 0:
                        continue
                    length = past - start
                    for k in range(length):
                        types[top + k] = text[start + k]
                elif kind in (EMOJI, REGIONAL):
                    past, points = emoji(text, i, end, classes)
                    kept += points
                    length = past - i
                    for k in range(length):
                        types[top + k] = text[i + k]
                    i = past
                else:
                    spaces += kind == SPACE
                    i += n
                    continue
                key = word_key(types, top, length)
                queue[0, queued] = key
                queue[1, queued] = np.uint64(length)
                queued += 1
                top += length
            if 4 * (n_types + queued) > table.size:
                state[DOCUMENT] = d
                state[AT] = i
                state[FIRST_CELL] = first_cell
                state[RUN_FROM] = run_from
                state[RUN_TO] = run_to
                state[TYPES] = n_types
                state[TAIL] = tail
                state[CELLS] = cells
                state[SPACES] = spaces
                state[KEPT] = kept
                state[PAIRED] = unspaced
                state[QUEUED] = queued
                state[TOP] = top
                return False
            for q in range(queued):
                slot = slot_of(queue[0, q], shift)
                queue[2, q] = slot
                touched ^= table[(slot << _ONE) + _ONE]
            top = tail
            for q in range(queued):
                key = queue[0, q]
                length = np.int64(queue[1, q])
                slot = queue[2, q]
                if length == 0:
                    words[cells] = -1
                    cells += 1
                    continue
                t = np.int64(-1)
                seen = _ZERO
                while True:
                    rest = table[(slot << _ONE) + _ONE]
                    if table[slot << _ONE] == key:
                        if rest == _ZERO:
                            break
                        t = np.int64(rest >> _S32) - 1
                        seen = rest & LOW_HALF
                        if length <= 8:
                            break
                        begin = ends[t]
                        if ends[t + 1] - begin == length and same_long(types, begin, top, length):
                            break
                        t = np.int64(-1)
                    elif rest == _ZERO:
                        break
                    slot = (slot + _ONE) & mask
                if t < 0:
                    t = n_types
                    n_types += 1
                    for k in range(length):
                        types[tail + k] = types[top + k]
                    tail += length
                    ends[n_types] = tail
                    table[slot << _ONE] = key
                    table[(slot << _ONE) + _ONE] = np.uint64(n_types) << _S32
                top += length
                if listing:
                    words[cells] = -1 if t < stops else t - stops
                    cells += 1
                elif t >= stops:
                    # Without a branch: whether a word is new to its document cannot be foreseen.
                    fresh = seen < np.uint64(first_cell)
                    cell = cells if fresh else np.int64(seen)
                    words[cell] = t - stops
                    counts[cell] = 1 if fresh else counts[cell] + 1
                    table[(slot << _ONE) + _ONE] = (np.uint64(t + 1) << _S32) | np.uint64(cell)
                    cells += fresh
            queued = np.int64(0)
            top = tail
            if i >= end:
                break
    indptr[offsets.size - 1] = cells - 1
    state[TYPES] = n_types
    state[TAIL] = tail
    state[CELLS] = cells
    state[SPACES] = spaces
    state[KEPT] = kept
    state[PAIRED] = unspaced
    state[TOUCHED] = np.int64(touched >> _ONE)  # so that the early loads are not optimised away
    return True


@dataclass(frozen=True)
class Counted:
    """The words of some documents.

    types       large_string[T]: the distinct words
    indptr, words, counts  int64[D+1], int32[nnz], int32[nnz]: document d has the cells
                           ``indptr[d]:indptr[d+1]``; ``words``
        are numbers of the types, unique within a document
    characters  code points read
    discarded   code points that are neither white space nor part of a word: punctuation, symbols,
                emoji unless kept, and words left out as too short or numbers. Stop words are words
    unspaced    code points of scripts without spaces that went into overlapping pairs (see
                ``Recipe.unspaced``)
    """

    types: pa.Array
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    characters: int
    discarded: int
    unspaced: int


@dataclass(frozen=True)
class Rules:
    """Rules of the tokenizer as the kernel takes them.

    ``stop_types`` and ``stop_ends`` are the stop words.
    """

    classes: np.ndarray
    lower_case: np.ndarray
    lowercase: bool
    min_length: int
    numbers: bool
    eight_bytes: bool
    underscore: bool
    breaks: bool
    listing: bool
    stop_types: np.ndarray
    stop_ends: np.ndarray

    @cached_property
    def start_table(self) -> tuple[np.ndarray, np.uint64]:
        """A table that holds the stop words."""
        table, shift = table_for(max(self.stop_ends.size, 1 << 13))
        enter_words(table, shift, self.stop_types, self.stop_ends)
        return table, shift


def scan_run(
    text: np.ndarray,
    offsets: np.ndarray,
    rules: Rules,
    ask: Callable[[int, int], None] | None = None,
) -> Counted:
    """Count the words of ``text`` cut into documents by ``offsets``.

    text: uint8, valid UTF-8; offsets: int64. Listed, ``words`` is their sequence, -1 a break, and
    ``counts`` empty. ``ask``: called before a large table grows with what all of it takes then, and
    about when it grows last.
    """
    size = int(offsets[-1] - offsets[0])
    documents = offsets.size - 1
    stops = rules.stop_ends.size - 1
    # The most there can be: a word takes two bytes with what parts it (three and more where nothing
    # does), a lower case
    # half as many bytes again as its capital, a pair each byte twice.  Memory is touched only where
    # it is used.
    most = size // 2 + documents + 2
    types = np.empty(rules.stop_types.size + 2 * size + _TAIL, np.uint8)
    types[: rules.stop_types.size] = rules.stop_types
    ends = np.empty(stops + most + 1, np.int64)
    ends[: stops + 1] = rules.stop_ends
    indptr = np.empty(documents + 1, np.int64)
    words = np.empty(most, np.int32)
    counts = np.empty(1 if rules.listing else most, np.int32)
    state = np.zeros(14, np.int64)
    state[TYPES] = stops
    state[TAIL] = rules.stop_types.size
    state[TOP] = rules.stop_types.size
    state[AT] = -1
    queue = np.zeros((3, _QUEUE), np.uint64)
    state[CELLS] = 1  # cell 0 is nobody's: "never seen"
    registers = np.array(
        [_CASE if rules.lowercase else _ZERO, _ALL if rules.underscore else _ZERO], np.uint64
    )
    switches = np.array(
        [
            rules.lowercase,
            rules.min_length,
            rules.numbers,
            rules.eight_bytes,
            rules.breaks,
            rules.listing,
        ],
        np.int64,
    )
    table, shift = rules.start_table
    table = table.copy()
    while not _scan(
        state,
        text,
        offsets,
        rules.classes,
        rules.lower_case,
        types,
        ends,
        stops,
        table,
        shift,
        registers,
        switches,
        indptr,
        words,
        counts,
        queue,
    ):
        if ask is not None and table.nbytes >= _LARGE_TABLE:
            # the text and its words, the old table and the new one; then what is made of the words
            words_now = (
                int(state[TAIL])
                + 12 * int(state[CELLS])
                + max(3 * table.nbytes, _A_TYPE * int(state[TYPES]))
            )
            # it doubles so often until the end, if the rest is as what was seen
            doublings = int(
                np.log2(max(1.05 * size / max(int(state[AT]) - int(offsets[0]), 1), 1.0))
            )
            ask(2 * size + words_now, 2 * size + int(1.03 * (words_now << doublings)))
        table = doubled(table, shift)
        shift = np.uint64(shift - _ONE)
    cells = int(state[CELLS])
    ends = ends[stops : state[TYPES] + 1]
    types = word_array(types[ends[0] : ends[-1]].copy(), ends - ends[0])
    points = code_points(text)
    discarded = points - int(state[SPACES]) - int(state[KEPT])
    return Counted(
        types,
        indptr,
        words[1:cells].copy(),
        counts[1:cells].copy(),
        points,
        discarded,
        int(state[PAIRED]),
    )


def code_points(text: np.ndarray) -> int:
    """Code points of UTF-8: all bytes but those that continue one."""
    return int(np.count_nonzero(text.view(np.int8) >= -64))
