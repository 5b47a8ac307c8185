"""Documents of a corpus with their words and metadata, as Arrow, NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from topicstream.base.errors import UsageError
from topicstream.base.text import counted
from topicstream.corpus.documents import Placed, placed_documents
from topicstream.corpus.format import PARTS
from topicstream.corpus.texts import read_texts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from topicstream.corpus.grid import Decoded
    from topicstream.corpus.manifest import StoreManifest

BATCH = 1 << 13


@dataclass(frozen=True)
class Document:
    """A document with its words, counts and metadata.

    Documents are equal if their ids and parts are.

    Attributes
    ----------
    id
        Id of the document.
    part
        ``train`` or ``heldout``.
    words
        Its distinct words.
    counts
        int32[n], their counts, or float32[n] in a weighted corpus.
    metadata
        Values by column, without missing ones.
    """

    id: str
    part: str
    words: list[str] = field(compare=False)
    counts: np.ndarray = field(compare=False)
    metadata: dict[str, Any] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        shown = " ".join(self.words[:6]) + (" ..." if len(self.words) > 6 else "")
        return f"Document({self.id!r}, {float(self.counts.sum()):,.0f} tokens: {shown})"


class Views(Sequence["Document"]):
    """The methods of ``Corpus`` that show its documents.

    Documents come in the order of the ingest, training and held-out ones mixed. Removed and
    replaced documents are left out.
    """

    path: Path
    manifest: StoreManifest
    weighted: bool
    n_words: int

    if TYPE_CHECKING:

        def decode(self, storage: int, heldout: bool = False) -> Decoded:
            """Read and decode one storage block."""

        def removed(self) -> np.ndarray:
            """List the removed documents."""

        def word_table(self, *columns: str) -> pa.Table:
            """Read columns of the vocabulary."""

    def __len__(self) -> int:
        """Count the documents of both parts."""
        return sum(p.docs for p in self.manifest.parts.values()) - len(self._removed_numbers)

    def __repr__(self) -> str:
        parts = self.manifest.parts
        n_heldout = parts["heldout"].docs
        cells = sum(p.cells for p in parts.values())
        aside = f" ({n_heldout:,} held out)" if n_heldout else ""
        return (
            f"Corpus({str(self.path)!r}: {counted(len(self), 'document')}{aside}, "
            f"{counted(self.n_words, 'word')}, {counted(cells, 'value')})"
        )

    def _repr_html_(self) -> str:
        """Show the contents of the corpus as an HTML table of its parts."""
        parts = self.manifest.parts
        kinds = ("docs", "tokens", "cells")
        rows = ""
        for part in PARTS:
            if parts[part].docs:
                figures = [f"<td>{getattr(parts[part], kind):,.0f}</td>" for kind in kinds]
                rows += f"<tr><td>{part}</td>{''.join(figures)}</tr>"
        head = "<tr><th>part</th><th>documents</th><th>tokens</th><th>values</th></tr>"
        columns = ", ".join(sorted({*self.manifest.columns} - {"id", "source"}))
        more = f"<p>metadata: {escape(columns)}</p>" if columns else ""
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
        return f"<p>{escape(repr(self))}</p>{table}{more}"

    @cached_property
    def words(self) -> pa.LargeStringArray:
        """Return the vocabulary by id, a ``pyarrow.LargeStringArray`` of length W."""
        return self.word_table("word")["word"].cast(pa.large_string()).combine_chunks()

    @property
    def ids(self) -> pa.LargeStringArray:
        """Return the ids of all documents, a ``pyarrow.LargeStringArray`` of ``len(self)``."""
        columns = [batch.column("id") for batch, *_ in self.placed(["id"])]
        return pa.concat_arrays([pa.array([], pa.large_string()), *columns])

    def documents(
        self,
        columns: list[str] | None = None,
        *,
        parts: str | Sequence[str] = PARTS,
        first: int = 0,
        batches: tuple[int, int | None] = (0, None),
    ) -> Iterator[pa.RecordBatch]:
        """Stream record batches of some thousand documents each.

        Columns: id, the metadata, part, ``words`` list<int32> (ids of ``self.words``, ascending)
        and ``counts`` list<int32> (list<float> in a weighted corpus).

        Parameters
        ----------
        columns
            Metadata to read [default: all].
        parts
            Parts of the store, ``train`` and ``heldout``.
        first
            Number of documents to skip.
        batches
            First batch, and the batch past the last.
        """
        for batch, cells in self._cells(columns, parts, first, batches):
            offsets = pa.array(cells.indptr, pa.int32())
            words = pa.ListArray.from_arrays(offsets, pa.array(cells.indices))
            counts = pa.ListArray.from_arrays(offsets, pa.array(cells.data))
            yield (
                batch.drop_columns(["block", "row"])
                .append_column("words", words)
                .append_column("counts", counts)
            )

    def texts(self, numbers: Sequence[int] | None = None) -> list[str | None]:
        """Return the texts of documents, of a store that keeps them (``keep_text=True``).

        Parameters
        ----------
        numbers
            Numbers of the documents, as ``corpus[number]`` takes them [default: all].

        Returns
        -------
        list
            A text per number; None for a document that came as counts.

        Raises
        ------
        UsageError
            If the store keeps no texts.
        """
        if self.manifest.texts is None:
            raise UsageError(
                f"{self.path}: keeps no texts; ingest again with keep_text=True (--keep-text)"
            )
        rows = np.arange(sum(part.docs for part in self.manifest.parts.values()))
        rows = np.delete(rows, self._removed_numbers)
        if numbers is not None:
            rows = rows[np.asarray(numbers, np.int64)]
        distinct, positions = np.unique(rows, return_inverse=True)
        texts = list(read_texts(self.path, self.manifest, distinct))
        return [texts[position] for position in positions.tolist()]

    def __iter__(self) -> Iterator[Document]:
        return self._documents(0)

    def _documents(self, first: int) -> Iterator[Document]:
        """Yield documents from number ``first`` on."""
        for batch in self.documents(first=first):
            names = [n for n in batch.schema.names if n not in ("id", "part", "words", "counts")]
            for i in range(len(batch)):
                values = {name: batch.column(name)[i].as_py() for name in names}
                yield Document(
                    batch.column("id")[i].as_py(),
                    batch.column("part")[i].as_py(),
                    self.words.take(batch.column("words")[i].values).to_pylist(),
                    batch.column("counts")[i].values.to_numpy(),
                    {name: value for name, value in values.items() if value is not None},
                )

    @overload
    def __getitem__(self, key: int) -> Document:
        """Return a document by its number, or a slice of documents as a list."""

    @overload
    def __getitem__(self, key: slice) -> list[Document]: ...
    def __getitem__(self, key: int | slice) -> Document | list[Document]:
        """Read a document by its number, or the documents of a slice as a list."""
        numbers = range(len(self))[key]
        if isinstance(numbers, int):
            return next(self._documents(numbers))
        low = min(numbers, default=0)
        stop = max(numbers, default=-1) + 1
        documents = {}
        for number, document in zip(range(low, stop), self._documents(low)):
            if number in numbers:
                documents[number] = document
        return [documents[number] for number in numbers]

    def to_scipy(self, *, parts: str | Sequence[str] = PARTS) -> csr_array:
        """Return the counts as a ``scipy.sparse.csr_array`` [documents, W], in memory.

        Rows have the order of ``documents()``: as ingested, training and held-out documents mixed.
        Indices are int32 wherever they fit, because some of scikit-learn's estimators require it.
        """
        from scipy.sparse import csr_array, vstack

        empty = csr_array((0, self.n_words), dtype=np.float32 if self.weighted else np.int32)
        return vstack([empty, *(cells for _, cells in self._cells([], parts))], format="csr")

    def within(
        self, part: np.ndarray, block: np.ndarray, row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the documents that this corpus has, and their rows in it.

        Parameters
        ----------
        part, block, row
            Places of documents of the store, int64[n] each.

        Returns
        -------
        positions, rows
            int64[m]: indices into the arguments, and the row of each within its block; a sample
            (sample.py) has fewer documents, in other rows.
        """
        return np.arange(len(row)), row

    # -- places
    # ----------------------------------------------------------------------------------------------
    @cached_property
    def _removed_numbers(self) -> np.ndarray:
        """Return the numbers of the removed documents, int64[n]."""
        return np.unique(self.removed()[:, 0])

    def _cells(
        self,
        columns: list[str] | None,
        parts: str | Sequence[str],
        first: int = 0,
        batches: tuple[int, int | None] = (0, None),
    ) -> Iterator[tuple[pa.RecordBatch, csr_array]]:
        """Yield the metadata and counts [documents, W] of the documents, BATCH at a time."""
        from scipy.sparse import vstack

        # the last storage block of each part, in which most of the next batch lies
        decoded: dict[int, tuple[int, csr_array]] = {}
        for batch, part, block, row in islice(self.placed(columns, parts, first), *batches):
            pieces = []
            slots = []
            for p, storage in np.unique(np.stack((part, block)), axis=1).T.tolist():
                positions = np.flatnonzero((part == p) & (block == storage))
                if p not in decoded or decoded[p][0] != storage:
                    decoded.pop(p, None)  # before the next one takes memory
                    raw = self.decode(storage, bool(p))
                    decoded[p] = storage, raw.matrix(self.n_words)
                pieces.append(decoded[p][1][row[positions]])
                slots.append(positions)
            cells = pieces[0]
            if len(pieces) > 1:
                cells = vstack(pieces, format="csr")[np.argsort(np.concatenate(slots))]
            yield batch, cells

    def placed(
        self, columns: list[str] | None, parts: str | Sequence[str] = PARTS, first: int = 0
    ) -> Iterator[Placed]:
        """Stream the documents with their places, skipping the ``first`` ones.

        Raises
        ------
        UsageError
            If there is no part of a name.
        """
        names = [parts] if isinstance(parts, str) else list(parts)
        if not set(names) <= set(PARTS):
            raise UsageError(
                f"parts must be of {', '.join(PARTS)}, not {', '.join(map(str, names))}"
            )
        for batch, part, block, row in placed_documents(
            self.path, self.manifest, self._removed_numbers, columns, BATCH
        ):
            selected = np.flatnonzero(np.isin(part, [PARTS.index(name) for name in names]))
            skipped = min(first, len(selected))
            first -= skipped
            selected = selected[skipped:]
            if len(selected):
                documents = batch.take(pa.array(selected))
                yield documents, part[selected], block[selected], row[selected]
