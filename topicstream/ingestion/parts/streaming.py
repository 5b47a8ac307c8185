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
    """A part is longer than a document may be."""


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
        Options on raw input; ``split`` says where the text is cut.
    change
        Removes boilerplate from a piece.

    Yields
    ------
    before, piece
        The number of parts before the piece, and the piece.

    Raises
    ------
    TooLong
        If a part has more than ``record_bytes``.
    """
    assert options.split is not None
    pattern = pattern_of(options.split)
    step = min(options.piece_bytes, options.record_bytes)
    unread = b""  # bytes that belong to the next piece
    before = 0
    while True:
        size = max(step, len(unread))
        data = read(size)
        buffer = unread + data
        if len(data) < size:
            piece = change(buffer)
            if piece.strip() or not before:
                yield before, piece
            return
        end, begin = _find_last_gap(buffer, pattern, min(MARGIN, step // 2))
        if not end:
            if len(buffer) > options.record_bytes:
                raise TooLong
            unread = buffer
            continue
        piece = change(buffer[:end])
        unread = buffer[begin:]
        parts = len(find_parts(piece, pattern))
        if parts:
            yield before, piece
        before += parts


def _find_last_gap(
    text: bytes, pattern: re.Pattern[bytes] | re.Pattern[str] | int, margin: int
) -> tuple[int, int]:
    """Find the last gap of a text that stays whatever follows, or return (0, 0)."""
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
