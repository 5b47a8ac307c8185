"""Long documents cut into parts that become documents: paragraphs, sections, or what stands between matches of a pattern."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.errors import InputError, UsageError
from topicstream.ingestion.parsing.documents import Run
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import Provenance, TextRun
from topicstream.tokens.recipe import as_pattern

DOCUMENT = "document"
"""The column of a part with the id of the document that it is of."""
HEADING = rb"#{1,6}[ \t]|==[^\n]*==[ \t]*\r?$|\\(?:chapter|(?:sub)*section)\b"
NAMED = {
    "paragraph": re.compile(rb"\n[^\S\n]*\n\s*"),
    "section": re.compile(rb"^(?=" + HEADING + rb")", re.MULTILINE),
}


_LENGTH = re.compile(r"(\d+) words?")
_WORD = re.compile(rb"\S+")


def pattern_of(split: str) -> re.Pattern[bytes] | re.Pattern[str] | int:
    """What ``--split`` says: a pattern of what lies between parts, or their words.  UsageError."""
    if not split:
        raise UsageError("--split: give paragraph, section, '1000 words' or a regular expression; it is empty")
    if length := _LENGTH.fullmatch(split.strip()):
        if not int(length[1]):
            raise UsageError(f"--split {split}: a part has a word or more")
        return int(length[1])
    if split in NAMED:
        return NAMED[split]
    if split.strip().isdecimal():
        raise UsageError(
            f"--split {split}: for parts of that length write '{split.strip()} words', to cut wherever the text says {split} "
            f"write '\\b{split.strip()}\\b'"
        )
    return as_pattern(split, f"--split {split[:80]!r}: give paragraph, section, '1000 words' or a regular expression")


def in_parts(run: Run, options: ReadOptions, notes: Counter[str]) -> Run:
    """The parts of a run's documents, as documents ``id#1``, ``id#2``, ...; parts of white space alone are left out, but a
    document has one part at least.  ``notes`` counts those that have one."""
    assert options.split is not None
    if "links" in options.meta or run.about.deleted is not None or DOCUMENT in options.meta:
        raise InputError(
            "--split: links, withdrawn records and a field called document refer to whole documents; leave them out"
        )
    if not isinstance(run, TextRun):
        raise InputError("--split cuts text, but the input contains word counts")
    pattern, text = pattern_of(options.split), run.text.copy()
    starts: list[int] = []
    owner: list[int] = []
    for d in range(len(run)):
        begin, end = int(run.offsets[d]), int(run.offsets[d + 1])
        raw = text[begin:end].tobytes()
        gaps = [(0, 0), *_between(raw, pattern), (len(raw), len(raw))]
        for a, b in gaps:
            text[begin + a : begin + b] = ord(" ")
        some = [b for (_, b), (a, _) in pairwise(gaps) if raw[b:a].strip()]
        starts += [begin, *(begin + b for b in some[1:])]
        owner += [d] * max(len(some), 1)
        notes[f"documents in which --split {options.split} found nothing to cut"] += len(some) < 2
    offsets = np.array([*starts, run.offsets[-1]], np.int64)
    return replace(run, about=_about(run.about, np.array(owner, np.int64)), text=text, offsets=offsets)


def _between(raw: bytes, pattern: re.Pattern[bytes] | re.Pattern[str] | int) -> Iterator[tuple[int, int]]:
    """Where a document is cut, in bytes."""
    if isinstance(pattern, int):
        yield from _by_length(raw, pattern)
        return
    if isinstance(pattern.pattern, bytes):
        yield from (m.span() for m in pattern.finditer(raw))
        return
    text, at, byte = raw.decode(), 0, 0
    for m in pattern.finditer(text):
        begin = byte + len(text[at : m.start()].encode())
        at, byte = m.end(), begin + len(m.group().encode())
        yield begin, byte


def _by_length(raw: bytes, words: int) -> Iterator[tuple[int, int]]:
    """The gaps between runs of so many words; a rest of less than half of them stays with the run before."""
    gap, end = None, 0
    for n, word in enumerate(_WORD.finditer(raw)):
        if n and n % words == 0:
            gap = end, word.start()
        if gap is not None and n % words >= (words - 1) // 2:
            yield gap
            gap = None
        end = word.end()


def _about(about: Provenance, owner: np.ndarray) -> Provenance:
    """The parts' columns: those of their documents, the number of the part behind the id."""
    rows = pa.array(owner)
    starts = np.searchsorted(owner, owner)
    numbers = pa.array(np.arange(len(owner)) - starts + 1).cast(pa.large_string())
    whole = about.ids.cast(pa.large_string()).take(rows)
    meta = {name: values.take(rows) for name, values in about.meta.items()}
    ids = pc.binary_join_element_wise(whole, numbers, pa.scalar("#", pa.large_string()))
    return Provenance(ids=ids, source=about.source.take(rows), meta={**meta, DOCUMENT: whole})
