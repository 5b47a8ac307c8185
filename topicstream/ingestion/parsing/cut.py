"""Cutting a source into pieces at record boundaries, and the columns that most readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Reject, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.kernels.arrays import Bytes
from topicstream.kernels.jit import kernel
from topicstream.machine import format_bytes

LINE_FEED = 10
STEP = 1 << 18


def count_lines(data: bytes | bytearray) -> int:
    """Line breaks in data."""
    return data.count(LINE_FEED)


# a record longer than a piece is read on in steps of its own length, at most this, not copied anew for each piece
GROWTH = 1 << 20

RECORD_BYTES = 32
"""What a record counts for at least when pieces are cut: its id, source and places take memory however short it is."""


def most_records(options: ReadOptions) -> int:
    """Records of one piece."""
    return max(1, options.piece_bytes // RECORD_BYTES)


def last_line_break(data: bytes | bytearray, final: bool) -> int:
    """Where to cut lines: behind the last line break, or at the end when ``final``; 0 when there is no place."""
    return len(data) if final else data.rfind(b"\n") + 1


def cut(
    source: Source,
    options: ReadOptions,
    place: Callable[[bytearray, bool], int],
    *,
    about: Any = None,
    start: bytes = b"",
    line: int = 1,
    count: Callable[[bytearray], int] = count_lines,
    one_line: bool = True,
    by_lines: bool = True,
) -> Iterator[Piece]:
    """Pieces cut where ``place(data, final)`` says (0: no record ends here, read on); of at most ``most_records`` lines
    unless one record has more (``by_lines`` False: of any number).

    ``one_line``: a record is a line; one longer than ``record_bytes`` is rejected and passed over.  Else a record
    without an end within ``record_bytes`` is a BadFile.  ``count`` counts the records of a piece.

    Each piece is read into the bytearray that it is handed on in; only the broken record at its end is copied.
    """
    size = min(options.piece_bytes, options.record_bytes)
    rest: bytes | bytearray = start
    record, final = 0, False
    too_long: tuple[Reject, ...] = ()
    while not final:
        source.line = line
        wanted, had = max(size, min(len(rest), GROWTH)), len(rest)
        if options.room is not None and had + wanted > 2 * options.piece_bytes:
            options.room.ask(2 * (had + wanted), f"{source.name}:{line}: a record of {format_bytes(had)} and more")
        if had < wanted >> 1:
            data = bytearray(had + wanted)
            data[:had] = rest
        else:
            data = rest if isinstance(rest, bytearray) else bytearray(rest)
            data.extend(bytes(wanted))  # a long record grows where it lies
        rest = b""
        got = source.read_into(data, had)
        final = got < wanted
        if final:
            del data[had + got :]
        first = data.find(b"\n") if one_line else -1
        if one_line and (first < 0 or first > options.record_bytes) and len(data) > options.record_bytes:
            reason = f"a record of more than {options.record_bytes >> 20} MiB; split the document or raise the limit"
            too_long += (Reject(source.name, line, reason, bytes(data[:200])),)
            if options.strict:
                yield Piece(source.name, source.key, None, line, record, about, too_long)
                return
            rest, final = _past_line(source, data, size)
            line += 1
            continue
        end = place(data, final and not source.damage)
        if end == 0 and not final:
            if len(data) > max(options.record_bytes, size):
                reason = f"no record ends within {options.record_bytes >> 20} MiB"
                raise BadFile(source.name, line, reason)
            rest = data
            continue
        rest = data[end:]
        if end:
            del data[end:]
            for part in _of_few_lines(data, most_records(options), place) if by_lines else (data,):
                lines = count_lines(part)
                yield Piece(source.name, source.key, part, line, record, about, too_long)
                too_long = ()
                line += lines
                record += lines if count is count_lines else count(part)
    if source.damage is not None:
        source.damage = replace(source.damage, line=line, start=bytes(rest[:200]))
    if too_long:
        yield Piece(source.name, source.key, None, line, record, about, too_long)


@kernel
def _behind_lines(data: Bytes, at: int, lines: int) -> int:
    """The place behind the next ``lines`` line breaks from ``at`` on; the end where there are fewer."""
    while at < len(data):
        if data[at] == 10:
            lines -= 1
            if lines == 0:
                return at + 1
        at += 1
    return at


def _of_few_lines(data: bytearray, most: int, place: Callable[[bytearray, bool], int]) -> Iterator[bytearray]:
    """Whole records in parts of at most ``most`` lines, and more where a record has more."""
    if count_lines(data) <= most:
        yield data
        return
    at, view = 0, as_array(data)
    while at < len(data):
        stop, end = at, at
        while end == at:
            stop = int(_behind_lines(view, stop, most))
            end = stop if stop == len(data) else at + place(data[at:stop], False)
        yield data[at:end]
        at = end


def _past_line(source: Source, data: bytes | bytearray, size: int) -> tuple[bytes | bytearray, bool]:
    while (at := data.find(b"\n")) < 0:
        data = source.read(size)
        if not data:
            return b"", True
    return data[at + 1 :], False


def as_array(data: bytes | bytearray) -> np.ndarray:
    """bytes -> uint8[n], no copy, read-only (so that kernels are compiled once)."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


def find_byte(data: np.ndarray, byte: int) -> np.ndarray:
    """int64[]: where a byte stands in uint8[n]; in steps, for what compares them takes as much as they do."""
    parts = [np.flatnonzero(data[at : at + STEP] == byte) + at for at in range(0, len(data), STEP)]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def lines_of(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """uint8[n] -> starts and ends int64[L] of the lines, without their line break and carriage return."""
    ends = find_byte(data, LINE_FEED)
    if len(data) and data[-1] != LINE_FEED:
        ends = np.append(ends, np.int64(len(data)))
    starts = np.empty_like(ends)
    if len(ends):
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
        ends = ends - ((ends > starts) & (data[np.maximum(ends - 1, 0)] == 13))
    return starts, ends


def strings(text: np.ndarray, offsets: np.ndarray) -> pa.LargeStringArray:
    """uint8[B] and int64[D+1] as an Arrow array, no copy and no check."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))


def not_utf8(text: np.ndarray, offsets: np.ndarray) -> dict[int, str]:
    """The documents that are not valid UTF-8: position -> why.  Empty, and quick, when all are."""
    try:
        strings(text, offsets).validate(full=True)
        return {}
    except pa.ArrowInvalid:
        pass
    bad = {}
    for d in range(len(offsets) - 1):
        try:
            text[offsets[d] : offsets[d + 1]].tobytes().decode()
        except UnicodeDecodeError as e:
            bad[d] = f"not valid UTF-8 (byte 0x{e.object[e.start]:02x}); give --encoding, latin-1 perhaps"
    return bad


def positions(name: str, numbers: np.ndarray, mark: str = ":") -> pa.Array:
    """``name:number`` for each number, large_string[D]."""
    text = pc.cast(pa.array(numbers), pa.large_string())
    return pc.binary_join_element_wise(pa.scalar(name, pa.large_string()), text, pa.scalar(mark, pa.large_string()))


def reject_lines(
    rejects: Rejects, piece: Piece, data: np.ndarray, starts: np.ndarray, ends: np.ndarray, bad: dict[int, str]
) -> np.ndarray:
    """Report the bad lines in order; bool[L], True for those to keep."""
    keep = np.ones(len(starts), np.bool_)
    for d in sorted(bad):
        keep[d] = False
        rejects.add(piece.name, piece.line + d, bad[d], data[starts[d] : min(ends[d], starts[d] + 200)].tobytes())
    return keep
