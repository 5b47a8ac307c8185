"""The working folder of an ingest (``corpus.zarr.wip``) and its journal: where a killed run carries
on.

    state.json     what is committed: pieces, lengths of the spools, totals
    cells.spool    a frame a piece: the cells (see prepare.py)
    types.spool    a frame a piece: the words that its cells number
    docs.spool     a frame a piece: id hashes, metadata, records left out
    store/         the new store, while it is being written

Everything behind the committed lengths is cut off on a resume and read again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from topicstream.base import system
from topicstream.base.errors import InputError, StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.records import Count, Crc, Json, read_record, write_record
from topicstream.ingestion.open.inputs_record import InputsRecord

JOURNAL = 4
SPOOLS = ("cells", "types", "docs")
ADVICE = "Use --force to start afresh"


class Committed(msgspec.Struct):
    """The new store, whole."""

    fingerprint: str
    summary: dict[str, Any]


class IngestState(msgspec.Struct, kw_only=True):
    """``state.json``: what an ingest has read.

    Attributes
    ----------
    key
        What it was asked to read and how.
    pieces, crc, consumed
        Batches that are spooled, their checksum (to know on a resume that the input is the same),
        bytes of input read.
    before
        Pieces and checksum as they were before the last source began.
    spools
        Frames and bytes of each spool.
    width
        Numbers of a dense row, 0: documents; None: nothing was read.
    whole_ids
        Whether all ids are whole numbers.
    record, places
        The record of the ingest (opening/inputs_record.py), what paths lose when they are stored.
    committed
        Fingerprint and summary of the new store, once it is whole.
    """

    journal: int = 0
    key: dict[str, Any]
    pieces: Count = 0
    crc: Crc = 0
    consumed: Count = 0
    before: tuple[Count, Crc] = (0, 0)
    spools: dict[str, tuple[Count, Count]] = msgspec.field(
        default_factory=lambda: dict.fromkeys(SPOOLS, (0, 0))
    )
    totals: dict[str, int] = {}
    notes: dict[str, int] = {}
    columns: dict[str, str] = {}
    sources: list[str] = []
    weighted: bool = False
    text: bool = False
    pubmed: bool = False
    width: int | None = msgspec.field(default=None, name="vectors")
    whole_ids: bool | None = None
    piece_bytes: int | None = None
    seconds: float = 0.0
    done: bool = False
    record: InputsRecord | None = None
    places: list[str] = []
    committed: Committed | None = None


def read_state(folder: Path) -> IngestState | None:
    """The state of a working folder; None where there is none.

    InputError where another version left it.
    """
    path = folder / "state.json"
    if not path.exists():
        return None
    state = read_record(path, IngestState, ADVICE)
    if state.journal != JOURNAL:
        raise InputError(
            f"{folder}: was left by another version of this program; --force starts over"
        )
    return state


class Journal:
    """State and spools of one ingest; the caller holds the folder's lock.

    left: the state to carry on from.
    """

    def __init__(self, folder: Path, key: dict[str, Any], unfinished: IngestState | None) -> None:
        self.folder = folder
        self.resumed = unfinished is not None and (
            unfinished.pieces > 0 or unfinished.key == key
        )  # else nothing was read that could be lost
        self.state = (
            unfinished
            if unfinished is not None and self.resumed
            else IngestState(journal=JOURNAL, key=key)
        )
        if changed := sorted(
            k for k in {*self.state.key, *key} if self.state.key.get(k) != key.get(k)
        ):
            raise InputError(
                f"{folder}: an unfinished ingest with other options ({', '.join(changed)}) "
                f"exists; run it again as"
                " it was to resume, or use --force to start over"
            )
        if not self.resumed:
            owned.clear(folder, "ingest")
        self.durable = self.resumed
        """Whether the state that is on disk is that of this process."""
        self.cells, self.types, self.docs = (Spool(folder / f"{name}.spool") for name in SPOOLS)
        for name, spool in self._spools():
            spool.truncate(*self.state.spools[name])
        self.totals: Counter[str] = Counter(self.state.totals)
        self.notes: Counter[str] = Counter(self.state.notes)
        if not self.resumed:
            self._write(self.state)

    def _write(self, state: IngestState) -> None:
        write_record(self.folder / "state.json", state)

    def _spools(self) -> list[tuple[str, Spool]]:
        return [("cells", self.cells), ("types", self.types), ("docs", self.docs)]

    def commit(self, seconds: float, *, done: bool, durable: bool = True) -> None:
        """Make what was read so far durable: spools first, the state last.  ``durable=False``:
        remember it in this process alone; after a kill it is read again.
        """
        state = self.state
        self.durable = durable
        for name, spool in self._spools():
            if durable:
                spool.sync()
            state.spools[name] = (len(spool), spool.size)
        state.totals = dict(self.totals)
        state.notes = dict(self.notes)
        state.seconds = seconds
        state.done = done
        if durable:
            self._write(state)

    def commit_store(self, fingerprint: str, summary: dict[str, Json]) -> None:
        """Say that the new store is whole, before it is put in place."""
        state = self.state
        if not self.durable:  # what was spooled is not safe
            state = IngestState(
                journal=JOURNAL, key=state.key, record=state.record, places=state.places
            )
        self._write(msgspec.structs.replace(state, committed=Committed(fingerprint, summary)))

    def close(self) -> None:
        """Close the files."""
        for _, spool in self._spools():
            spool.close()

    def remove(self) -> None:
        """Remove the working folder."""
        self.close()
        owned.remove(self.folder, "ingest")


_LENGTH = 8
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_FORCE = "run again with --force to start afresh"


def encode_frame(arrays: Mapping[str, Any]) -> bytes:
    """Arrays of numbers or strings of one dimension -> the bytes of one frame."""
    lists = [
        pa.LargeListArray.from_arrays(pa.array([0, len(a)], pa.int64()), pa.array(a))
        for a in arrays.values()
    ]
    batch = pa.RecordBatch.from_arrays(lists, names=list(arrays))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_LZ4) as stream:
        stream.write_batch(batch)
    frame: bytes = sink.getvalue().to_pybytes()
    return len(frame).to_bytes(_LENGTH, "little") + frame


class Spool:
    """What was read, kept on disk until the vocabulary is known: an append-only file of frames.

    A frame is its length and an Arrow stream of one row, the arrays as lists, compressed with lz4;
    one that is the same as the frame before is a length of 0 alone. Frames are encoded and decoded
    in worker threads. ``entries`` lists (offset, size) of each, of the same frames the first
    one's.

    ``Spool(path)`` opens or creates; ``truncate(frames, size)`` goes back to a committed state.
    One writer; ``read`` is thread-safe (pread).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(owned.reserve(path, keep=True), os.O_RDWR | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
        self.entries: list[tuple[int, int]] = []
        self._last: bytes | None = None

    def truncate(self, frames: int, size: int) -> None:
        """Keep the first ``frames`` frames, ``size`` bytes; StoreError when they are not there
        whole.
        """
        self.entries = []
        at = 0
        while at < min(size, self.size):
            length = _LENGTH + int.from_bytes(os.pread(self._fd, _LENGTH, at), "little")
            self.entries.append(
                (at, length) if length > _LENGTH or not self.entries else self.entries[-1]
            )
            at += length
        if at != size or len(self.entries) != frames:
            raise StoreError(f"{self.path}: does not match the journal; {_FORCE}")
        os.ftruncate(self._fd, size)
        self.size = size

    def append(self, frame: bytes) -> None:
        """Write one frame at the end."""
        entry = (self.size, len(frame)) if frame != self._last else self.entries[-1]
        view = memoryview(frame if frame != self._last else bytes(_LENGTH))
        at = self.size
        while view:
            n = os.pwrite(self._fd, view, at)
            view = view[n:]
            at = at + n
        self.entries.append(entry)
        self._last = frame
        self.size = at

    def read(self, number: int) -> dict[str, np.ndarray]:
        """The arrays of one frame of numbers."""
        return {name: values.to_numpy() for name, values in self.arrays(number).items()}

    def arrays(self, number: int) -> dict[str, pa.Array]:
        """The arrays of one frame."""
        offset, size = self.entries[number]
        try:
            batch = pa.ipc.open_stream(
                os.pread(self._fd, size - _LENGTH, offset + _LENGTH)
            ).read_next_batch()
        except (pa.ArrowException, OSError, StopIteration) as e:
            raise StoreError(f"{self.path}: piece {number} is damaged ({e}); {_FORCE}") from None
        return {name: column.values for name, column in zip(batch.schema.names, batch.columns)}

    def sync(self) -> None:
        """Make what was appended survive a power cut."""
        system.flush(self._fd)

    def close(self) -> None:
        """Close the file; more than once is no harm."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __len__(self) -> int:
        return len(self.entries)
