"""A corpus as people look at it: its documents with their words and metadata, as Arrow, NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from topicstream.corpus.format import PARTS, from_gaps
from topicstream.errors import StoreError
from topicstream.files.parquet import read_words

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1 << 13
_PLACE = ("part", "block", "row")


@dataclass(frozen=True)
class Document:
    """One document: its words with their counts (int32[n], float32 in a weighted corpus), and what else is known of it."""

    id: str
    part: str
    words: list[str]
    counts: np.ndarray
    metadata: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = " ".join(self.words[:6]) + (" ..." if len(self.words) > 6 else "")
        return f"Document({self.id!r}, {float(self.counts.sum()):,.0f} tokens: {shown})"


class Views(Sequence["Document"]):
    """What ``Corpus`` shows of itself.  Documents come in the order of the ingest, training and held-out ones together;
    those that were withdrawn or replaced since are left out."""

    path: Path
    manifest: dict[str, Any]
    weighted: bool
    n_words: int

    def __len__(self) -> int:
        """Documents of both parts."""
        return int(sum(p["docs"] for p in self.manifest["parts"].values()) - len(self._gone_numbers))

    def __repr__(self) -> str:
        parts = self.manifest["parts"]
        held = parts["heldout"]["docs"]
        cells = sum(p["cells"] for p in parts.values())
        aside = f" ({held:,} held out)" if held else ""
        return f"Corpus({str(self.path)!r}: {len(self):,} documents{aside}, {self.n_words:,} words, {cells:,} cells)"

    def _repr_html_(self) -> str:
        """What the corpus holds, as a table of its parts."""
        parts, kinds = self.manifest["parts"], ("docs", "tokens", "cells")
        rows = "".join(
            f"<tr><td>{part}</td>{''.join(f'<td>{parts[part].get(k, 0):,.0f}</td>' for k in kinds)}</tr>"
            for part in PARTS
            if parts[part]["docs"]
        )
        head = "<tr><th>part</th><th>documents</th><th>tokens</th><th>cells</th></tr>"
        columns = ", ".join(sorted({*(self.manifest.get("columns") or ())} - {"id", "source"}))
        more = f"<p>metadata: {escape(columns)}</p>" if columns else ""
        return f"<p>{escape(repr(self))}</p><table><thead>{head}</thead><tbody>{rows}</tbody></table>{more}"

    @cached_property
    def words(self) -> pa.LargeStringArray:
        """The vocabulary in id order, ``pyarrow.LargeStringArray``[W]."""
        import pyarrow as pa

        path = self.file("vocab")  # type: ignore[attr-defined]
        try:
            column = read_words(path, ["word"])["word"]
        except (OSError, ValueError, KeyError, pa.ArrowException) as e:
            raise StoreError(f"{path}: cannot be read ({str(e).splitlines()[0]}); restore the file") from None
        return column.cast(pa.large_string()).combine_chunks()

    @property
    def ids(self) -> pa.LargeStringArray:
        """The ids of all documents, ``pyarrow.LargeStringArray``[len(self)]."""
        import pyarrow as pa

        columns = [batch.column("id") for batch, *_ in self._placed(["id"])]
        return pa.concat_arrays(columns) if columns else pa.array([], pa.large_string())

    def documents(
        self, columns: list[str] | None = None, *, parts: tuple[str, ...] = PARTS, first: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Record batches of some thousand documents, streamed: id, part, the metadata (``columns``: only these), then
        ``words`` list<int32>, ids of ``self.words``, ascending, and ``counts`` list<int32> (list<float>).

        parts   of the store, ``train`` and ``heldout``;  first: documents passed over at the start
        """
        import pyarrow as pa

        held: dict[int, tuple[int, np.ndarray, np.ndarray, np.ndarray]] = {}
        for batch, part, block, row in self._placed(columns, parts, first):
            starts, ends = np.empty(len(part), np.int64), np.empty(len(part), np.int64)
            pieces: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
            for p in (0, 1):
                for s in np.unique(block[part == p]).tolist():
                    slots = np.flatnonzero((part == p) & (block == s))
                    if p not in held or held[p][0] != s:
                        held.pop(p, None)
                        held[p] = (s, *self._cells(s, bool(p)))
                    _, indptr, words, counts = held[p]
                    if row[slots].max() >= len(indptr) - 1:
                        raise StoreError(f"{self.path}/docs: a document lies past its block; ingest again")
                    starts[slots], ends[slots] = indptr[row[slots]], indptr[row[slots] + 1]
                    pieces.append((slots, words, counts))
            lengths = ends - starts
            offsets = np.concatenate(([0], np.cumsum(lengths)))
            out_words = np.empty(offsets[-1], np.int32)
            out_counts = np.empty(offsets[-1], np.float32 if self.weighted else np.int32)
            for slots, words, counts in pieces:
                n = lengths[slots]
                within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
                source, target = np.repeat(starts[slots], n) + within, np.repeat(offsets[slots], n) + within
                out_words[target], out_counts[target] = words[source], counts[source]
            lists = [
                pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(v)) for v in (out_words, out_counts)
            ]
            names = [n for n in batch.schema.names if n not in ("block", "row")]
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(n) for n in names), *lists], names=[*names, "words", "counts"]
            )

    def __iter__(self) -> Iterator[Document]:
        return self._documents(0)

    def _documents(self, first: int) -> Iterator[Document]:
        words = self.words
        for batch in self.documents(first=first):
            names = [n for n in batch.schema.names if n not in ("id", "part", "words", "counts")]
            counts = batch.column("counts")
            for i in range(len(batch)):
                yield Document(
                    batch.column("id")[i].as_py(),
                    batch.column("part")[i].as_py(),
                    words.take(batch.column("words")[i].values).to_pylist(),
                    counts[i].values.to_numpy(),
                    {n: v for n in names if (v := batch.column(n)[i].as_py()) is not None},
                )

    @overload
    def __getitem__(self, at: int) -> Document: ...
    @overload
    def __getitem__(self, at: slice) -> list[Document]: ...
    def __getitem__(self, at: int | slice) -> Document | list[Document]:
        """One document by its number, or those of a slice as a list (only they are decoded)."""
        numbers = range(len(self))[at]
        if isinstance(numbers, int):
            return next(self._documents(numbers))
        if not numbers:
            return []
        low, high = min(numbers), max(numbers)
        wanted = set(numbers)
        found = {}
        for number, document in enumerate(self._documents(low), low):
            if number in wanted:
                found[number] = document
            if number >= high:
                break
        return [found[n] for n in numbers]

    def to_scipy(self, *, parts: tuple[str, ...] = PARTS) -> Any:
        """Counts as a ``scipy.sparse.csr_array`` [documents, W], in memory.

        Rows are in the order of ``documents()``: as the documents were ingested, training and held-out ones mixed.  Indices
        are int32 wherever they fit, which some of scikit-learn's estimators ask for.
        """
        from scipy.sparse import csr_array

        batches = [(b.column("words"), b.column("counts")) for b in self.documents([], parts=parts)]
        lengths = [np.diff(w.offsets.to_numpy()) for w, _ in batches]
        indptr = np.concatenate(([0], np.cumsum(np.concatenate(lengths or [np.zeros(0, np.int64)]), dtype=np.int64)))
        kind = np.float32 if self.weighted else np.int32
        words = np.concatenate([w.values.to_numpy() for w, _ in batches] or [np.zeros(0, np.int32)])
        counts = np.concatenate([c.values.to_numpy() for _, c in batches] or [np.zeros(0, kind)])
        if indptr[-1] < 1 << 31:
            indptr = indptr.astype(np.int32)
        return csr_array((counts, words, indptr), shape=(len(indptr) - 1, self.n_words))

    def within(self, part: np.ndarray, block: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of some documents of the store are in this view of it, and their rows here."""
        return np.arange(len(row)), row

    # -- where they lie ----------------------------------------------------------------------------------------------
    @cached_property
    def _gone_numbers(self) -> np.ndarray:
        return np.unique(self.removed()[:, 0])  # type: ignore[attr-defined]

    def _cells(self, storage: int, heldout: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts int64[D+1], global word ids int32 and counts of one storage block."""
        raw = self.decode(storage, heldout)  # type: ignore[attr-defined]
        words = np.empty(len(raw.gaps), np.int32)
        marker = np.zeros(self.n_words, np.uint8)
        if from_gaps(raw.gaps, raw.lengths, 0, len(raw.lengths), 0, words, marker) < 0:
            raise StoreError(f"{self.path}: block {storage}: a word id past the vocabulary; ingest again")
        indptr = np.zeros(len(raw.lengths) + 1, np.int64)
        np.cumsum(raw.lengths, out=indptr[1:])
        return indptr, words, raw.counts.copy()

    def _placed(
        self, columns: list[str] | None, parts: tuple[str, ...] = PARTS, first: int = 0
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray, np.ndarray, np.ndarray]]:
        """(metadata, part, block, row) of the documents that there are, BATCH at a time."""
        import pyarrow as pa

        from topicstream.arrow import pc
        from topicstream.corpus.documents import read_documents

        if not (listed := self.manifest.get("docs")):
            yield from self._unlisted(parts, first)
            return
        wanted = None if columns is None else list(dict.fromkeys(["id", *columns, *_PLACE]))
        number, gone = 0, self._gone_numbers
        for batch in read_documents(self.path, listed, wanted):
            here = np.arange(number, number + len(batch))
            number += len(batch)
            keep = np.isin(here, gone, invert=True) if len(gone) else np.ones(len(batch), bool)
            held = pc.equal(batch.column("part").cast(pa.string()), "heldout").to_numpy(zero_copy_only=False)
            keep &= np.isin(held.astype(np.int64), [PARTS.index(p) for p in parts])
            kept = np.flatnonzero(keep)
            passed = min(first, len(kept))
            first -= passed
            kept = kept[passed:]
            for at in range(0, len(kept), BATCH):
                some = batch.take(pa.array(kept[at : at + BATCH]))
                part = held[kept[at : at + BATCH]].astype(np.int64)
                block, row = (some.column(c).to_numpy(zero_copy_only=False).astype(np.int64) for c in ("block", "row"))
                for p in (0, 1):
                    blocks = len(self.manifest["parts"][PARTS[p]]["blocks"])
                    mine = part == p
                    if mine.any() and not (block[mine].min() >= 0 and block[mine].max() < blocks and row.min() >= 0):
                        raise StoreError(f"{self.path}/docs: a document lies past the blocks; ingest again")
                yield some, part, block, row

    def _unlisted(
        self, parts: tuple[str, ...], first: int
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray, np.ndarray, np.ndarray]]:
        """Of a store without a documents' table: numbers are ids, the training part comes first."""
        import pyarrow as pa

        number = 0
        for p, name in enumerate(PARTS):
            for s, block in enumerate(self.manifest["parts"][name]["blocks"]):
                for row in range(0, block["docs"], BATCH):
                    n = min(BATCH, block["docs"] - row)
                    numbers = np.arange(number, number + n)
                    number += n
                    if name not in parts:
                        continue
                    passed = min(first, n)
                    first -= passed
                    if passed == n:
                        continue
                    ids = pa.array(numbers[passed:]).cast(pa.large_string())
                    part = pa.array([name] * (n - passed))
                    batch = pa.RecordBatch.from_arrays([ids, part], names=["id", "part"])
                    yield batch, np.full(n - passed, p), np.full(n - passed, s), np.arange(row + passed, row + n)
