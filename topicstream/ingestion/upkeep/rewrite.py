"""The blocks and the documents' table of a store written anew: small neighbours as one block, without the documents that
are gone.

Blocks go to folders of their own (``train-2`` beside ``train``); one that stays as it is becomes a second name of its
chunk files.  Nothing that the present manifest names is touched, so readers go on.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.corpus.documents import ROWS_OF_PART, DocumentsWriter, next_part, read_documents, schema_of
from topicstream.corpus.format import (
    CELLS,
    DOCS,
    KINDS,
    PARTS,
    chunk_path,
    drop_rows,
    from_gaps,
    part_folder,
    part_summary,
)
from topicstream.corpus.manifest import file_entry
from topicstream.corpus.reader import Corpus
from topicstream.corpus.writer import BlockWriter
from topicstream.errors import DoesNotFit, StoreError
from topicstream.files import owned
from topicstream.files.durable import sync_all, sync_file
from topicstream.ingestion.upkeep.retired import number_of
from topicstream.machine import format_bytes
from topicstream.progress import Progress


def live(entry: dict[str, Any], what: str) -> Any:
    """``docs``, ``cells`` or ``tokens`` of a block without the documents removed from it."""
    return entry[what] - entry.get("removed", {}).get(what, 0)


def grouped(blocks: list[dict[str, Any]]) -> list[list[int]]:
    """Neighbouring blocks that go into one: each group takes the next block as long as it has room.  Any two groups side by
    side are more than one block, so twice the least number of blocks is never passed, and a second time changes nothing."""
    groups: list[list[int]] = []
    cells = docs = 0
    for number, entry in enumerate(blocks):
        more = live(entry, "cells"), live(entry, "docs")
        if groups and cells + more[0] <= CELLS and docs + more[1] <= DOCS:
            groups[-1].append(number)
            cells, docs = cells + more[0], docs + more[1]
        else:
            groups.append([number])
            cells, docs = more
    return groups


class Rewrite:
    """What a store will be.  parts: the manifest's entries with everything removed marked in the blocks; gone:
    int64[n, 4] (document number, part, block, row) of all documents that are left out; words: int32[W], the new id of each
    word, ascending, -1 for one that goes; None: all stay."""

    def __init__(
        self,
        base: Corpus,
        parts: dict[str, Any],
        gone: np.ndarray,
        progress: Progress,
        *,
        words: np.ndarray | None = None,
    ) -> None:
        self._words = words
        self._base, self._parts, self._gone, self._progress = base, parts, gone, progress
        self._store = base.path
        number = 1 + max(number_of(part_folder(parts[p], p)) for p in PARTS)
        self._folders = {p: f"{p}-{number}" for p in PARTS}
        self._groups = {p: grouped(parts[p]["blocks"]) for p in PARTS}
        self._rows: dict[tuple[int, int], np.ndarray] = {}
        order = np.lexsort((gone[:, 3], gone[:, 2], gone[:, 1]))
        for row in np.split(gone[order], 1 + np.flatnonzero(np.any(np.diff(gone[order][:, 1:3], axis=0), axis=1))):
            if len(row):
                self._rows[int(row[0, 1]), int(row[0, 2])] = np.ascontiguousarray(row[:, 3])

    def _kept(self, part: str, group: list[int]) -> bool:
        return self._words is None and len(group) == 1 and (PARTS.index(part), group[0]) not in self._rows

    @property
    def changes(self) -> bool:
        """Whether any block or document is written anew."""
        return (
            bool(self._rows)
            or self._words is not None
            or not all(self._kept(p, g) for p in PARTS for g in self._groups[p])
        )

    @property
    def spare(self) -> int:
        """Blocks that there will be fewer."""
        return sum(len(self._parts[p]["blocks"]) - len(self._groups[p]) for p in PARTS)

    def check_room(self) -> None:
        """DoesNotFit where the disk has no room for the new files beside the old ones."""
        need = sum((self._store / e["file"]).stat().st_size for e in self._base.manifest["docs"])
        for part in PARTS:
            blocks = self._parts[part]["blocks"]
            for group in self._groups[part]:
                if not self._kept(part, group):
                    need += sum(size for b in group for k in KINDS for size, _ in blocks[b]["files"][k])
        free = shutil.disk_usage(self._store).free
        if free < need + (need >> 3):
            raise DoesNotFit(
                f"{self._store}: to write it anew takes {format_bytes(need)} on the disk, {format_bytes(free)} are free; "
                "make room and run the same command again"
            )

    # -- blocks ------------------------------------------------------------------------------------------------------
    def write_blocks(self) -> dict[str, Any]:
        """Write both parts; their entries of the manifest."""
        made: dict[str, Any] = {}
        marker = np.zeros(self._base.n_words, np.uint8)
        total = sum(len(g) for g in self._groups.values())
        done = 0
        for part in PARTS:
            entries: list[dict[str, Any]] = []
            linked: list[Path] = []
            (self._store / self._folders[part]).mkdir(exist_ok=True)
            for group in self._groups[part]:
                row = entries[-1]["rows"][1] if entries else 0
                if self._kept(part, group):
                    entries.append(self._link(part, group[0], row, linked))
                else:
                    self._merge(part, group, row, entries, marker)
                done += 1
                self._progress.step("writing blocks", done, total, "piece")
            sync_all([], sorted({p for path in linked for p in list(path.parents)[:4]}))
            made[part] = part_summary(entries) | {"folder": self._folders[part]}
        return made

    def _link(self, part: str, number: int, row: int, linked: list[Path]) -> dict[str, Any]:
        entry = self._parts[part]["blocks"][number]
        old, new = part_folder(self._parts[part], part), self._folders[part]
        rows = entry["rows"][1] - entry["rows"][0]
        for kind in KINDS:
            for r in range(rows):
                source = chunk_path(self._store, old, kind, entry["rows"][0] + r)
                target = chunk_path(self._store, new, kind, row + r)
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(source, target)
                except FileNotFoundError:
                    what = f"block {number} of {part} ({kind})"
                    raise StoreError(f"{source}: {what} is missing; restore the file or ingest again") from None
                except OSError:  # a file system without links
                    owned.copy_file(source, target)
                    sync_file(target)
                linked.append(target)
        return {k: v for k, v in entry.items() if k != "changed"} | {"rows": [row, row + rows]}

    def _merge(self, part: str, group: list[int], row: int, entries: list[dict[str, Any]], marker: np.ndarray) -> None:
        """One block of several, or of what is left of one; none where nothing is left."""
        before = len(entries)
        writer = BlockWriter(self._store, self._folders[part], row, self._base.weighted, entries.append, vectors=self._base.vectors > 0)
        heldout = part == "heldout"
        for number in group:
            raw = self._base.decode(number, heldout)
            gone = self._rows.get((int(heldout), number), np.zeros(0, np.int64))
            left = drop_rows(raw.gaps, raw.counts, raw.lengths, gone) if len(gone) else len(raw.gaps)
            ids = np.empty(left, np.int32)
            if from_gaps(raw.gaps, raw.lengths, 0, len(raw.lengths), 0, ids, marker) != left:
                raise StoreError(f"{self._store}: block {number}: a word id past the vocabulary; ingest again")
            marker[ids] = 0
            lengths = np.delete(raw.lengths, gone)
            indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
            counts = raw.counts[:left]
            if self._words is not None:
                ids = self._words[ids]
                stay = ids >= 0
                indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(stay, dtype=np.int64)))[indptr]
                ids, counts = ids[stay], counts[stay]
            writer.add(indptr, ids, counts)
            raw.close()
        writer.close()
        docs = sum(live(self._parts[part]["blocks"][b], "docs") for b in group)
        if sum(e["docs"] for e in entries[before:]) != docs or len(entries) - before != (docs > 0):
            raise StoreError(
                f"{self._store}: the blocks {group} of {part} do not hold what the manifest says; verify it"
            )

    # -- documents ---------------------------------------------------------------------------------------------------
    def write_documents(self, columns: dict[str, str], forgotten: pa.Array | None = None) -> list[dict[str, Any]]:
        """Write the documents' table with the new places; the entries of its files.  Full files at its head in which
        nothing changes stay.  forgotten: ids that are taken out of other documents' links too."""
        moved = [self._moves(p) for p in range(2)]
        old = self._base.manifest["docs"]
        at = kept = 0
        while (
            kept < len(old) and forgotten is None and (n := self._unchanged(old[kept], at, moved)) >= ROWS_OF_PART // 2
        ):
            at, kept = at + n, kept + 1
        writer = DocumentsWriter(self._store / "docs", schema_of(columns), next_part(old))
        gone = np.sort(self._gone[:, 0])
        part_column = pa.array(PARTS, pa.string())
        for batch in read_documents(self._store, old[kept:]):
            here = gone[np.searchsorted(gone, at) : np.searchsorted(gone, at + len(batch))] - at
            part, block, row = _places(batch)
            keep = np.delete(np.arange(len(batch)), here)
            table = pa.Table.from_batches([batch]).take(keep)
            new_block, new_row = _moved(moved, part[keep], block[keep], row[keep])
            table = _replace(
                table, "part", pa.DictionaryArray.from_arrays(pa.array(part[keep].astype(np.int8)), part_column)
            )
            table = _replace(_replace(table, "block", pa.array(new_block)), "row", pa.array(new_row))
            if forgotten is not None and "links" in table.column_names:
                table = _replace(table, "links", without(table["links"], forgotten))
            writer.add(table)
            at += len(batch)
            self._progress.step("writing documents", at, at, "piece")
        writer.close()
        return [*old[:kept], *(file_entry(self._store, f"docs/{path.name}") for path in writer.files)]

    def _moves(self, part: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of each old block: the new one and the row that its first document left gets; the places gone (block and row as
        one number, ascending) and how many of them lie before each block."""
        blocks = self._parts[PARTS[part]]["blocks"]
        block, first = np.zeros(len(blocks), np.int64), np.zeros(len(blocks), np.int64)
        number = 0
        for group in self._groups[PARTS[part]]:
            docs = 0
            for b in group:
                block[b], first[b] = number, docs
                docs += live(blocks[b], "docs")
            number += docs > 0
        mine = self._gone[self._gone[:, 1] == part]
        places = np.sort(mine[:, 2] << 32 | mine[:, 3])
        return block, first, places, np.searchsorted(places, np.arange(len(blocks)) << 32)

    def _unchanged(self, entry: dict[str, Any], at: int, moved: list[Any]) -> int:
        """Rows of a file of the table in which no document is gone or has moved; 0 where one has."""
        rows = pq.read_metadata(self._store / entry["file"]).num_rows
        if np.any((self._gone[:, 0] >= at) & (self._gone[:, 0] < at + rows)):
            return 0
        for batch in read_documents(self._store, [entry], ["part", "block", "row"]):
            part, block, row = _places(batch)
            new_block, new_row = _moved(moved, part, block, row)
            if not (np.array_equal(block, new_block) and np.array_equal(row, new_row)):
                return 0
        return int(rows)


def _places(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """part (0 train, 1 heldout), block and row of the documents of a batch, int64 each."""
    part = batch.column("part").cast(pa.string())
    number = np.asarray(pc.index_in(part, value_set=pa.array(PARTS)).to_numpy(zero_copy_only=False), np.int64)
    block, row = (np.asarray(batch.column(c).to_numpy(zero_copy_only=False), np.int64) for c in ("block", "row"))
    return number, block, row


def _moved(moved: list[Any], part: np.ndarray, block: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """New blocks and rows, int32, of documents that stay."""
    new_block, new_row = np.empty(len(part), np.int32), np.empty(len(part), np.int32)
    for p, (number, first, gone, before) in enumerate(moved):
        mine = part == p
        b, r = block[mine], row[mine]
        new_block[mine] = number[b]
        new_row[mine] = first[b] + r - (np.searchsorted(gone, b << 32 | r) - before[b])
    return new_block, new_row


def _replace(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def without(lists: pa.ChunkedArray, values: pa.Array) -> pa.Array:
    """Lists of strings without some of them; an empty list stays one, a null a null."""
    column = pa.concat_arrays(
        [c.cast(pa.list_(pa.large_string())) for c in lists.chunks] or [pa.array([], pa.list_(pa.large_string()))]
    )
    flat = column.flatten()
    stay = pc.invert(pc.is_in(flat, value_set=values)).to_numpy(zero_copy_only=False)
    if stay.all():
        return column
    lengths = np.asarray(
        pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False), np.int64
    )
    edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(stay)))[
        np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    ]
    offsets = pa.array(edges.astype(np.int32), mask=np.append(column.is_null().to_numpy(zero_copy_only=False), False))
    return pa.ListArray.from_arrays(offsets, flat.filter(pa.array(stay)))
