"""Cutting a source into lines, a bounded number of bytes and lines at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.read_options import ReadOptions

RECORD_BYTES = 32
"""What a record counts for at least: its id, source and places take memory however short it is."""


def most_records(options: ReadOptions) -> int:
    """Records of one piece."""
    return max(1, options.piece_bytes // RECORD_BYTES)


def lines_of(
    source: Source, options: ReadOptions, first: int = 1
) -> Iterator[tuple[np.ndarray, list[bytes]]]:
    """The lines of a source in pieces of about ``piece_bytes``.

    Lines longer than ``record_bytes`` are rejected.  Behind the damage of an archive the last line
    is left out.

    Parameters
    ----------
    first
        Number of the first line that will be read.

    Yields
    ------
    tuple
        Numbers int64[n] and the lines, without their line break and carriage return.
    """
    rest = b""
    while True:
        source.line = first
        data = source.read(
            max(options.piece_bytes, len(rest))
        )  # a long line is read in steps of its own length
        lines = (rest + data).split(b"\n")
        rest = lines.pop()
        if not data and rest and not source.damage:
            lines.append(rest)
        if len(rest) > options.record_bytes:
            lines.append(rest)
            rest = _behind_line(source, options)
        yield from _short_lines(source, options, lines, first)
        first += len(lines)
        if not data:
            return


def _behind_line(source: Source, options: ReadOptions) -> bytes:
    """What follows the line break at the end of a line too long to be held."""
    while (data := source.read(options.piece_bytes)) and b"\n" not in data:
        pass
    return data.partition(b"\n")[2]


def _short_lines(
    source: Source, options: ReadOptions, lines: list[bytes], first: int
) -> Iterator[tuple[np.ndarray, list[bytes]]]:
    numbers = np.arange(first, first + len(lines), dtype=np.int64)
    if max(map(len, lines), default=0) > options.record_bytes:
        for number, line in zip(numbers.tolist(), lines):
            if len(line) > options.record_bytes:
                limit = f"a record of more than {options.record_bytes >> 20} MiB"
                source.reject(number, f"{limit}; split the document or raise the limit", line)
        short = [i for i, line in enumerate(lines) if len(line) <= options.record_bytes]
        numbers, lines = numbers[short], [lines[i] for i in short]
    step = most_records(options)
    for start in range(0, len(lines), step):
        part = lines[start : start + step]
        yield numbers[start : start + step], [line.removesuffix(b"\r") for line in part]
