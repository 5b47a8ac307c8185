"""Words are cut out of UTF-8 into a queue: the first half of the tokenizer's kernel.

ASCII words are cut out of windows of 64 bytes, whose letters and digits are one mask of bits, and
lower-cased eight bytes at a time in one register; a word of at most eight bytes is its own key in
the table. Everything else goes code point by code point through the class table. Arrays: see
``scan.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

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
from topicstream.ingestion.tokens.wordtable import fold, load8, long_key, store8, word_key
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

_UNDERSCORES = np.uint64(0x5F5F5F5F5F5F5F5F)
_LOW7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_ZERO, _ONE, _TWO = (np.uint64(v) for v in (0, 1, 2))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_WINDOW = WIDE + 8  # bytes that must be there: a load of eight may begin at the last of a window
QUEUE = 64  # words that are looked up together
_NOTHING = -1  # length: no word
BREAK = 0  # length: a break in the sequence of words


@kernel(forceinline=True)
def _lower8(x: int, lower_mask: int, underscores: int) -> Int:
    """Lower-case eight bytes of a word of letters, digits and underscores.

    A letter has bit 6, as has the underscore.
    """
    case = (x >> _ONE) & lower_mask
    if underscores != _ZERO:
        case &= (((x ^ _UNDERSCORES) & _LOW7) + _LOW7 & _HIGH) >> _TWO
    return x | case


class RuleArrays(NamedTuple):
    """Rules of the tokenizer as the kernel takes them (``scan.py`` explains the arrays)."""

    classes: Bytes
    lower_case: Ints
    rules: Longs
    registers: Words


class Switches(NamedTuple):
    """Rules of the tokenizer as it reads them, and the masks of its windows."""

    classes: Bytes
    lower_case: Ints
    lowercase: bool
    min_length: int
    numbers: bool
    windows: bool
    parts: bool
    listing: bool
    lower_mask: int
    underscores: int


class Position(NamedTuple):
    """How far the text is cut.

    i        next byte of the text
    top      end of the bytes of the queue's words
    queued   words in the queue
    run      where the last unit of a run without spaces began and ended, -1 for none
    tally    white space, characters of words, and those of scripts without spaces among them
    """

    i: int
    top: int
    queued: int
    run: tuple[Int, Int]
    tally: tuple[int, int, int]


@kernel(inline="always")
def _copy_lower(text: Bytes, at: int, size: int, how: Switches, types: Bytes, top: int) -> Int:
    """Copy an ASCII word to types[top:], lower-cased, and return its key."""
    if size <= 8:
        key = _lower8(load8(text, at), how.lower_mask, how.underscores)
        key &= _ALL >> np.uint64(8 * (8 - size))
        store8(types, top, key)
        return key  # type: ignore[no-any-return]
    hashed = _ZERO
    j = np.int64(0)
    while j + 8 <= size:
        low = _lower8(load8(text, at + j), how.lower_mask, how.underscores)
        hashed = fold(hashed, low)
        store8(types, top + j, low)
        j += 8
    if j < size:
        low = _lower8(load8(text, at + j), how.lower_mask, how.underscores)
        low &= _ALL >> np.uint64(8 * (8 - size + j))
        hashed = fold(hashed, low)
        store8(types, top + j, low)
    return long_key(hashed, size)  # type: ignore[no-any-return]


@kernel(inline="always")
def _cut_window(
    text: Bytes,
    i: int,
    end: int,
    how: Switches,
    types: Bytes,
    top: int,
    queue: Words,
    queued: int,
) -> tuple[Any, ...]:
    """Cut the words out of the window that begins at text[i], into the queue.

    Returns
    -------
    Bytes that are done, white space and characters of words in them, and the new ``top`` and
    ``queued``. 0 bytes with room in the queue: the first word is too long for the window, or goes
    on beyond ASCII.
    """
    # a bit for each byte: letters, letters and digits, white space
    limit = min(WIDE, end - i)
    word_bits = digits(text, i) | (equal(text, i, np.uint8(95)) & how.underscores)
    letter_bits = letters(text, i)
    blank_bits = blanks(text, i)
    beyond = beyond_ascii(text, i)
    word_bits |= letter_bits
    if beyond != _ZERO:
        limit = min(limit, first_bit(beyond))
    word_bits &= _ALL >> np.uint64(WIDE - limit)
    took = limit
    # else a word that reaches the limit may go on behind it
    whole = i + limit == end
    kept = np.int64(0)
    while word_bits != _ZERO:
        # the next run of bits is a word
        begin = first_bit(word_bits)
        rest = ~(word_bits >> np.uint64(begin))
        size = first_bit(rest) if rest != _ZERO else WIDE
        if queued == QUEUE or (begin + size == limit and not whole):
            took = begin
            break
        word_bits &= word_bits + (_ONE << np.uint64(begin))
        inside = _ALL >> np.uint64(WIDE - size)
        lettered = (letter_bits >> np.uint64(begin)) & inside != _ZERO
        if size < how.min_length or not (lettered or how.numbers):
            if how.parts:
                queue[1, queued] = _ZERO
                queued += 1
            continue
        # its bytes to the types, its key and length to the queue
        kept += size
        queue[0, queued] = _copy_lower(text, i + begin, size, how, types, top)
        queue[1, queued] = np.uint64(size)
        queued += 1
        top += size
    spaces = np.int64(0)
    if took > 0:
        spaces = np.int64(count_bits(blank_bits & (_ALL >> np.uint64(WIDE - took))))
    return took, spaces, kept, top, queued


@kernel(inline="always")
def copy_bytes(source: Bytes, begin: int, length: int, types: Bytes, top: int) -> None:
    """Copy bytes to types[top:]."""
    for k in range(length):
        types[top + k] = source[begin + k]


@kernel(inline="always")
def _cut_word(
    text: Bytes,
    i: int,
    end: int,
    how: Switches,
    types: Bytes,
    top: int,
    run: tuple[Int, Int],
) -> tuple[Any, ...]:
    """Cut what begins at text[i], code point by code point, to types[top:].

    Returns
    -------
    Where the next begins, the length in bytes (``_NOTHING``: no word; ``BREAK``), white space,
    characters of words, those of scripts without spaces among them, and ``run`` from now on.
    """
    classes = how.classes
    c, n = decode(text, i)
    kind = classes[c]
    past = i + n
    length = np.int64(_NOTHING)
    blank = np.int64(0)
    points = np.int64(0)
    pairs = np.int64(0)
    # a word of letters and digits, unless the rules leave it out
    if kind in (LETTER, DIGIT):
        past, out, long, lettered, points = spaced_word(
            text, i, end, classes, how.lower_case, how.lowercase, types, top
        )
        length = out - top
        if long < how.min_length or not (lettered or how.numbers):
            points = np.int64(0)
            length = np.int64(BREAK if how.parts else _NOTHING)
    elif kind == UNSPACED:
        past, points = unspaced_unit(text, i, end, classes)
        pairs = points
        # two units that follow each other are a word; a unit alone is one, too
        start: Int = i
        if run[0] >= 0 and run[1] == i:
            start = run[0]
        elif past < end and classes[decode(text, past)[0]] == UNSPACED:
            start = -1  # the first of a run: a word once the next is there
        if start >= 0:
            length = past - start
            copy_bytes(text, start, length, types, top)
        run = (i, past)
    # an emoji with what belongs to it
    elif kind in (EMOJI, REGIONAL):
        past, points = emoji(text, i, end, classes)
        length = past - i
        copy_bytes(text, i, length, types, top)
    else:
        blank = np.int64(kind == SPACE)
    return past, length, blank, points, pairs, run


@kernel(inline="always")
def fill_queue(
    text: Bytes, end: int, how: Switches, types: Bytes, queue: Words, position: Position
) -> Position:
    """Cut words out of the text up to ``end`` until the queue is full."""
    (i, top, queued, run, tally) = position
    (spaces, kept, unspaced) = tally
    while i < end and queued < QUEUE:
        # all words of a window of ASCII
        if how.windows and text[i] < 0x80 and i + _WINDOW <= text.size:
            took, blank, points, top, queued = _cut_window(
                text, i, end, how, types, top, queue, queued
            )
            spaces += blank
            kept += points
            i += took
            if took > 0 or queued == QUEUE:
                continue
        # else one word or sign, code point by code point
        i, length, blank, points, pairs, run = _cut_word(text, i, end, how, types, top, run)
        spaces += blank
        kept += points
        unspaced += pairs
        if length >= 0:
            queue[0, queued] = word_key(types, top, length)
            queue[1, queued] = np.uint64(length)
            queued += 1
            top += length
    return Position(i, top, queued, run, (spaces, kept, unspaced))


@kernel(inline="always")
def read_switches(arrays: RuleArrays) -> Switches:
    """Read the rules: words left out break a sequence only where words are listed."""
    (classes, lower_case, rules, registers) = arrays
    return Switches(
        classes,
        lower_case,
        rules[0] != 0,
        rules[1],
        rules[2] != 0,
        rules[3] != 0,
        rules[4] != 0 and rules[5] != 0,
        rules[5] != 0,
        registers[0],
        registers[1],
    )
