"""Columns of the documents' table beside the blocks: streamed, in step with the documents, never loaded whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import OWN
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError
from topicstream.evaluation.keys import documents


def columns_of(corpus: Corpus) -> dict[str, str]:
    """The user's own columns of a store: name -> ``string`` or ``list``."""
    listed = corpus.manifest.get("columns") or {}
    return {name: kind for name, kind in sorted(listed.items()) if name not in OWN}


def check_columns(corpus: Corpus, wanted: Sequence[str], option: str = "--with") -> None:
    """InputError where a column is not there."""
    there = ["id", "source", *columns_of(corpus)]
    for name in wanted:
        if name not in there:
            kept = ", ".join(columns_of(corpus)) or "none"
            raise InputError(
                f"{option} {name}: the store has no such column (it has {kept}); ingest with --meta {name}=FIELD"
            )


class Metadata:
    """Rows of some columns for consecutive documents of a part; nulls for documents that the table does not list
    (replaced by a later version, or a store without a table)."""

    def __init__(self, corpus: Corpus, columns: Sequence[str], heldout: bool = False) -> None:
        self.columns = list(columns)
        self._path, self._table = corpus.path, bool(corpus.manifest.get("docs"))
        self._stream = documents(corpus, heldout, self.columns) if self._table else iter(())
        self._numbers = np.zeros(0, np.int64)
        self._held: list[pa.RecordBatch] = []
        self._starts: list[int] = []
        self._over = not self._table
        self._next = 0

    def of(self, first: int, count: int) -> tuple[dict[str, Any], np.ndarray]:
        """(column -> Arrow array [count], listed bool[count]) of documents ``first .. first + count - 1``; calls ascend."""
        pieces: list[tuple[np.ndarray, pa.RecordBatch]] = []
        last = first + count
        while self._held or not self._over:
            if not self._held and not self._pull(first):
                break
            batch = self._held[0]
            numbers = self._numbers
            cut = int(np.searchsorted(numbers, last))
            if cut:
                pieces.append((numbers[:cut], batch.slice(0, cut)))
            if cut < len(numbers):
                self._held[0], self._numbers = batch.slice(cut), numbers[cut:]
                break
            self._held, self._numbers = [], numbers[:0]
        place = np.full(count, -1, np.int64)
        at = 0
        for numbers, _ in pieces:
            mine = numbers >= first
            place[numbers[mine] - first] = at + np.flatnonzero(mine)
            at += len(numbers)
        listed = place >= 0
        index = pa.array(np.where(listed, place, 0), mask=~listed)
        out = {}
        for name in self.columns:
            arrays = [b.column(name) for _, b in pieces if name in b.schema.names]
            whole = pa.concat_arrays(arrays) if arrays and sum(map(len, arrays)) == at and at else None
            out[name] = whole.take(index) if whole is not None else pa.nulls(count, pa.large_string())
        return out, listed

    def _pull(self, first: int) -> bool:
        for numbers, batch in self._stream:
            if not len(numbers):
                continue
            if (np.diff(numbers) < 0).any() or numbers[0] < self._next:
                raise StoreError(f"{self._path}/docs: documents are not in the order of the blocks; ingest again")
            self._next = int(numbers[-1]) + 1
            self._held, self._numbers = [batch], numbers
            return True
        self._over = True
        return False


def codes_of(values: Any, known: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """(document of each entry int64[n], code int64[n]) of a column's values that are ``known``; a document of a list
    column has an entry for each of its values (once each)."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        offsets = values.offsets.to_numpy()
        flat = values.flatten()
        lengths = np.diff(offsets)
        if values.null_count:
            lengths = np.where(values.is_null().to_numpy(zero_copy_only=False), 0, lengths)
        docs = np.repeat(np.arange(len(values)), lengths)
    else:
        flat, docs = values, np.arange(len(values))
    words = flat.dictionary_encode()
    table = np.array(
        [known.get(v, -1) if v is not None else -1 for v in words.dictionary.to_pylist()] or [-1], np.int64
    )
    codes = table[words.indices.fill_null(0).to_numpy(zero_copy_only=False)] if len(flat) else np.zeros(0, np.int64)
    if flat.null_count:
        codes = np.where(flat.is_null().to_numpy(zero_copy_only=False), -1, codes)
    kept = codes >= 0
    docs, codes = docs[kept], codes[kept]
    if len(docs) and flat is not values:
        once = np.unique(docs * (len(known) + 1) + codes)
        docs, codes = once // (len(known) + 1), once % (len(known) + 1)
    return docs, codes
