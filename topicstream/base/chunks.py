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

from topicstream.base.errors import one_line
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import write_json
from topicstream.base.files.openings import explain_damage
from topicstream.base.files.plain import open_plain

# our own threads encode and decode; those of Blosc would only compete with them
blosc.use_threads = False


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
    """Write the ``zarr.json`` of an array, in place of an older one, and leave its chunks.

    Parameters
    ----------
    folder
        The folder of the array.
    shape, chunk
        Rows and columns of the array and of a chunk.
    dtype
        Type of the numbers.
    level
        Level of Blosc's compression, 0 to 9.
    dimensions
        Names of rows and columns.
    attributes
        Zarr attributes of the array.
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
    """Describe in a sentence why stock zarr cannot open a group, or return None."""
    import zarr  # .15 s, which only a verification needs

    try:
        # the mirror of a store at an address may not have the file yet
        os.close(open_plain(folder / "zarr.json"))
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
    """Describe in a sentence how stock zarr misreads an array, or return None.

    The array may have more rows than were written.
    """
    import zarr  # .15 s, which only a verification needs

    try:
        # the mirror of a store at an address may not have the file yet
        os.close(open_plain(folder / "zarr.json"))
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
    if same:
        return None
    return f"{folder}/zarr.json: is not of the shape that was written; restore the file"


def write_chunk(path: Path, values: np.ndarray, level: int) -> tuple[int, int]:
    """Write a chunk file.

    Parameters
    ----------
    path
        The file.
    values
        The whole chunk, contiguous 4-byte numbers.
    level
        Level of Blosc's compression, 0 to 9.

    Returns
    -------
    size, crc
        Bytes of the file, and the crc32c of all but its last four bytes, which hold it.
    """
    body = bytes(blosc.compress(values, b"lz4", level, blosc.SHUFFLE))
    crc = int(google_crc32c.value(body))
    path.parent.mkdir(parents=True, exist_ok=True)
    with owned.create(path) as file:
        file.write(body + crc.to_bytes(4, "little"))
    return len(body) + 4, crc


def read_chunk(path: Path, size: int, crc: int, out: np.ndarray) -> None:
    """Read, verify and decode a chunk file.

    Parameters
    ----------
    path
        The file.
    size, crc
        As ``write_chunk`` returned them.
    out
        Receives the whole chunk, contiguous.

    Raises
    ------
    StoreError
        If the file is missing, or has another size, checksum or content.
    """
    space = np.empty(size + 1, np.uint8)
    try:
        with open(open_plain(path), "rb", buffering=0) as file:
            length = file.readinto(space.data)
    except FileNotFoundError:
        raise explain_damage(f"{path}: missing; restore the file") from None
    if length != size:
        raise explain_damage(
            f"{path}: is not {size} bytes long as written; the file is damaged, restore it"
        )
    body = space[: size - 4]
    if google_crc32c.value(body) != crc or int.from_bytes(space[size - 4 : size], "little") != crc:
        raise explain_damage(f"{path}: does not match its checksum; restore the file")
    try:
        if int.from_bytes(body[4:8], "little") != out.nbytes:
            raise ValueError("it has another length than recorded")
        blosc.decompress(body, out)
    except (RuntimeError, ValueError) as e:
        raise explain_damage(f"{path}: cannot be decoded ({e}); restore the file") from None
