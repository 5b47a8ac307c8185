"""The working folder of an ingest (``corpus.zarr.wip``), where a killed run carries on.

- ``state.json``: the committed parts, totals and options
- ``part-0000.arrow``: documents with the counts of their words (part_files.py)
- ``words-0000.arrow``: the words of the part
- ``rejects-0000.jsonl``: the records left out while the part was written, if any
- ``store/``: the new store, while it is being written

A resumed run reads all documents again that are not in a committed part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import sync_all
from topicstream.base.records import Count, Crc, read_record, write_record
from topicstream.ingestion.open.inputs_record import InputPlace
from topicstream.ingestion.parts.part_files import (
    CONTENT,
    CountedDocuments,
    PartWriter,
    PieceRows,
    read_part,
    read_words,
)

VERSION = 6
ADVICE = "Use --force to start afresh"


class IngestState(msgspec.Struct, kw_only=True):
    """``state.json``: the documents that an ingest has read.

    Attributes
    ----------
    version
        Version of the working folder's format.
    key
        Inputs and options that the pieces depend on.
    parts, reject_files
        Number of whole part files and files of rejects.
    pieces, crc
        Batches in these parts, and their checksum, by which a resumed run recognises the input.
    consumed
        Bytes of input read.
    before
        Pieces and checksum as they were before the last source began.
    totals, notes
        Figures and notes of the summary so far.
    columns
        Metadata columns and their kinds.
    sources
        Keys of the sources so far.
    weighted
        True if cells have weights.
    text
        True if some of the input was text.
    pubmed
        True if some of the input was PubMed, whose citations are replaced.
    width
        Numbers of a dense row, or 0 for documents; None: nothing was read; in the file the member
        ``vectors``.
    integer_ids
        True if all ids are whole numbers; None: nothing was read; in the file the member
        ``whole_ids``.
    piece_bytes
        Bytes of a piece, which a resumed run must cut alike.
    text_bytes
        Bytes of the texts that were read, if they may be kept.
    seconds
        Time of reading, over all runs.
    done
        True if all is read.
    request, inputs
        Digest and inputs of the ingest (open/inputs_record.py).
    places
        Prefixes that paths lose when they are stored.
    """

    version: int = VERSION
    key: dict[str, Any]
    parts: Count = 0
    reject_files: Count = 0
    pieces: Count = 0
    crc: Crc = 0
    consumed: Count = 0
    before: tuple[Count, Crc] = (0, 0)
    totals: dict[str, int] = {}
    notes: dict[str, int] = {}
    columns: dict[str, str] = {}
    sources: list[str] = []
    weighted: bool = False
    text: bool = False
    pubmed: bool = False
    width: int | None = msgspec.field(default=None, name="vectors")
    integer_ids: bool | None = msgspec.field(default=None, name="whole_ids")
    piece_bytes: int | None = None
    text_bytes: Count = 0
    seconds: float = 0.0
    done: bool = False
    request: str = ""
    inputs: list[InputPlace] = []
    places: list[str] = []


def read_state(folder: Path) -> IngestState | None:
    """Read the state of a working folder, or return None if there is none.

    Raises
    ------
    InputError
        If another version of this program left it.
    """
    path = folder / "state.json"
    if not path.exists():
        return None
    state = read_record(path, IngestState, ADVICE)
    if state.version != VERSION:
        raise InputError(
            f"{folder}: was left by another version of this program; --force starts over"
        )
    return state


class WorkingFolder:
    """State and parts of one ingest.

    The caller holds the folder's lock.

    Parameters
    ----------
    folder
        A folder of ours.
    fresh
        The state of this ingest before it reads anything.
    unfinished
        The state of an unfinished ingest to carry on from.
    most_bytes
        Memory that the words of a part may take.

    Attributes
    ----------
    state
        The state.
    resumed
        True if an unfinished ingest is carried on.
    durable
        True if the state on disk is that of this process.
    side
        Part file with the metadata of all documents and the fields of side files, if any.
    totals, notes
        Figures and notes of the summary so far.

    Raises
    ------
    InputError
        If the unfinished ingest has another key.
    """

    def __init__(
        self, folder: Path, fresh: IngestState, unfinished: IngestState | None, most_bytes: int
    ) -> None:
        self.folder = folder
        self.state = fresh
        self.resumed = False
        # an unfinished ingest that has read nothing, with other options, is simply forgotten
        if unfinished is not None and (unfinished.pieces > 0 or unfinished.key == fresh.key):
            self.state = unfinished
            self.resumed = True
        before = self.state.key
        changed = sorted(k for k in {*before, *fresh.key} if before.get(k) != fresh.key.get(k))
        if changed:
            raise InputError(
                f"{folder}: an unfinished ingest with other options ({', '.join(changed)}) "
                f"exists; run it again as it was to resume, or use --force to start over"
            )
        if not self.resumed:
            owned.clear(folder, "ingest")
        self.durable = self.resumed
        self.side: Path | None = None
        self.totals: Counter[str] = Counter(self.state.totals)
        self.notes: Counter[str] = Counter(self.state.notes)
        self._most_bytes = most_bytes
        self._parts = self.state.parts
        self._reject_files = self.state.reject_files
        self._part: PartWriter | None = None
        self._rejects: BinaryIO | None = None
        self._unsynced: list[Path] = []
        if not self.resumed:
            write_record(folder / "state.json", self.state)

    # -- writing parts

    def add(self, piece: CountedDocuments, rejects: bytes) -> None:
        """Append a piece, and the lines of the records that were left out before it."""
        if len(piece.metadata) or len(piece.withdrawn):
            if self._part is not None and not self._part.accepts(piece):
                self._finish_part()
            if self._part is None:
                self._part = self._open_part()
            self._part.add(piece)
        if rejects:
            self._rejects = self._rejects or owned.create(self._path("rejects", self._reject_files))
            self._rejects.write(rejects)

    def _open_part(self) -> PartWriter:
        """Begin a part file, in the place of one that a killed run left."""
        paths = [self._path(kind, self._parts) for kind in ("part", "words")]
        for path in paths:
            owned.reserve(path)
        return PartWriter(paths[0], paths[1], self._most_bytes)

    def _finish_part(self) -> None:
        """End the part file that is being written, if any."""
        if self._part is not None:
            self._part.finish()
            self._unsynced += self._part.paths
            self._part = None
            self._parts += 1

    def _finish_rejects(self) -> None:
        """End the file of rejects that is being written, if any."""
        if self._rejects is not None:
            self._rejects.close()
            self._unsynced.append(self._path("rejects", self._reject_files))
            self._rejects = None
            self._reject_files += 1

    def _path(self, kind: str, number: int) -> Path:
        """Return the path of a file of ``part``, ``words`` or ``rejects``."""
        suffix = "jsonl" if kind == "rejects" else "arrow"
        return self.folder / f"{kind}-{number:04d}.{suffix}"

    def commit(self, seconds: float, *, done: bool, durable: bool = True) -> None:
        """Make the parts and the state durable, the state last.

        Parameters
        ----------
        seconds
            Time of reading so far.
        done
            True if all is read.
        durable
            Write to the disk. Otherwise only this process knows the parts, and a run after a kill
            reads the documents again.
        """
        self._finish_part()
        self._finish_rejects()
        state = self.state
        self.durable = durable
        state.parts = self._parts
        state.reject_files = self._reject_files
        state.totals = dict(self.totals)
        state.notes = dict(self.notes)
        state.seconds = seconds
        state.done = done
        if durable:
            sync_all(self._unsynced, levels=1)
            self._unsynced.clear()
            write_record(self.folder / "state.json", state)

    # -- reading parts

    def pieces(self, *columns: str) -> Iterator[PieceRows]:
        """Yield the pieces in order, with these columns, or all but words, counts and texts."""
        if self.side is not None and not set(columns) & set(CONTENT):
            yield from read_part(self.side, columns or None)
            return
        for part in range(self.state.parts):
            yield from read_part(self._path("part", part), columns or None)

    def pieces_by_part(self, *columns: str) -> Iterator[tuple[pa.Array, Iterator[PieceRows]]]:
        """Yield the words of each part, and its pieces with these columns."""
        for part in range(self.state.parts):
            words = read_words(self._path("words", part))
            yield words, read_part(self._path("part", part), columns)

    def rejects(self) -> Iterator[bytes]:
        """Yield the lines of the records that were left out, some at a time."""
        for number in range(self.state.reject_files):
            with open(self._path("rejects", number), "rb") as file:
                while page := file.read(1 << 20):
                    yield page

    def first_reject(self) -> str | None:
        """Return place and reason of the first record that was left out."""
        page = next(self.rejects(), b"")
        if not page:
            return None
        reject = json.loads(page.splitlines()[0])
        where = f"{reject['file']}:{reject['line']}".removesuffix(":0")
        return f"{where}: {reject['reason']}"

    def close(self) -> None:
        """Close the files that are being written, whose documents a resumed run reads again."""
        if self._part is not None:
            self._part.close()
        if self._rejects is not None:
            self._rejects.close()
        self._part = None
        self._rejects = None

    def remove(self) -> None:
        """Remove the working folder."""
        self.close()
        owned.remove(self.folder, "ingest")
