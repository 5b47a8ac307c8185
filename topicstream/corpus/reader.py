"""Blocks on disk -> decoded blocks with local ids.

A *grid* cuts the storage blocks into engine blocks: runs of documents of about ``cells`` cells (or ``docs`` documents),
never across a storage block.  It is a function of the corpus and of those two numbers alone.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.buffers import Buffers
from topicstream.corpus.format import (
    CELLS,
    DOCS,
    KINDS,
    SCHEMA,
    chunk_path,
    drop_rows,
    from_gaps,
    localise,
    number_words,
    read_chunk,
)
from topicstream.corpus.manifest import check_manifest
from topicstream.durable import file_problem, read_json
from topicstream.errors import StoreError
from topicstream.kernels.jit import kernel


@dataclass(frozen=True)
class Grid:
    """The engine blocks of one part of a corpus, in the order of a sequential pass.

    All arrays have one entry a block: storage (storage block), row_start, row_stop (its documents within that block),
    cell_start (first cell within that block), cells, first_doc (global).  ``max_words`` bounds a block's local words.
    """

    heldout: bool
    storage: np.ndarray
    row_start: np.ndarray
    row_stop: np.ndarray
    cell_start: np.ndarray
    cells: np.ndarray
    first_doc: np.ndarray
    max_words: int

    def __len__(self) -> int:
        return len(self.storage)

    @property
    def docs(self) -> np.ndarray:
        """Documents of each block, int64."""
        return self.row_stop - self.row_start

    def order(self, how: str, seed: int, pass_number: int) -> np.ndarray:
        """Block numbers in visiting order: ``sequential``, or ``shuffled`` (storage blocks are shuffled, then the blocks
        within each, so that a shuffled pass still reads every chunk once)."""
        n = len(self)
        if how == "sequential":
            return np.arange(n)
        if how != "shuffled":
            raise ValueError(f"order must be 'sequential' or 'shuffled', not {how!r}")
        rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), pass_number]))
        by_storage = [np.flatnonzero(self.storage == s) for s in rng.permutation(np.unique(self.storage))]
        return np.concatenate([rng.permutation(group) for group in by_storage]) if by_storage else np.arange(0)


@kernel
def _cut(lengths, cells, docs, starts):
    """First documents of the blocks of one storage block -> starts: int64[]; returns how many."""
    n = 0
    in_cells = in_docs = 0
    for d in range(len(lengths)):
        if d == 0 or (in_cells > 0 and in_cells + lengths[d] > cells) or in_docs >= docs:
            starts[n] = d
            n += 1
            in_cells = in_docs = 0
        in_cells += lengths[d]
        in_docs += 1
    return n


class _Decoded:
    """One storage block's raw arrays: gaps uint32[cells], counts[cells], lengths uint32[docs]."""

    def __init__(self, gaps: np.ndarray, counts: np.ndarray, lengths: np.ndarray) -> None:
        self.gaps, self.counts, self.lengths = gaps, counts, lengths


class Corpus:
    """A corpus store, opened for reading.  Readers never block and never write.

    ``Corpus.open(path)`` reads the manifest only.  Counts of documents, cells and tokens are those of the training part
    unless ``heldout`` is asked for.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        self.weighted: bool = manifest["weighted"]
        self.n_words: int = manifest["n_words"]
        self.fingerprint: str = manifest["fingerprint"]
        self._verified: set[str] = set()
        self._buffers = Buffers()
        self._gone: dict[tuple[int, int], np.ndarray] | None = None

    @classmethod
    def open(cls, path: str | Path) -> Corpus:
        """Open a store; StoreError (one line) when it is missing, of another version or damaged."""
        folder = Path(path)
        if not (folder / "manifest.json").exists():
            raise StoreError(
                f"{folder}: no corpus store here (no manifest.json); make one with `topics ingest PATH --out {folder}`"
            )
        manifest = read_json(folder / "manifest.json")
        if not isinstance(manifest, dict) or manifest.get("kind") != "corpus":
            raise StoreError(f"{folder}/manifest.json: not a corpus manifest")
        if manifest.get("schema") != SCHEMA:
            raise StoreError(
                f"{folder}: store of schema {manifest.get('schema')}, this version reads {SCHEMA}; ingest again"
            )
        check_manifest(folder / "manifest.json", manifest)
        return cls(folder, manifest)

    def part(self, heldout: bool = False) -> dict[str, Any]:
        """The manifest's entry of the training or held-out part: blocks, docs, cells, tokens, rows, bytes."""
        return self.manifest["parts"]["heldout" if heldout else "train"]

    @property
    def n_docs(self) -> int:
        return self.part()["docs"]

    @property
    def n_cells(self) -> int:
        return self.part()["cells"]

    @property
    def n_tokens(self) -> float:
        return self.part()["tokens"]

    def _read(self, heldout: bool, storage: int, kind: str, out: np.ndarray, room: np.ndarray | None = None) -> None:
        part = "heldout" if heldout else "train"
        entry = self.part(heldout)["blocks"][storage]
        width = DOCS if kind == "lengths" else CELLS
        for r, (size, crc) in enumerate(entry["files"][kind]):
            row = entry["rows"][0] + r
            what = f"block {storage} of {part} ({kind})"
            read_chunk(chunk_path(self.path, part, kind, row), size, crc, out[r * width : (r + 1) * width], what, room)

    def lengths(self, storage: int, heldout: bool = False, room: np.ndarray | None = None) -> np.ndarray:
        """Cells on disk of each document of one storage block (removed ones included), uint32[docs]."""
        entry = self.part(heldout)["blocks"][storage]
        out = np.empty(DOCS * (entry["rows"][1] - entry["rows"][0]), np.uint32)
        self._read(heldout, storage, "lengths", out, room)
        lengths = out[: entry["docs"]]
        if int(lengths.sum(dtype=np.int64)) != entry["cells"]:
            raise StoreError(
                f"{self.path}: block {storage}: documents and cells disagree with the manifest; ingest again"
            )
        return lengths

    def file(self, kind: str) -> Path:
        """A file by its role: ``vocab``, ``pruned``, ``removed``, ``rejects``; its checksum is verified the first time it
        is asked for.  StoreError when the store has none, or it is damaged."""
        entry = self.manifest.get("files", {}).get(kind)
        if entry is None:
            if kind == "vocab":
                return self.path / "vocab.parquet"
            raise StoreError(f"{self.path}: has no file of its {kind}")
        path = self.path / entry["file"]
        if kind not in self._verified and "crc32c" in entry:
            if (problem := file_problem(path, entry["size"], entry["crc32c"])) is not None:
                raise StoreError(problem)
            self._verified.add(kind)
        return path

    def removed(self) -> np.ndarray:
        """Documents withdrawn or replaced since their block was written, int64[n, 4]: document number (row of the
        documents' table), part (0 train, 1 heldout), storage block, row.  They keep their row and have no cells."""
        if "removed" not in self.manifest.get("files", {}):
            return np.zeros((0, 4), np.int64)
        path = self.file("removed")
        try:
            listed = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as e:
            raise StoreError(f"{path}: the list of removed documents cannot be read ({e}); restore the file") from None
        return listed

    def _rows_gone(self, heldout: bool, storage: int) -> np.ndarray:
        if self._gone is None:
            listed = self.removed()
            pairs = {(int(p), int(b)) for p, b in listed[:, 1:3]}
            self._gone = {(p, b): np.sort(listed[(listed[:, 1] == p) & (listed[:, 2] == b), 3]) for p, b in pairs}
        return self._gone.get((int(heldout), storage), np.zeros(0, np.int64))

    def decode(self, storage: int, heldout: bool = False) -> _Decoded:
        """Read, verify and decode one storage block."""
        entry = self.part(heldout)["blocks"][storage]
        rows, n = entry["rows"][1] - entry["rows"][0], entry["cells"]
        gaps = self._buffers.take(rows, np.uint32)
        counts = self._buffers.take(rows, np.float32 if self.weighted else np.int32)
        room = self._buffers.take(1, np.uint32)
        self._read(heldout, storage, "words", gaps, room)
        self._read(heldout, storage, "counts", counts, room)
        lengths = self.lengths(storage, heldout, room)
        del room
        gone = self._rows_gone(heldout, storage)
        if len(gone):
            n = drop_rows(gaps[:n], counts[:n], lengths, gone)
        return _Decoded(gaps[:n], counts[:n], lengths)

    def will_read(self, storage: int, heldout: bool = False) -> None:
        """Ask the system to read one storage block into its cache, without waiting for it.  Does nothing where that cannot
        be asked, and raises nothing: whoever reads the block meets what is wrong with it."""
        part, entry = "heldout" if heldout else "train", self.part(heldout)["blocks"][storage]
        if not hasattr(os, "posix_fadvise"):
            return
        for kind in KINDS:
            for row in range(*entry["rows"]):
                with contextlib.suppress(OSError):
                    fd = os.open(chunk_path(self.path, part, kind, row), os.O_RDONLY)
                    try:
                        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
                    finally:
                        os.close(fd)

    def release(self) -> None:
        """Give back the memory that is kept for the next blocks."""
        self._buffers.release()

    def word_counts(self) -> np.ndarray:
        """n_w float64[W]: each word's total count over the training cells, streamed from the blocks."""
        counts = np.zeros(self.n_words)
        for block in self.blocks():
            counts[block.vocab] += np.bincount(block.words, weights=block.counts, minlength=block.n_words)
        return counts

    def grid(self, cells: int = CELLS, docs: int = DOCS, heldout: bool = False) -> Grid:
        """Cut the part into blocks of at most ``cells`` cells and ``docs`` documents (a longer document is a block alone).

        Decodes the part once to know the widest local vocabulary (5 ns a cell).
        """
        columns: list[list[np.ndarray]] = [[], [], [], [], [], []]
        first_doc, widest = 0, 1
        marker, local = np.zeros(self.n_words, np.uint8), np.empty(self.n_words, np.int32)
        vocab = np.empty(self.n_words, np.int32)
        for s in range(len(self.part(heldout)["blocks"])):
            raw = self.decode(s, heldout)
            starts = np.empty(len(raw.lengths) + 1, np.int64)
            n = _cut(raw.lengths, cells, docs, starts)
            edges = np.append(starts[:n], len(raw.lengths))
            cell_edges = np.concatenate(([0], np.cumsum(raw.lengths, dtype=np.int64)))[edges]
            ids = np.empty(int(np.diff(cell_edges).max(initial=0)), np.int32)
            for i in range(n):
                if from_gaps(raw.gaps, raw.lengths, edges[i], edges[i + 1], cell_edges[i], ids, marker) < 0:
                    raise StoreError(f"{self.path}: block {s}: a word id past the vocabulary; ingest again")
                widest = max(widest, number_words(marker, vocab, local))
            for column, values in zip(
                columns,
                (np.full(n, s), edges[:-1], edges[1:], cell_edges[:-1], np.diff(cell_edges), first_doc + edges[:-1]),
            ):
                column.append(values)
            first_doc += len(raw.lengths)
        arrays = [np.concatenate(c).astype(np.int64) if c else np.zeros(0, np.int64) for c in columns]
        return Grid(heldout, *arrays, widest)  # type: ignore[call-arg, arg-type]

    def blocks(
        self,
        order: str | Sequence[int] | np.ndarray = "sequential",
        *,
        grid: Grid | None = None,
        seed: int = 0,
        pass_number: int = 0,
        prefetch: int = 2,
        heldout: bool = False,
    ) -> Iterator[Block]:
        """Decoded blocks in the given order; a background thread reads and decodes ``prefetch`` storage blocks ahead.

        order: ``sequential``, ``shuffled``, or block numbers of ``grid`` (default grid: the storage blocks).
        Each block owns its arrays.
        """
        grid = grid if grid is not None else self.grid(heldout=heldout)
        numbers = grid.order(order, seed, pass_number) if isinstance(order, str) else np.asarray(order, np.int64)
        runs: list[tuple[int, np.ndarray]] = []
        if len(numbers):
            cuts = np.flatnonzero(np.diff(grid.storage[numbers])) + 1
            runs = [(int(grid.storage[g[0]]), g) for g in np.split(numbers, cuts)]
        cut = Cutter(self.n_words)
        if prefetch <= 0:
            for storage, group in runs:
                raw = self.decode(storage, grid.heldout)
                for b in group:
                    yield cut.block(self, grid, int(b), raw)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
            ahead: list[Future[_Decoded]] = []
            started = 0
            try:
                for _, group in runs:
                    while started < len(runs) and len(ahead) < prefetch:
                        ahead.append(pool.submit(self.decode, runs[started][0], grid.heldout))
                        started += 1
                    raw = ahead.pop(0).result()
                    for b in group:
                        yield cut.block(self, grid, int(b), raw)
            finally:
                for future in ahead:
                    future.cancel()


class Cutter:
    """Cuts decoded storage blocks into blocks with local ids through W-sized marker arrays (no sort).  One thread at a
    time may use it; it takes 5 bytes a vocabulary word."""

    def __init__(self, n_words: int) -> None:
        self._marker = np.zeros(n_words, np.uint8)
        self._local = np.empty(n_words, np.int32)
        self._lock = threading.Lock()

    def block(self, corpus: Corpus, grid: Grid, number: int, raw: _Decoded) -> Block:
        """Block ``number`` of ``grid`` out of its decoded storage block."""
        first, last = int(grid.row_start[number]), int(grid.row_stop[number])
        start, n = int(grid.cell_start[number]), int(grid.cells[number])
        ids = np.empty(n, np.int32)
        with self._lock:
            if from_gaps(raw.gaps, raw.lengths, first, last, start, ids, self._marker) != n:
                self._marker[:] = 0
                raise StoreError(
                    f"{corpus.path}: block {int(grid.storage[number])}: a word id past the vocabulary; ingest again"
                )
            vocab = np.empty(min(n, len(self._marker)), np.int32)
            u = number_words(self._marker, vocab, self._local)
            localise(ids, self._local)
        indptr = np.zeros(last - first + 1, np.int64)
        np.cumsum(raw.lengths[first:last], out=indptr[1:])
        counts = raw.counts[start : start + n]
        tokens = counts.sum(dtype=np.float64 if corpus.weighted else np.int64)
        return Block(number, int(grid.first_doc[number]), indptr, ids, counts, vocab[:u].copy(), float(tokens))
