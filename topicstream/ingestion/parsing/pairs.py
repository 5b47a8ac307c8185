"""What the formats with one document a line of ``number:count`` pairs share (LDA-C, svmlight)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cells import (
    NEGATIVE,
    NOT_WHOLE,
    PAIRS,
    WORD_RANGE,
    add_bad,
    order_cells,
    read_real,
    read_whole,
    why,
)
from topicstream.ingestion.parsing.cut import as_array, cut, last_line_break, lines_of, positions
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.parsing.vocabulary import numbered_words, words_for
from topicstream.ingestion.read_options import ReadOptions
from topicstream.kernels.arrays import Array, Bytes, Int, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.tokens.documents import CountRun, Provenance


@kernel
def _skip(data: Bytes, p: int, end: int) -> int:
    while p < end and (data[p] == 32 or data[p] == 9):
        p += 1
    return p


@kernel
def read_pairs(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    ldac: bool,
    first: int,
    n_words: int,
    whole: bool,
    docs: Longs,
    words: Ints,
    counts: Array,
    rows: Longs,
    labels: Longs,
) -> tuple[int, int, int, Longs]:
    """Lines of pairs -> cells.

    ldac: a line begins with the number of its pairs, else with a label (svmlight: ``qid:`` and ``# …`` passed over).
    first: the number of word 0.  whole: only whole weights.  rows int64[L] and labels int64[L, 2]: line and label span
    of each document.  docs int64, words int32, counts: room for all pairs.  Returns (documents, cells, zeros, bad).
    """
    n_docs, n, zeros, n_bad = 0, 0, 0, 0
    bad = np.empty((0, 3), np.int64)
    for i in range(len(starts)):
        p, end = _skip(data, starts[i], ends[i]), ends[i]
        if p >= end or (not ldac and data[p] == 35):
            continue
        begin, zeros_before, code, pairs = n, zeros, 0, np.int64(0)
        promised = np.int64(-1)
        labels[n_docs, 0] = p
        if ldac:
            promised, p = read_whole(data, p, end)
            if p < 0:
                code = PAIRS
        else:
            while p < end and data[p] != 32 and data[p] != 9:
                p += 1
        labels[n_docs, 1] = p
        while code == 0:
            q = _skip(data, p, end)
            if q >= end or (not ldac and data[q] == 35):
                break
            if q == p:
                code = PAIRS
                break
            if not ldac and q + 4 <= end and data[q] == 113 and data[q + 1] == 105 and data[q + 2] == 100:
                p = q
                while p < end and data[p] != 32 and data[p] != 9:
                    p += 1
                continue
            word, p = read_whole(data, q, end)
            if p < 0 or p >= end or data[p] != 58:
                code = PAIRS
                break
            value, p = read_real(data, p + 1, end)
            if p < 0:
                code = PAIRS
                break
            pairs += 1
            if word < first or word - first >= n_words:
                code = WORD_RANGE
            elif value < 0.0 or not value < 3.0e38:
                code = NEGATIVE
            elif whole and (value > 9.0e15 or value != np.floor(value)):
                code = NOT_WHOLE
            elif value == 0.0:
                zeros += 1
            else:
                docs[n] = n_docs
                words[n] = word - first
                counts[n] = value
                n += 1
        if code == 0 and ldac and pairs != promised:
            code = PAIRS
        if code != 0:
            bad = add_bad(bad, n_bad, i, starts[i], code)
            n_bad += 1
            n, zeros = begin, zeros_before
        else:
            rows[n_docs] = i
            n_docs += 1
    return n_docs, n, zeros, bad[:n_bad]


@kernel
def highest_number(data: Bytes) -> Int:
    """The highest whole number that stands before a colon, -1 when there is none."""
    highest = np.int64(-1)
    for p in range(len(data)):
        if data[p] == 58:
            q = p
            while q > 0 and 48 <= data[q - 1] <= 57:
                q -= 1
            if q < p and (q == 0 or data[q - 1] == 32 or data[q - 1] == 9):
                value, after = read_whole(data, q, p)
                if after == p:
                    highest = max(highest, value)
    return highest


def words_of_pairs(source: Source, options: ReadOptions, first: int) -> pa.LargeStringArray:
    """The vocabulary given or beside the file; else numbers up to the highest, for which the file is read once."""
    found = words_for(source, options, None)
    if found is not None:
        return found
    if source.path is None:
        raise InputError("standard input has no file of its words beside it; give it as --words")
    highest = -1
    with Source(source.name, source.path, encoding=options.encoding, keep_going=True) as again:
        for piece in cut(again, options, last_line_break):
            if piece.data is not None:
                highest = max(highest, int(highest_number(as_array(piece.data))))
    return numbered_words(source, highest - first + 1, first, options)


def parse_pairs(piece: Piece, options: ReadOptions, *, ldac: bool) -> tuple[CountRun, Rejects]:
    """The documents of some lines; ``piece.about`` is (number of words, number of the first)."""
    rejects = Rejects()
    n_words, first = piece.about
    data = as_array(piece.data)
    starts, ends = lines_of(data)
    most = int(np.count_nonzero(data == 58))
    weighted = options.weighted and not ldac
    docs = np.empty(most, np.int64)
    words = np.empty(most, np.int32)
    counts = np.empty(most, np.float32 if weighted else np.int64)
    rows = np.empty(len(starts), np.int64)
    labels = np.empty((len(starts) + 1, 2), np.int64)
    n_docs, n, zeros, bad = read_pairs(
        data, starts, ends, ldac, first, n_words, not weighted, docs, words, counts, rows, labels
    )
    for at, offset, code in bad.tolist():
        start = piece.data[offset : min(ends[at], offset + 200)]
        rejects.add(piece.name, piece.line + at, why(code, n_words, 0), start)
    if zeros:
        rejects.notes["cells of count zero left out"] += int(zeros)
    indptr, n = order_cells(docs[:n], words, counts, 0, n_docs)
    numbers = rows[:n_docs] + piece.line
    meta = {}
    if not ldac:
        found = [_labels(data[a:b].tobytes()) for a, b in labels[:n_docs].tolist()]
        meta["labels"] = pa.array(found, pa.list_(pa.large_string()))
    about = Provenance(positions(piece.key, numbers), positions(piece.key, numbers), meta)
    return CountRun(about, indptr, words[:n].copy(), counts[:n].copy()), rejects


def _labels(raw: bytes) -> list[str]:
    return [label for label in raw.decode("utf-8", "replace").split(",") if label]
