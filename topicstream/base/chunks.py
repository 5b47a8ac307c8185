"""Zarr v3 arrays in chunk files, each with its size and checksum, and their metadata.

Codecs: little-endian bytes, Blosc (lz4, shuffle), crc32c. Stock zarr opens such an array. It reads
a missing chunk as zeros, so a store or a model records the size and the crc32c of every chunk
file, and ``read_chunk`` verifies them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs import blosc

from topicstream.base.errors import StoreError, one_line
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import write_json
from topicstream.base.files.plain import open_plain

blosc.use_threads = (
    False  # our own threads encode and decode; those of Blosc would only compete with them
)


def create_array(
    folder: Path,
    shape: tuple[int, int],
    chunk: tuple[int, int],
    dtype: str,
    *,
    level: int,
    dimensions: tuple[str, str] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write the ``zarr.json`` of an array, in place of an older one; its chunks stay as they are.

    Parameters
    ----------
    shape, chunk
        Rows and columns of the array and of a chunk.
    level
        Of Blosc's compression, 0 to 9.
    """
    compression = {
        "typesize": 4,
        "cname": "lz4",
        "clevel": level,
        "shuffle": "shuffle",
        "blocksize": 0,
    }
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": np.zeros((), dtype).item(),
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "blosc", "configuration": compression},
            {"name": "crc32c"},
        ],
        **({} if dimensions is None else {"dimension_names": dimensions}),
        "attributes": attributes or {},
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "zarr.json", metadata, durable=False, checked=False)


def create_group(folder: Path) -> None:
    """Make a folder a Zarr group, if it is none."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "zarr.json").exists():
        write_json(
            folder / "zarr.json",
            {"zarr_format": 3, "node_type": "group", "attributes": {}},
            durable=False,
            checked=False,
        )


def group_problem(folder: Path) -> str | None:
    """That stock zarr cannot open a group, in a sentence; None: it can."""
    import zarr  # .15 s, which only a verification needs

    try:
        os.close(
            open_plain(folder / "zarr.json")
        )  # of a store at an address it may not have come yet
        zarr.open_group(str(folder), mode="r")
    except Exception as e:  # whatever zarr makes of a damaged file
        return (
            f"{folder}/zarr.json: stock zarr cannot open the group ({one_line(e)[:200]}); "
            f"restore the file"
        )
    return None


def array_problem(
    folder: Path, shape: tuple[int, int], chunk: tuple[int, int], dtype: str
) -> str | None:
    """What stock zarr reads otherwise than it was written, in a sentence; it may see more rows.

    None: nothing.
    """
    import zarr  # .15 s, which only a verification needs

    try:
        os.close(
            open_plain(folder / "zarr.json")
        )  # of a store at an address it may not have come yet
        array = zarr.open_array(str(folder), mode="r")
        same = (
            array.shape[1:] == shape[1:]
            and array.chunks == chunk
            and array.dtype == np.dtype(dtype)
        )
        same = same and array.shape[0] >= shape[0]
        if same and shape[0]:
            array[shape[0] - 1]
    except Exception as e:  # whatever zarr makes of a damaged file
        return (
            f"{folder}/zarr.json: stock zarr cannot read the array ({one_line(e)[:200]}); "
            f"restore the file"
        )
    return (
        None
        if same
        else f"{folder}/zarr.json: is not of the shape that was written; restore the file"
    )


def write_chunk(path: Path, values: np.ndarray, level: int) -> tuple[int, int]:
    """Write a whole chunk (contiguous, 4-byte numbers): the file's size and crc32c, of all but its
    last four bytes.
    """
    body = bytes(blosc.compress(values, b"lz4", level, blosc.SHUFFLE))
    crc = int(google_crc32c.value(body))
    path.parent.mkdir(parents=True, exist_ok=True)
    with owned.create(path) as file:
        file.write(body + crc.to_bytes(4, "little"))
    return len(body) + 4, crc


def read_chunk(path: Path, size: int, crc: int, out: np.ndarray) -> None:
    """Read, verify and decode a chunk file into ``out`` (contiguous, the whole chunk).

    Parameters
    ----------
    size, crc
        As ``write_chunk`` gave them.

    Raises
    ------
    StoreError
        Where the file is missing, or has another size, checksum or content.
    """
    space = np.empty(size + 1, np.uint8)
    try:
        with open(open_plain(path), "rb", buffering=0) as file:
            length = file.readinto(space.data)
    except FileNotFoundError:
        raise StoreError(f"{path}: missing; restore the file") from None
    if length != size:
        raise StoreError(
            f"{path}: is not {size} bytes long as written; the file is damaged, restore it"
        )
    body = space[: size - 4]
    if google_crc32c.value(body) != crc or int.from_bytes(space[size - 4 : size], "little") != crc:
        raise StoreError(f"{path}: does not match its checksum; restore the file")
    try:
        if int.from_bytes(body[4:8], "little") != out.nbytes:
            raise ValueError("it has another length than recorded")
        blosc.decompress(body, out)
    except (RuntimeError, ValueError) as e:
        raise StoreError(f"{path}: cannot be decoded ({e}); restore the file") from None
