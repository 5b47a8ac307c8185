"""How cells lie on disk (everything opens with stock zarr and pyarrow).

``corpus.zarr`` is a Zarr v3 group.  ``train/`` and ``heldout/`` hold three arrays each, one chunk a *row*:

    words    uint32[rows, CELLS]  per document: first word id, then gaps to the next (ids ascend)
    counts   uint32[rows, CELLS]  (float32 in a weighted corpus)
    lengths  uint32[rows, DOCS]   cells of each document

A storage block is one row; only a document with more than CELLS distinct words makes a block of several rows.  Rows are
padded with zeros, which cost nothing once compressed.  Codecs: little-endian bytes, Blosc (lz4, shuffle), crc32c.
Stock zarr reads a missing chunk as zeros and ignores what a manifest says, so readers of ours take the number of
blocks, documents and cells, and each chunk's size and checksum, from ``manifest.json``, which is written last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from topicstream.errors import StoreError
from topicstream.files.blosc import blosc
from topicstream.files.durable import read_json, write_json
from topicstream.files.plain import open_plain
from topicstream.kernels.arrays import Array, Bytes, Ints, Longs
from topicstream.kernels.jit import kernel

SCHEMA = 1
CELLS = 1 << 20
DOCS = 1 << 16
KINDS = ("words", "counts", "lengths")
PARTS = ("train", "heldout")



def chunk_path(folder: Path, part: str, kind: str, row: int) -> Path:
    """Where stock zarr looks for the chunk of one row."""
    return folder / part / kind / "c" / str(row) / "0"


_GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}


def group(path: Path) -> None:
    """Make a folder a Zarr group."""
    write_json(path / "zarr.json", _GROUP, durable=False, checked=False)


def array_metadata(kind: str, rows: int, weighted: bool) -> dict[str, Any]:
    """The metadata of one array as the Zarr v3 specification says it (a test holds it to what stock zarr writes)."""
    width = DOCS if kind == "lengths" else CELLS
    real = weighted and kind == "counts"
    blosc = {"typesize": 4, "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [rows, width],
        "data_type": "float32" if real else "uint32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, width]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0 if real else 0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "blosc", "configuration": blosc},
            {"name": "crc32c"},
        ],
        "attributes": {},
        "storage_transformers": [],
    }


def part_folder(entry: dict[str, Any], part: str) -> str:
    """The folder of a part, given its entry of the manifest: ``train``, or ``train-2`` once the store was compacted."""
    return str(entry.get("folder", part))


def create_arrays(folder: Path, weighted: bool, parts: tuple[str, ...] = PARTS) -> None:
    """Create the empty Zarr v3 group and its arrays; parts: folders of parts.  (Without zarr itself: importing it takes
    longer than a small ingest.)"""
    for part in parts:
        for kind in KINDS:
            (folder / part / kind).mkdir(parents=True, exist_ok=True)
            write_json(
                folder / part / kind / "zarr.json", array_metadata(kind, 0, weighted), durable=False, checked=False
            )
        group(folder / part)
    group(folder)


def set_rows(folder: Path, part: str, rows: int) -> None:
    """Tell stock zarr how many rows the part in the folder ``part`` has (metadata only)."""

    def settle(kind: str) -> None:
        path = folder / part / kind / "zarr.json"
        array = read_json(path)
        try:
            if array["shape"][0] != rows:
                array["shape"][0] = rows
                write_json(path, array, checked=False)
        except (TypeError, KeyError, IndexError):
            raise StoreError(f"{path}: is not the metadata of an array; the file is damaged, restore it") from None

    with ThreadPoolExecutor(len(KINDS)) as pool:  # each waits for the disk
        list(pool.map(settle, KINDS))


def metadata_problems(folder: Path, weighted: bool, rows: dict[str, int]) -> Iterator[str]:
    """A sentence for each ``zarr.json`` that does not say what it has to (only stock zarr reads them; our own readers
    have everything from the manifest).  rows: of each part, by its folder."""
    for path, wanted in [(folder / "zarr.json", _GROUP), *((folder / p / "zarr.json", _GROUP) for p in rows)]:
        yield from _metadata_problem(path, wanted)
    for part in rows:
        for kind in KINDS:
            path = folder / part / kind / "zarr.json"
            wanted = array_metadata(kind, rows[part], weighted)
            with contextlib.suppress(StoreError, TypeError, KeyError, IndexError):
                more = read_json(path)["shape"][0]
                # rows of an append that was cut short, which the next one removes
                if more > rows[part] and chunk_path(folder, part, kind, more - 1).exists():
                    wanted["shape"][0] = more
            yield from _metadata_problem(path, wanted)


def _metadata_problem(path: Path, wanted: dict[str, Any]) -> Iterator[str]:
    try:
        found = read_json(path)
        with contextlib.suppress(TypeError, KeyError, IndexError):
            blosc = found["codecs"][1]["configuration"]
            if blosc["shuffle"] == "bitshuffle":  # what older stores say; each chunk tells its own
                blosc["shuffle"] = "shuffle"
        if found != wanted:
            yield f"{path}: does not say what `topics ingest` wrote; restore the file or ingest again"
    except StoreError as e:
        yield str(e)


def encode_chunk(values: np.ndarray, width: int) -> tuple[bytes, int]:
    """values: uint32 or float32[n <= width] -> (chunk file's bytes, crc32c of all but the last four)."""
    padded = values
    if len(values) != width:
        padded = np.zeros(width, values.dtype)
        padded[: len(values)] = values
    body = blosc.compress(padded, b"lz4", 5, blosc.SHUFFLE)
    crc = google_crc32c.value(bytes(body))
    return bytes(body) + int(crc).to_bytes(4, "little"), int(crc)


def read_chunk(path: Path, size: int, crc: int, out: np.ndarray, what: str, room: np.ndarray | None = None) -> None:
    """Read, verify and decode one chunk file into ``out`` (contiguous, the chunk's full width).

    room: where to put the file's bytes if they fit, contiguous; fresh memory costs more in page faults than the read.
    Raises StoreError naming ``what`` when the file is missing, has another size or another checksum.
    """
    try:
        fd = open_plain(path)
    except FileNotFoundError:
        raise StoreError(f"{path}: {what} is missing; restore the file or ingest again") from None
    space = np.empty(size + 1, np.uint8) if room is None or room.nbytes <= size else room.view(np.uint8)[: size + 1]
    try:
        found = os.preadv(fd, [space.data], 0)
    finally:
        os.close(fd)
    if found != size:
        raise StoreError(f"{path}: {what} has {found} bytes where the manifest says {size}; restore it or ingest again")
    body = space[: size - 4]
    if google_crc32c.value(body) != crc or int.from_bytes(space[size - 4 : size], "little") != crc:
        raise StoreError(f"{path}: {what} does not match its checksum; restore the file or ingest again")
    try:
        if size < 20 or int.from_bytes(body[4:8], "little") != out.nbytes:
            raise ValueError("it holds another number of bytes")
        blosc.decompress(body, out)
    except (RuntimeError, ValueError) as e:
        raise StoreError(f"{path}: {what} cannot be decoded ({e}); restore the file or ingest again") from None


def to_gaps(indptr: np.ndarray, words: np.ndarray, out: np.ndarray) -> None:
    """words: int32[nnz], ascending within each document -> out: uint32[nnz]."""
    np.subtract(words[1:], words[:-1], out=out[1:], casting="unsafe")
    starts = indptr[:-1][indptr[1:] > indptr[:-1]]
    out[starts] = words[starts]


@kernel
def from_gaps(gaps: Array, lengths: Array, first: int, last: int, start: int, ids: Ints, marker: Bytes) -> int:
    """Decode documents ``first..last-1`` of a storage block whose cells begin at ``start``.

    gaps: uint32[], lengths: uint32[] -> ids: int32[] (global), marker[id] set to 1 for each word met: uint8[W].
    Returns the number of cells, or -1 when an id runs past the vocabulary.
    """
    n = 0
    limit = len(marker)
    for d in range(first, last):
        word = np.int64(0)
        for _ in range(lengths[d]):
            word += np.int64(gaps[start + n])
            if word >= limit:
                return -1
            ids[n] = word
            marker[word] = 1
            n += 1
    return n


@kernel
def wrong_document(gaps: Array, lengths: Array, words: int) -> int:
    """gaps: uint32[], lengths: uint32[] of a storage block -> the first document whose word ids do not ascend within
    0..words-1, or -1.  What kernels index by, looked at where it is decoded."""
    i = np.int64(0)
    for d in range(len(lengths)):
        n = np.int64(lengths[d])
        last = zeros = np.int64(0)
        for j in range(i, i + n):
            last += np.int64(gaps[j])
            zeros += gaps[j] == 0
        if n > 0 and (last >= words or zeros > (gaps[i] == 0)):
            return d
        i += n
    return -1


@kernel
def number_words(marker: Bytes, vocab: Ints, local: Ints) -> int:
    """marker: uint8[W] -> vocab: int32[U] ascending, local[id] = local number; clears marker.  Returns U."""
    u = 0
    wide = marker[: len(marker) // 8 * 8].view(np.uint64)
    for j in range(len(wide)):
        if wide[j] != 0:
            for w in range(8 * j, 8 * j + 8):
                if marker[w]:
                    vocab[u] = w
                    local[w] = u
                    u += 1
            wide[j] = 0
    for w in range(8 * len(wide), len(marker)):
        if marker[w]:
            vocab[u] = w
            local[w] = u
            u += 1
            marker[w] = 0
    return u


@kernel
def localise(ids: Ints, local: Ints) -> None:
    """ids: int32[nnz] global -> local, in place; local: int32[W]."""
    for i in range(len(ids)):
        ids[i] = local[ids[i]]


@kernel
def drop_rows(gaps: Array, counts: Ints, lengths: Array, gone: Longs) -> int:
    """Make the documents ``gone`` (int64, ascending) of a storage block empty, in place; returns the cells left."""
    g = 0
    source = target = 0
    for d in range(len(lengths)):
        n = lengths[d]
        if g < len(gone) and gone[g] == d:
            lengths[d] = 0
            g += 1
        else:
            for i in range(n):
                gaps[target + i] = gaps[source + i]
                counts[target + i] = counts[source + i]
            target += n
        source += n
    return target


def part_summary(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Totals of a part from its blocks' entries.  Removed documents keep their row and lose their cells."""

    def left(name: str) -> Any:
        return sum(b[name] - b.get("removed", {}).get(name, 0) for b in blocks)

    return {
        "blocks": blocks,
        "docs": sum(b["docs"] for b in blocks),
        "cells": left("cells"),
        "tokens": left("tokens"),
        "rows": blocks[-1]["rows"][1] if blocks else 0,
        "bytes": sum(size for b in blocks for kind in KINDS for size, _ in b["files"][kind]),
    }
