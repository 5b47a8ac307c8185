"""The spool: what was read, kept on disk until the vocabulary is known.

One append-only file of *frames*.  A frame is a header line of JSON (array names, dtypes, lengths, sizes), the arrays,
each compressed with Blosc (lz4, bitshuffle), and a crc32c over all of it.  Frames are encoded and decoded in worker
threads; what counts is what the journal has committed, everything behind that length is cut off on a resume.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.blosc import blosc

_HEAD = struct.Struct("<4sIQI")  # magic, bytes of the JSON header, bytes of the body, crc32c of both
_MAGIC = b"TSf1"
_LIMIT = 1 << 30  # Blosc takes up to 2 GiB - 16; longer arrays are cut


def encode_frame(arrays: Mapping[str, np.ndarray], **facts: Any) -> bytes:
    """Arrays (one-dimensional, contiguous) and small facts -> the bytes of one frame."""
    parts: list[bytes] = []
    listing: list[list[Any]] = []
    for name, values in arrays.items():
        raw = memoryview(np.ascontiguousarray(values).view(np.uint8).data)
        item = values.dtype.itemsize
        sizes = []
        for start in range(0, len(raw), _LIMIT):
            part = np.frombuffer(raw[start : start + _LIMIT], np.uint8 if item == 1 else values.dtype)
            parts.append(blosc.compress(part, b"lz4", 1, blosc.BITSHUFFLE if item > 1 else 0))
            sizes.append(len(parts[-1]))
        listing.append([name, values.dtype.str, len(values), sizes])
    head = json.dumps({"arrays": listing, "facts": facts}, separators=(",", ":")).encode()
    body = b"".join([head, *parts])
    return _HEAD.pack(_MAGIC, len(head), len(body), google_crc32c.value(body)) + body


def decode_frame(frame: bytes, where: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The bytes of one frame -> its arrays and facts; StoreError naming ``where`` when they do not match the crc."""
    damaged = StoreError(f"{where}: the frame is damaged; run again with --force to start anew")
    if len(frame) < _HEAD.size:
        raise damaged
    magic, head_size, size, crc = _HEAD.unpack_from(frame)
    body = frame[_HEAD.size :]
    if magic != _MAGIC or len(body) != size or google_crc32c.value(body) != crc:
        raise damaged
    header = json.loads(body[:head_size])
    arrays: dict[str, np.ndarray] = {}
    at = head_size
    view = memoryview(body)
    for name, dtype, length, sizes in header["arrays"]:
        out = np.empty(length, dtype)
        raw = out.view(np.uint8)
        start = 0
        for n in sizes:
            blosc.decompress(view[at : at + n], raw[start : start + _LIMIT])
            at += n
            start += _LIMIT
        arrays[name] = out
    return arrays, header["facts"]


class Spool:
    """An append-only file of frames; ``entries`` lists (offset, size) of each.

    ``Spool(path)`` opens or creates; ``truncate(frames, size)`` goes back to a committed state.  One writer; ``read`` is
    thread-safe (pread).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = owned.open_fd(path)
        self.size = os.fstat(self._fd).st_size
        self.entries: list[tuple[int, int]] = []
        self._advised = 0

    def truncate(self, frames: int, size: int) -> None:
        """Keep the first ``frames`` frames, ``size`` bytes; StoreError when they are not there whole."""
        if self.size < size:
            raise StoreError(f"{self.path}: shorter than the journal says; run again with --force to start anew")
        os.ftruncate(self._fd, size)
        self.size, at, self.entries = size, 0, []
        while at < size:
            head = os.pread(self._fd, _HEAD.size, at)
            if len(head) < _HEAD.size or head[:4] != _MAGIC:
                break
            length = _HEAD.size + _HEAD.unpack(head)[2]
            self.entries.append((at, length))
            at += length
        if at != size or len(self.entries) != frames:
            raise StoreError(f"{self.path}: does not hold what the journal says; run again with --force to start anew")

    def append(self, frame: bytes) -> None:
        """Write one frame at the end."""
        view, at = memoryview(frame), self.size
        while view:
            n = os.pwrite(self._fd, view, at)
            view, at = view[n:], at + n
        self.entries.append((self.size, len(frame)))
        self.size = at

    def read(self, number: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and facts of one frame."""
        offset, size = self.entries[number]
        return decode_frame(os.pread(self._fd, size, offset), f"{self.path}: piece {number}")

    def sync(self) -> None:
        """fsync, and let the kernel drop the pages: dirty and clean page cache count in a memory cgroup."""
        os.fsync(self._fd)
        os.posix_fadvise(self._fd, self._advised, self.size - self._advised, os.POSIX_FADV_DONTNEED)
        self._advised = self.size

    def close(self) -> None:
        """Close the file; more than once is no harm."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __len__(self) -> int:
        return len(self.entries)
