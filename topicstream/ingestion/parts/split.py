"""Long documents cut into parts that become documents.

Parts are paragraphs, sections, runs of words, or the text between matches of a pattern.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, UsageError
from topicstream.base.line_ends import with_line_feeds
from topicstream.corpus.vocabulary import string_buffers
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import TEXT, batch_of, content_kind, metadata_of
from topicstream.ingestion.parse.spans import PART_MARK, resolve_spans
from topicstream.ingestion.tokens.recipe import as_pattern
from topicstream.ingestion.tokens.vocabulary import word_array

DOCUMENT = "document"
"""The column with the id of the document that a part was cut from."""
PARTS_BEFORE = "#parts before"
"""Column of a batch whose texts are pieces of longer ones: the number of parts before each."""
CHAPTER = (  # a line by itself, as in the novels of Project Gutenberg
    r"(?<![^\r\n]\n)(?<![^\r\n]\r\n)[ \t]*(?:第[一二三四五六七八九十百千〇零\d]{1,12}[章回卷节節話]"
    r"|(?i:(?:chapter|kapitel|chapitre|cap(?:í|Í|i)tulo|capitolo|hoofdstuk"
    r"|book|volume|part|act|livre|buch|teil"
    r"|глава|Глава|ГЛАВА|часть|Часть|ЧАСТЬ)[ \t]+(?:[ivxlcdm]+|\d+)\b"
    r"|[^\s\d]{4,16}[ \t]+(?:kapitel|teil|buch|partie)\b))[^\n]{0,60}$"
)
HEADING = rb"#{1,6}[ \t]|==[^\n]*==[ \t]*\r?$|\\(?:chapter|(?:sub)*section)\b|" + CHAPTER.encode()
NAMED = {
    "paragraph": re.compile(rb"\n[^\S\n]*\n\s*"),
    "section": re.compile(rb"^(?=" + HEADING + rb")", re.MULTILINE),
    "speech": re.compile(rb"\s*" + PART_MARK.encode() + rb"\s*"),
    "speaker": re.compile(rb"\s*" + PART_MARK.encode() + rb"\s*"),
}


_LENGTH = re.compile(r"(\d+(?:[,. ]\d{3})*)\s*words?", re.IGNORECASE)
_NO_PATTERN = re.compile(r"(\d+)\s*\w*")
"""A length in another unit or language, rather than what lies between parts."""
_SPACE = np.frombuffer(b" \t\n\r\f\v", np.uint8)
_UNSPACED = np.r_[0xE0B8:0xE0BC, 0xE180:0xE183, 0xE19E:0xE1A0, 0xE381:0xE9C0].astype(np.uint16)
"""The first two bytes of Thai and Lao, Myanmar, Khmer, Kana and Han letters in UTF-8."""


def pattern_of(split: str) -> re.Pattern[bytes] | re.Pattern[str] | int:
    """Read ``--split``: a pattern between parts, or the number of words of a part.

    Raises
    ------
    UsageError
        If it is neither.
    """
    if not split:
        raise UsageError(
            "--split: give paragraph, section, '1000 words' or a regular expression; it is empty"
        )
    if length := _LENGTH.fullmatch(split.strip()):
        words = int(re.sub(r"\D", "", length[1]))
        if not words:
            raise UsageError(f"--split {split}: a part needs at least one word")
        return words
    if split in NAMED:
        return NAMED[split]
    if number := _NO_PATTERN.fullmatch(split.strip()):
        raise UsageError(
            f"--split {split}: for parts of that length write '{number[1]} words', to cut "
            f"wherever the text says {split} "
            f"write '\\b{split.strip()}\\b'"
        )
    near = get_close_matches(split.lower(), NAMED, 1, 0.8) if split.isalpha() else []
    if near:
        raise UsageError(
            f"--split {split}: did you mean {near[0]}? (to cut at that word write '\\b{split}\\b')"
        )
    return as_pattern(
        split,
        f"--split {split[:80]!r}: give paragraph, section, '1000 words' or a regular expression",
    )


def cut_documents(
    batch: pa.RecordBatch, options: ReadOptions, notes: Counter[str]
) -> pa.RecordBatch:
    """Cut documents into parts ``id#1``, ``id#2``, ...

    Parts of white space alone are left out, but a document has one part at least.

    Parameters
    ----------
    batch
        Documents of text.
    options
        Options on raw input; ``split`` is set.
    notes
        Receives the number of documents that have only one part.

    Raises
    ------
    InputError
        If the documents are counts, or have fields that refer to whole documents.
    """
    assert options.split is not None
    if content_kind(batch) != "text":
        raise InputError("--split cuts text, but the input contains word counts")
    if "links" in options.meta or batch.column(2).null_count or DOCUMENT in options.meta:
        raise InputError(
            "--split: links, withdrawn records and a field called document refer to whole "
            "documents; leave them out"
        )
    pattern = pattern_of(options.split)
    streamed = PARTS_BEFORE in batch.schema.names
    ends, original = string_buffers(batch.column(2))
    text = original.copy()
    starts: list[int] = []
    ends_of_parts: list[int] = []
    owner: list[int] = []
    for d, (begin, end) in enumerate(pairwise(ends.tolist())):
        raw = with_line_feeds(text[begin:end].tobytes())
        for a, b in find_gaps(raw, pattern):
            text[begin + a : begin + b] = ord(" ")  # a heading between parts is no text
        parts = find_parts(raw, pattern)
        cuts = [begin, *(begin + part for part in parts[1:])]
        starts += cuts
        ends_of_parts += [*cuts[1:], end]
        owner += [d] * len(cuts)
        is_uncut = len(parts) < 2 and not streamed
        notes[f"kept whole: nothing in them to cut by --split {options.split}"] += is_uncut
    numbers = np.arange(len(owner)) - np.searchsorted(owner, owner) + 1
    if streamed:
        numbers += batch.column(PARTS_BEFORE).to_numpy()[owner]
    rows = pa.array(owner, pa.int64())
    document_ids = batch.column(0).take(rows).cast(TEXT)
    sources = batch.column(1).take(rows)
    bounds = np.stack((starts, ends_of_parts), 1) - ends[np.array(owner, np.int64), None]
    of_parts = resolve_spans(batch, np.array(owner), bounds, options.list_separator)
    meta = {
        name: of_parts[name] if name in of_parts else column.take(rows)
        for name, column in metadata_of(batch).items()
        if name != PARTS_BEFORE
    }
    ids = pc.binary_join_element_wise(
        document_ids, pa.array(numbers).cast(TEXT), pa.scalar("#", TEXT)
    )
    content = {"text": word_array(text, np.array([*starts, ends[-1]], np.int64))}
    return batch_of(ids, sources, content, meta | {DOCUMENT: document_ids})


def find_parts(raw: bytes, pattern: re.Pattern[bytes] | re.Pattern[str] | int) -> list[int]:
    """Return the first byte of each part of a document that is more than white space."""
    gaps = [(0, 0), *find_gaps(raw, pattern), (len(raw), len(raw))]
    starts = []
    for (_, start), (stop, _) in pairwise(gaps):
        if raw[start:stop].strip():
            starts.append(start)
    return starts


def find_gaps(
    raw: bytes, pattern: re.Pattern[bytes] | re.Pattern[str] | int
) -> Iterator[tuple[int, int]]:
    """Yield the first byte of each gap between parts of a document, and the one behind it."""
    if isinstance(pattern, int):
        yield from _by_length(raw, pattern)
        return
    if isinstance(pattern.pattern, bytes):
        yield from (m.span() for m in pattern.finditer(raw))
        return
    text = raw.decode()
    character = 0  # end of the last gap, in characters and in bytes
    byte = 0
    for m in pattern.finditer(text):
        begin = byte + len(text[character : m.start()].encode())
        character = m.end()
        byte = begin + len(m.group().encode())
        yield begin, byte


def _by_length(raw: bytes, words: int) -> Iterator[tuple[int, int]]:
    """Yield an empty gap before each run of so many words but the first.

    A character of a script without spaces is one word. A last run of less than half as many words
    stays with the one before.
    """
    starts = find_word_starts(raw)
    cuts = np.arange(words, len(starts) - (words - 1) // 2, words)
    yield from ((cut, cut) for cut in starts[cuts].tolist())


def find_word_starts(raw: bytes) -> np.ndarray:
    """Return the first byte of each word, int64[n]."""
    data = np.frombuffer(raw + b" ", np.uint8)
    in_word = np.isin(data, _SPACE, invert=True)
    begins_word = np.diff(in_word, prepend=False)[:-1] & in_word[:-1]
    is_unspaced = np.isin(data[:-1].astype(np.uint16) << 8 | data[1:], _UNSPACED)
    return np.flatnonzero(is_unspaced | begins_word)
