"""One table of a model on disk: a Zarr v3 array float32[rows, columns] whose chunks hold whole rows (about 1 MiB), Blosc
lz4 with byte shuffle, then crc32c.  Stock zarr opens it; our own reader gathers rows without it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from topicstream.errors import NotOurs, StoreError
from topicstream.files import owned
from topicstream.files.blosc import blosc
from topicstream.files.durable import sync_file, sync_folder
from topicstream.files.ownership import claim
from topicstream.files.plain import read_plain

CHUNK_BYTES = 1 << 20
MOST_CHUNK = 1 << 26  # of a model that others wrote
UNFIT = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)
"""What a description of another form than ours raises while it is read."""



def chunk_rows(columns: int) -> int:
    """Rows of a chunk: about 1 MiB."""
    return max(1, CHUNK_BYTES // (4 * columns))


class ChunkedRows:
    """Rows of such an array straight from its chunk files, each chunk verified and decoded once a call.

    Safe to use from several threads.  ``counts``: none may be negative; they are finite in any case.
    """

    def __init__(self, folder: Path, rows: int, columns: int, step: int, chunks: str, *, counts: bool = True) -> None:
        self.folder, self.n_rows, self.columns, self.step, self._counts = folder, rows, columns, step, counts
        if min(rows, columns, step) < 1 or 4 * step * columns > max(MOST_CHUNK, 4 * columns):
            raise StoreError(f"{folder}/zarr.json: chunks that cannot be; restore the file or train again")
        try:
            pairs = [c.split(":") for c in chunks.split()]
            self._files = [(int(size), int(crc, 16)) for size, crc in pairs]
        except (AttributeError, ValueError):
            raise StoreError(f"{folder}/zarr.json: a list of chunks that cannot be read; restore the file") from None
        if len(self._files) != -(-rows // self.step):
            raise StoreError(f"{folder}/zarr.json: lists {len(self._files)} chunks for {rows} rows; restore the file")

    def chunk(self, number: int, out: np.ndarray | None = None) -> np.ndarray:
        """Rows ``number * step`` and on, float32[step, columns]; rows past the last are zeros."""
        size, crc = self._files[number]
        path = self.folder / "c" / str(number) / "0"
        try:
            data = read_plain(path, size)
        except FileNotFoundError:
            raise StoreError(f"{path}: this chunk is missing; restore the file or train again") from None
        body = data[:-4]
        if len(data) != size or google_crc32c.value(body) != crc or int.from_bytes(data[-4:], "little") != crc:
            raise StoreError(f"{path}: does not match its checksum; restore the file or train again")
        if out is None:
            out = np.empty((self.step, self.columns), np.float32)
        try:
            if len(body) < 16 or int.from_bytes(body[4:8], "little") != out.nbytes:
                raise ValueError("it holds another number of bytes")
            blosc.decompress(body, out)
        except (RuntimeError, ValueError) as e:
            raise StoreError(f"{path}: cannot be decoded ({e}); restore the file or train again") from None
        least, most = out.min(initial=0), out.max(initial=0)
        if not (-np.inf < least and most < np.inf and (least >= 0 or not self._counts)):
            raise StoreError(f"{path}: a count that is negative, infinite or no number; restore it or train again")
        return out

    def spans(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, float32[n, columns]) over the whole table; the buffer is reused."""
        buffer = np.empty((self.step, self.columns), np.float32)
        for number in range(len(self._files)):
            start = number * self.step
            yield start, self.chunk(number, buffer)[: min(self.step, self.n_rows - start)]

    def gather(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Rows of ``ids`` (any order) into ``out[:, :columns]``."""
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        edges = np.searchsorted(ordered, np.arange(len(self._files) + 1) * self.step)
        buffer = np.empty((self.step, self.columns), np.float32)
        for number in np.flatnonzero(np.diff(edges)):
            span = slice(edges[number], edges[number + 1])
            rows = self.chunk(int(number), buffer)
            out[order[span], : self.columns] = rows[ordered[span] - number * self.step]


class ArrayWriter:
    """Writes such an array row by row, in order.

    totals   float64[columns], sums of what was written
    """

    def __init__(self, folder: Path, rows: int, columns: int) -> None:
        self.folder, self.n_rows, self.columns = folder, rows, columns
        owned.remove(folder, "topics")
        claim(folder, "topics")
        (folder / "c").mkdir()
        self._step = chunk_rows(columns)
        self._buffer = np.zeros((self._step, columns), np.float32)
        self.done = 0  # rows taken
        self._chunks: list[str] = []
        self.totals = np.zeros(columns, np.float64)

    def write_rows(self, start: int, rows: np.ndarray) -> None:
        """The next rows, float [n, >= columns] (padding columns are dropped); ``start``: the rows written so far."""
        if start != self.done or start + len(rows) > self.n_rows:
            raise ValueError(f"rows {start}..{start + len(rows)} given where {self.done} of {self.n_rows} are written")
        at = 0
        while at < len(rows):
            fill = self.done % self._step
            n = min(self._step - fill, len(rows) - at)
            self._buffer[fill : fill + n] = rows[at : at + n, : self.columns]
            at += n
            self.done += n
            if self.done % self._step == 0 or self.done == self.n_rows:
                self._flush()

    def _flush(self) -> None:
        used = (self.done - 1) % self._step + 1
        self._buffer[used:] = 0
        self.totals += self._buffer.sum(axis=0, dtype=np.float64)
        body = bytes(blosc.compress(self._buffer, b"lz4", 1, blosc.SHUFFLE))
        crc = int(google_crc32c.value(body))
        file = self.folder / "c" / str(len(self._chunks)) / "0"
        file.parent.mkdir()
        with owned.create(file) as f:
            f.write(body + crc.to_bytes(4, "little"))
        self._chunks.append(f"{len(body) + 4}:{crc:08x}")

    def finish(self, dimensions: tuple[str, str], attributes: Mapping[str, Any]) -> None:
        """Write the metadata, with ``totals`` and ``chunks`` (size and crc32c of every chunk file), and sync everything."""
        import zarr
        from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec

        if self.done != self.n_rows:
            raise ValueError(f"{self.done} rows given of {self.n_rows}")
        if not np.isfinite(self.totals).all():
            raise ValueError("a model with NaN or infinite numbers is not written")
        zarr.create_array(
            str(self.folder),
            shape=(self.n_rows, self.columns),
            chunks=(self._step, self.columns),
            dtype="float32",
            fill_value=0,
            serializer=BytesCodec(endian="little"),
            compressors=[BloscCodec(cname="lz4", clevel=1, shuffle="shuffle", typesize=4), Crc32cCodec()],
            dimension_names=dimensions,
            zarr_format=3,
            attributes={
                **attributes,
                "totals": [float(t) for t in self.totals],
                "chunks": " ".join(self._chunks),
            },
        )
        # one fsync a file of the table, once a commit
        for file in self.folder.rglob("0"):
            sync_file(file)
            sync_folder(file.parent)
        sync_file(self.folder / "zarr.json")
        sync_folder(self.folder / "c")
        sync_folder(self.folder)

    def discard(self) -> None:
        """Remove what was written."""
        with contextlib.suppress(OSError, NotOurs):  # what went wrong is being told
            owned.remove(self.folder, "topics")
