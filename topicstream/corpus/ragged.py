"""Ragged arrays of a store: for every document of a part a list of ids, in Zarr, one chunk a storage block.

``axes/<name>/<part>/`` holds ``lengths`` uint32[rows, DOCS] (ids of each document) and ``ids`` uint32[rows, CELLS]
(ascending within a document).  A storage block of the part is one row here too, or several rows where it has more than
CELLS ids.  Codecs, padding and the rule that only the manifest says what is there: as in corpus/format.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.format import CELLS, DOCS, PARTS, array_metadata, chunk_path, encode_chunk, group, read_chunk
from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.durable import sync_all, write_json

RAGGED = ("lengths", "ids")


class RaggedWriter:
    """Writes one part's lists, document after document, into chunks that follow the part's storage blocks.

    docs: documents of each storage block to write; first_row: rows that are there already.  ``entries`` has the manifest
    entry of each block: rows [r0, r1), entries (ids), longest (ids of one document), files {kind: [[size, crc32c], ...]}.
    """

    def __init__(self, folder: Path, part: str, docs: list[int], first_row: int = 0) -> None:
        self._folder, self._part, self._docs, self._row = folder, part, docs, first_row
        self._lengths: list[np.ndarray] = []
        self._ids: list[np.ndarray] = []
        self._held = 0
        self._written: list[Path] = []
        self.entries: list[dict[str, Any]] = []
        while self._finish_block():  # blocks of no documents
            pass

    def add(self, lengths: np.ndarray, ids: np.ndarray) -> None:
        """Append documents.  lengths: integers[D]; ids: integers[lengths.sum()], ascending within a document."""
        at = 0
        while len(lengths):
            if len(self.entries) == len(self._docs):
                raise StoreError(f"{self._folder}: more documents than the blocks of {self._part} hold")
            n = min(len(lengths), self._docs[len(self.entries)] - self._held)
            stop = at + int(lengths[:n].sum(dtype=np.int64))
            self._lengths.append(lengths[:n].astype(np.uint32))
            self._ids.append(ids[at:stop].astype(np.uint32))
            self._held += n
            lengths, at = lengths[n:], stop
            while self._finish_block():
                pass

    def _finish_block(self) -> bool:
        number = len(self.entries)
        if number == len(self._docs) or self._held < self._docs[number]:
            return False
        lengths = np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.uint32)
        ids = np.concatenate(self._ids) if self._ids else np.zeros(0, np.uint32)
        self._lengths, self._ids, self._held = [], [], 0
        rows = max(1, -(-len(ids) // CELLS))
        files: dict[str, list[list[int]]] = {kind: [] for kind in RAGGED}
        for r in range(rows):
            # every row carries a lengths chunk so that both arrays have one row count
            parts = (lengths if r == 0 else lengths[:0], DOCS), (ids[r * CELLS : (r + 1) * CELLS], CELLS)
            for kind, (values, width) in zip(RAGGED, parts):
                data, crc = encode_chunk(values, width)
                path = chunk_path(self._folder, self._part, kind, self._row + r)
                path.parent.mkdir(parents=True, exist_ok=True)
                with owned.create(path) as f:
                    f.write(data)
                self._written.append(path)
                files[kind].append([len(data), crc])
        longest = int(lengths.max(initial=0))
        rows_of = [self._row, self._row + rows]
        self.entries.append({"rows": rows_of, "entries": len(ids), "longest": longest, "files": files})
        self._row += rows
        return True

    def close(self) -> None:
        """fsync everything written; StoreError when documents are missing."""
        if len(self.entries) != len(self._docs):
            raise StoreError(f"{self._folder}: fewer documents than the blocks of {self._part} hold; ingest again")
        up_to_the_store = 7
        folders = {p for path in self._written for p in list(path.parents)[:up_to_the_store]}
        sync_all(self._written, sorted(folders))
        self._written.clear()


def settle(folder: Path, rows: dict[str, int]) -> None:
    """Tell stock zarr how many rows each part of the ragged array in ``folder`` has."""
    for part in PARTS:
        for kind in RAGGED:
            (folder / part / kind).mkdir(parents=True, exist_ok=True)
            metadata = array_metadata(kind, rows[part], weighted=False)
            write_json(folder / part / kind / "zarr.json", metadata, checked=False)
        group(folder / part)
    group(folder)
    group(folder.parent)


def remove_rows(folder: Path, rows: dict[str, int]) -> None:
    """Remove the chunks behind the rows that a manifest names."""
    for part in PARTS:
        for path in folder.glob(f"{part}/*/c/*"):
            if path.name.isdecimal() and int(path.name) >= rows[part]:
                owned.remove_within(path, "corpus")


def read_ragged(
    folder: Path, part: str, number: int, entry: dict[str, Any], docs: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Read, verify and decode one storage block: lengths uint32[docs], ids int32[entries].

    number: of the block, for messages; size: ids must lie below it.  StoreError."""
    rows = entry["rows"][1] - entry["rows"][0]
    found = {}
    for kind, width in zip(RAGGED, (DOCS, CELLS)):
        out = np.empty(rows * width, np.uint32)
        for r, (bytes_, crc) in enumerate(entry["files"][kind]):
            what = f"block {number} of {folder.name} of {part} ({kind})"
            path = chunk_path(folder, part, kind, entry["rows"][0] + r)
            read_chunk(path, bytes_, crc, out[r * width : (r + 1) * width], what)
        found[kind] = out
    lengths, ids = found["lengths"][:docs], found["ids"][: entry["entries"]]
    where = f"{folder}: block {number} of {part}"
    if int(lengths.sum(dtype=np.int64)) != len(ids) or int(lengths.max(initial=0)) != entry["longest"]:
        raise StoreError(f"{where}: documents and ids disagree with the manifest; ingest again")
    if len(ids) and int(ids.max()) >= size:
        raise StoreError(f"{where}: an id past the end of its axis; ingest again")
    starts = np.cumsum(lengths, dtype=np.int64)[:-1]
    falls = np.flatnonzero(ids[1:] <= ids[:-1]) + 1
    if len(falls) and not np.isin(falls, starts).all():
        raise StoreError(f"{where}: ids do not ascend within a document; ingest again")
    return lengths, ids.view(np.int32)
