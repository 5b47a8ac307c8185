"""The axes of a corpus: kinds of rows that its documents point to.

``words`` always; those of the list columns (corpus/format.py) where the input had them: names, or
training documents.

On disk an axis is lists of ids, one a document, in Zarr: ``axes/<name>/<part>/`` holds ``lengths``
uint32[rows, DOCS] (ids of
each document) and ``ids`` uint32[rows, CELLS] (ascending within a document). A storage block of
the part is one row here too,
or several rows where it has more than CELLS ids. Codecs, padding and the rule that only the
manifest says what is there: as
in corpus/format.py.
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
        """Return the names of ids ``first`` to ``stop - 1``, which a slice selects.

        Names of linked documents are their ids. No more of the file is read than needed.
        """
        first, stop, _ = slice(first, stop).indices(self.size)
        pieces = [pa.array([], pa.large_string())]
        start = 0
        for piece in self.column("name"):
            if start >= stop:
                break
            low = max(first - start, 0)
            pieces.append(
                piece.slice(low, max(min(stop - start, len(piece)) - low, 0)).cast(
                    pa.large_string()
                )
            )
            start += len(piece)
        names = pa.concat_arrays(pieces)
        if len(names) != max(stop - first, 0):
            raise StoreError(
                f"the axis {self.name}: {len(names)} names for {stop - first} ids; ingest again"
            )
        return names

    def docs(self) -> np.ndarray:
        """Count the training documents that have each id or link to it, int64[size]."""
        return np.concatenate(
            [np.zeros(0, np.int64), *(c.to_numpy() for c in self.column("docs"))]
        ).astype(np.int64)

    def find(self, names: pa.Array) -> np.ndarray:
        """Look up the ids of names, int64[n], with -1 for an unknown name.

        names: large_string without nulls. Memory: one row group.
        """
        wanted = names.cast(pa.large_string())
        ids = np.full(len(wanted), -1, np.int64)
        start = 0
        for piece in self.column("name"):
            place = pc.index_in(wanted, value_set=piece.cast(pa.large_string()))
            hit = place.is_valid().to_numpy(zero_copy_only=False)
            ids[hit] = place.drop_null().to_numpy() + start
            start += len(piece)
        return ids


class Axes(dict[str, Axis]):
    """name -> Axis, ``words`` first."""

    def __missing__(self, name: str) -> Axis:
        raise StoreError(
            f"no axis {name!r} in this corpus, it has {', '.join(self)}; ingest with --meta {name}"
        )


def lists_of_blocks(
    rows: Iterable[pa.RecordBatch], docs: list[int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Split a stream of entries into (lengths int64[docs], ids int64[]) per storage block.

    rows: (document, id), ascending. docs: number of documents of each block.
    """
    batches = iter(rows)
    owners = np.zeros(0, np.int64)
    ids = np.zeros(0, np.int64)
    first = 0
    for count in docs:
        stop = first + count
        while not len(owners) or owners[-1] < stop:
            batch = next(batches, None)
            if batch is None:
                break
            owners, ids = (
                np.concatenate(pair)
                for pair in zip((owners, ids), (c.to_numpy() for c in batch.columns))
            )
        cut = int(np.searchsorted(owners, stop))
        yield np.bincount(owners[:cut] - first, minlength=count), ids[:cut]
        owners = owners[cut:]
        ids = ids[cut:]
        first = stop


def write_lists(
    folder: Path, part: str, rows: Iterable[pa.RecordBatch], blocks: list[BlockEntry]
) -> AxisPart:
    """Write and sync the lists of one part, and return its entry for the manifest.

    rows: (document, id), ascending. blocks: storage blocks of the part.
    """
    written: list[Path] = []
    entries: list[AxisBlock] = []
    row = 0
    for block, (lengths, ids) in zip(blocks, lists_of_blocks(rows, [b.docs for b in blocks])):
        files = write_rows(
            folder, part, row, {"lengths": lengths.astype(np.uint32), "ids": ids.astype(np.uint32)}
        )
        place = (row, row + len(files["ids"]))
        for kind in LISTS:
            written += [chunk_path(folder, part, kind, r) for r in range(*place)]
        longest = int(lengths.max(initial=0))
        tie = block.files["lengths"][0][1]
        entries.append(
            AxisBlock(rows=place, entries=len(ids), longest=longest, of=tie, files=files)
        )
        row = place[1]
    sync_all(written, levels=7)  # up to the store
    return AxisPart(blocks=entries, rows=row, entries=sum(e.entries for e in entries))


def read_lists(
    folder: Path, part: str, entry: AxisBlock, docs: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Read, verify and decode one storage block: lengths uint32[docs], ids int32[entries].

    size: ids must lie below it. StoreError.
    """
    first, stop = entry.rows
    lengths, ids = (
        read_rows(folder, part, kind, first, entry.files[kind], np.uint32) for kind in LISTS
    )
    lengths = lengths[:docs]
    ids = ids[: entry.entries]
    starts = np.cumsum(lengths, dtype=np.int64)
    whole = len(lengths) == docs and int(lengths.sum(dtype=np.int64)) == len(ids)
    if (
        not whole
        or int(lengths.max(initial=0)) != entry.longest
        or int(ids.max(initial=0)) >= max(size, 1)
    ):
        raise StoreError(
            f"{folder}/{part}: rows {first} to {stop - 1} disagree with the manifest; ingest again"
        )
    falls = np.flatnonzero(ids[1:] <= ids[:-1]) + 1
    if len(falls) and not np.isin(falls, starts).all():
        raise StoreError(
            f"{folder}/{part}: rows {first} to {stop - 1}: ids do not ascend in a document; "
            f"ingest again"
        )
    return lengths, ids.view(np.int32)
