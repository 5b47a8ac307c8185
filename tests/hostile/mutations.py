"""Mutated files for hypothesis: a valid one with a few changes, and what is promised of whoever
reads it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topicstream.base.errors import TopicsError
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import content_kind, document_cells
from topicstream.ingestion.parts.tasks import pieces

MANY = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
NUMBERS = [
    b"0",
    b"-1",
    b"4294967296",
    b"9223372036854775808",
    b"99999999999999999999999",
    b"1e309",
    b"nan",
    b"0.5",
    b"",
    b"1_000",
]
BYTES = [
    b"\x00",
    b"\xff",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b'"',
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\\",
    b"<",
    b">",
    b"&",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    "\u2028".encode(),
    "\U0001f600".encode(),
]
TEXTS = [
    "the quick brown fox",
    "über straße, 東京 2021",
    "",
    'he said "no", then',
    "one\nline two",
    "a\tb\tc",
    "x" * 300,
]


@st.composite
def mutated(
    draw: Any, seeds: list[bytes], words: list[bytes] = BYTES, most: int = 1 << 16
) -> bytes:
    """One of the seeds with one to six changes; words: of the format, to be put in."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        kind = draw(st.integers(0, 7))
        if kind == 0 and start < len(data):
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == 1:
            data[start : start + draw(st.sampled_from((0, 1, 4)))] = draw(st.sampled_from(BYTES))
        elif kind == 2:
            data[start : start + draw(st.sampled_from((0, 4, 12)))] = draw(st.sampled_from(words))
        elif kind == 3:
            del data[start : start + draw(st.sampled_from((1, 8, 64, 1024)))]
        elif kind == 4:
            del data[start:]
        elif kind == 5:
            data[start:start] = bytes(
                data[start : start + draw(st.sampled_from((1, 32, 256)))]
            ) * draw(st.sampled_from((1, 16, 200)))
        elif kind == 6 and (numbers := list(re.finditer(rb"-?\d+", bytes(data[: 1 << 14])))):
            number = draw(st.sampled_from(numbers))
            data[number.start() : number.end()] = draw(st.sampled_from(NUMBERS))
        else:
            data[start : start + 4] = struct.pack(
                "<I", draw(st.sampled_from((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)))
            )
        del data[most:]
    return bytes(data)


def one_line(error: TopicsError) -> None:
    """An error of ours is one line."""
    assert str(error) and "\n" not in str(error)


def answers_or_refuses(use: Callable[[], object]) -> None:
    """Whatever is read: an answer, or an error of ours in one line."""
    try:
        use()
    except TopicsError as e:
        one_line(e)


def read(path: Path, options: ReadOptions) -> None:
    """Read all documents and hold what comes out to what is promised."""
    for task in pieces(path, options):
        batch, _ = task.run()
        batch.validate(full=True)
        assert len(batch.to_pylist()) == len(batch)
        assert all("\n" not in r.reason for r in task.rejects.records)
        if content_kind(batch) != "text":
            indptr, words, counts = document_cells(batch)
            assert indptr[0] == 0 and indptr[-1] == len(words) == len(counts)
            assert (np.diff(indptr) >= 0).all() and np.isfinite(counts).all()
            assert content_kind(batch) == "vector" or (counts > 0).all()
            assert len(words) == 0 or (words.min() >= 0 and words.max() < len(task.words))


def readable(place: Path, data: bytes, on_error: str, piece_bytes: int, **options: Any) -> None:
    """Write the file and read it."""
    place.write_bytes(data)
    answers_or_refuses(
        lambda: read(place, ReadOptions(on_error=on_error, piece_bytes=piece_bytes, **options))
    )  # type: ignore[arg-type]


def valid(place: Path, seeds: list[bytes], **options: Any) -> None:
    """The seeds themselves are read without an error, so that mutations are of something."""
    for seed in seeds:
        place.write_bytes(seed)
        read(place, ReadOptions(on_error="skip", **options))


ON_ERROR = st.sampled_from(["skip", "fail"])
PIECES = st.sampled_from([256, 4096, 1 << 17])


def check_mutations(
    path: Path, seeds: list[bytes], words: list[bytes], options: dict[str, Any]
) -> None:
    """The seeds are read, and so are changed ones, or refused in one line.

    words: of the format, to be put in.
    """
    valid(path, seeds, **options)

    @MANY
    @given(mutated(seeds, [*words, *BYTES]), ON_ERROR, PIECES)
    def check(data: bytes, on_error: str, piece_bytes: int) -> None:
        readable(path, data, on_error, piece_bytes, **options)

    check()
