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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.axes import Axes, entries_of
from topicstream.corpus.block import Block
from topicstream.corpus.buffers import Buffers
from topicstream.corpus.cutting import Cutter, Decoded
from topicstream.corpus.format import (
    CELLS,
    DOCS,
    KINDS,
    PARTS,
    SCHEMA,
    chunk_path,
    drop_rows,
    from_gaps,
    part_folder,
    read_chunk,
    wrong_document,
)
from topicstream.corpus.grid import Grid, cut_grid
from topicstream.corpus.lease import Lease
from topicstream.corpus.manifest import check_changeable, check_manifest
from topicstream.corpus.ragged import read_ragged
from topicstream.corpus.views import Views
from topicstream.errors import StoreError, TopicsError, UsageError
from topicstream.files.durable import file_problem, read_json
from topicstream.files.parquet import read_words, rows_of_words
from topicstream.files.plain import FLAGS, load_array, read_plain, refuse_linked_folders, refuse_special


def _read_manifest(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("kind") != "corpus":
        raise StoreError(f"{folder}/manifest.json: not a corpus manifest")
    if manifest.get("schema") != SCHEMA:
        raise StoreError(
            f"{folder}: store of schema {manifest.get('schema')}, this version reads {SCHEMA}; ingest again"
        )
    check_manifest(folder / "manifest.json", manifest)
    return manifest


class Corpus(Views):
    """A corpus store, opened for reading.  Readers never block and never write.  A sequence of its documents (views.py).

    ``Corpus.open(path)`` reads the manifest only.  Counts of documents, cells and tokens are those of the training part
    unless ``heldout`` is asked for.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        self.weighted: bool = manifest["weighted"]
        self.n_words: int = manifest["n_words"]
        self.vectors: int = manifest.get("vectors", 0)  # numbers of each vector; 0: a store of documents
        self.fingerprint: str = manifest["fingerprint"]
        self.weights: Any = None  # what turns the counts of its blocks into weights (model/weighting.py)
        self._verified: set[str] = set()
        self._buffers = Buffers()
        self._gone: dict[tuple[int, int], np.ndarray] | None = None
        self._axes: dict[str, Any] | None = None
        self._axes_lock = threading.RLock()
        self._lease = Lease(None)

    @classmethod
    def open(cls, path: str | Path, *, vectors: bool = False) -> Corpus:
        """Open a store; StoreError (one line) when it is missing, of another version or damaged; UsageError for a store of
        vectors, unless the caller takes ``vectors`` too."""
        folder = Path(path)
        if not (folder / "manifest.json").exists():
            raise StoreError(
                f"{folder}: no corpus store here (no manifest.json); make one with `topics ingest PATH --out {folder}`"
            )
        while True:
            stamp = os.stat(folder / "manifest.json")
            corpus = cls(folder, _read_manifest(folder))
            if corpus.vectors and not vectors:
                raise UsageError(f"{folder}: holds vectors, which only `topics train --algo gmm` and its models take")
            parts = [part_folder(corpus.manifest["parts"][part], part) for part in PARTS]
            inner = [f"{part}{below}" for part in parts for kind in KINDS for below in ("", f"/{kind}", f"/{kind}/c")]
            refuse_linked_folders(folder, [*inner, "docs"])
            corpus._lease = Lease(folder / part_folder(corpus.part(), "train"))
            with contextlib.suppress(FileNotFoundError):
                if corpus._lease.given and os.path.samestat(stamp, os.stat(folder / "manifest.json")):
                    return corpus
            corpus.let_go()  # compacted just now

    def to_change(self) -> Corpus:
        """The store itself.  StoreError where its manifest lacks what an append, a compaction or `topics forget` goes on from."""
        check_changeable(self.path / "manifest.json", self.manifest)
        return self

    def let_go(self) -> None:
        """Say that no block will be read any more: the files may go if the store has been compacted since."""
        self._lease.close()

    def is_of(self, fingerprint: str | None) -> bool:
        """Whether a fingerprint is that of this store, or of the one that was compacted to it: the same documents."""
        return fingerprint == self.fingerprint or fingerprint in self.manifest.get("same_as", [])

    @property
    def whole(self) -> Corpus:
        """Of a view of some of the documents: the store."""
        return self

    def part(self, heldout: bool = False) -> dict[str, Any]:
        """The manifest's entry of the training or held-out part: blocks, docs, cells, tokens, rows, bytes."""
        found: dict[str, Any] = self.manifest["parts"]["heldout" if heldout else "train"]
        return found

    @property
    def n_docs(self) -> int:
        """Training documents."""
        return int(self.part()["docs"])

    @property
    def n_cells(self) -> int:
        """Different words of the training documents, added up."""
        return int(self.part()["cells"])

    @property
    def n_tokens(self) -> float:
        """Words of the training documents, or the sum of their weights."""
        return float(self.part()["tokens"])

    @property
    def axes(self) -> Axes:
        """name -> Axis: ``words``, and ``authors``, ``labels``, ``links`` where the input had them.  A store made by an
        earlier version gets its axes now, under the writer's lock.  StoreError."""
        return Axes(self, self._axis_entries())

    def _axis_entries(self) -> dict[str, Any]:
        with self._axes_lock:
            if self._axes is None:
                self._axes = entries_of(self)
            return self._axes

    def axis_file(self, name: str) -> Path:
        """The file of an axis' names (authors, labels); its checksum is verified the first time."""
        entry = self._axis_entries()[name]["names"]
        path = self.path / entry["file"]
        if name not in self._verified:
            if (problem := file_problem(path, entry["size"], entry["crc32c"])) is not None:
                raise StoreError(problem)
            self._verified.add(name)
        return Path(path)

    def ragged(self, name: str, storage: int, heldout: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Read, verify and decode one storage block of an axis: lengths uint32[docs], ids int32[entries], ascending within
        a document; documents that are gone have none."""
        entry = self._axis_entries()[name]
        part = "heldout" if heldout else "train"
        docs = self.part(heldout)["blocks"][storage]["docs"]
        block = entry["parts"][part]["blocks"][storage]
        lengths, ids = read_ragged(self.path / entry["folder"], part, storage, block, docs, entry["size"])
        gone = self._rows_gone(heldout, storage)
        if len(gone) and lengths[gone].any():
            left = lengths.copy()
            left[gone] = 0
            ids = ids[np.repeat(left > 0, lengths)]
            lengths = left
        return lengths, ids

    def _read(self, heldout: bool, storage: int, kind: str, out: np.ndarray, room: np.ndarray | None = None) -> None:
        part = "heldout" if heldout else "train"
        folder = part_folder(self.part(heldout), part)
        entry = self.part(heldout)["blocks"][storage]
        width = DOCS if kind == "lengths" else CELLS
        for r, (size, crc) in enumerate(entry["files"][kind]):
            row = entry["rows"][0] + r
            what = f"block {storage} of {part} ({kind})"
            read_chunk(
                chunk_path(self.path, folder, kind, row), size, crc, out[r * width : (r + 1) * width], what, room
            )

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
                refuse_special(self.path / "vocab.parquet")
                return self.path / "vocab.parquet"
            raise StoreError(f"{self.path}: has no file of its {kind}")
        path = self.path / entry["file"]
        if kind not in self._verified and "crc32c" in entry:
            if (problem := file_problem(path, entry["size"], entry["crc32c"])) is not None:
                raise StoreError(problem)
            if kind == "vocab" and (n := self._words_of(path)) != self.n_words:
                raise StoreError(f"{path}: {n} words where the manifest says {self.n_words}; restore it or ingest again")
            self._verified.add(kind)
        return Path(path)

    def _words_of(self, path: Path) -> int:
        try:
            return rows_of_words(path)
        except (OSError, ValueError, pa.ArrowException) as e:
            raise StoreError(f"{path}: cannot be read ({str(e).splitlines()[0]}); restore the file") from None

    def removed(self) -> np.ndarray:
        """Documents withdrawn or replaced since their block was written, int64[n, 4]: document number (row of the
        documents' table), part (0 train, 1 heldout), storage block, row.  They keep their row and have no cells."""
        if "removed" not in self.manifest.get("files", {}):
            return np.zeros((0, 4), np.int64)
        path = self.file("removed")
        try:
            listed = load_array(read_plain(path, 1 << 40), str(path))
        except OSError as e:
            raise StoreError(f"{path}: the list of removed documents cannot be read ({e}); restore the file") from None
        if listed.ndim != 2 or listed.shape[1] != 4 or listed.dtype != np.int64:
            raise StoreError(f"{path}: is no list of removed documents (int64[n, 4]); restore the file")
        for part in (0, 1):
            mine = listed[listed[:, 1] == part]
            docs = np.array([b["docs"] for b in self.part(bool(part))["blocks"]], np.int64)
            inside = (mine[:, 0] >= 0) & (mine[:, 2] >= 0) & (mine[:, 2] < len(docs)) & (mine[:, 3] >= 0)
            if not inside.all() or (mine[:, 3] >= docs[mine[:, 2]]).any():
                raise StoreError(f"{path}: names a document past the blocks of the store; restore the file")
        if not np.isin(listed[:, 1], (0, 1)).all():
            raise StoreError(f"{path}: names a document of no part; restore the file")
        return listed

    def _rows_gone(self, heldout: bool, storage: int) -> np.ndarray:
        if self._gone is None:
            listed = self.removed()
            pairs = {(int(p), int(b)) for p, b in listed[:, 1:3]}
            self._gone = {(p, b): np.sort(listed[(listed[:, 1] == p) & (listed[:, 2] == b), 3]) for p, b in pairs}
        return self._gone.get((int(heldout), storage), np.zeros(0, np.int64))

    def _others(self, name: str, storage: int, heldout: bool) -> tuple[np.ndarray, np.ndarray]:
        lengths, ids = self.ragged(self.axes[name].name, storage, heldout)
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))), ids

    def decode(self, storage: int, heldout: bool = False, axes: Sequence[str] = ()) -> Decoded:
        """Read, verify and decode one storage block, with the ids of the axes asked for (``words`` always)."""
        try:
            return self._decode(storage, heldout, axes)
        except (StoreError, OSError):
            if self._was_replaced():
                raise TopicsError(
                    f"{self.path}: another store took its place while this one was being read; run the command again"
                ) from None
            raise

    def _was_replaced(self) -> bool:
        """Whether another store (not a later state of this one) lies where this one was opened."""
        try:
            now = _read_manifest(self.path)
        except (StoreError, OSError):
            return not (self.path / "manifest.json").exists()
        return bool(now.get("fingerprint") != self.fingerprint and now.get("generation", 1) <= self.manifest["generation"])

    def _decode(self, storage: int, heldout: bool, axes: Sequence[str]) -> Decoded:
        others = {name: self._others(name, storage, heldout) for name in axes if name != "words"}
        entry = self.part(heldout)["blocks"][storage]
        rows, n = entry["rows"][1] - entry["rows"][0], entry["cells"]
        gaps = self._buffers.take(rows, np.uint32)
        counts = self._buffers.take(rows, np.float32 if self.weighted else np.int32)
        room = self._buffers.take(1, np.uint32)
        self._read(heldout, storage, "words", gaps, room)
        self._read(heldout, storage, "counts", counts, room)
        lengths = self.lengths(storage, heldout, room)
        self._buffers.give_back(room)
        self._check(gaps[:n], counts[:n], lengths, entry["tokens"], f"block {storage}{' of heldout' * heldout}")
        gone = self._rows_gone(heldout, storage)
        if len(gone):
            n = drop_rows(gaps[:n], counts[:n], lengths, gone)
        decoded = Decoded(gaps[:n], counts[:n], lengths, (gaps, counts), self._buffers)
        decoded.axes = others
        return decoded

    def _check(self, gaps: np.ndarray, counts: np.ndarray, lengths: np.ndarray, tokens: float, what: str) -> None:
        """What kernels index by and loop over, before one does: word ids ascend below W, counts are above 0 and finite and
        add up to the manifest's."""
        document = wrong_document(gaps, lengths, self.n_words)
        if document >= 0:
            raise StoreError(f"{self.path}: {what}, document {document}: its word ids cannot be; ingest again")
        if len(counts):
            if self.vectors:
                if not np.isfinite(counts).all() or (lengths % self.vectors).any():
                    raise StoreError(f"{self.path}: {what}: a vector that cannot be; ingest again")
                return
            if not (counts.min() > 0 and (not self.weighted or counts.max() < np.inf)):
                raise StoreError(f"{self.path}: {what}: a count that is not above 0; ingest again")
            total = counts.sum(dtype=np.float64 if self.weighted else np.int64)
            if not (np.isclose(total, tokens, rtol=1e-9, atol=0.0) if self.weighted else total == tokens):
                raise StoreError(f"{self.path}: {what}: its counts do not add up to the manifest's; ingest again")

    def will_read(self, storage: int, heldout: bool = False) -> None:
        """Ask the system to read one storage block into its cache, without waiting for it.  Does nothing where that cannot
        be asked, and raises nothing: whoever reads the block meets what is wrong with it."""
        folder = part_folder(self.part(heldout), "heldout" if heldout else "train")
        entry = self.part(heldout)["blocks"][storage]
        if not hasattr(os, "posix_fadvise"):
            return
        for kind in KINDS:
            for row in range(*entry["rows"]):
                with contextlib.suppress(OSError):
                    fd = os.open(chunk_path(self.path, folder, kind, row), FLAGS)
                    try:
                        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
                    finally:
                        os.close(fd)

    def release(self) -> None:
        """Give back the memory that is kept for the next blocks."""
        self._buffers.release()

    def axis_record(self, name: str) -> dict[str, Any]:
        """The manifest's entry of an axis: its files with their sizes and checksums."""
        return dict(self._axis_entries()[self.axes[name].name])

    def word_counts(self) -> np.ndarray:
        """n_w float64[W]: each word's total count over the training cells.  The vocabulary knows it; only where it counts
        something else (real-valued cells) are the blocks read.  Of vectors: how many there are."""
        if self.vectors:
            return np.full(self.n_words, float(self.n_docs))
        if not self.weighted:
            path = self.file("vocab")
            try:
                counts = read_words(path, ["count"])["count"].to_numpy().astype(np.float64)
            except (OSError, ValueError, KeyError, pa.ArrowException) as e:
                raise StoreError(f"{path}: cannot be read ({str(e).splitlines()[0]}); restore the file") from None
            if len(counts) == self.n_words and counts.sum() == self.n_tokens:
                return np.asarray(counts)
        counts, marker = np.zeros(self.n_words), np.zeros(self.n_words, np.uint8)
        for s in range(len(self.part()["blocks"])):
            raw = self.decode(s)
            ids = np.empty(len(raw.gaps), np.int32)
            if from_gaps(raw.gaps, raw.lengths, 0, len(raw.lengths), 0, ids, marker) < 0:
                raise StoreError(f"{self.path}: block {s}: a word id past the vocabulary; ingest again")
            counts += np.bincount(ids, weights=raw.counts, minlength=self.n_words)
            raw.close()
        return counts

    def document_counts(self) -> np.ndarray:
        """df int64[W]: training documents with each word."""
        path = self.file("vocab")
        try:
            return np.asarray(read_words(path, ["df"])["df"].to_numpy().astype(np.int64))
        except (OSError, ValueError, KeyError, pa.ArrowException) as e:
            raise StoreError(f"{path}: cannot be read ({str(e).splitlines()[0]}); restore the file") from None

    def grid(self, cells: int = CELLS, docs: int = DOCS, heldout: bool = False, axes: Sequence[str] = ()) -> Grid:
        """Cut the part into blocks of at most ``cells`` cells and ``docs`` documents (a longer document is a block alone).

        Decodes the part once (5 ns a cell) for the widest local vocabulary and the sizes of the axes asked for, and
        remembers what it found (grid.py): the next run reads nothing.
        """
        return cut_grid(self, cells, docs, heldout, axes)

    def blocks(
        self,
        order: str | Sequence[int] | np.ndarray = "sequential",
        *,
        grid: Grid | None = None,
        seed: int = 0,
        pass_number: int = 0,
        prefetch: int = 2,
        heldout: bool = False,
        axes: Sequence[str] = (),
    ) -> Iterator[Block]:
        """Decoded blocks in the given order; a background thread reads and decodes ``prefetch`` storage blocks ahead.

        order: ``sequential``, ``shuffled``, or block numbers of ``grid`` (default grid: the storage blocks).
        Each block owns its arrays.  axes: what ``Block.rows`` shall know besides ``words``.
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
                raw = self.decode(storage, grid.heldout, axes)
                for b in group:
                    yield cut.block(self, grid, int(b), raw)
                raw.close()
            return
        with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
            ahead: list[Future[Decoded]] = []
            started = 0
            try:
                for _, group in runs:
                    while started < len(runs) and len(ahead) < prefetch:
                        ahead.append(pool.submit(self.decode, runs[started][0], grid.heldout, axes))
                        started += 1
                    raw = ahead.pop(0).result()
                    for b in group:
                        yield cut.block(self, grid, int(b), raw)
                    raw.close()
            finally:
                for future in ahead:
                    future.cancel()
