"""The words of a model or corpus by id, with their counts, as Arrow arrays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from topicstream.base.files.durable import replacing
from topicstream.base.files.plain import open_table
from topicstream.base.text import compose_text

BYTES_PER_WORD = 110
"""Bytes of a word of a model in memory: its text, its counts, the table that finds it."""


def as_words(words: Any) -> Any:
    """Convert strings to one compact ``pyarrow.LargeStringArray``.

    Parameters
    ----------
    words
        Arrow array, chunked array, NumPy array or iterable.
    """
    import pyarrow as pa

    if isinstance(words, pa.ChunkedArray):
        words = pa.concat_arrays(words.chunks) if words.num_chunks else pa.array([], pa.string())
    if not isinstance(words, pa.Array):
        words = pa.array(list(words) if isinstance(words, Iterable) else words, pa.large_string())
    if words.type == pa.string() and not words.null_count:
        # a cast would do the same, but import all of Arrow's functions
        _, ends, data = words.buffers()
        offsets = np.zeros(1, np.int64)
        if ends:
            offsets = np.frombuffer(ends, np.int32, len(words) + 1, 4 * words.offset)
        buffers = [None, pa.py_buffer(offsets.astype(np.int64)), data]
        words = pa.Array.from_buffers(pa.large_string(), len(words), buffers)
    elif words.type != pa.large_string():
        words = words.cast(pa.large_string())
    return pa.concat_arrays([words, pa.array([], pa.large_string())]) if words.offset else words


def string_buffers(words: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets (int64[n + 1] from 0) and UTF-8 bytes of Arrow strings."""
    import pyarrow as pa

    if not isinstance(words, pa.LargeStringArray):
        words = as_words(words)
    if len(words) == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(words.buffers()[1], np.int64)[
        words.offset : words.offset + len(words) + 1
    ]
    data = words.buffers()[2]
    text = np.zeros(0, np.uint8)
    if data is not None and data.size:
        text = np.frombuffer(data, np.uint8)
    return offsets - offsets[0], text[int(offsets[0]) : int(offsets[-1])]


def spellings(text: str) -> list[str]:
    """List how a store may have a string: composed, and as written by older versions."""
    return list(dict.fromkeys((compose_text(text), text)))


@dataclass(frozen=True)
class Vocabulary:
    """Words with their counts.

    Attributes
    ----------
    words
        ``pyarrow.LargeStringArray`` of length W.
    counts, df
        Occurrences and documents of each word in the training part, int64[W].
    """

    words: Any
    counts: np.ndarray
    df: np.ndarray

    @classmethod
    def from_words(
        cls, words: Any, counts: ArrayLike | None = None, df: ArrayLike | None = None
    ) -> Self:
        """Make a vocabulary from any strings, with zeros for unknown counts."""
        words = as_words(words)
        n = len(words)
        numbers = [
            np.zeros(n, np.int64) if v is None else np.asarray(v).astype(np.int64)
            for v in (counts, df)
        ]
        if any(len(v) != n for v in numbers):
            raise ValueError(
                f"{n} words with {[len(v) for v in numbers]} counts and document frequencies"
            )
        return cls(words, *numbers)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a ``vocab.parquet`` with columns word, count, df.

        Raises
        ------
        StoreError
            If it is damaged.
        """
        with open_table(path) as file:
            table = file.read(columns=["word", "count", "df"])
            numbers = [table[name].to_numpy() for name in ("count", "df")]
            for values in numbers:
                if values.dtype.kind not in "iu" or values.min(initial=0) < 0:
                    raise ValueError("empty or negative fields")
            if table["word"].null_count:
                raise ValueError("empty or negative fields")
            return cls.from_words(table["word"], *numbers)

    def write(self, path: str | Path) -> None:
        """Write the vocabulary to Parquet (zstd), in one rename."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table(
            {"word": self.words, "count": pa.array(self.counts), "df": pa.array(self.df)}
        )
        with replacing(Path(path)) as beside:
            pq.write_table(
                table, beside, compression="zstd", use_dictionary=False, store_schema=False
            )

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the words as Python strings."""
        yield from self.words.to_pylist()

    def __getitem__(self, word_id: int) -> str:
        text: str = self.words[word_id].as_py()
        return text

    @cached_property
    def sha256(self) -> str:
        """Compute the hex digest of the words in order, without counts."""
        offsets, text = string_buffers(self.words)
        digest = hashlib.sha256(np.ascontiguousarray(offsets, "<i8").tobytes())
        digest.update(np.ascontiguousarray(text).data)
        return digest.hexdigest()

    def find(self, words: Any) -> np.ndarray:
        """Look up the ids of words, int64[n], with -1 for an unknown word."""
        import pyarrow.compute as pc

        places = pc.index_in(as_words(words), value_set=self.words)
        return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))

    def texts(self, ids: Iterable[int]) -> list[str]:
        """Return the words of some ids as Python strings."""
        return [self.words[int(i)].as_py() for i in ids]
