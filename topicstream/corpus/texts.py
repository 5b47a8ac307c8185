"""Texts of a store's documents, kept on request: ``texts/part-*.parquet``, one row per document.

The columns are ``id`` and ``text``: the text as its words were counted (after ``--strip-gutenberg``
and ``--split``), null for a document that came as counts.

Rows are those of the table of documents (``documents.py``), in the same order. A file ends after
256 MiB of text, so that a look at some documents reads, checks and fetches little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from topicstream.base.files.plain import batches, open_table
from topicstream.corpus.documents import DocumentsWriter, read_documents
from topicstream.corpus.manifest import StoreManifest, TextFile, store_file

FOLDER = "texts"
SCHEMA = pa.schema([("id", pa.large_string()), ("text", pa.large_string())])
BYTES_OF_PART = 256 << 20
ROWS_AT_ONCE = 1 << 12


class TextsWriter(DocumentsWriter):
    """A writer of texts behind those of a store.

    Parameters
    ----------
    store
        Folder of the store.
    files
        Entries of the files that were written before.
    """

    def __init__(self, store: Path, files: Sequence[TextFile]) -> None:
        last = max((int(Path(entry.file).stem.rpartition("-")[2]) for entry in files), default=-1)
        super().__init__(store / FOLDER, SCHEMA, last + 1, BYTES_OF_PART)
        self._store = store

    def finish(self) -> list[TextFile]:
        """Write the remaining rows, and return the manifest's entries of the files."""
        self.close()
        entries = []
        for path in self.files:
            entry = store_file(self._store, f"{FOLDER}/{path.name}")
            rows = pq.read_metadata(path).num_rows
            entries.append(
                TextFile(file=entry.file, size=entry.size, crc32c=entry.crc32c, rows=rows)
            )
        return entries


def remove_texts(store: Path, files: Sequence[TextFile], removed: np.ndarray) -> list[TextFile]:
    """Remove the texts of some documents, by writing the files that contain them anew.

    Parameters
    ----------
    store, files
        Folder of the store, and the manifest's entries of its files of texts.
    removed
        Rows of the table of documents, int64.

    Returns
    -------
    list[TextFile]
        The entries of the new and the unchanged files, in order.
    """
    written = list(files)
    current: list[TextFile] = []
    for entry, first in _with_first_rows(files):
        in_file = removed[(removed >= first) & (removed < first + entry.rows)]
        if not len(in_file):
            current.append(entry)
            continue
        writer = TextsWriter(store, written)
        with open_table(entry.verified(store)) as file:
            row = first
            for batch in batches(file, None, ROWS_AT_ONCE):
                rows = np.arange(row, row + len(batch))
                row += len(batch)
                stays = pa.array(np.isin(rows, in_file, invert=True))
                writer.add(pa.Table.from_batches([batch.filter(stays)]))
        new = writer.finish()
        written += new
        current += new
    return current


def with_texts(manifest: StoreManifest, files: list[TextFile] | None) -> StoreManifest:
    """Enter the files of texts into a manifest and its summary.

    ``files`` is None where texts are not kept.
    """
    size = sum(entry.size for entry in files or ())
    return replace(manifest, texts=files, summary=manifest.summary | {"text_bytes": size})


def find_rows(
    store: Path, manifest: StoreManifest, numbers: np.ndarray, *, heldout: bool
) -> np.ndarray:
    """Find some documents of a part in the table of documents.

    Parameters
    ----------
    store, manifest
        Folder and manifest of the store.
    numbers
        Numbers of the documents in the part, int64[n], ascending.
    heldout
        True for the held-out part.

    Returns
    -------
    ndarray
        Rows of the table, int64[n].
    """
    pieces = [np.zeros(0, np.int64)]
    first = 0  # number of the batch's first document of the part
    for rows, batch in read_documents(store, manifest.docs, ["part"]):
        is_heldout = pc.equal(batch["part"].cast(pa.string()), "heldout")
        of_part = rows[is_heldout.to_numpy(zero_copy_only=False) == heldout]
        in_batch = numbers[(numbers >= first) & (numbers < first + len(of_part))]
        pieces.append(of_part[in_batch - first])
        first += len(of_part)
    return np.concatenate(pieces)


def read_texts(store: Path, manifest: StoreManifest, rows: np.ndarray) -> Iterator[str | None]:
    """Yield the texts of some rows of the table of documents.

    Only the files and groups of rows that contain one of them are read.

    Parameters
    ----------
    store, manifest
        Folder and manifest of the store.
    rows
        int64[n], ascending.

    Raises
    ------
    StoreError
        If a file is missing or damaged.
    """
    for entry, first in _with_first_rows(manifest.texts or []):
        in_file = rows[(rows >= first) & (rows < first + entry.rows)] - first
        if not len(in_file):
            continue
        with open_table(entry.verified(store)) as file:
            begin = 0
            for group in range(file.num_row_groups):
                end = begin + file.metadata.row_group(group).num_rows
                in_group = in_file[(in_file >= begin) & (in_file < end)] - begin
                begin = end
                if len(in_group):
                    column = file.read_row_group(group, columns=["text"])["text"]
                    yield from (column[row].as_py() for row in in_group.tolist())


def _with_first_rows(files: Sequence[TextFile]) -> Iterator[tuple[TextFile, int]]:
    """Yield each file with the number of its first row."""
    first = 0
    for entry in files:
        yield entry, first
        first += entry.rows
