"""Kernels that read cells written as numbers in text, and put them in order.

Legend: data uint8[n], the text; docs int64[c], words int32[c], counts int64[c] or float32[c], the cells read; bad: one
row (line, offset, code) for each line that could not be used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.kernels.arrays import Array, Bytes, Float, Int, Ints, Longs
from topicstream.kernels.byte_masks import WIDE, equal, first_bit
from topicstream.kernels.jit import kernel
from topicstream.tokens.wordtable import load8

NOT_NUMBERS, DOC_RANGE, WORD_RANGE, NEGATIVE, AGAIN, PAIRS, NOT_WHOLE = 1, 2, 3, 4, 5, 6, 7
_ZERO, _ONE, _TEN = np.uint64(48), np.uint64(1), np.uint64(10)
_LIMIT = 922337203685477579  # 2**63 // 10 - 1: one more digit always fits


@kernel
def _blank(c: int) -> bool:
    return c == 32 or c == 9 or c == 13


@kernel
def read_whole(data: Bytes, p: int, end: int) -> tuple[Int, Int]:
    """The whole number at p: (value, position behind it); position -1 when there is none or it does not fit."""
    negative = False
    if p < end and (data[p] == 45 or data[p] == 43):
        negative = data[p] == 45
        p += 1
    first = p
    value = np.int64(0)
    while p < end:
        digit = np.int64(data[p]) - 48
        if digit < 0 or digit > 9:
            break
        if value > _LIMIT:
            return np.int64(0), np.int64(-1)
        value = value * 10 + digit
        p += 1
    if p == first:
        return np.int64(0), np.int64(-1)
    return (-value if negative else value), np.int64(p)


@kernel
def read_real(data: Bytes, p: int, end: int) -> tuple[Float, Int]:
    """The decimal number at p as float64 (good to float32): (value, position behind it); -1 when there is none."""
    negative = False
    if p < end and (data[p] == 45 or data[p] == 43):
        negative = data[p] == 45
        p += 1
    digits, scale, value = 0, 0, 0.0
    while p < end and 48 <= data[p] <= 57:
        value = value * 10.0 + (data[p] - 48)
        digits += 1
        p += 1
    if p < end and data[p] == 46:
        p += 1
        while p < end and 48 <= data[p] <= 57:
            value = value * 10.0 + (data[p] - 48)
            digits += 1
            scale -= 1
            p += 1
    if digits == 0:
        return 0.0, np.int64(-1)
    if p < end and (data[p] == 101 or data[p] == 69):
        power, p = read_whole(data, p + 1, end)
        if p < 0 or power > 400 or power < -400:
            return 0.0, np.int64(-1)
        scale += power
    if scale != 0:
        value = value * 10.0**scale if scale > -300 else value * 1e-300 * 10.0 ** (scale + 300)
    return (-value if negative else value), np.int64(p)


@kernel
def add_bad(bad: Longs, n: int, line: int, offset: int, code: int) -> Longs:
    """Append a row to the table of bad lines, which grows by doubling."""
    if n == len(bad):
        grown = np.empty((2 * n + 16, 3), np.int64)
        for i in range(n):
            grown[i, 0], grown[i, 1], grown[i, 2] = bad[i, 0], bad[i, 1], bad[i, 2]
        bad = grown
    bad[n, 0] = line
    bad[n, 1] = offset
    bad[n, 2] = code
    return bad


@kernel
def _plain_whole(data: Bytes, p: Int) -> tuple[Int, Int]:
    """Digits at p, without any check but for a digit: (value, position behind).  A byte that is none must follow."""
    value = np.uint64(0)
    digit = np.uint64(data[p]) - _ZERO
    while digit < _TEN:  # a smaller byte wraps around to a large number
        value = value * _TEN + digit
        p += _ONE
        digit = np.uint64(data[p]) - _ZERO
    return value, p


@kernel
def _plain_lines(
    data: Bytes, p: Int, line: int, doc: Int, last_doc: Int, n_words: Int, docs: Longs, words: Ints, counts: Array
) -> tuple[Int, Int, Int, Int]:
    """The common case, fast: lines that are just ``digits space digits space digits``, all in range.

    data ends with a line break.  Reads until the first line that is different (its start is returned, for the careful
    reader): (position, line, cells, document).
    """
    n, size, width = np.uint64(0), np.uint64(len(data)), np.uint64(18)
    p, doc, last_doc, n_words = np.uint64(p), np.uint64(doc), np.uint64(last_doc), np.uint64(n_words)
    while p < size:
        number, q = _plain_whole(data, p)
        if q == p or q - p > width or data[q] != 32 or number < doc or number > last_doc:
            break
        r = q + _ONE
        word, q = _plain_whole(data, r)
        if q == r or q - r > width or data[q] != 32 or word - _ONE >= n_words:
            break
        r = q + _ONE
        count, q = _plain_whole(data, r)
        if q == r or q - r > width or data[q] != 10 or count == 0:
            break
        doc = number
        docs[n] = number
        words[n] = word - _ONE
        counts[n] = count
        n += _ONE
        p = q + _ONE
    return np.int64(p), np.int64(line + n), np.int64(n), np.int64(doc)


@kernel
def read_triples(
    data: Bytes,
    first_doc: int,
    last_doc: int,
    n_docs: int,
    n_words: int,
    fields: int,
    real: bool,
    docs: Longs,
    words: Ints,
    counts: Array,
) -> tuple[int, int, Longs]:
    """Lines ``document word count`` (1-based) -> the cells, words 0-based.

    fields: 3, or 2 where there is no count (it is 1); real: counts are decimal numbers.  Documents must ascend within
    first_doc..last_doc; n_docs and n_words: how many there are in the whole file.  Returns (cells, zeros left out,
    bad).
    """
    n, zeros, n_bad, line, p, size = 0, 0, 0, 0, np.int64(0), len(data)
    bad = np.empty((0, 3), np.int64)
    doc_before = np.int64(first_doc)
    plain = fields == 3 and not real and size > 0 and data[size - 1] == 10
    while p < size:
        if plain:
            p, line, more, doc_before = _plain_lines(
                data, p, line, doc_before, last_doc, n_words, docs[n:], words[n:], counts[n:]
            )
            n += more
            if p >= size:
                break
        start = p
        code = 0
        while p < size and _blank(data[p]):
            p += 1
        if p == size or data[p] == 10:
            p += 1
            line += 1
            continue
        doc, word, whole, value, q = _careful_line(data, p, fields, real)
        if q < 0:
            code = NOT_NUMBERS
            q = p
            while q < size and data[q] != 10:
                q += 1
        elif doc < 1 or doc > n_docs:
            code = DOC_RANGE
        elif doc < doc_before or doc > last_doc:
            code = AGAIN
        elif word < 1 or word > n_words:
            code = WORD_RANGE
        elif whole < 0 or value < 0.0 or not value < 3.0e38:
            code = NEGATIVE
        if doc_before <= doc <= last_doc:  # also of a bad line, so that cutting need not look at whole lines
            doc_before = doc
        if code != 0:
            bad = add_bad(bad, n_bad, line, start, code)
            n_bad += 1
        elif whole == 0 or value == 0.0:
            zeros += 1
        else:
            docs[n] = doc
            words[n] = word - 1
            if real:
                counts[n] = value
            else:
                counts[n] = whole
            n += 1
        p = q + 1
        line += 1
    return n, zeros, bad[:n_bad]


@kernel
def _careful_line(data: Bytes, p: int, fields: int, real: bool) -> tuple[Int, Int, Int, Float, Int]:
    """(document, word, whole count, real count, position of the line break); position -1 when it is not numbers,
    document -1 when not even that is one."""
    size = len(data)
    word, whole, value = np.int64(0), np.int64(1), 1.0
    doc, q = read_whole(data, p, size)
    if q < 0 or q >= size or not _blank(data[q]):
        return np.int64(-1), word, whole, value, np.int64(-1)
    while q < size and _blank(data[q]):
        q += 1
    word, q = read_whole(data, q, size)
    if q > 0 and fields == 3:
        if q >= size or not _blank(data[q]):
            return doc, word, whole, value, np.int64(-1)
        while q < size and _blank(data[q]):
            q += 1
        if real:
            value, q = read_real(data, q, size)
        else:
            whole, q = read_whole(data, q, size)
    if q > 0:
        while q < size and _blank(data[q]):
            q += 1
        if q < size and data[q] != 10:
            q = np.int64(-1)
    return doc, word, whole, value, q


@kernel
def last_document(data: Bytes, low: int, high: int, final: bool) -> tuple[int, int, int, int, int]:
    """Where the last document of lines ``document …`` begins, for cutting there.

    A document begins at the first line with a number above all before it; numbers outside low..high do not count, as
    in ``read_triples``.  The part of a line at the end counts only when ``final``.  Returns (offset, the document
    before it, the last document, lines that are not blank before the offset, such lines in all); the offset is 0 when
    there are no two documents, the last one low - 1 when there is none.
    """
    p: Any = 0
    before: Any = np.int64(low - 1)
    top: Any = np.int64(low - 1)
    at, used_before, used, size = 0, 0, 0, len(data)
    if not final:
        while size > 0 and data[size - 1] != 10:
            size -= 1
    ends_plain = size > 0 and data[size - 1] == 10
    seen, mask = np.uint64(0), np.uint64(0)  # how the line before began, up to the blank behind its number
    while p < size:
        start = p
        if mask != 0 and p + WIDE <= size and load8(data, p) & mask == seen:
            breaks = equal(data, p, np.uint8(10))
            if breaks != 0:  # the same document again: nothing but to count the line
                used += 1
                p += first_bit(breaks) + 1
                continue
        number, after = _plain_whole(data, np.uint64(p)) if ends_plain else (np.uint64(0), np.uint64(p))
        digits = np.int64(after) - p
        if 0 < digits <= 18 and data[after] == 32:  # as nearly all lines are
            used += 1
            if digits < 8 and p + 8 <= size:
                mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(8 * (7 - digits))
                seen = load8(data, p) & mask
            if top < np.int64(number) <= high:
                if top >= low:
                    at, before, used_before = start, top, used - 1
                top = np.int64(number)
            while data[after] != 10:
                after += _ONE
            p = np.int64(after) + 1
            continue
        while p < size and _blank(data[p]):
            p += 1
        if p < size and data[p] != 10:
            used += 1
            doc, q = read_whole(data, p, size)
            if q > 0 and q < size and _blank(data[q]) and top < doc <= high:
                if top >= low:
                    at, before, used_before = start, top, used - 1
                top = doc
            while p < size and data[np.uint64(p)] != 10:
                p += 1
        p += 1
    return at, before, top, used_before, used


@kernel
def document_steps(data: Bytes, low: int, high: int, most: int) -> Longs:
    """Where to cut lines ``document …`` so that no part has more than ``most`` documents, empty ones included.

    Returns int64[n, 3]: the offset of a line whose document lies ``most`` or more beyond the first one of its part, the
    number behind the document before it, and that line's own.  Numbers outside low..high and those not above all before
    them do not count, as in ``last_document``.
    """
    steps = np.empty((64, 3), np.int64)
    n, p, size = 0, np.int64(0), len(data)
    first, top = np.int64(low), np.int64(low - 1)
    while p < size:
        start = p
        while p < size and _blank(data[p]):
            p += 1
        if p < size and data[p] != 10:
            doc, q = read_whole(data, p, size)
            if q > 0 and q < size and _blank(data[q]) and top < doc <= high:
                if doc - first >= most:
                    if n == len(steps):
                        more = np.empty((2 * n, 3), np.int64)
                        for i in range(n):
                            more[i, 0], more[i, 1], more[i, 2] = steps[i, 0], steps[i, 1], steps[i, 2]
                        steps = more
                    steps[n, 0], steps[n, 1], steps[n, 2] = start, top + 1, doc
                    n += 1
                    first = doc
                top = doc
            while p < size and data[p] != 10:
                p += 1
        p += 1
    return steps[:n]


@kernel
def order_cells(docs: Longs, words: Ints, counts: Array, first: int, n_docs: int) -> tuple[Longs, int]:
    """Cells with ascending documents -> (indptr int64[n_docs+1], cells): within each document words ascend and are
    unique, the counts of repeated ones summed.  Changes words and counts in place."""
    indptr = np.zeros(n_docs + 1, np.int64)
    n, i, total = 0, 0, len(docs)
    for d in range(n_docs):
        j = i
        tidy = True
        while j < total and docs[j] == first + d:
            if j > i and words[j] <= words[j - 1]:
                tidy = False
            j += 1
        if tidy:
            if n != i:
                for c in range(i, j):
                    words[n + c - i] = words[c]
                    counts[n + c - i] = counts[c]
            n += j - i
        else:
            order = np.argsort(words[i:j], kind="mergesort")
            sorted_words, sorted_counts = words[i:j][order], counts[i:j][order]
            begin = n
            for c in range(j - i):
                if n > begin and sorted_words[c] == words[n - 1]:
                    counts[n - 1] += sorted_counts[c]
                else:
                    words[n] = sorted_words[c]
                    counts[n] = sorted_counts[c]
                    n += 1
        i = j
        indptr[d + 1] = n
    return indptr, n


def why(code: int, n_words: int, last_doc: int) -> str:
    """The reason of a bad line, for messages."""
    reasons: dict[int, Any] = {
        NOT_NUMBERS: "not the numbers 'document word count'",
        DOC_RANGE: f"document number out of range (1 to {last_doc})",
        WORD_RANGE: f"word number out of range ({n_words} words)",
        NEGATIVE: "a count that is negative or not finite",
        AGAIN: "a document out of order; sort the file by document (by row)",
        PAIRS: "not 'number:count' pairs, or not as many as the line says",
        NOT_WHOLE: "a weight that is no count; --weighted accepts it",
    }
    return str(reasons[code])
