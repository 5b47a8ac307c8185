"""MALLET's lines: ``id label text``, separated by blanks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cut import (
    as_array,
    cut,
    last_line_break,
    lines_of,
    not_utf8,
    positions,
    reject_lines,
    strings,
)
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.kernels.arrays import Bytes, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.spans import copy_spans
from topicstream.tokens.documents import Provenance, TextRun


@kernel
def three_parts(data: Bytes, starts: Longs, ends: Longs, spans: Longs) -> None:
    """The id, label and text of each line into spans int64[L, 3, 2]; a part that is missing begins at -1."""
    for i in range(len(starts)):
        p, end = starts[i], ends[i]
        for part in range(3):
            while p < end and (data[p] == 32 or data[p] == 9):
                p += 1
            spans[i, part, 0] = p if p < end else -1
            if part < 2:
                while p < end and data[p] != 32 and data[p] != 9:
                    p += 1
            else:
                p = end
            spans[i, part, 1] = p if spans[i, part, 0] >= 0 else -1


class Mallet:
    name = "mallet"
    kind = "text"
    about = "MALLET's lines: id, label, text"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        return cut(source, options, last_line_break)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        data = as_array(piece.data)
        starts, ends = lines_of(data)
        spans = np.empty((len(starts), 3, 2), np.int64)
        three_parts(data, starts, ends, spans)
        filled = spans[:, 0, 0] >= 0
        short = np.flatnonzero(filled & (spans[:, 1, 0] < 0)).tolist()
        bad = {i: "not 'id label text'; give --format lines for text alone" for i in short}
        bad.update(not_utf8(*copy_spans(data, starts, ends)))
        keep = np.flatnonzero(filled & reject_lines(rejects, piece, data, starts, ends, bad))
        ids, labels, text = (copy_spans(data, spans[keep, part, 0], spans[keep, part, 1]) for part in range(3))
        one_each = pa.array(np.arange(len(keep) + 1, dtype=np.int32))
        about = Provenance(
            ids=strings(*ids),
            source=positions(piece.key, keep + piece.line),
            meta={"labels": pa.ListArray.from_arrays(one_each, strings(*labels))},
        )
        return TextRun(about, *text), rejects


READER = Mallet()
