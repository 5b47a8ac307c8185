"""``Corpus``: a store opened for reading, with its blocks, files and axes.

A *grid* cuts the storage blocks into engine blocks: runs of documents of about ``cells`` cells (or
``docs`` documents), within one storage block. It depends on the corpus and these two numbers alone.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
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
from topicstream.base.files.openings import Opening, file_identity, rewriting_behind
from topicstream.base.files.plain import batches, load_arrays, open_table, refuse_linked_folders
from topicstream.base.places import places
from topicstream.base.text import noun_of
from topicstream.corpus.axes import Axes, Axis, read_lists
from topicstream.corpus.axis_build import stored_axes
from topicstream.corpus.block import Block, check_counts, check_rows, from_gaps
from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import CELLS, DOCS, KINDS, LISTS, PARTS, chunk_path, read_rows
from topicstream.corpus.grid import (
    Cutter,
    Decoded,
    Grid,
    cut_block,
    find_cut,
    join_cuts,
)
from topicstream.corpus.manifest import (
    AxisEntry,
    BlockEntry,
    PartEntry,
    StoreFile,
    StoreManifest,
    block_edges,
    part_folder,
)
from topicstream.corpus.views import Views
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.numeric.parallel import pooled

_NOT_PICKLED = ("_lock", "_opening")
"""Attributes that make sense only within a process."""
BLOCKS_AHEAD = 8
"""Storage blocks that are fetched from an address before they are decoded, three objects each."""


class Corpus(Views):
    """A corpus store opened for reading: a sequence of its documents, and its blocks.

    ``Corpus.open`` reads the manifest only. Readers never write and never block a writer. Counts of
    documents, cells and tokens are those of the training part unless ``heldout`` is set. A cell is
    a word of a document with its count.

    Parameters
    ----------
    path
        Folder of the store.
    manifest
        The record of its ``manifest.json``. ``Corpus.open`` reads it.

    Attributes
    ----------
    path
        Folder of the store.
    n_docs, n_words, n_cells, n_tokens
        Training documents, words of the vocabulary, cells and tokens of the training documents.
    weighted
        True if cells hold real numbers instead of counts.
    width
        Length of a dense row, or 0 in a corpus of words.
    fingerprint
        Hash of the contents, which models remember.
    manifest
        The record of the manifest (docs/internals/formats.md).

    Examples
    --------
    >>> corpus = topicstream.Corpus.open("corpus.zarr")
    >>> len(corpus), corpus.n_docs
    (400, 360)
    >>> corpus[0].id
    'doc-0'
    >>> next(corpus.documents(columns=["date"])).column_names
    ['id', 'date', 'part', 'words', 'counts']
    >>> corpus.to_scipy(parts="train").shape == (corpus.n_docs, corpus.n_words)
    True

    References
    ----------
    Zarr v3 core specification, https://zarr-specs.readthedocs.io/en/latest/v3/core/v3.0.html, the
    format of the arrays on disk.
    """

    def __init__(self, path: Path, manifest: StoreManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.weighted = manifest.weighted
        self.n_words = manifest.n_words
        self.fingerprint = manifest.fingerprint
        self.width = manifest.width
        # the share of a sample (sample.py)
        self.sample: dict[str, Any] | None = None
        # turns the counts of blocks into weights (model/weighting.py)
        self.weights: Any = None
        # has the numbers that documents' priors depend on, for each block of one grid
        self.covariates: Any = None
        self._verified: dict[str, tuple[int, int, int] | None] = {}
        self._removed_by_block: dict[tuple[int, int], np.ndarray] | None = None
        self._axes: dict[str, AxisEntry] | None = None
        self._lock = threading.RLock()
        self._opening: Opening | None = None

    @classmethod
    def open(cls, path: str | Path, *, dense: bool = False) -> Corpus:
        """Open a store, given its folder or an address such as ``s3://bucket/corpus.zarr``.

        Parameters
        ----------
        path
            The folder or address (docs/storage.md).
        dense
            Accept a store of dense rows, too.

        Raises
        ------
        StoreError
            If the store is missing, damaged or of another version.
        UsageError
            If it holds dense rows and ``dense`` is not set.
        """
        folder = Path(places().resolve(path))
        opening = Opening(folder, "store")
        corpus = cls(folder, StoreManifest.read(folder))
        corpus._opening = opening
        if corpus.width and not dense:
            raise UsageError(
                f"{folder}: holds {noun_of(corpus.width)}, not words: `topics train --algo "
                f"gmm` takes it, and `show`, `infer` and `eval` of such a model"
            )
        inner = ["docs", "texts"]
        for part in (corpus._folder(False), corpus._folder(True)):
            inner.append(part)
            for kind in KINDS:
                inner += [f"{part}/{kind}", f"{part}/{kind}/c"]
        refuse_linked_folders(folder, inner)
        return corpus

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with which another process reads the same documents."""
        state = {name: value for name, value in vars(self).items() if name not in _NOT_PICKLED}
        return state | {"path": self.path.absolute()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _opening=None)

    def with_covariates(self, covariates: Any) -> Corpus:
        """Return the same corpus, whose blocks of one grid have covariates.

        ``covariates.read(number)`` returns the ``CovariateRows`` of a block of that grid.
        """
        twin = copy(self)
        twin.covariates = covariates
        return twin

    def has_fingerprint(self, fingerprint: str | None) -> bool:
        """Return True if a fingerprint is that of this store, before or after a compaction."""
        return fingerprint == self.fingerprint or fingerprint in (self.manifest.same_as or ())

    @property
    def full_corpus(self) -> Corpus:
        """Return the store itself, or the store behind a sample."""
        return self

    def part(self, heldout: bool = False) -> PartEntry:
        """Return the manifest's entry of the training or held-out part."""
        return self.manifest.parts[PARTS[heldout]]

    @property
    def n_docs(self) -> int:
        """Count the training documents."""
        return self.part().docs

    @property
    def n_cells(self) -> int:
        """Count the cells of the training documents: their distinct words, added up."""
        return self.part().cells

    @property
    def n_tokens(self) -> float:
        """Count the tokens of the training documents, or sum their weights."""
        return float(self.part().tokens)

    # -- files
    # ----------------------------------------------------------------------------------------------
    def file(self, kind: str) -> Path:
        """Return the path of a file by its role, verified at first use.

        Parameters
        ----------
        kind
            ``vocab``, ``pruned``, ``removed`` or ``rejects``.

        Raises
        ------
        StoreError
            If the store has no such file, or if it is damaged.
        """
        entry = self.manifest.files.get(kind)
        if entry is None:
            raise StoreError(f"{self.path}: has no file of its {kind}; ingest again")
        is_first_use = entry.file not in self._verified
        path = self._checked(entry)
        if is_first_use and kind == "vocab":
            words = pq.read_metadata(path).num_rows
            if words != self.n_words:
                raise StoreError(
                    f"{path}: {words} words where the manifest says {self.n_words}; restore it or "
                    f"ingest again"
                )
        return path

    def _checked(self, entry: StoreFile) -> Path:
        """Return the path of a file, verified at first use and whenever another has its name."""
        path = self.path / entry.file
        identity = file_identity(path)
        if identity is None or self._verified.get(entry.file) != identity:
            entry.verified(self.path)
            self._verified[entry.file] = identity
        return path

    def word_table(self, *columns: str) -> pa.Table:
        """Read columns of the vocabulary: word, count, df (of the training part).

        Raises
        ------
        StoreError
            If the file is damaged.
        """
        with open_table(self.file("vocab")) as file:
            table = file.read(columns=list(columns))
        self.file("vocab")  # no other has taken its place meanwhile
        return table

    def read_vocabulary(self) -> Vocabulary:
        """Read the words with their counts in the training part.

        Raises
        ------
        StoreError
            If the file is damaged.
        Busy
            If the store was rewritten meanwhile.
        """
        vocabulary = Vocabulary.read(self.file("vocab"))
        self.file("vocab")  # no other has taken its place meanwhile
        return vocabulary

    def word_counts(self) -> np.ndarray:
        """Sum each word's counts over the training cells, float64[W].

        The vocabulary has these numbers. Blocks are read only if it counts something else
        (real-valued cells, words restored from the pruned ones). In a store of dense rows each
        number counts the rows.
        """
        if self.width:
            return np.full(self.n_words, float(self.n_docs))
        if not self.weighted:
            counts = self.word_table("count")["count"].to_numpy().astype(np.float64)
            if counts.sum() == self.n_tokens:
                return np.asarray(counts)
        counts = np.zeros(self.n_words)
        for storage in range(len(self.part().blocks)):
            raw = self.decode(storage)
            counts += np.bincount(raw.words, weights=raw.counts, minlength=self.n_words)
        return counts

    def document_counts(self) -> np.ndarray:
        """Count the training documents with each word, int64[W]."""
        return np.asarray(self.word_table("df")["df"].to_numpy().astype(np.int64))

    def removed(self) -> np.ndarray:
        """List the documents that were removed or replaced since their block was written.

        They keep their row and have no cells.

        Returns
        -------
        ndarray
            int64[n, 4]: document number (row of the table of documents), part (0 train,
            1 heldout), storage block, row.
        """
        if "removed" not in self.manifest.files:
            return np.zeros((0, 4), np.int64)
        path = self.file("removed")
        listed = load_arrays(path).get("array", np.zeros(0))
        try:
            number, part, block, row = np.asarray(listed, np.int64).T
            docs_of_blocks = [np.diff(block_edges(self.part(p).blocks)) for p in (False, True)]
            docs = [docs_of_blocks[p][b] for p, b in zip(part, block, strict=True)]
            are_documents = min(number.min(), block.min(), row.min()) >= 0 and (row < docs).all()
        except (ValueError, IndexError, TypeError):
            are_documents = False
        if not are_documents:
            raise StoreError(f"{path}: names a document that is not in the store; restore the file")
        return listed

    def _removed_rows(self, heldout: bool, storage: int) -> np.ndarray:
        """List the rows of removed documents in a storage block, int64[n], ascending."""
        if self._removed_by_block is None:
            listed = self.removed()
            pairs = {(int(p), int(b)) for p, b in listed[:, 1:3]}
            self._removed_by_block = {
                (p, b): np.sort(listed[(listed[:, 1] == p) & (listed[:, 2] == b), 3])
                for p, b in pairs
            }
        return self._removed_by_block.get((int(heldout), storage), np.zeros(0, np.int64))

    # -- axes
    # ----------------------------------------------------------------------------------------------
    @property
    def axes(self) -> Axes:
        """Return the axes by name: ``words``, and the list columns of the input.

        Raises
        ------
        StoreError
            If the manifest lacks one.
        """
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
        """Return the manifest's entries of all axes except ``words``."""
        with self._lock:
            if self._axes is None:
                self._axes = stored_axes(self.path, self.manifest, self.removed())
            return self._axes

    def _axis_column(self, name: str, column: str) -> Iterator[pa.Array]:
        """Stream the ``name`` or ``docs`` of the ids of an axis, in order."""
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
        if name == "words":
            self.file("vocab")  # no other has taken its place meanwhile

    def lists(
        self, name: str, storage: int, heldout: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read, verify and decode one storage block of an axis.

        Removed documents have no ids.

        Returns
        -------
        lengths, ids
            uint32[docs] and int32[entries], ascending within a document.

        Raises
        ------
        StoreError
            If a chunk is damaged.
        """
        entry = self.axis_entries()[name]
        part = PARTS[heldout]
        docs = self.part(heldout).blocks[storage].docs
        block = entry.parts[part].blocks[storage]
        return read_lists(self.path / entry.folder, part, block, docs, entry.size)

    # -- blocks
    # ----------------------------------------------------------------------------------------------
    def _folder(self, heldout: bool) -> str:
        """Return the folder of a part."""
        return part_folder(self.part(heldout), PARTS[heldout])

    def _read(self, heldout: bool, entry: BlockEntry, kind: str, dtype: DTypeLike) -> np.ndarray:
        """Read and verify an array of a storage block."""
        return read_rows(
            self.path, self._folder(heldout), kind, entry.rows[0], entry.files[kind], dtype
        )

    def lengths(self, storage: int, heldout: bool = False) -> np.ndarray:
        """Read the number of cells of each document of one storage block, uint32[docs].

        Removed documents are included, as on disk.
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
        """Read, verify and decode one storage block.

        Parameters
        ----------
        storage
            Number of the storage block.
        heldout
            Read the held-out part.
        axes
            Axes to decode besides ``words``.

        Raises
        ------
        StoreError
            If a chunk is damaged.
        Busy
            If the store was rewritten meanwhile.
        """
        try:
            return self._decode(storage, heldout, axes)
        except (StoreError, OSError) as e:
            raise rewriting_behind(e) or e from None

    def _decode(self, storage: int, heldout: bool, axes: Sequence[str]) -> Decoded:
        """Read, verify and decode one storage block, without its removed documents."""
        entry = self.part(heldout).blocks[storage]
        gaps = self._read(heldout, entry, "words", np.uint32)[: entry.cells]
        count_type = np.float32 if self.weighted else np.int32
        counts = self._read(heldout, entry, "counts", count_type)[: entry.cells]
        lengths = self.lengths(storage, heldout)
        where = f"{self.path}: block {storage}{' of heldout' * heldout}"
        document = from_gaps(gaps, lengths, self.n_words)
        if document >= 0:
            raise StoreError(
                f"{where}, document {document}: word ids past the vocabulary or out of order; "
                f"ingest again"
            )
        if self.width:
            check_rows(counts, lengths, self.width, where)
        else:
            check_counts(counts, float(entry.tokens), where)
        decoded = Decoded(gaps.view(np.int32), counts, lengths)
        removed = self._removed_rows(heldout, storage)
        if len(removed):
            decoded.drop(removed)
        for name in axes:
            if name != "words":
                of_documents, ids = self.lists(self.axes[name].name, storage, heldout)
                ends = np.cumsum(of_documents, dtype=np.int64)
                decoded.axes[name] = (np.concatenate((np.zeros(1, np.int64), ends)), ids)
        return decoded

    def grid(
        self, cells: int = CELLS, docs: int = DOCS, heldout: bool = False, axes: Sequence[str] = ()
    ) -> Grid:
        """Cut a part into blocks of at most ``cells`` cells and ``docs`` documents.

        A longer document is a block by itself. The part is decoded once, to measure the largest
        local vocabulary and the sizes of the requested axes, and so that damage is found before
        anything is done. Of a store at an address only those blocks are fetched that the manifest
        does not measure (``format.CUTS``).
        """
        entries = self.part(heldout).blocks
        remote = places().origin(self.path) is not None
        cuts = [find_cut(e, cells, docs) if remote and not axes else None for e in entries]
        to_read = [storage for storage, cut in enumerate(cuts) if cut is None]
        for storage, raw in zip(to_read, self._decode_ahead(to_read, heldout, axes)):
            cuts[storage] = cut_block(raw, cells, docs, axes)
        return join_cuts(filter(None, cuts), heldout=heldout, axes=axes)

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
        """Stream decoded blocks in the given order, each with arrays of its own.

        Parameters
        ----------
        order
            ``sequential``, ``shuffled``, or block numbers of ``grid``.
        grid
            The grid of the blocks [default: the storage blocks].
        seed, pass_number
            Numbers that a shuffled order depends on.
        prefetch
            Storage blocks to read and decode ahead.
        heldout
            Cut the held-out part, if no grid is given.
        axes
            Axes for ``Block.rows`` besides ``words``.
        """
        grid = grid if grid is not None else self.grid(heldout=heldout)
        if isinstance(order, str):
            numbers = grid.order(order, seed, pass_number)
        else:
            numbers = np.asarray(order, np.int64)
        cutter = Cutter(self.n_words, self.weights, self.covariates)
        for raw, number in zip(self.decoded(numbers, grid, prefetch, axes), numbers.tolist()):
            yield cutter.block(grid, number, raw)

    def decoded(
        self, numbers: np.ndarray, grid: Grid, prefetch: int = 2, axes: Sequence[str] = ()
    ) -> Generator[Decoded, None, None]:
        """Decode the storage block of each of these blocks of ``grid``.

        Neighbours from the same storage block share it. ``prefetch`` storage blocks are decoded
        ahead in as many threads: a million cells take some 3 ms, but they may lie in a bucket.
        """
        groups = []
        if len(numbers):
            edges = np.flatnonzero(np.diff(grid.storage[numbers])) + 1
            groups = np.split(numbers, edges)
        storages = [int(grid.storage[group[0]]) for group in groups]
        decoded = self._decode_ahead(storages, grid.heldout, axes, prefetch)
        for group, raw in zip(groups, decoded):
            yield from repeat(raw, len(group))

    def _decode_ahead(
        self, storages: Sequence[int], heldout: bool, axes: Sequence[str], prefetch: int = 2
    ) -> Iterator[Decoded]:
        """Decode storage blocks in this order, some of them ahead, in threads."""
        decode = partial(self.decode, heldout=heldout, axes=axes)
        if len(storages) == 1:  # nothing to do meanwhile
            yield from map(decode, self._fetch_ahead(storages, heldout, axes))
            return
        with ThreadPoolExecutor(max(1, prefetch), thread_name_prefix="prefetch") as pool:
            coming = self._fetch_ahead(storages, heldout, axes)
            yield from pooled(pool, decode, coming, prefetch)

    def _fetch_ahead(
        self, storages: Sequence[int], heldout: bool, axes: Sequence[str]
    ) -> Iterator[int]:
        """Yield storage blocks while the chunks of later ones are fetched from an address."""
        if places().origin(self.path) is None:
            yield from storages
            return
        fetched = 0
        for number, storage in enumerate(storages):
            for later in storages[fetched : number + BLOCKS_AHEAD]:
                places().fetch_ahead(self._chunks(later, heldout, axes))
            fetched = max(fetched, number + BLOCKS_AHEAD)
            yield storage

    def _chunks(self, storage: int, heldout: bool, axes: Sequence[str]) -> Iterator[Path]:
        """Yield the paths of the chunks of a storage block."""
        rows = range(*self.part(heldout).blocks[storage].rows)
        for kind in KINDS:
            yield from (chunk_path(self.path, self._folder(heldout), kind, row) for row in rows)
        for name in axes:
            if name != "words":
                entry = self.axis_entries()[name]
                part = PARTS[heldout]
                rows = range(*entry.parts[part].blocks[storage].rows)
                for kind in LISTS:
                    folder = self.path / entry.folder
                    yield from (chunk_path(folder, part, kind, row) for row in rows)
