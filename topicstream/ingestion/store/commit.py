"""Steps of the commit: documents' table, fingerprint, summary, and the rename of a new store.

A new store is built in the working folder and renamed into place. An append writes files that no
manifest mentions into the store (higher rows, new parts, files of the new generation) and replaces
the manifest last.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.dates import Day, in_iso_format, iso, parse
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import exchange_folders, sync
from topicstream.base.files.inventory import refuse_unlisted
from topicstream.base.files.ownership import claim
from topicstream.base.progress import Progress
from topicstream.base.records import Json
from topicstream.corpus.columns import NO_NUMBER
from topicstream.corpus.documents import PlacedDocuments
from topicstream.corpus.format import LINKS, PARTS
from topicstream.corpus.manifest import AxisEntry, PartEntry, StoreFile
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.store.decide import DROPPED, Decision


def fingerprint(
    vocabulary_hash: str, parts: Mapping[str, PartEntry], removed: StoreFile | None
) -> str:
    """Compute the sha256 of the vocabulary and of all blocks' checksums in order.

    It is equal for stores of equal content.
    """
    digest = hashlib.sha256(vocabulary_hash.encode())
    for part in PARTS:
        for block in parts[part].blocks:
            crcs = []
            for kind in sorted(block.files):
                crcs += [crc for _, crc in block.files[kind]]
            digest.update(np.array([block.docs, block.cells, *crcs], "<i8").tobytes())
    if removed is not None:
        digest.update(removed.crc32c.to_bytes(4, "little"))
    return digest.hexdigest()


@dataclass
class ColumnCounts:
    """Counts of new documents with a value in each column of metadata, and their dates.

    Attributes
    ----------
    date_format
        Format of dates in the input; None: all formats that ``dates.parse`` reads.
    documents
        Number of documents.
    filled
        Documents with a value, by column.
    dates
        Documents by date.
    unread
        The first value of the column ``date`` that is no date.
    """

    date_format: str | None = None
    documents: int = 0
    filled: Counter[str] = field(default_factory=Counter)
    dates: Counter[Day] = field(default_factory=Counter)
    unread: str | None = None

    def add(self, table: pa.Table) -> None:
        """Count some documents."""
        self.documents += len(table)
        for name in table.column_names:
            column = table[name]
            if pa.types.is_list(column.type):
                is_empty = pc.equal(pc.list_value_length(column), 0)
            else:
                is_empty = pc.equal(column, "")
            self.filled[name] += len(column) - column.null_count - (pc.sum(is_empty).as_py() or 0)
        if "date" in table.column_names:
            for pair in table["date"].value_counts().to_pylist():
                self._add_date(pair["values"], pair["counts"])

    def _add_date(self, text: str | None, documents: int) -> None:
        """Count documents with a value of the column ``date``."""
        day = parse(text) if text else None
        if day is not None:
            self.dates[day] += documents
        elif text in NO_NUMBER:
            self.filled["date"] -= documents
        elif text:
            self.unread = self.unread or text

    def summary(self, columns: Mapping[str, str]) -> dict[str, Json]:
        """Return the counts of the columns of the store."""
        dates: dict[str, Json] | None = None
        if "date" in columns:
            ends = [iso(min(self.dates)), iso(max(self.dates))] if self.dates else []
            dates = {"read": self.dates.total(), "unread": self.unread, "ends": ends}
        filled = {name: self.filled[name] for name in columns if name not in ("id", "source")}
        missing = {name: self.documents - number for name, number in filled.items()}
        return {
            "columns": filled,
            "missing_values": {name: number for name, number in missing.items() if number > 0},
            "dates": dates,
        }


def write_documents(
    working: WorkingFolder,
    decision: Decision,
    writer: PlacedDocuments,
    counts: ColumnCounts,
    progress: Progress,
) -> list[StoreFile]:
    """Write the documents' table of this ingest, and return the manifest's entries of its files.

    Parameters
    ----------
    working, decision
        The documents, and the parts that they belong to.
    writer
        Writer of the table.
    counts
        Counts of its columns, to which these documents are added.
    progress
        The progress listener.
    """
    for i, piece in enumerate(working.pieces()):
        kind = decision.classes[i]
        rows = np.flatnonzero(kind != DROPPED)
        table = pa.Table.from_batches([piece.metadata])
        table = table if len(rows) == len(kind) else table.take(rows)
        if counts.date_format is not None and "date" in table.column_names:
            position = table.column_names.index("date")
            dates = in_iso_format(table["date"], counts.date_format)
            table = table.set_column(position, "date", dates)
        counts.add(table)
        writer.place(table, kind[rows])
        progress.step("writing documents", i + 1, len(decision.classes), "piece")
    return writer.finish()


def parts_summary(parts: Mapping[str, PartEntry]) -> dict[str, Json]:
    """Return the summary of the blocks."""
    docs = {}
    for part in PARTS:
        docs[part] = sum(block.remaining.docs for block in parts[part].blocks)
    cells = sum(parts[p].cells for p in PARTS)
    stored = sum(parts[p].bytes for p in PARTS)
    return {
        "documents": sum(docs.values()),
        "documents_training": docs["train"],
        "documents_heldout": docs["heldout"],
        "documents_removed": sum(parts[p].docs for p in PARTS) - sum(docs.values()),
        "cells": cells,
        "tokens": sum(parts[p].tokens for p in PARTS),
        "bytes": stored,
        "bytes_per_cell": round(stored / max(cells, 1), 4),
    }


def axes_summary(axes: Mapping[str, AxisEntry]) -> dict[str, Json]:
    """Return the summary of the axes: their sizes, and counts of links."""
    sizes = {name: entry.size for name, entry in axes.items() if name != LINKS}
    return {"axes": sizes, LINKS: axes[LINKS].figures if LINKS in axes else None}


def put_in_place(new: Path, out: Path) -> None:
    """Rename a new store to ``out``.

    An existing store is exchanged with it in one step, and then removed.

    Raises
    ------
    NotOurs
        If the existing store holds files of others; nothing has changed then.
    """
    if out.exists() and any(out.iterdir()):
        claim(out, "corpus")
        refuse_unlisted(out)
        exchange_folders(new, out)
        owned.remove(new, "corpus")
    else:
        owned.move_folder(new, out)
    sync(out.parent)
