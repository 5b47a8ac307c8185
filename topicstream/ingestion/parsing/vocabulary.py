"""The words of a bag-of-words file: a list, one a line, given or found beside the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.ingestion.opening.source import SUFFIXES, Source
from topicstream.ingestion.parsing.cut import as_array, lines_of, not_utf8, strings
from topicstream.ingestion.read_options import ReadOptions
from topicstream.kernels.spans import copy_spans

MOST_BYTES = 4 << 30
MOST_NUMBERED = 50_000_000
A_WORD = 160
"""Bytes that a word of a bag-of-words file takes while it is read: its text, and its sums in every piece in work."""


def beside(path: Path) -> Path | None:
    """The vocabulary file of a bag-of-words file, by the usual names; None when there is none.

    For ``docword.kos.txt.gz``: vocab.kos.txt, kos.vocab, docword.kos.vocab … and at last vocab.txt, words.txt.
    """
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    stem = name.rsplit(".", 1)[0] if "." in name else name
    short = stem.removeprefix("docword").lstrip("._-")
    found = []
    for s in dict.fromkeys([short, stem, name]):
        if s:
            found += [
                f"vocab.{s}.txt",
                f"vocab_{s}.txt",
                f"{s}.vocab",
                f"{s}.vocab.txt",
                f"{s}_vocab.txt",
                f"{s}.words",
            ]
    found += ["vocab.txt", "vocabulary.txt", "words.txt", "terms.txt", "features.txt", "vocab"]
    for candidate in found:
        for suffix in ("", *SUFFIXES):
            if (there := path.parent / (candidate + suffix)).is_file() and there != path:
                return there
    return None


def read_vocabulary_file(path: Path, encoding: str | None = None) -> pa.LargeStringArray:
    """The lines of a file as an Arrow array; InputError with the line of a word that is not UTF-8."""
    with Source(str(path), path, encoding=encoding) as source:
        parts, size = [], 0
        while part := source.read(1 << 20):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise InputError(f"{path}: more than {MOST_BYTES >> 30} GiB of words; is it the vocabulary?")
    data = as_array(b"".join(parts))
    starts, ends = lines_of(data)
    text, offsets = copy_spans(data, starts, ends)
    for at, why in not_utf8(text, offsets).items():
        raise InputError(f"{path}:{at + 1}: {why}")
    return strings(text, offsets)


def _ask(size: int, name: str, options: ReadOptions | None) -> None:
    if options is not None and options.room is not None:
        options.room.ask(A_WORD * size, f"{name}: a vocabulary of {size:,} words")


def words_for(source: Source, options: ReadOptions, size: int | None) -> pa.LargeStringArray | None:
    """The words of a source: the file given as --words, one beside it, or the file of --vocab where that has a line for
    each word; None when there is none of these.  InputError when the file has another length than ``size`` (the number
    that the source's own header says)."""
    path = Path(options.words) if options.words is not None else beside(source.path) if source.path else None
    if path is None:
        return _words_of_vocab(source, options, size)
    if not path.is_file():
        raise InputError(f"--words {path}: no such file")
    if size is not None:
        _ask(size, source.name, options)
    words = read_vocabulary_file(path, options.encoding)
    if size is not None and len(words) != size:
        raise InputError(f"{path}: {len(words)} words where {source.name} says {size}; give the file of its words as --words")
    _ask(len(words), source.name, options)
    return words


def _words_of_vocab(source: Source, options: ReadOptions, size: int | None) -> pa.LargeStringArray | None:
    path = None if options.vocab_file is None else Path(options.vocab_file)
    if size is None or path is None or path.suffix == ".parquet" or not path.is_file():
        return None
    _ask(size, source.name, options)
    words = read_vocabulary_file(path, options.encoding)
    if len(words) != size:
        return None
    source.notes[f"words named by --vocab {path.name}, which has a line for each"] += size
    return words


def numbered(size: int, first: int, name: str, options: ReadOptions | None = None) -> pa.LargeStringArray:
    """Words for a file without any: their numbers.  InputError when there are too many to be believed, DoesNotFit when
    there are too many for the memory limit."""
    if size > MOST_NUMBERED:
        raise InputError(f"{name}: words up to number {size} and no file that names them; give it as --words")
    _ask(size, name, options)
    return pa.array(np.arange(first, first + max(size, 0))).cast(pa.large_string())


def numbered_words(source: Source, size: int, first: int, options: ReadOptions) -> pa.LargeStringArray:
    """``numbered``, with a note that the words have no names."""
    source.notes["words have no names but their numbers (--words FILE names them)"] += size
    return numbered(size, first, source.name, options)
