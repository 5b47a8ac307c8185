"""Whether a Parquet file of words may be read: what it takes in memory is known from its pages before any is decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from topicstream.errors import StoreError
from topicstream.files.parquet_pages import page_places, pages, refuse_odd_columns
from topicstream.files.plain import arrow_file, open_plain

WORDS_OF_BYTE = 16
"""Words that a byte of the file may stand for: words differ, so they do not compress away.  Ours take a byte each at least."""
WORD_BYTES, SPARE = 1024, 16 << 20
"""Bytes of a word, on average, and of a small vocabulary beyond that."""


def most_words(size: int) -> int:
    """Words that a file of ``size`` bytes can hold."""
    return WORDS_OF_BYTE * size + 1000


def read_words(path: str | os.PathLike[str], columns: list[str]) -> Any:
    """The columns of a vocabulary's file, a ``pyarrow.Table``; a column of texts comes first.

    StoreError where the file is larger decoded than words that differ can be; what pyarrow raises where it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open(open_plain(path), "rb") as file:
        refuse_odd_columns(file)
        about = pq.read_metadata(file)  # once: of a file of a thousand columns it takes tens of megabytes
        repeated = _weigh(path, file, about, columns)
        repeats = columns[:1] if repeated else None
        with pq.ParquetFile(arrow_file(file), metadata=about, read_dictionary=repeats, pre_buffer=False) as parquet:
            table = parquet.read(columns=columns)
    words = table.column(columns[0])
    if pa.types.is_dictionary(words.type):  # once in the file, a thousand times in memory
        total = 0
        for piece in words.chunks:
            total += int(np.diff(_offsets(piece.dictionary))[page_places(piece)].sum(dtype=np.int64))
        _within(path, about.num_rows, total)
        table = table.set_column(0, columns[0], words.cast(pa.large_string()))
    return table


def rows_of_words(path: str | os.PathLike[str]) -> int:
    """Rows that the file says it has.  StoreError; what pyarrow raises where it is damaged."""
    import pyarrow.parquet as pq

    with open(open_plain(path), "rb") as file:
        refuse_odd_columns(file)
        return int(pq.read_metadata(file).num_rows)


def stream_words(path: str | os.PathLike[str], columns: list[str], rows: int = 1 << 18) -> Iterator[Any]:
    """The same in record batches of ``rows``, for a file of words left out, which may be large."""
    import pyarrow.parquet as pq

    with open(open_plain(path), "rb") as file:
        refuse_odd_columns(file)
        about = pq.read_metadata(file)
        if _weigh(path, file, about, columns):
            raise StoreError(f"{path}: words of a dictionary, which topicstream does not write; ingest again")
        with pq.ParquetFile(arrow_file(file), metadata=about, pre_buffer=False) as parquet:
            yield from parquet.iter_batches(rows, columns=columns)


def _weigh(path: str | os.PathLike[str], file: Any, about: Any, columns: list[str]) -> bool:
    """Whether words stand in a dictionary, by the file's metadata; StoreError where rows or pages are more than can be."""
    size, decoded, repeated = os.fstat(file.fileno()).st_size, 0, False
    if not 0 <= about.num_rows <= most_words(size):
        raise StoreError(f"{path}: {about.num_rows} words in a file of {size} bytes cannot be; restore the file")
    for group in map(about.row_group, range(about.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema not in columns or not chunk.num_values:
                continue
            starts = [p for p in (chunk.dictionary_page_offset, chunk.data_page_offset) if p]
            first = min(starts, default=0)
            stop = first + max(0, chunk.total_compressed_size)
            if not 0 < first <= stop <= size:
                raise ValueError("a column outside the file")
            decoded += sum(page.decoded for page in pages(file, first, stop))
            texts = chunk.physical_type == "BYTE_ARRAY" and chunk.path_in_schema == columns[0]
            repeated |= chunk.has_dictionary_page and texts
    _within(path, about.num_rows, decoded)
    file.seek(0)
    return repeated


def _within(path: str | os.PathLike[str], rows: int, decoded: int) -> None:
    if decoded > WORD_BYTES * rows + SPARE:
        raise StoreError(f"{path}: {decoded} bytes for {rows} words cannot be; restore the file")


def _offsets(words: Any) -> np.ndarray:
    import pyarrow as pa

    words = words.cast(pa.large_string())
    return np.frombuffer(words.buffers()[1], np.int64)[words.offset : words.offset + len(words) + 1]
