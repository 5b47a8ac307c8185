"""The tokenizer's kernel: bytes of UTF-8 in, words of each document with counts out, in one pass.

ASCII words are cut and lower-cased eight bytes at a time in one register (SIMD within a register: a byte of ``0x80`` marks
each byte of a class); a word of at most eight bytes is its own key in the table, so that most words are never compared
byte by byte.  Everything else goes code point by code point through the class table.

text     uint8[B]      the run's UTF-8              offsets  int64[D+1]   documents in it
classes  uint8[0x110000]  characters.py             lowered  int32[LOWERED]
types    uint8[...]    the distinct words' bytes    ends     int64[...]   where each begins; ends[t + 1] is its end
table    uint64[2 * slots]  key, then (t + 1) << 32 | index of its newest cell: that index lies behind the first cell of
                       the document exactly when the word was seen in this document already
The first ``stops`` types are the stop words; they stand in the table and give no cell.
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.jit import kernel
from topicstream.tokens.characters import DIGIT, EMOJI, IGNORED, LETTER, LOWERED, MARK, REGIONAL, SPACE, UNSPACED
from topicstream.tokens.wordtable import LOW_HALF, doubled, fold, load8, long_key, same_bytes, slot_of, store8, word_key

_LOW7 = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_A_TO_Z_LOW, _A_TO_Z_HIGH = np.uint64(0x1F1F1F1F1F1F1F1F), np.uint64(0x0505050505050505)
_0_TO_9_LOW, _0_TO_9_HIGH = np.uint64(0x5050505050505050), np.uint64(0x4646464646464646)
_CASE, _UNDERSCORES = np.uint64(0x2020202020202020), np.uint64(0x5F5F5F5F5F5F5F5F)
_ZERO, _ONE, _TWO, _S7, _S32, _S56 = (np.uint64(v) for v in (0, 1, 2, 7, 32, 56))
_EIGHT, _ALL = np.uint64(8), np.uint64(0xFFFFFFFFFFFFFFFF)
_TAIL = 64  # spare bytes behind the newest type, for stores of eight bytes


@kernel(inline="always")
def _decode(text, i):
    """(code point, bytes) at ``i`` of valid UTF-8."""
    b = np.int64(text[i])
    if b < 0x80:
        return b, 1
    if b < 0xE0:
        return (b & 0x1F) << 6 | (np.int64(text[i + 1]) & 0x3F), 2
    if b < 0xF0:
        return (b & 0x0F) << 12 | (np.int64(text[i + 1]) & 0x3F) << 6 | (np.int64(text[i + 2]) & 0x3F), 3
    return (
        (b & 0x07) << 18
        | (np.int64(text[i + 1]) & 0x3F) << 12
        | (np.int64(text[i + 2]) & 0x3F) << 6
        | (np.int64(text[i + 3]) & 0x3F)
    ), 4


@kernel(inline="always")
def _encode(out, at, c):
    """Write code point ``c`` as UTF-8; returns where it ends."""
    if c < 0x80:
        out[at] = c
        return at + 1
    if c < 0x800:
        out[at] = 0xC0 | c >> 6
        out[at + 1] = 0x80 | c & 0x3F
        return at + 2
    if c < 0x10000:
        out[at] = 0xE0 | c >> 12
        out[at + 1] = 0x80 | c >> 6 & 0x3F
        out[at + 2] = 0x80 | c & 0x3F
        return at + 3
    out[at] = 0xF0 | c >> 18
    out[at + 1] = 0x80 | c >> 12 & 0x3F
    out[at + 2] = 0x80 | c >> 6 & 0x3F
    out[at + 3] = 0x80 | c & 0x3F
    return at + 4


@kernel
def _spaced_word(text, i, end, classes, lowered, lowercase, out, at):
    """Copy the word at ``i``, lower-cased, to ``out[at:]``: (end in text, end in out, letters and digits, has a letter,
    code points)."""
    length = np.int64(0)
    letter = False
    points = np.int64(0)
    while i < end:
        c, n = _decode(text, i)
        kind = classes[c]
        if kind == LETTER:
            length += 1
            letter = True
        elif kind == DIGIT:
            length += 1
        elif kind == IGNORED:
            i += n
            points += 1
            continue
        elif kind != MARK:
            break
        if lowercase and c < LOWERED:
            c = np.int64(lowered[c])
        at = _encode(out, at, c)
        points += 1
        i += n
    return i, at, length, letter, points


@kernel
def _emoji(text, i, end, classes):
    """(end, code points) of the emoji sequence at ``i``."""
    c, n = _decode(text, i)
    regional = classes[c] == REGIONAL
    i += n
    points = np.int64(1)
    if regional:
        if i < end:
            c, n = _decode(text, i)
            if classes[c] == REGIONAL:
                return i + n, np.int64(2)
        return i, points
    while i < end:
        c, n = _decode(text, i)
        if c == 0xFE0F or 0x1F3FB <= c <= 0x1F3FF or c == 0x20E3 or 0xE0020 <= c <= 0xE007F:
            i += n
            points += 1
        elif c == 0x200D and i + n < end:
            after, m = _decode(text, i + n)
            if classes[after] != EMOJI:
                break
            i += n + m
            points += 2
        else:
            break
    return i, points


@kernel
def _unspaced_unit(text, i, end, classes):
    """(end, code points) of the letter at ``i`` with the marks on it."""
    c, n = _decode(text, i)
    i += n
    points = np.int64(1)
    while i < end:
        c, n = _decode(text, i)
        if classes[c] != MARK:
            break
        i += n
        points += 1
    return i, points


@kernel
def _grown(array, used, size):
    """``array`` with room for ``size`` entries, the first ``used`` kept."""
    if size <= array.size:
        return array
    new = np.empty(max(size, 2 * array.size), array.dtype)
    new[:used] = array[:used]
    return new


@kernel
def code_points(text, start, stop):
    """Number of characters in ``text[start:stop]``."""
    n = np.int64(0)
    for i in range(start, stop):
        n += (text[i] & 0xC0) != 0x80
    return n


@kernel
def scan(text, offsets, classes, lowered, types, ends, stops, table, shift, registers, rules):
    """Count the words of each document, or (``rules[5]``) list them in order.

    registers uint64[2]: lower-casing mask and underscore mask of the eight-byte path.
    rules int64[6]: lowercase, min_length, numbers, eight-byte path on, words left out break a sequence, list the sequence.

    Returns types, ends, number of types, indptr int64[D+1], words int32[], counts int32[] (the sequence has no counts; a
    break is -1), [spaces, characters in words, unspaced characters].
    """
    lowercase, min_length, numbers, fast = rules[0] != 0, rules[1], rules[2] != 0, rules[3] != 0
    breaks, listing = rules[4] != 0, rules[5] != 0
    case_mask, underscore_mask = registers[0], registers[1]
    documents = offsets.size - 1
    n_types = np.int64(stops)
    tail = ends[stops]
    indptr = np.empty(documents + 1, np.int64)
    words = np.empty(1 << 12, np.int32)
    counts = np.empty(1 if listing else 1 << 12, np.int32)
    cells = np.int64(1)  # cell 0 is nobody's: "never seen"
    mask = np.uint64(table.size // 2 - 1)
    spaces = np.int64(0)
    kept = np.int64(0)
    unspaced = np.int64(0)
    for d in range(documents):
        i, end = offsets[d], offsets[d + 1]
        indptr[d] = cells - 1
        first_cell = np.uint64(cells)
        # The most a document can add: a word takes two bytes with what parts it, a pair of characters three or more, a
        # lower case at most half as many bytes again as its capital.
        size = end - i
        words = _grown(words, cells, cells + size + 2)
        if not listing:
            counts = _grown(counts, cells, cells + size + 2)
        ends = _grown(ends, n_types + 1, n_types + size + 3)
        types = _grown(types, tail, tail + 3 * size + _TAIL)
        fast_end = min(end, text.size - 8)
        run_from, run_to = np.int64(-1), np.int64(-1)  # the last unit of a run without spaces
        while i < end:
            b = text[i]
            if b < 0x80:
                kind = classes[b]
                if kind < LETTER:
                    spaces += kind
                    i += 1
                    continue
            keyed = False
            key = _ZERO
            length = np.int64(0)
            if fast and b < 0x80 and i < fast_end:
                at = i
                hashed = _ZERO
                letters = _ZERO
                out = tail
                while True:
                    x = load8(text, at)
                    x7 = x & _LOW7
                    folded = x7 | _CASE
                    letter_bits = (folded + _A_TO_Z_LOW) & ~(folded + _A_TO_Z_HIGH) & ~x & _HIGH
                    digit_bits = (x7 + _0_TO_9_LOW) & ~(x7 + _0_TO_9_HIGH) & ~x & _HIGH
                    line_bits = ~((x7 ^ _UNDERSCORES) + _LOW7) & ~x & underscore_mask
                    stop_bits = ~(letter_bits | digit_bits | line_bits) & _HIGH
                    took, inside = _EIGHT, _ALL
                    if stop_bits != _ZERO:
                        lowest = stop_bits & (~stop_bits + _ONE)
                        took = ((((lowest - _ONE) & _ONES) * _ONES) >> _S56) - _ONE
                        inside = (lowest >> _S7) - _ONE
                    left = np.uint64(end - at)
                    if left < took:
                        took = left
                        inside = (_ONE << (left * _EIGHT)) - _ONE
                    letters |= letter_bits & inside
                    low = (x | ((letter_bits >> _TWO) & case_mask)) & inside
                    if took == _EIGHT:
                        hashed = fold(hashed, low)
                        store8(types, out, low)
                        out += 8
                        at += 8
                        if at < fast_end:
                            continue
                        if at < end:
                            break  # too near the end of the buffer to load eight bytes
                        took, low = _ZERO, _ZERO
                    at += np.int64(took)
                    if at < end and text[at] >= 0x80:
                        break
                    length = at - i
                    if length > 8:
                        if took != _ZERO:
                            hashed = fold(hashed, low)
                            store8(types, out, low)
                        key = long_key(hashed, length)
                    elif length == 8:
                        key = load8(types, tail)
                    else:
                        key = low
                        store8(types, tail, low)
                    keyed = True
                    break
                if keyed:
                    i = at
                    if length < min_length or (letters == _ZERO and not numbers):
                        if breaks and listing:
                            words[cells] = -1
                            cells += 1
                        continue
                    kept += length
            if not keyed:
                c, n = _decode(text, i)
                kind = classes[c]
                if kind in (LETTER, DIGIT):
                    i, out, long, lettered, points = _spaced_word(
                        text, i, end, classes, lowered, lowercase, types, tail
                    )
                    if long < min_length or not (lettered or numbers):
                        if breaks and listing:
                            words[cells] = -1
                            cells += 1
                        continue
                    length = out - tail
                    kept += points
                elif kind == UNSPACED:
                    past, points = _unspaced_unit(text, i, end, classes)
                    kept += points
                    unspaced += points
                    start = i
                    if run_from >= 0 and run_to == i:
                        start = run_from
                    elif past < end and classes[_decode(text, past)[0]] == UNSPACED:
                        start = -1  # the first of a run: a word once the next is there
                    run_from, run_to = i, past
                    i = past
                    if start < 0:
                        continue
                    length = past - start
                    for k in range(length):
                        types[tail + k] = text[start + k]
                elif kind in (EMOJI, REGIONAL):
                    past, points = _emoji(text, i, end, classes)
                    kept += points
                    length = past - i
                    for k in range(length):
                        types[tail + k] = text[i + k]
                    i = past
                else:
                    spaces += kind == SPACE
                    i += n
                    continue
                key = word_key(types, tail, length)
            # Find the word, or enter it.
            slot = slot_of(key, shift)
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
                    if ends[t + 1] - begin == length and same_bytes(types, begin, types, tail, length):
                        break
                    t = np.int64(-1)
                elif rest == _ZERO:
                    break
                slot = (slot + _ONE) & mask
            if t < 0:
                t = n_types
                n_types += 1
                tail += length
                ends[n_types] = tail
                table[slot << _ONE] = key
                table[(slot << _ONE) + _ONE] = np.uint64(n_types) << _S32
                if 4 * n_types > table.size:
                    table = doubled(table, shift)
                    shift = shift - _ONE
                    mask = np.uint64(table.size // 2 - 1)
                    slot = slot_of(key, shift)
                    while np.int64(table[(slot << _ONE) + _ONE] >> _S32) != n_types:
                        slot = (slot + _ONE) & mask
            if listing:
                words[cells] = -1 if t < stops else t - stops
                cells += 1
            elif t >= stops:
                if seen >= first_cell:
                    counts[np.int64(seen)] += 1
                else:
                    words[cells] = t - stops
                    counts[cells] = 1
                    table[(slot << _ONE) + _ONE] = (np.uint64(t + 1) << _S32) | np.uint64(cells)
                    cells += 1
    indptr[documents] = cells - 1
    return types, ends, n_types, indptr, words[1:cells], counts[1:cells], (spaces, kept, unspaced)


@kernel
def enter_words(types, ends, table, shift):
    """Put distinct words into an empty table, ids in order (the stop words before a scan)."""
    mask = np.uint64(table.size // 2 - 1)
    for t in range(ends.size - 1):
        key = word_key(types, ends[t], ends[t + 1] - ends[t])
        slot = slot_of(key, shift)
        while table[(slot << _ONE) + _ONE] != _ZERO:
            slot = (slot + _ONE) & mask
        table[slot << _ONE] = key
        table[(slot << _ONE) + _ONE] = np.uint64(t + 1) << _S32
