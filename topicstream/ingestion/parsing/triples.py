"""What the formats with one cell a line share: cutting at documents, parsing, empty documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cells import document_steps, last_document, order_cells, read_triples, why
from topicstream.ingestion.parsing.cut import as_array, count_lines, cut, most_records, positions
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.parsing.vocabulary import numbered_words, words_for
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import CountRun, Provenance


@dataclass(frozen=True)
class MatrixHeader:
    """D, W and NNZ as the file says; fields a line; real counts; documents first..last of one piece."""

    documents: int
    words: int
    cells: int
    fields: int = 3
    real: bool = False
    first: int = 1
    last: int = 0


def check_header(name: str, line: int, header: MatrixHeader) -> None:
    """BadFile when the sizes cannot be true."""
    if header.words >= 2**31:
        raise BadFile(name, line, f"{header.words} words; at most 2147483647 are possible")
    if header.cells > header.documents * header.words:
        raise BadFile(name, line, f"{header.cells} cells do not fit {header.documents} x {header.words}")
    if header.documents > 1_000_000 + 100 * header.cells:
        raise BadFile(name, line, f"{header.documents} documents for {header.cells} cells; is the header right?")


def split_triples(source: Source, options: ReadOptions, header: MatrixHeader, rest: bytes, line: int) -> Iterator[Piece]:
    """Pieces that end where the document changes, each knowing its documents; the number of cells is checked."""
    done, cells = 0, 0
    found = (0, 0)  # of the piece about to come: its last document, its cells

    def place(data: bytearray, final: bool) -> int:
        nonlocal found
        at, before, last, used_before, used = last_document(as_array(data), done + 1, header.documents, final)
        found = (last, used) if final else (before, used_before)
        return len(data) if final else int(at)

    most = most_records(options)

    def parts(piece: Piece, first: int, last: int) -> Iterator[Piece]:
        """The documents first..last of a piece, at most ``most`` at a time."""
        at, line, steps = 0, piece.line, ((len(piece.data), last + 1, last + 1),)
        if last - first >= most:
            steps = (*document_steps(as_array(piece.data), first, last, most).tolist(), *steps)
        for end, following, begins in steps:
            # the documents up to the one that ended before ``end``, then those without a cell up to ``begins``
            data = piece.data if end - at == len(piece.data) else piece.data[at:end]
            if following > first or data:
                about = replace(header, first=first, last=following - 1)
                yield replace(piece, data=data, line=line, record=first - 1, about=about)
            line += count_lines(data)
            yield from empty(following, begins - 1, line)
            at, first = end, begins

    def empty(first: int, last: int, line: int) -> Iterator[Piece]:
        for at in range(first, last + 1, most):
            end = min(at + most - 1, last)
            yield Piece(source.name, source.key, b"", line, at - 1, replace(header, first=at, last=end))

    for piece in cut(source, options, place, start=rest, line=line, by_lines=False):
        line = piece.line
        if piece.data is None:
            yield piece
            continue
        last, used = found
        cells += used
        line += count_lines(piece.data)
        yield from parts(piece, done + 1, last)
        done = last
    if source.damage is not None:
        return
    # before the documents without a cell at the end: a header of a few bytes may speak of billions
    if cells != header.cells:
        reason = f"{cells} cells where the header says {header.cells}; the file is cut short or its header wrong"
        raise BadFile(source.name, line, reason)
    yield from empty(done + 1, header.documents, line)


def parse_triples(piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
    """The documents first..last of a piece, those without a cell included."""
    rejects = Rejects()
    h: MatrixHeader = piece.about
    data = as_array(piece.data)
    most = count_lines(piece.data) + 1
    docs = np.empty(most, np.int64)
    words = np.empty(most, np.int32)
    counts = np.empty(most, np.float32 if h.real else np.int64)
    n, zeros, bad = read_triples(data, h.first, h.last, h.documents, h.words, h.fields, h.real, docs, words, counts)
    for at, offset, code in bad.tolist():
        start = piece.data[offset : offset + 200].split(b"\n")[0]
        rejects.add(piece.name, piece.line + at, why(code, h.words, h.documents), start)
    if zeros:
        rejects.notes["cells of count zero left out"] += int(zeros)
    n_docs = h.last - h.first + 1
    indptr, n = order_cells(docs[:n], words, counts, h.first, n_docs)
    numbers = np.arange(h.first, h.first + n_docs, dtype=np.int64)
    about = Provenance(ids=positions(piece.key, numbers), source=positions(piece.key, numbers, "#"))
    return CountRun(about, indptr, words[:n].copy(), counts[:n].copy()), rejects


class TripleReader:
    """A reader whose file begins with a header of sizes, in ASCII, and goes on with one cell a line."""

    kind: Literal["counts"] = "counts"

    def header(self, source: Source) -> tuple[MatrixHeader, int]:
        """The sizes and the length of the header in bytes; BadFile when there is none."""
        raise NotImplementedError

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        header, _ = self.header(source)
        found = words_for(source, options, header.words)
        return numbered_words(source, header.words, 1, options) if found is None else found

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        header, size = self.header(source)
        start = source.read(size)
        return split_triples(source, options, header, b"", 1 + start.count(b"\n"))

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        return parse_triples(piece, options)
