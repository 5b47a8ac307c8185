"""Metadata columns of a store's documents, streamed in step with the blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from topicstream.base.errors import StoreError
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import stream_documents


class Metadata:
    """Rows of some metadata columns for consecutive documents of a part.

    Parameters
    ----------
    corpus
        The store.
    columns
        Names of the columns.
    heldout
        Read the documents set aside, not the training documents.
    """

    def __init__(self, corpus: Corpus, columns: Sequence[str], heldout: bool = False) -> None:
        self._path = corpus.path
        self._stream = iter(stream_documents(corpus, heldout, list(columns)))
        self._numbers = np.zeros(0, np.int64)
        self._rows = pa.table({name: pa.nulls(0, pa.large_string()) for name in columns})

    def read_rows(self, first: int, count: int) -> tuple[pa.Table, np.ndarray]:
        """Read the rows of ``count`` documents from ``first`` on, behind those of the last call.

        Returns
        -------
        rows
            A row a document, null for a document that the table does not list because a later
            version has replaced it.
        listed
            Documents that the table lists, bool[count].

        Raises
        ------
        StoreError
            The documents of the store are not in the order of its blocks.
        """
        while not len(self._numbers) or self._numbers[-1] < first + count:
            numbers, batch = next(self._stream, (None, None))
            if numbers is None:
                break
            if (np.diff(numbers, prepend=self._numbers[-1:]) < 0).any():
                raise StoreError(
                    f"{self._path}/docs: documents are not in the order of the blocks; ingest again"
                )
            rows = pa.Table.from_batches([batch])
            self._rows = pa.concat_tables([self._rows, rows]) if len(self._numbers) else rows
            self._numbers = np.concatenate([self._numbers, numbers])
        start, end = np.searchsorted(self._numbers, [first, first + count])
        place = np.full(count, -1, np.int64)
        place[self._numbers[start:end] - first] = np.arange(start, end)
        rows = self._rows.take(pa.array(place, mask=place < 0))
        self._rows = self._rows.slice(end)
        self._numbers = self._numbers[end:]
        return rows, place >= 0
