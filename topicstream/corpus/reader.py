"""``Corpus``: a store opened for reading, its blocks decoded and cut, its files and axes.

A *grid* cuts the storage blocks into engine blocks: runs of documents of about ``cells`` cells (or
``docs`` documents),
never across a storage block.  It is a function of the corpus and of those two numbers alone.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import DTypeLike

from topicstream.base.errors import StoreError, UsageError
from topicstream.base.files.openings import Opening, rewriting_behind
from topicstream.base.files.plain import batches, load_arrays, open_table, refuse_linked_folders
from topicstream.base.places import places
from topicstream.base.text import noun_of
from topicstream.corpus.axes import Axes, Axis, read_lists
from topicstream.corpus.axis_build import stored_axes
from topicstream.corpus.block import Block, from_gaps
from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import CELLS, DOCS, KINDS, PARTS, read_rows
from topicstream.corpus.grid import Cutter, Decoded, Grid, cut_grid
from topicstream.corpus.manifest import (
    AxisEntry,
    BlockEntry,
    PartEntry,
    StoreFile,
    StoreManifest,
    part_folder,
)
from topicstream.corpus.sweep import Lease
from topicstream.corpus.views import Views
from topicstream.numeric.parallel import pooled

_OF_PROCESS = ("_lock", "_lease", "_opening")


class Corpus(Views):
    """A corpus store, opened for reading: a sequence of its documents, and its blocks.

    ``Corpus.open`` reads the manifest only.  Readers never block a writer and never write.  Counts
    of documents, cells and
    tokens are those of the training part unless ``heldout`` is asked for.

    Examples
    --------
    >>> corpus = topicstream.Corpus.open("corpus.zarr")
    >>> len(corpus), corpus.n_docs
    (400, 360)
    >>> corpus[0].id
    'doc-0'
    """

    def __init__(self, path: Path, manifest: StoreManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.weighted = manifest.weighted
        self.n_words = manifest.n_words
        self.fingerprint = manifest.fingerprint
        self.width = manifest.width  # numbers of a dense row; 0: a store of documents
        self.sample: dict[str, Any] | None = None  # of a view of some of the documents (sample.py)
        self.weights: Any = (
            None  # what turns the counts of its blocks into weights (model/weighting.py)
        )
        self._verified: set[str] = set()
        self._gone: dict[tuple[int, int], np.ndarray] | None = None
        self._axes: dict[str, AxisEntry] | None = None
        self._lock = threading.RLock()
        self._lease = Lease(None)
        self._opening: Opening | None = None

    @classmethod
    def open(cls, path: str | Path, *, dense: bool = False) -> Corpus:
        """Open a store: a folder, or an address such as ``s3://bucket/corpus.zarr``
        (docs/storage.md).

        Raises
        ------
        StoreError
            Where it is missing, damaged or of another version.
        UsageError
            For a store of dense rows, unless the caller takes these too.
        """
        folder = Path(places().resolve(path))
        while True:
            opening = Opening(folder, "store")
            corpus = cls(folder, StoreManifest.read(folder))
            corpus._opening = opening
            if corpus.width and not dense:
                raise UsageError(
                    f"{folder}: holds {noun_of(corpus.width)}, not words: `topics train --algo "
                    f"gmm` takes it, and `show`, `infer` and `eval` of such a model"
                )
            parts = [corpus._folder(heldout) for heldout in (False, True)]
            inner = [
                f"{part}{below}"
                for part in parts
                for kind in KINDS
                for below in ("", f"/{kind}", f"/{kind}/c")
            ]
            refuse_linked_folders(folder, [*inner, "docs"])
            corpus._lease = Lease(folder / parts[0])
            if corpus._lease.given and StoreManifest.read(folder).fingerprint == corpus.fingerprint:
                return corpus
            corpus.let_go()  # compacted just now

    def __getstate__(self) -> dict[str, Any]:
        """What a process elsewhere reads the same documents with, for as long as this one keeps its
        lease.
        """
        own = {name: value for name, value in vars(self).items() if name not in _OF_PROCESS}
        return own | {"path": self.path.absolute()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _lease=Lease(None), _opening=None)

    def let_go(self) -> None:
        """Say that no block will be read any more: the files may go if the store has been compacted
        since.
        """
        self._lease.close()

    def is_of(self, fingerprint: str | None) -> bool:
        """Whether a fingerprint is that of this store, or of one that was compacted to it: the same
        documents.
        """
        return fingerprint == self.fingerprint or fingerprint in (self.manifest.same_as or ())

    @property
    def whole(self) -> Corpus:
        """Of a view of some of the documents: the store."""
        return self

    def part(self, heldout: bool = False) -> PartEntry:
        """The manifest's entry of the training or held-out part: blocks, docs, cells, tokens, rows,
        bytes.
        """
        return self.manifest.parts[PARTS[heldout]]

    @property
    def n_docs(self) -> int:
        """Training documents."""
        return self.part().docs

    @property
    def n_cells(self) -> int:
        """Different words of the training documents, added up."""
        return self.part().cells

    @property
    def n_tokens(self) -> float:
        """Words of the training documents, or the sum of their weights."""
        return float(self.part().tokens)

    # -- files
    # ----------------------------------------------------------------------------------------------
    def file(self, kind: str) -> Path:
        """A file by its role: ``vocab``, ``pruned``, ``removed``, ``rejects``; its checksum is
        verified the first time it
        is asked for.  StoreError when the store has none, or it is damaged."""
        entry = self.manifest.files.get(kind)
        if entry is None:
            raise StoreError(f"{self.path}: has no file of its {kind}")
        new = entry.file not in self._verified
        path = self._checked(entry)
        if new and kind == "vocab" and (n := pq.read_metadata(path).num_rows) != self.n_words:
            raise StoreError(
                f"{path}: {n} words where the manifest says {self.n_words}; restore it or "
                f"ingest again"
            )
        return path

    def _checked(self, entry: StoreFile) -> Path:
        """The path of a file, verified the first time that it is asked for."""
        if entry.file not in self._verified:
            entry.verified(self.path)
            self._verified.add(entry.file)
        return self.path / entry.file

    def word_table(self, *columns: str) -> pa.Table:
        """Columns of the vocabulary: word, count, df (of the training part).  StoreError."""
        with open_table(self.file("vocab")) as file:
            return file.read(columns=list(columns))

    def word_counts(self) -> np.ndarray:
        """n_w float64[W]: each word's total count over the training cells.  The vocabulary knows
        it; only where it counts
        something else (real-valued cells, words that came back from those left out) are the blocks
        read.  Of dense rows: how
        many there are."""
        if self.width:
            return np.full(self.n_words, float(self.n_docs))
        if not self.weighted:
            listed = self.word_table("count")["count"].to_numpy().astype(np.float64)
            if listed.sum() == self.n_tokens:
                return np.asarray(listed)
        counts = np.zeros(self.n_words)
        for storage in range(len(self.part().blocks)):
            raw = self.decode(storage)
            counts += np.bincount(raw.words, weights=raw.counts, minlength=self.n_words)
        return counts

    def document_counts(self) -> np.ndarray:
        """df int64[W]: training documents with each word."""
        return np.asarray(self.word_table("df")["df"].to_numpy().astype(np.int64))

    def removed(self) -> np.ndarray:
        """Documents withdrawn or replaced since their block was written, int64[n, 4]: document
        number (row of the
        documents' table), part (0 train, 1 heldout), storage block, row.  They keep their row and
        have no cells."""
        if "removed" not in self.manifest.files:
            return np.zeros((0, 4), np.int64)
        path = self.file("removed")
        listed = load_arrays(path).get("array", np.zeros(0))
        try:
            number, part, block, row = np.asarray(listed, np.int64).T
            docs = [
                np.array([b.docs for b in self.part(heldout).blocks], np.int64)
                for heldout in (False, True)
            ]
            room = np.array([docs[p][b] for p, b in zip(part, block, strict=True)], np.int64)
            good = min(number.min(), block.min(), row.min()) >= 0 and (row < room).all()
        except (ValueError, IndexError, TypeError):
            good = False
        if not good:
            raise StoreError(f"{path}: names a document that is not in the store; restore the file")
        return listed

    def _rows_gone(self, heldout: bool, storage: int) -> np.ndarray:
        if self._gone is None:
            listed = self.removed()
            pairs = {(int(p), int(b)) for p, b in listed[:, 1:3]}
            self._gone = {
                (p, b): np.sort(listed[(listed[:, 1] == p) & (listed[:, 2] == b), 3])
                for p, b in pairs
            }
        return self._gone.get((int(heldout), storage), np.zeros(0, np.int64))

    # -- axes
    # ----------------------------------------------------------------------------------------------
    @property
    def axes(self) -> Axes:
        """Axes by name: ``words``, and the list columns of the input (corpus/format.py).

        StoreError where the manifest lacks one."""
        words = Axis("words", self.n_words, self.n_cells, 0, partial(self._axis_column, "words"))
        axes = Axes(words=words)
        for name, entry in self.axis_entries().items():
            train = entry.parts["train"]
            longest = max((b.longest for b in train.blocks), default=0)
            axes[name] = Axis(
                name,
                entry.size,
                train.entries,
                longest,
                partial(self._axis_column, name),
                entry.figures,
            )
        return axes

    def axis_entries(self) -> dict[str, AxisEntry]:
        """The manifest's entries of the axes but ``words``."""
        with self._lock:
            if self._axes is None:
                self._axes = stored_axes(self.path, self.manifest, self.removed())
            return self._axes

    def _axis_column(self, name: str, column: str) -> Iterator[pa.Array]:
        """The ``name`` or ``docs`` of the ids of an axis, in order."""
        names = self.axis_entries()[name].names if name != "words" else None
        if name == "words":
            path = self.file("vocab")
            column = "word" if column == "name" else "df"
        elif names is not None:
            path = self._checked(names)
        elif column == "docs":
            yield from (pa.array(self.lists(name, b)[0]) for b in range(len(self.part().blocks)))
            return
        else:
            for _, batch in read_documents(self.path, self.manifest.docs, ["id", "part"]):
                yield batch["id"].filter(pc.equal(batch["part"].cast(pa.string()), "train"))
            return
        with open_table(path) as file:
            yield from (batch.column(0) for batch in batches(file, [column], 1 << 16))

    def lists(
        self, name: str, storage: int, heldout: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read, verify and decode one storage block of an axis: lengths uint32[docs], ids
        int32[entries], ascending within a document; documents that are gone have none."""
        entry = self.axis_entries()[name]
        part = PARTS[heldout]
        docs = self.part(heldout).blocks[storage].docs
        block = entry.parts[part].blocks[storage]
        return read_lists(self.path / entry.folder, part, block, docs, entry.size)

    # -- blocks
    # ----------------------------------------------------------------------------------------------
    def _folder(self, heldout: bool) -> str:
        return part_folder(self.part(heldout), PARTS[heldout])

    def _read(self, heldout: bool, entry: BlockEntry, kind: str, dtype: DTypeLike) -> np.ndarray:
        return read_rows(
            self.path, self._folder(heldout), kind, entry.rows[0], entry.files[kind], dtype
        )

    def lengths(self, storage: int, heldout: bool = False) -> np.ndarray:
        """Cells on disk of each document of one storage block (removed ones included),
        uint32[docs].
        """
        entry = self.part(heldout).blocks[storage]
        lengths = self._read(heldout, entry, "lengths", np.uint32)[: entry.docs]
        if int(lengths.sum(dtype=np.int64)) != entry.cells:
            raise StoreError(
                f"{self.path}: block {storage}: documents and cells disagree with the manifest; "
                f"ingest again"
            )
        return lengths

    def decode(self, storage: int, heldout: bool = False, axes: Sequence[str] = ()) -> Decoded:
        """Read, verify and decode one storage block, with the ids of the axes asked for (``words``
        always).
        """
        try:
            return self._decode(storage, heldout, axes)
        except (StoreError, OSError) as e:
            raise rewriting_behind(e) or e from None

    def _decode(self, storage: int, heldout: bool, axes: Sequence[str]) -> Decoded:
        entry = self.part(heldout).blocks[storage]
        gaps = self._read(heldout, entry, "words", np.uint32)[: entry.cells]
        counts = self._read(heldout, entry, "counts", np.float32 if self.weighted else np.int32)[
            : entry.cells
        ]
        lengths = self.lengths(storage, heldout)
        where = f"{self.path}: block {storage}{' of heldout' * heldout}"
        if (document := from_gaps(gaps, lengths, self.n_words)) >= 0:
            raise StoreError(
                f"{where}, document {document}: word ids past the vocabulary or out of order; "
                f"ingest again"
            )
        self._check_counts(counts, lengths, float(entry.tokens), where)
        decoded = Decoded(gaps.view(np.int32), counts, lengths)
        if len(gone := self._rows_gone(heldout, storage)):
            decoded.drop(gone)
        for name in axes:
            if name != "words":
                of_documents, ids = self.lists(self.axes[name].name, storage, heldout)
                decoded.axes[name] = (
                    np.concatenate(
                        (np.zeros(1, np.int64), np.cumsum(of_documents, dtype=np.int64))
                    ),
                    ids,
                )
        return decoded

    def _check_counts(
        self, counts: np.ndarray, lengths: np.ndarray, tokens: float, where: str
    ) -> None:
        """Counts are above 0 and finite and add up to the manifest's; dense rows are whole and
        finite.
        """
        if self.width:
            if not np.isfinite(counts).all() or (lengths % self.width).any():
                raise StoreError(f"{where}: a vector is truncated or not finite; ingest again")
            return
        total = counts.sum(dtype=np.float64 if self.weighted else np.int64)
        if not (
            counts.min(initial=1) > 0
            and np.isclose(total, tokens, rtol=1e-9 * self.weighted, atol=0.0)
        ):
            raise StoreError(
                f"{where}: counts that are not above 0 or do not add up to the manifest's; "
                f"ingest again"
            )

    def grid(
        self, cells: int = CELLS, docs: int = DOCS, heldout: bool = False, axes: Sequence[str] = ()
    ) -> Grid:
        """Cut the part into blocks of at most ``cells`` cells and ``docs`` documents (a longer
        document is a block alone). Decodes the part once, for the widest local vocabulary and the
        sizes of the axes asked for."""
        blocks = (self.decode(s, heldout, axes) for s in range(len(self.part(heldout).blocks)))
        return cut_grid(blocks, self.n_words, cells, docs, heldout=heldout, axes=axes)

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
        """Decoded blocks in the given order; ``prefetch`` storage blocks are read and decoded
        ahead.

        order: ``sequential``, ``shuffled``, or block numbers of ``grid`` (default grid: the storage
        blocks).
        Each block owns its arrays.  axes: what ``Block.rows`` shall know besides ``words``.
        """
        grid = grid if grid is not None else self.grid(heldout=heldout)
        numbers = (
            grid.order(order, seed, pass_number)
            if isinstance(order, str)
            else np.asarray(order, np.int64)
        )
        cutter = Cutter(self.n_words, self.weights)
        for raw, number in zip(self.decoded(numbers, grid, prefetch, axes), numbers.tolist()):
            yield cutter.block(grid, number, raw)

    def decoded(
        self, numbers: np.ndarray, grid: Grid, prefetch: int = 2, axes: Sequence[str] = ()
    ) -> Generator[Decoded, None, None]:
        """The storage block of each of these blocks of ``grid``, decoded once for neighbours from
        the same one, ``prefetch`` ahead in as many threads: a million cells take some 3 ms, but
        they may lie in a bucket."""
        groups = (
            np.split(numbers, np.flatnonzero(np.diff(grid.storage[numbers])) + 1)
            if len(numbers)
            else []
        )
        decode = partial(self.decode, heldout=grid.heldout, axes=axes)
        with ThreadPoolExecutor(max(1, prefetch), thread_name_prefix="prefetch") as pool:
            storages = (int(grid.storage[group[0]]) for group in groups)
            for group, raw in zip(groups, pooled(pool, decode, storages, prefetch)):
                yield from repeat(raw, len(group))
