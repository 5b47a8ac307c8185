"""Layout of cells on disk, which stock zarr and pyarrow can open.

``corpus.zarr`` is a Zarr v3 group. ``train/`` and ``heldout/`` hold three arrays each, one chunk
per *row*:

    words    uint32[rows, CELLS]  per document: first word id, then gaps to the next (ids ascend)
    counts   uint32[rows, CELLS]  (float32 in a weighted corpus)
    lengths  uint32[rows, DOCS]   cells of each document

A storage block is one row. Only a document with more than CELLS distinct words makes a block of
several rows. Rows are padded with zeros, which cost nothing once compressed. Codecs: little-endian
bytes, Blosc (lz4, shuffle), crc32c.

Stock zarr reads a missing chunk as zeros and knows no manifest. Our readers therefore take the
number of blocks, documents and cells, and each chunk's size and checksum, from ``manifest.json``,
which is written last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from topicstream.base.chunks import (
    array_problem,
    create_array,
    create_group,
    group_problem,
    read_chunk,
    write_chunk,
)
from topicstream.base.files.durable import sync

CELLS = 1 << 20
DOCS = 1 << 16
CUTS = ((CELLS, DOCS), (3 << 17, 1 << 14))
"""Cells and documents of engine blocks whose grid the manifest has, so that no cell is read for it:
the largest blocks, and those of ``sparse-bp`` on a corpus of some millions of cells.
"""
LEVEL = 5
"""Compression level of Blosc."""
KINDS = ("words", "counts", "lengths")
LISTS = ("lengths", "ids")
"""Arrays of an axis: how many ids each document has, and the ids."""
PARTS = ("train", "heldout")
AUTHORS = "authors"
LABELS = "labels"
LINKS = "links"
NAMED = (AUTHORS, LABELS)
LIST_COLUMNS = (*NAMED, LINKS)
"""Metadata that are lists of strings, an axis each: of names, and of the documents that a document
is linked with.
"""


def chunk_path(folder: Path, part: str, kind: str, row: int) -> Path:
    """Return the path at which stock zarr looks for the chunk of one row."""
    return folder / part / kind / "c" / str(row) / "0"


def width_of(kind: str) -> int:
    """Return the number of columns of an array."""
    return DOCS if kind == "lengths" else CELLS


def type_of(kind: str, weighted: bool) -> str:
    """Return the data type of an array."""
    return "float32" if weighted and kind == "counts" else "uint32"


def write_array_metadata(
    folder: Path, rows: Mapping[str, int], *, weighted: bool = False, kinds: Iterable[str] = KINDS
) -> None:
    """Write the Zarr metadata of a folder and of its arrays.

    Parameters
    ----------
    folder
        The folder.
    rows
        Number of rows of each part, by its folder.
    weighted
        True if counts are real numbers.
    kinds
        The arrays of each part.
    """
    for part, count in rows.items():
        for kind in kinds:
            shape = (count, width_of(kind))
            chunk = (1, width_of(kind))
            dtype = type_of(kind, weighted)
            create_array(folder / part / kind, shape, chunk, dtype, level=LEVEL)
            sync(folder / part / kind / "zarr.json")
        create_group(folder / part)
    create_group(folder)


def metadata_problems(folder: Path, weighted: bool, rows: Mapping[str, int]) -> Iterator[str]:
    """Describe each group and array whose Zarr metadata differ from the manifest.

    Parameters
    ----------
    folder, weighted
        As of ``write_array_metadata``.
    rows
        Number of rows of each part, by its folder. An array may have more: those of a killed
        append, which the next one removes.
    """
    problems = [group_problem(folder / name) for name in ("", *rows)]
    for part, count in rows.items():
        for kind in KINDS:
            shape = (count, width_of(kind))
            chunk = (1, width_of(kind))
            dtype = type_of(kind, weighted)
            problems.append(array_problem(folder / part / kind, shape, chunk, dtype))
    yield from filter(None, problems)


def write_row(path: Path, values: np.ndarray, width: int) -> tuple[int, int]:
    """Write values as the chunk of one row, and return its size and crc32c.

    Parameters
    ----------
    path
        The chunk's file.
    values
        uint32 or float32[n], n <= width.
    width
        Width of the array, to which the values are padded with zeros.
    """
    padded = values
    if len(values) != width:
        padded = np.zeros(width, values.dtype)
        padded[: len(values)] = values
    return write_chunk(path, padded, LEVEL)


def write_rows(
    folder: Path, part: str, first: int, arrays: Mapping[str, np.ndarray]
) -> dict[str, list[tuple[int, int]]]:
    """Write the arrays of one storage block as rows, starting at number ``first``.

    Each row has a chunk of every array, so that all arrays have the same number of rows:
    ``lengths`` is zero behind the first.

    Returns
    -------
    dict
        Size and crc32c of the chunk files, by array.
    """
    rows = max(1, *(-(-len(values) // width_of(kind)) for kind, values in arrays.items()))
    files: dict[str, list[tuple[int, int]]] = {kind: [] for kind in arrays}
    for kind, values in arrays.items():
        width = width_of(kind)
        for row in range(rows):
            path = chunk_path(folder, part, kind, first + row)
            files[kind].append(write_row(path, values[row * width : (row + 1) * width], width))
    return files


def read_rows(
    folder: Path,
    part: str,
    kind: str,
    first: int,
    files: Sequence[tuple[int, int]],
    dtype: DTypeLike,
) -> np.ndarray:
    """Read, verify and decode the chunks of one array, dtype[rows * width].

    Parameters
    ----------
    folder, part, kind
        The array.
    first
        First row.
    files
        Size and crc32c of the chunk of each row.
    dtype
        Type of the numbers.

    Raises
    ------
    StoreError
        If a chunk is missing or damaged.
    """
    width = width_of(kind)
    out = np.empty(len(files) * width, dtype)
    for row, (size, crc) in enumerate(files):
        path = chunk_path(folder, part, kind, first + row)
        read_chunk(path, size, crc, out[row * width : (row + 1) * width])
    return out
