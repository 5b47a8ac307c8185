"""The words of a corpus: ids, counts, lookup, file.

``vocab.parquet`` has the columns word (large_string), count and df (int64), a row a word in the
order of the ids; stock pyarrow reads it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.durable import replacing
from topicstream.base.files.plain import batches, open_table
from topicstream.base.text import compose_text
from topicstream.corpus.vocabulary import Vocabulary, string_buffers
from topicstream.ingestion.open.source import read_word_list
from topicstream.ingestion.tokens.normal import compose_strings
from topicstream.ingestion.tokens.wordtable import enter_words, look_up, table_for

ROWS = 1 << 20
"""Rows of a Parquet row group, and of the pieces in which words are read."""

CHUNK = 1 << 16
"""Rows that lie side by side in memory until a row group is written."""

SCHEMA = pa.schema([("word", pa.large_string()), ("count", pa.int64()), ("df", pa.int64())])


def word_array(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """Make the large_string array over a uint8 buffer and int64 offsets.

    Nothing is copied. The bytes must be UTF-8.
    """
    offsets = np.ascontiguousarray(offsets, np.int64)
    return pa.Array.from_buffers(
        pa.large_string(),
        offsets.size - 1,
        [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))],
    )


def word_table(words: pa.Array, counts: np.ndarray, df: np.ndarray) -> pa.Table:
    """Make a table of the schema of vocab.parquet and pruned.parquet."""
    return pa.table([words, pa.array(counts, pa.int64()), pa.array(df, pa.int64())], schema=SCHEMA)


_COMMENT = re.compile(r"#(\s|$)")
"""A line of a list that is no word: ``#word`` may be one of text that was tokenised already."""


@dataclass(frozen=True)
class TokenVocabulary(Vocabulary):
    """The words with their ids 0..W-1, which ``lookup`` finds by a hash table.

    One that an ingest has chosen is in descending count, equal counts in the order of the words'
    bytes; words that it grew by stand behind in that same order.
    """

    @property
    def table(self) -> pa.Table:
        """Return the vocabulary as a table of SCHEMA."""
        return word_table(self.words, self.counts, self.df)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.uint64, np.ndarray, np.ndarray]:
        """Make the hash table, its shift, and the words as bytes and their ends."""
        ends, data = string_buffers(self.words)
        table, shift = table_for(len(self))
        twice = enter_words(table, shift, data, ends)
        if twice >= 0:
            raise InputError(
                f"vocabulary: word {self.words[twice].as_py()!r} (id {twice}) occurs twice; "
                f"words must be distinct"
            )
        return table, shift, data, ends

    def lookup(self, words: pa.Array) -> np.ndarray:
        """Return the id of each word, int32[n], -1 of an unknown one.

        ``words`` is large_string[n] without nulls.
        """
        ids = np.empty(len(words), np.int32)
        ends, data = string_buffers(words)
        look_up(*self._table, data, ends, ids)
        return ids

    @cached_property
    def hash(self) -> str:
        """Compute the sha256 (hex) of the words in the order of their ids.

        The hash covers the lengths of all words in bytes (int64, little endian), then their bytes.
        """
        ends, data = string_buffers(self.words)
        digest = hashlib.sha256(np.diff(ends).astype("<i8").tobytes())
        digest.update(data.data)
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``vocab.parquet``, so that a crash leaves the old file or the new one."""
        write_words(path, [self.table])

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        ask: Callable[[int], None] = lambda words: None,
        encoding: str | None = None,
    ) -> TokenVocabulary:
        """Read a vocabulary that a user gives: ``vocab.parquet``, or text with a word a line.

        Parameters
        ----------
        path
            File of the user.
        ask
            Function that gets the number of words before they take memory, and may raise.
        encoding
            Encoding of the text. None for UTF-8, or what the byte order mark says.

        Raises
        ------
        InputError
            If the file cannot be read, at an empty line, or at a word that occurs twice.
        """
        if are_counted_words(path):
            return cls.read(path)
        try:
            data = read_word_list(path, encoding, most=1 << 31)
        except FileNotFoundError:
            raise InputError(f"{path}: no such vocabulary file") from None
        except OSError as e:
            raise InputError(f"{path}: cannot be read as text with a word a line ({e})") from None
        ask(data.count(b"\n") + 1)
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
        if not data.endswith(b"\n"):
            ends = np.append(ends, len(data))
        offsets = pa.py_buffer(np.concatenate(([0], ends)))
        lines = pa.Array.from_buffers(
            pa.large_string(), len(ends), [None, offsets, pa.py_buffer(data)]
        )
        # not of what else counts as white space: U+00A0 is a word of some vocabularies
        words = compose_strings(pc.utf8_trim(lines, " \t\r\n"))
        empty = pc.index(words, "").as_py()
        if empty >= 0:
            raise InputError(f"{path}:{empty + 1}: an empty line; expected one word per line")
        ends, text = string_buffers(words)
        twice = enter_words(*table_for(len(words)), text, ends)
        if twice >= 0:
            word = words[twice].as_py()
            first = pc.index(words, word).as_py() + 1
            raise InputError(
                f"{path}:{twice + 1}: {word!r} is already in line {first}; words must be distinct"
            )
        return cls.from_words(words)


def are_counted_words(path: str | os.PathLike[str]) -> bool:
    """Tell whether a list is the vocabulary of a store, whose words a tokenizer made."""
    return Path(path).suffix == ".parquet"


def read_drop_words(path: str | os.PathLike[str], encoding: str | None = None) -> set[str]:
    """Read the words of a list to leave out: ``vocab.parquet``, or text with a word a line.

    Parameters
    ----------
    path
        File of the user. Empty lines do no harm, and ``#`` with a blank behind it begins a comment.
    encoding
        Encoding of the text. None for UTF-8, or what the byte order mark says.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    if are_counted_words(path):
        return set(TokenVocabulary.read(path).words.to_pylist())
    try:
        lines = read_word_list(path, encoding).decode().split("\n")
    except FileNotFoundError:
        raise UsageError(
            f"--drop-words {path}: no such file; expected a file with one word per line"
        ) from None
    except OSError as e:
        raise InputError(
            f"--drop-words {path}: cannot be read as text with a word a line ({e})"
        ) from None
    words = {compose_text(line.strip(" \t\r")) for line in lines}
    return {word for word in words if word and not _COMMENT.match(word)}


def stream_pruned(path: str | os.PathLike[str]) -> Iterator[pa.RecordBatch]:
    """Yield record batches (word, count, df) of a ``pruned.parquet``.

    Raises
    ------
    StoreError
        If the file is missing or damaged.
    """
    with open_table(path) as file:
        for piece in batches(file, SCHEMA.names, ROWS):
            piece = piece.cast(SCHEMA)
            if any(column.null_count for column in piece.columns):
                raise ValueError("empty fields")
            yield piece


def write_words(path: str | os.PathLike[str], pieces: Iterable[pa.Table | pa.RecordBatch]) -> None:
    """Write tables or batches of SCHEMA as one Parquet file with row groups of ROWS.

    It is written beside, synced and renamed. A row group is in memory once, in chunks of CHUNK
    rows; the bytes of the file do not depend on the pieces.
    """
    with (
        replacing(Path(path)) as beside,
        pq.ParquetWriter(beside, SCHEMA, compression="zstd", use_dictionary=False) as writer,
    ):
        group = [SCHEMA.empty_table()]
        rows = 0
        for chunk in _chunks(pieces, min(CHUNK, ROWS)):
            group.append(chunk)
            rows += len(chunk)
            if rows == ROWS:
                writer.write_table(pa.concat_tables(group))
                group = [SCHEMA.empty_table()]
                rows = 0
        writer.write_table(pa.concat_tables(group))


def _chunks(pieces: Iterable[pa.Table | pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Copy rows into tables of so many rows, and a last one of fewer."""
    waiting = SCHEMA.empty_table()
    for piece in pieces:
        table = pa.Table.from_batches([piece]) if isinstance(piece, pa.RecordBatch) else piece
        waiting = pa.concat_tables([waiting, table.cast(SCHEMA)])
        while len(waiting) >= rows:
            yield waiting.slice(0, rows).combine_chunks()
            waiting = waiting.slice(rows)
    if len(waiting):
        yield waiting.combine_chunks()
