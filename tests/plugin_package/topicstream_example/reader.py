"""Text whose documents are paragraphs: an empty line ends one.  Files called ``*.para`` are known by their name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cut import cut, positions
from topicstream.ingestion.parsing.reader import Piece, ReadOptions
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.tokens.documents import Provenance, TextRun


def end_of_paragraph(data: bytes | bytearray, final: bool) -> int:
    """Where to cut: behind the last empty line, 0 when there is none yet."""
    return len(data) if final else data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0


class Paragraphs:
    """``split`` cuts in one thread, ``parse`` runs in many."""

    name = "paragraphs"
    kind: Literal["text", "counts"] = "text"
    about = "text, a document a paragraph"
    suffixes = (".para",)

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        return cut(source, options, end_of_paragraph, one_line=False)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        found, line = [], piece.line
        for paragraph in bytes(piece.data).decode("utf-8", "replace").split("\n\n"):
            if paragraph.strip():
                found.append((line, paragraph.encode()))
            line += paragraph.count("\n") + 2
        at = positions(piece.key, np.array([n for n, _ in found], np.int64))
        offsets = np.cumsum([0, *(len(text) for _, text in found)], dtype=np.int64)
        text = np.frombuffer(b"".join(text for _, text in found), np.uint8)
        return TextRun(Provenance(ids=at, source=at), text, offsets), Rejects()


PARAGRAPHS = Paragraphs()
