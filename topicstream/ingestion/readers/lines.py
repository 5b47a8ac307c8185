"""Text with one document a line.  An empty line is an empty document; the id is ``file:line``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.opening.western import western_records
from topicstream.ingestion.parsing.cut import (
    as_array,
    cut,
    last_line_break,
    lines_of,
    not_utf8,
    positions,
    reject_lines,
)
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.kernels.spans import copy_spans
from topicstream.tokens.documents import Provenance, TextRun


class Lines:
    name = "lines"
    kind = "text"
    about = "text, one document a line"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        return cut(source, options, last_line_break)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        data = as_array(piece.data)
        starts, ends = lines_of(data)
        numbers = piece.line + np.arange(len(starts), dtype=np.int64)
        text, offsets = copy_spans(data, starts, ends)
        if bad := not_utf8(text, offsets):
            spans = [(int(starts[d]), int(ends[d])) for d in sorted(bad)]
            if (mended := western_records(piece, spans, options, rejects)) is not None:
                run, more = self.parse(mended, options)
                more.notes.update(rejects.notes)
                return run, more
            keep = reject_lines(rejects, piece, data, starts, ends, bad)
            numbers = numbers[keep]
            text, offsets = copy_spans(data, starts[keep], ends[keep])
        about = Provenance(ids=positions(piece.key, numbers), source=positions(piece.key, numbers))
        return TextRun(about, text, offsets), rejects


READER = Lines()
