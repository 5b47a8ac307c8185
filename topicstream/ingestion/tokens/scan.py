"""The tokenizer's kernel: bytes of UTF-8 in, words of each document with counts out, in one pass.

Words are cut into a queue (cut.py), and looked up in a table. A word of at most eight bytes is its
own key there, so that most words are never compared byte by byte.

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
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.ingestion.tokens.cut import (
    BREAK,
    QUEUE,
    Position,
    RuleArrays,
    copy_bytes,
    fill_queue,
    read_switches,
)
from topicstream.ingestion.tokens.vocabulary import word_array
from topicstream.ingestion.tokens.wordtable import (
    LOW_HALF,
    HashedWords,
    doubled,
    enter_words,
    same_long,
    slot_of,
    table_for,
)
from topicstream.numeric.kernels.arrays import Bytes, Cells, Longs, Words, borrow
from topicstream.numeric.kernels.jit import kernel

_CASE = np.uint64(0x2020202020202020)
_ZERO, _ONE, _S32 = (np.uint64(v) for v in (0, 1, 32))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
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

_LARGE_TABLE = 16 << 20
_A_TYPE = 160  # bytes that a different word of a piece takes at most until it is written


@kernel(inline="always")
def _find_type(
    key: int, length: int, slot: Any, known: HashedWords, top: int
) -> tuple[Any, Any, Any]:
    """Find the word at data[top:] in the table, from its slot on.

    Returns
    -------
    Its number (-1: it is new), the index of its newest cell, and its slot.
    """
    table = known.table
    types = known.data
    ends = known.ends
    mask = np.uint64(table.size // 2 - 1)
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
    return t, seen, slot


@kernel(inline="always")
def _enter_queue(
    queue: Words,
    queued: int,
    known: HashedWords,
    stops: int,
    sizes: tuple[Any, Any, Any],
    first_cell: int,
    listing: bool,
    found: Cells,
) -> tuple[Any, Any, Any]:
    """Look the queue's words up, enter new ones, and count or list them as cells.

    sizes: distinct words, bytes of them, and cells. Returns the new ones.
    """
    (table, _, types, ends) = known
    (_, words, counts) = found
    (n_types, tail, cells) = sizes
    top = tail
    for q in range(queued):
        key = queue[0, q]
        length = np.int64(queue[1, q])
        if length == BREAK:
            words[cells] = -1
            cells += 1
            continue
        t, seen, slot = _find_type(key, length, queue[2, q], known, top)
        # a new word: its bytes move to the end of the types
        if t < 0:
            t = n_types
            n_types += 1
            copy_bytes(types, top, length, types, tail)
            tail += length
            ends[n_types] = tail
            table[slot << _ONE] = key
            table[(slot << _ONE) + _ONE] = np.uint64(n_types) << _S32
        top += length
        # a cell: the next of the sequence, or the word's in this document
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
    return n_types, tail, cells


@kernel
def _scan(
    state: Longs,
    text: Bytes,
    offsets: Longs,
    rules: RuleArrays,
    known: HashedWords,
    stops: int,
    found: Cells,
    queue: Words,
) -> bool:
    """Count the words of each document, or list them, until the table is half full.

    Returns whether all is done.

    Words are cut into a queue and then looked up together: the table is mostly not in the nearest
    cache, and the loads of a queue overlap where those of one word after another would wait. queue
    uint64[3, 64]: key, length, slot; the words' bytes stand one after another behind those of the
    types. A length of 0 is a break.
    """
    state = borrow(state)
    text = borrow(text)
    known = borrow(known)
    found = borrow(found)
    queue = borrow(queue)
    how = read_switches(borrow(rules))
    (table, shift, types, _) = known
    indptr = found.indptr
    # go on where the last call stopped
    n_types = state[TYPES]
    tail = state[TAIL]
    cells = state[CELLS]
    tally = (state[SPACES], state[KEPT], state[PAIRED])
    queued = state[QUEUED]
    top = state[TOP]
    touched = np.uint64(state[TOUCHED])
    room = True
    for d in range(state[DOCUMENT], offsets.size - 1):
        i = offsets[d]
        end = offsets[d + 1]
        run = (np.int64(-1), np.int64(-1))
        if state[AT] >= 0:  # the table was full within this document
            i = state[AT]
            state[AT] = -1
            run = (state[RUN_FROM], state[RUN_TO])
        else:
            indptr[d] = cells - 1
            state[FIRST_CELL] = cells
        first_cell = state[FIRST_CELL]
        while True:
            position = Position(i, top, queued, run, tally)
            i, top, queued, run, tally = fill_queue(text, end, how, types, queue, position)
            # the table is doubled first
            room = 4 * (n_types + queued) <= table.size
            if not room:
                state[DOCUMENT] = d
                state[AT] = i
                state[RUN_FROM] = run[0]
                state[RUN_TO] = run[1]
                break
            # touch the slots of all words, then look them up
            for q in range(queued):
                slot = slot_of(queue[0, q], shift)
                queue[2, q] = slot
                touched ^= table[(slot << _ONE) + _ONE]
            sizes = (n_types, tail, cells)
            n_types, tail, cells = _enter_queue(
                queue, queued, known, stops, sizes, first_cell, how.listing, found
            )
            queued = np.int64(0)
            top = tail
            if i >= end:
                break
        if not room:
            break
    if room:
        indptr[offsets.size - 1] = cells - 1
    # where the next call goes on
    state[TYPES] = n_types
    state[TAIL] = tail
    state[CELLS] = cells
    state[SPACES] = tally[0]
    state[KEPT] = tally[1]
    state[PAIRED] = tally[2]
    state[QUEUED] = queued
    state[TOP] = top
    state[TOUCHED] = np.int64(touched >> _ONE)  # so that the early loads are not optimised away
    return room


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
    def switches(self) -> np.ndarray:
        """The rules as the kernel's ``rules``."""
        return np.array(
            [
                self.lowercase,
                self.min_length,
                self.numbers,
                self.eight_bytes,
                self.breaks,
                self.listing,
            ],
            np.int64,
        )

    @cached_property
    def registers(self) -> np.ndarray:
        """The masks of the kernel's windows."""
        case = _CASE if self.lowercase else _ZERO
        return np.array([case, _ALL if self.underscore else _ZERO], np.uint64)

    @cached_property
    def start_table(self) -> tuple[np.ndarray, np.uint64]:
        """A table that holds the stop words."""
        table, shift = table_for(max(self.stop_ends.size, 1 << 13))
        enter_words(table, shift, self.stop_types, self.stop_ends)
        return table, shift


def _begin(stops: int, tail: int) -> np.ndarray:
    """Make the state before the first document: the stop words are there, ``tail`` bytes."""
    state = np.zeros(14, np.int64)
    state[TYPES] = stops
    state[TAIL] = tail
    state[TOP] = tail
    state[AT] = -1
    state[CELLS] = 1  # cell 0 is a sentinel for words not seen in this document
    return state


def _bytes_needed(state: np.ndarray, table: int, size: int, done: int) -> tuple[int, int]:
    """Estimate the bytes that all takes once the table has doubled, and about at the end.

    table: bytes of the table; size, done: bytes of the text, and those that have been read.
    """
    # the text and its words, the old table and the new one; then what is made of the words
    types = max(3 * table, _A_TYPE * int(state[TYPES]))
    words = int(state[TAIL]) + 12 * int(state[CELLS]) + types
    # it doubles so often until the end, if the rest is as what was seen
    doublings = int(np.log2(max(1.05 * size / max(done, 1), 1.0)))
    return 2 * size + words, 2 * size + int(1.03 * (words << doublings))


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
    # half as many bytes again as its capital, a pair each byte twice. Memory is touched only where
    # it is used.
    most = size // 2 + documents + 2
    types = np.empty(rules.stop_types.size + 2 * size + _TAIL, np.uint8)
    types[: rules.stop_types.size] = rules.stop_types
    ends = np.empty(stops + most + 1, np.int64)
    ends[: stops + 1] = rules.stop_ends
    indptr = np.empty(documents + 1, np.int64)
    words = np.empty(most, np.int32)
    counts = np.empty(1 if rules.listing else most, np.int32)
    state = _begin(stops, rules.stop_types.size)
    queue = np.zeros((3, QUEUE), np.uint64)
    table, shift = rules.start_table
    table = table.copy()
    arrays = RuleArrays(rules.classes, rules.lower_case, rules.switches, rules.registers)
    found = Cells(indptr, words, counts)
    while not _scan(
        state, text, offsets, arrays, HashedWords(table, shift, types, ends), stops, found, queue
    ):
        if ask is not None and table.nbytes >= _LARGE_TABLE:
            ask(*_bytes_needed(state, table.nbytes, size, int(state[AT]) - int(offsets[0])))
        table = doubled(table, shift)
        shift = np.uint64(shift - _ONE)
    cells = int(state[CELLS])
    ends = ends[stops : state[TYPES] + 1]
    types = word_array(types[ends[0] : ends[-1]].copy(), ends - ends[0])
    points = code_points(text)
    discarded = points - int(state[SPACES]) - int(state[KEPT])
    words = words[1:cells].copy()
    counts = counts[1:cells].copy()
    return Counted(types, indptr, words, counts, points, discarded, int(state[PAIRED]))


def code_points(text: np.ndarray) -> int:
    """Code points of UTF-8: all bytes but those that continue one."""
    return int(np.count_nonzero(text.view(np.int8) >= -64))
