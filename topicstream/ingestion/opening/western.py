"""Text that is not UTF-8 although nobody named an encoding: read as windows-1252, the encoding of old Western text and of
Excel's CSV, where it looks like that.  Decided record by record, so that what is UTF-8 stays what it is; always told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.read_options import ReadOptions

NOTE = "not UTF-8, read as windows-1252 (--encoding says otherwise)"
MOST_HIGH = 0.25
"""Share of the bytes that are no ASCII: in Western text under a tenth; in Cyrillic, Greek or Chinese bytes the most."""
_HIGH = re.compile(rb"[\x80-\xff]")
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d\0]")


def western(data: bytes) -> bytes | None:
    """Bytes that are not UTF-8 as UTF-8, taken for windows-1252; None where they look like another encoding, like damaged
    UTF-8 (more whole characters in it than broken ones), or like no text."""
    high = len(_HIGH.findall(data))
    if not high or high > MOST_HIGH * len(data) or _UNDEFINED.search(data):
        return None
    decoded = data.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= c <= "\udcff" for c in decoded)
    whole = sum(c > "\x7f" for c in decoded) - broken
    return None if whole >= broken else data.decode("cp1252").encode()


def western_records(
    piece: Piece, spans: Iterable[tuple[int, int]], options: ReadOptions, rejects: Rejects
) -> Piece | None:
    """The piece with those of its records ``spans`` (bytes of ``piece.data``, in order) that look like windows-1252 in
    UTF-8; None where there are none, or where an encoding was named."""
    if options.encoding is not None:
        return None
    parts, at, found = [], 0, 0
    for start, end in spans:
        if (text := western(bytes(piece.data[start:end]))) is not None:
            parts += [piece.data[at:start], text]
            at, found = end, found + 1
    if not found:
        return None
    rejects.notes[f"documents {NOTE}"] += found
    return replace(piece, data=bytearray().join([*parts, piece.data[at:]]))
