"""Numbers, cells and words of the formats of counts.

Lines of numbers are checked, cells put in order, documents made of them. The words of a
bag-of-words file are a list, a line each, given or beside the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.ingestion.open.source import HEAD_BYTES, SUFFIXES, Input, Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import (
    as_strings,
    batch_of,
    lines_of,
    not_utf8,
    why_not_utf8,
)

MOST_COUNT = 3.0e38
"""Above it float32 has no numbers."""


def first_lines(head: bytes) -> list[bytes]:
    """List up to 50 whole lines of the first bytes of a file, without blank ones."""
    lines = head.split(b"\n")
    complete = lines[:-1] if len(head) >= HEAD_BYTES or not lines[-1].strip() else lines
    return [line for line in complete[:50] if line.strip()]


def matching(lines: list[bytes], pattern: str) -> np.ndarray:
    """Mark the lines that match a regular expression of RE2, bool[L]."""
    matches = pc.match_substring_regex(pa.array(lines, pa.large_binary()), pattern)
    return matches.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def parsed_numbers(lines: list[bytes], real: bool) -> np.ndarray:
    """Return all numbers of lines of numbers and blanks, float64 if ``real`` or else int64."""
    text = b" ".join(lines)
    return np.fromstring(b"" if text.isspace() else text, np.float64 if real else np.int64, sep=" ")


def order_cells(
    docs: np.ndarray, words: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order cells with ascending documents by word within each document.

    Words are unique then: the counts of repeated ones are summed.
    """
    same = docs[1:] == docs[:-1]
    if not (words[1:][same] <= words[:-1][same]).any():
        return docs, words, counts
    # one key: three times as fast as lexsort, thirty times where nearly all is in order
    key = docs.astype(np.int64)
    key *= int(words.max()) + 1
    key += words
    order = np.argsort(key, kind="stable")
    docs = docs[order]
    words = words[order]
    counts = counts[order]
    first = np.flatnonzero(
        np.concatenate(([True], (docs[1:] != docs[:-1]) | (words[1:] != words[:-1])))
    )
    return docs[first], words[first], np.add.reduceat(counts, first)


def count_batch(
    source: Input,
    ids: pa.Array,
    sources: pa.Array,
    rows: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
    meta: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Make a batch of documents from cells.

    Parameters
    ----------
    source
        Input that is told of cells left out.
    ids, sources
        Ids of the documents, and their places in the input.
    rows
        Document of each cell from 0, ascending, int64[c].
    words, counts
        Words, int64[c], and numbers above 0. Cells of 0 are left out.
    meta
        Metadata columns by name.
    """
    zero = counts == 0
    if zero.any():
        source.note("values of zero left out", int(zero.sum()))
        rows = rows[~zero]
        words = words[~zero]
        counts = counts[~zero]
    if len(rows):
        rows, words, counts = order_cells(rows, words, counts)
    offsets = pa.array(np.searchsorted(rows, np.arange(len(ids) + 1)))
    kind = np.float32 if counts.dtype.kind == "f" else np.int64
    content = {
        "words": pa.LargeListArray.from_arrays(offsets, pa.array(words.astype(np.int32))),
        "counts": pa.LargeListArray.from_arrays(offsets, pa.array(counts.astype(kind))),
    }
    return batch_of(ids, sources, content, meta or {})


MOST_NUMBERED = 50_000_000
BYTES_PER_WORD = 160
"""Bytes that a word of a bag-of-words file takes while it is read: its text, and its sums in every
piece in work.
"""


def find_vocabulary_file(path: Path) -> Path | None:
    """Find the vocabulary file beside a bag-of-words file by the usual names, or None.

    For ``docword.kos.txt.gz``: vocab.kos.txt, kos.vocab, docword.kos.vocab … and at last vocab.txt,
    words.txt.
    """
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    stem = name.rsplit(".", 1)[0] if "." in name else name
    short = stem.removeprefix("docword").lstrip("._-")
    usual = ["vocab.{}.txt", "vocab_{}.txt", "{}.vocab", "{}.vocab.txt", "{}_vocab.txt", "{}.words"]
    names = [
        pattern.format(s) for s in dict.fromkeys([short, stem, name]) if s for pattern in usual
    ]
    for candidate in [
        *names,
        "vocab.txt",
        "vocabulary.txt",
        "words.txt",
        "terms.txt",
        "features.txt",
        "vocab",
    ]:
        for suffix in ("", *SUFFIXES):
            neighbour = path.parent / (candidate + suffix)
            if neighbour != path and neighbour.is_file():
                return neighbour
    return None


def read_vocabulary_file(path: Path, encoding: str | None = None) -> pa.LargeStringArray:
    """Read the lines of a file as an Arrow array.

    Raises
    ------
    InputError
        For the line of a word that is not UTF-8.
    """
    parts = [pa.array([], pa.large_string())]
    with Source(str(path), path, encoding=encoding) as source:
        for numbers, lines in lines_of(source, ReadOptions()):
            words = as_strings(pa.array(lines, pa.large_binary()), str(path), "word", "--words")
            for row in not_utf8(words):
                raise InputError(f"{path}:{numbers[row]}: {why_not_utf8(lines[row])}")
            parts.append(words)
    return pa.concat_arrays(parts)


def _check_room(size: int, name: str, options: ReadOptions | None) -> None:
    """Refuse a vocabulary that does not fit the memory limit."""
    if options is not None and options.room is not None:
        options.room.check(BYTES_PER_WORD * size, f"{name}: a vocabulary of {size:,} words")


def words_for(source: Source, options: ReadOptions, size: int | None) -> pa.LargeStringArray | None:
    """Find the words of a source, None where nothing names them.

    They are in the file given as --words, in one beside the source, or in the file of --vocab where
    that has a line for each word.

    Parameters
    ----------
    source
        File whose cells have numbers of words.
    options
        Names of the files of words, and the room for them.
    size
        Number of words that the source's own header states, None if it states none.

    Raises
    ------
    InputError
        For a file that is missing or has another length than ``size``.
    DoesNotFit
        For a vocabulary that does not fit the memory limit.
    """
    path: Path | None = None
    if options.words is not None:
        path = Path(options.words)
    elif source.path:
        path = find_vocabulary_file(source.path)
    if path is None:
        return _words_of_vocab(source, options, size)
    if not path.is_file():
        raise InputError(f"--words {path}: no such file; name a file with a word a line")
    _check_room(size or 0, source.name, options)
    words = read_vocabulary_file(path, options.encoding)
    if size is not None and len(words) != size:
        raise InputError(
            f"{path}: {len(words)} words, but {source.name} states {size}; name the right file "
            f"with --words"
        )
    _check_room(len(words), source.name, options)
    return words


def _words_of_vocab(
    source: Source, options: ReadOptions, size: int | None
) -> pa.LargeStringArray | None:
    """Return the words of the file of --vocab if it has a line for each of ``size`` words."""
    if size is None or options.vocab_file is None:
        return None
    path = Path(options.vocab_file)
    if path.suffix == ".parquet" or not path.is_file():
        return None
    _check_room(size, source.name, options)
    words = read_vocabulary_file(path, options.encoding)
    if len(words) != size:
        return None
    source.note(f"words named by --vocab {path.name}, which has a line for each", size)
    return words


def numbered(
    size: int, first: int, name: str, options: ReadOptions | None = None
) -> pa.LargeStringArray:
    """Make words of their numbers for a file that names none.

    Raises
    ------
    InputError
        If there are too many to be believed.
    DoesNotFit
        If there are too many for the memory limit.
    """
    if size > MOST_NUMBERED:
        raise InputError(
            f"{name}: uses words up to number {size}, but no file names them; give it as --words"
        )
    _check_room(size, name, options)
    return pa.array(np.arange(first, first + max(size, 0))).cast(pa.large_string())


def numbered_words(
    source: Source, size: int, first: int, options: ReadOptions
) -> pa.LargeStringArray:
    """Make words of their numbers, and note that they have no names."""
    source.note("words have no names but their numbers (--words FILE names them)", size)
    return numbered(size, first, source.name, options)
