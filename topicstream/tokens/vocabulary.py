"""The words of a corpus: ids, counts, lookup, file.

``vocab.parquet`` has the columns word (large_string), count and df (int64), a row a word in the order of the ids; stock
pyarrow reads it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.errors import InputError, StoreError, UsageError
from topicstream.files import owned
from topicstream.files.durable import sync_folder
from topicstream.files.ownership import temporary
from topicstream.files.parquet import batches, read_words
from topicstream.files.plain import read_given
from topicstream.kernels.arrays import Bytes, Ints, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.tokens.wordtable import find_word, tags_for

_S32 = np.uint64(32)
ROWS = 1 << 20
"""Rows of a Parquet row group, and of the pieces in which words are read."""

SCHEMA = pa.schema([("word", pa.large_string()), ("count", pa.int64()), ("df", pa.int64())])


@kernel
def _fill(types: Bytes, offsets: Longs, tags: Words) -> int:
    """Enter the words into the empty table; the first word that stands there already, or -1."""
    for t in range(offsets.size - 1):
        slot, found, tag = find_word(tags, types, offsets, types, offsets[t], offsets[t + 1] - offsets[t])
        if found >= 0:
            return t
        tags[slot] = (tag << _S32) | np.uint64(t + 1)
    return -1


@kernel
def _look_up(types: Bytes, offsets: Longs, tags: Words, queries: Bytes, ends: Longs, ids: Ints) -> None:
    for q in range(ends.size - 1):
        _, ids[q], _ = find_word(tags, types, offsets, queries, ends[q], ends[q + 1] - ends[q])


def word_buffers(words: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 data, int64 offsets) of a large_string array without nulls, no copy."""
    _, ends, data = words.buffers()
    offsets = (
        np.frombuffer(ends, np.int64)[words.offset : words.offset + len(words) + 1] if ends else np.zeros(1, np.int64)
    )
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), offsets


def word_array(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """The large_string array over a uint8 buffer and int64 offsets, no copy; the bytes must be UTF-8."""
    offsets = np.ascontiguousarray(offsets, np.int64)
    return pa.Array.from_buffers(
        pa.large_string(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    )


def word_table(words: pa.Array, counts: np.ndarray, df: np.ndarray) -> pa.Table:
    """A table of the schema of vocab.parquet and pruned.parquet."""
    return pa.table([words, pa.array(counts, pa.int64()), pa.array(df, pa.int64())], schema=SCHEMA)


class TokenVocabulary:
    """The words with their ids 0..W-1.

    words  large_string[W], distinct   counts  int64[W] occurrences   df  int64[W] documents with the word; both of
    training documents only.  A vocabulary made by ``VocabularyBuilder.finish`` is in descending count, equal counts in
    the order of the words' bytes; words that it grew by stand behind in that same order.
    """

    def __init__(self, words: pa.Array, counts: np.ndarray, df: np.ndarray) -> None:
        self.words = words
        self.counts = np.ascontiguousarray(counts, np.int64)
        self.df = np.ascontiguousarray(df, np.int64)
        if not len(words) == self.counts.size == self.df.size:
            raise ValueError(f"{len(words)} words, {self.counts.size} counts, {self.df.size} document frequencies")
        self._data, self._offsets = word_buffers(words)

    @classmethod
    def of(cls, words: Sequence[str]) -> TokenVocabulary:
        """A vocabulary of given words, in their order, with counts 0 (to fix a vocabulary from a list)."""
        zeros = np.zeros(len(words), np.int64)
        return cls(pa.array(list(words), pa.large_string()), zeros, zeros.copy())

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _tags(self) -> np.ndarray:
        tags = tags_for(len(self))
        twice = _fill(self._data, self._offsets, tags)
        if twice >= 0:
            raise InputError(
                f"vocabulary: word {self.words[twice].as_py()!r} (id {twice}) stands there twice; words must differ"
            )
        return tags

    def lookup(self, types: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int32[T]: the id of each of the words ``types[offsets[t]:offsets[t+1]]`` (uint8, int64), -1 when unknown."""
        tags = self._tags
        ids = np.empty(offsets.size - 1, np.int32)
        _look_up(self._data, self._offsets, tags, types, np.ascontiguousarray(offsets, np.int64), ids)
        return ids

    def grow(self, words: pa.Array, counts: np.ndarray, df: np.ndarray) -> TokenVocabulary:
        """This vocabulary with words added at the end; the ids that there are stay.  InputError when one is known."""
        joined = pa.concat_arrays([self.words, words.cast(pa.large_string())])
        grown = TokenVocabulary(joined, np.concatenate((self.counts, counts)), np.concatenate((self.df, df)))
        _ = grown._tags
        return grown

    @cached_property
    def hash(self) -> str:
        """sha256 (hex) of the words in the order of their ids, each as its length in bytes (int64, little endian) in one
        list and its bytes in the next."""
        first, last = int(self._offsets[0]), int(self._offsets[-1])
        digest = hashlib.sha256(np.diff(self._offsets).astype("<i8").tobytes())
        digest.update(self._data[first:last].tobytes())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``vocab.parquet``: beside, fsync, rename."""
        write_words(
            path, (word_table(self.words, self.counts, self.df).slice(at, ROWS) for at in range(0, len(self), ROWS))
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TokenVocabulary:
        """Read what ``save`` wrote; StoreError when it is missing, damaged or has other columns."""
        try:
            table = read_words(path, SCHEMA.names).cast(SCHEMA).combine_chunks()
        except FileNotFoundError:
            raise StoreError(f"{path}: not found") from None
        except (OSError, ValueError, KeyError, pa.ArrowException) as e:
            raise StoreError(f"{path}: is not a vocabulary with the columns word, count, df ({e})") from None
        columns = [
            table.column(n).chunk(0) if len(table) else pa.array([], t) for n, t in zip(SCHEMA.names, SCHEMA.types)
        ]
        if any(column.null_count for column in columns):
            raise StoreError(f"{path}: has empty fields; the vocabulary is damaged")
        return cls(columns[0], columns[1].to_numpy(), columns[2].to_numpy())

    @classmethod
    def read(cls, path: str | os.PathLike[str], ask: Callable[[int], None] = lambda words: None) -> TokenVocabulary:
        """A vocabulary given by a user: ``vocab.parquet`` or UTF-8 text with a word a line (empty lines and a repeated word
        are errors that name the line).  ``ask`` is told how many words there are before they take memory.  InputError."""
        if Path(path).suffix == ".parquet":
            return cls.load(path)
        try:
            data = read_given(path, 1 << 31).removeprefix(b"\xef\xbb\xbf")
        except FileNotFoundError:
            raise InputError(f"{path}: no such vocabulary file") from None
        except OSError as e:
            raise InputError(f"{path}: cannot be read as UTF-8 text with a word a line ({e})") from None
        ask(data.count(b"\n") + 1)
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        offsets = pa.py_buffer(np.concatenate(([0], ends)))
        lines = pa.Array.from_buffers(pa.large_string(), len(ends), [None, offsets, pa.py_buffer(data)])
        try:
            lines.validate(full=True)
        except pa.ArrowInvalid as e:
            raise InputError(f"{path}: cannot be read as UTF-8 text with a word a line ({e})") from None
        # not of what else counts as white space: U+00A0 is a word of some vocabularies
        words = pc.utf8_trim(lines, " \t\r\n")
        if (empty := pc.index(words, "").as_py()) >= 0:
            raise InputError(f"{path}:{empty + 1}: an empty line; give a word a line")
        zeros = np.zeros(len(words), np.int64)
        found = cls(words, zeros, zeros.copy())
        if (twice := _fill(found._data, found._offsets, tags_for(len(found)))) >= 0:
            word = words[twice].as_py()
            first = pc.index(words, word).as_py() + 1
            raise InputError(f"{path}:{twice + 1}: {word!r} stands in line {first} already; words must differ")
        return found


def read_drop_words(path: str | os.PathLike[str]) -> set[str]:
    """The words of a list to leave out: ``vocab.parquet``, or UTF-8 text with a word a line (empty lines do no harm).
    InputError."""
    if Path(path).suffix == ".parquet":
        return set(TokenVocabulary.load(path).words.to_pylist())
    try:
        lines = read_given(path).decode("utf-8-sig").split("\n")
    except FileNotFoundError:
        raise UsageError(f"--drop-words {path}: no such file; give one with a word a line") from None
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"--drop-words {path}: cannot be read as UTF-8 text with a word a line ({e})") from None
    return {line.strip(" \t\r") for line in lines} - {""}


def stream_pruned(path: str | os.PathLike[str]) -> Iterator[pa.RecordBatch]:
    """Record batches (word, count, df) of a ``pruned.parquet``; StoreError where it is missing or damaged."""
    try:
        for piece in batches(path, SCHEMA.names, ROWS):
            piece = piece.cast(SCHEMA)
            if any(column.null_count for column in piece.columns):
                raise ValueError("empty fields")
            yield piece
    except FileNotFoundError:
        raise StoreError(f"{path}: not found") from None
    except (OSError, ValueError) as e:
        raise StoreError(f"{path}: cannot be read as the words left out ({e}); the corpus is damaged") from None


def write_words(path: str | os.PathLike[str], pieces: Iterable[pa.Table]) -> None:
    """Stream tables of SCHEMA into one Parquet file: beside, fsync, rename."""
    target = Path(path)
    beside = owned.reserve(temporary(target))
    try:
        with pq.ParquetWriter(beside, SCHEMA, compression="zstd", use_dictionary=False) as writer:
            for piece in pieces:
                writer.write_table(piece)
        with open(beside, "rb") as f:
            os.fsync(f.fileno())
        owned.replace(beside, target)
    finally:
        owned.discard(beside)
    sync_folder(target.parent)
