"""Texts of any length, cut into parts as they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parts.split import (
    find_gaps,
    find_parts,
    find_word_starts,
    pattern_of,
)

MARGIN = 64 << 10
"""Bytes before the end of what was read in which a match may still grow."""


class TooLong(ValueError):
    """A part that is longer than a document may be."""


def stream_parts(
    read: Callable[[int], bytes], options: ReadOptions, change: Callable[[bytes], bytes]
) -> Iterator[tuple[int, bytes]]:
    """Read a text in pieces that end where a part ends.

    The parts are those of the whole text.

    Parameters
    ----------
    read
        Returns so many bytes of the text, fewer only at its end.
    options
        Say where the text is cut.
    change
        Takes out of a piece what is no text.

    Yields
    ------
    tuple
        How many parts lie before the piece, and the piece.

    Raises
    ------
    TooLong
        For a part of more than ``record_bytes``.
    """
    assert options.split is not None
    pattern = pattern_of(options.split)
    step = min(options.piece_bytes, options.record_bytes)
    rest = b""
    before = 0
    while True:
        wanted = max(step, len(rest))
        data = read(wanted)
        buffer = rest + data
        if len(data) < wanted:
            piece = change(buffer)
            if piece.strip() or not before:
                yield before, piece
            return
        end, begin = _find_last_gap(buffer, pattern, min(MARGIN, step // 2))
        if not end:
            if len(buffer) > options.record_bytes:
                raise TooLong
            rest = buffer
            continue
        piece = change(buffer[:end])
        rest = buffer[begin:]
        parts = len(find_parts(piece, pattern))
        if parts:
            yield before, piece
        before += parts


def _find_last_gap(
    text: bytes, pattern: re.Pattern[bytes] | re.Pattern[str] | int, margin: int
) -> tuple[int, int]:
    """Find the last place where a text is cut whatever follows, (0, 0) where there is none."""
    if isinstance(pattern, int):
        starts = find_word_starts(text)
        number = max(0, len(starts) // pattern - 2) * pattern
        place = int(starts[number]) if number else 0
        return place, place
    whole_lines = text[: text.rfind(b"\n") + 1]
    last = (0, 0)
    for begin, end in find_gaps(whole_lines, pattern):
        if end > len(whole_lines) - margin:
            break
        if begin:
            last = begin, end
    return last
