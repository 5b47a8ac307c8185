"""The axes of a corpus: kinds of rows that its documents point to.

Every corpus has the axis ``words``. It also has an axis for each list column (corpus/format.py)
of the input, whose ids stand for names or for training documents.

On disk an axis has a list of ids for each document, in Zarr. ``axes/<name>/<part>/`` contains
``lengths`` uint32[rows, DOCS], the number of ids of each document, and ``ids`` uint32[rows, CELLS],
ascending within a document. A storage block of the part is one row here, too, or several rows if it
has more than CELLS ids. Codecs and padding are those of corpus/format.py, and only the manifest
says which rows belong to the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import StoreError
from topicstream.base.files.durable import sync_all
from topicstream.corpus.format import LISTS, chunk_path, read_rows, write_rows
from topicstream.corpus.manifest import AxisBlock, AxisPart, BlockEntry


@dataclass(frozen=True)
class Axis:
    """An axis of a corpus, with the names of its ids.

    Ids are 0 to size - 1. An id keeps its meaning when documents are appended.

    Attributes
    ----------
    name
        ``words``, or the name of a list column.
    size
        Number of ids. Ids of linked documents are the numbers of training documents.
    entries
        Number of ids that all training documents have together (for words: cells).
    longest
        Largest number of ids of one training document (0: not known, for words).
    column
        Streams the ids' ``name`` or ``docs``, in order.
    figures
        Counts of the links of the input: given, training, heldout (pairs), dangling, self, repeats,
        between_heldout. Empty for other axes.
    """

    name: str
    size: int
    entries: int
    longest: int
    column: Callable[[str], Iterator[pa.Array]] = field(repr=False)
    figures: Mapping[str, int] = field(default_factory=dict, repr=False)

    def names(self, first: int = 0, stop: int | None = None) -> pa.LargeStringArray:
        """Return the names of ids ``first`` to ``stop - 1``.

        Names of linked documents are their ids. No more of the file is read than needed.

        Parameters
        ----------
        first, stop
            Bounds as of a slice: negative ones count from the end.

        Raises
        ------
        StoreError
            If the file has fewer names.
        """
        first, stop, _ = slice(first, stop).indices(self.size)
        pieces = [pa.array([], pa.large_string())]
        start = 0
        for piece in self.column("name"):
            if start >= stop:
                break
            low = max(first - start, 0)
            high = min(stop - start, len(piece))
            pieces.append(piece.slice(low, max(high - low, 0)).cast(pa.large_string()))
            start += len(piece)
        names = pa.concat_arrays(pieces)
        if len(names) != max(stop - first, 0):
            raise StoreError(
                f"the axis {self.name}: {len(names)} names for {stop - first} ids; ingest again"
            )
        return names

    def docs(self) -> np.ndarray:
        """Count the training documents that have each id or link to it, int64[size]."""
        pieces = [piece.to_numpy() for piece in self.column("docs")]
        return np.concatenate([np.zeros(0, np.int64), *pieces]).astype(np.int64)

    def find(self, names: pa.Array) -> np.ndarray:
        """Look up the ids of names.

        One row group of the file is in memory at a time.

        Parameters
        ----------
        names
            Strings without nulls, length n.

        Returns
        -------
        ndarray
            int64[n], -1 for an unknown name.
        """
        names = names.cast(pa.large_string())
        ids = np.full(len(names), -1, np.int64)
        start = 0
        for piece in self.column("name"):
            positions = pc.index_in(names, value_set=piece.cast(pa.large_string()))
            is_known = positions.is_valid().to_numpy(zero_copy_only=False)
            ids[is_known] = positions.drop_null().to_numpy() + start
            start += len(piece)
        return ids


class Axes(dict[str, Axis]):
    """The axes of a corpus by name, ``words`` first. An unknown name raises StoreError."""

    def __missing__(self, name: str) -> Axis:
        raise StoreError(
            f"no axis {name!r} in this corpus, it has {', '.join(self)}; ingest with --meta {name}"
        )


def lists_of_blocks(
    rows: Iterable[pa.RecordBatch], docs: list[int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Split a stream of entries at the ends of storage blocks.

    Parameters
    ----------
    rows
        Batches of two columns, document and id, ascending.
    docs
        Number of documents of each block.

    Yields
    ------
    lengths, ids
        Of a block: the number of ids of each document, int64[docs], and the ids, int64[].
    """
    batches = iter(rows)
    owners = np.zeros(0, np.int64)  # the document of each id
    ids = np.zeros(0, np.int64)
    first = 0
    for count in docs:
        stop = first + count
        while not len(owners) or owners[-1] < stop:
            batch = next(batches, None)
            if batch is None:
                break
            owners = np.concatenate((owners, batch.column(0).to_numpy()))
            ids = np.concatenate((ids, batch.column(1).to_numpy()))
        cut = int(np.searchsorted(owners, stop))
        yield np.bincount(owners[:cut] - first, minlength=count), ids[:cut]
        owners = owners[cut:]
        ids = ids[cut:]
        first = stop


def write_lists(
    folder: Path, part: str, rows: Iterable[pa.RecordBatch], blocks: list[BlockEntry]
) -> AxisPart:
    """Write and sync the lists of one part, and return its entry for the manifest.

    Parameters
    ----------
    folder, part
        Folder of the axis, and the part's folder in it.
    rows
        Batches of two columns, document and id, ascending.
    blocks
        Storage blocks of the part.
    """
    written: list[Path] = []
    entries: list[AxisBlock] = []
    row = 0
    for block, (lengths, ids) in zip(blocks, lists_of_blocks(rows, [b.docs for b in blocks])):
        files = write_rows(
            folder, part, row, {"lengths": lengths.astype(np.uint32), "ids": ids.astype(np.uint32)}
        )
        stop = row + len(files["ids"])
        for kind in LISTS:
            written += [chunk_path(folder, part, kind, r) for r in range(row, stop)]
        entry = AxisBlock(
            rows=(row, stop),
            entries=len(ids),
            longest=int(lengths.max(initial=0)),
            block_crc=block.lengths_crc,
            files=files,
        )
        entries.append(entry)
        row = stop
    sync_all(written, levels=7)  # up to the store
    return AxisPart(blocks=entries, rows=row, entries=sum(e.entries for e in entries))


def read_lists(
    folder: Path, part: str, entry: AxisBlock, docs: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Read, verify and decode the lists of one storage block.

    Parameters
    ----------
    folder, part, entry
        Folder of the axis, the part's folder in it, and the block's entry of the manifest.
    docs
        Number of documents of the block.
    size
        Number of ids of the axis.

    Returns
    -------
    lengths, ids
        uint32[docs] and int32[entries].

    Raises
    ------
    StoreError
        If a chunk is damaged, or the ids do not ascend within 0 to size - 1.
    """
    first, stop = entry.rows
    lengths, ids = (
        read_rows(folder, part, kind, first, entry.files[kind], np.uint32) for kind in LISTS
    )
    lengths = lengths[:docs]
    ids = ids[: entry.entries]
    starts = np.cumsum(lengths, dtype=np.int64)
    is_complete = len(lengths) == docs and int(lengths.sum(dtype=np.int64)) == len(ids)
    has_longest = int(lengths.max(initial=0)) == entry.longest
    in_range = int(ids.max(initial=0)) < max(size, 1)
    if not (is_complete and has_longest and in_range):
        raise StoreError(
            f"{folder}/{part}: rows {first} to {stop - 1} disagree with the manifest; ingest again"
        )
    # an id that is not above the one before it must begin a document
    falls = np.flatnonzero(ids[1:] <= ids[:-1]) + 1
    if len(falls) and not np.isin(falls, starts).all():
        raise StoreError(
            f"{folder}/{part}: rows {first} to {stop - 1}: ids do not ascend in a document; "
            f"ingest again"
        )
    return lengths, ids.view(np.int32)
