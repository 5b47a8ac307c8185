"""Single cells: AnnData (``.h5ad``, or its Zarr folder) and 10x Genomics' HDF5 files; documents are the cells.

AnnData keeps a matrix of cells x features in ``X`` or a layer (compressed along either, or dense), names in ``obs`` and ``var``,
and columns of ``obs`` as metadata.  10x keeps features x cells in ``matrix``, compressed along the cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError, TopicsError
from topicstream.files.remote import address_of
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.documents import TEXT, as_metadata
from topicstream.ingestion.parsing.reader import Reader
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.parsing.sparse import Compressed, Dense, Named, matrix_batches
from topicstream.ingestion.read_options import ReadOptions

DAMAGE = (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError)
"""What h5py and zarr raise of files that are not as they should be."""


class Annotated:
    """An open file of AnnData or of 10x.

    Attributes
    ----------
    matrix
        In compressed form, or dense.
    by_line
        Whether the matrix's lines are cells.
    cells, features
        Names, large_string.
    """

    def __init__(self, name: str, group: Any, layer: str | None) -> None:
        self._name, self._group = name, group
        if "X" in group or "layers" in group:
            held = group["layers"] if layer is not None and "layers" in group else group
            chosen = layer if layer is not None else "X"
            if chosen not in held:
                there = ", ".join(sorted(group["layers"])) if "layers" in group else ""
                raise InputError(
                    f"{name}: has no layer {chosen!r} (it has {there or 'only X'}); choose another --layer"
                )
            self.matrix, self.by_line = self._matrix_of(held[chosen])
            self.cells, self.features = self._index("obs"), self._index("var")
        elif "matrix" in group and "barcodes" in group["matrix"]:
            inner = group["matrix"]
            features, cells = (int(n) for n in inner["shape"][:])
            pointers = np.asarray(inner["indptr"][:], np.int64)
            self.matrix, self.by_line = Compressed(pointers, inner["indices"], inner["data"], cells, features), True
            self.cells = strings(inner["barcodes"])
            listed = inner.get("features", inner)
            self.features = unique_names(strings(listed["name"]), strings(listed["id"]))
        else:
            raise BadFile(name, 0, "HDF5 that is neither AnnData (no X) nor 10x (no matrix); convert it to .h5ad")
        lines, across = (self.cells, self.features) if self.by_line else (self.features, self.cells)
        if (len(lines), len(across)) != (self.matrix.lines, self.matrix.across):
            raise BadFile(name, 0, "the names do not fit the matrix; the file is damaged")

    def _matrix_of(self, held: Any) -> tuple[Compressed | Dense, bool]:
        kind = held.attrs.get("encoding-type") or held.attrs.get("h5sparse_format") or "array"
        if hasattr(held, "shape"):
            return Dense(held), True
        shape = held.attrs.get("shape")
        rows, columns = (int(n) for n in (shape if shape is not None else held.attrs["h5sparse_shape"]))
        by_line = str(kind).startswith("csr")
        lines, across = (rows, columns) if by_line else (columns, rows)
        pointers = np.asarray(held["indptr"][:], np.int64)
        return Compressed(pointers, held["indices"], held["data"], lines, across), by_line

    def _index(self, axis: str) -> pa.Array:
        frame = self._group[axis]
        return strings(frame[frame.attrs.get("_index", "_index")])

    def column(self, name: str, field: str, separator: str) -> pa.Array:
        """A column of ``obs`` as metadata ``name``."""
        frame = self._group.get("obs", {})
        if field not in frame:
            there = ", ".join(sorted(set(frame) - {"_index"}))[:300] or "none"
            raise InputError(f"{self._name}: no column {field!r} in obs (it has {there}); choose another --meta")
        held = frame[field]
        if hasattr(held, "shape"):
            values = np.asarray(held[:])
            array = strings(held) if values.dtype.kind in "OSUT" else pa.array(values)
        else:  # categories
            codes = np.asarray(held["codes"][:], np.int64)
            array = strings(held["categories"]).take(pa.array(codes, mask=codes < 0))
        return as_metadata(array, name, f"{self._name}: obs column {field!r}", separator)


def strings(held: Any) -> pa.Array:
    """An array of names, bytes or numbers as large_string."""
    values = np.asarray(held[:]).astype(object).tolist()
    return pa.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values], TEXT)


def unique_names(names: pa.Array, ids: pa.Array) -> pa.Array:
    """Names of features; where one occurs twice, with its id behind it."""
    counts = {entry["values"]: entry["counts"] for entry in names.value_counts().to_pylist()}
    pairs = zip(names.to_pylist(), ids.to_pylist())
    return pa.array([f"{name} ({key})" if counts[name] > 1 else name for name, key in pairs], TEXT)


class H5AD(Reader):
    name = "h5ad"
    kind = "counts"
    about = "AnnData (.h5ad, Zarr) and 10x HDF5; documents are the cells"
    suffixes = (".h5ad", ".h5")
    signature = re.compile(rb"\x89HDF\r\n\x1a\n")

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        with _opened(source) as group:
            held = _annotated(source, group, options)
            return held.cells if options.transpose else held.features

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        with _opened(source) as group:
            held = _annotated(source, group, options)
            cells, features, values = len(held.cells), len(held.features), held.matrix.cells
            what, count = ("features", features) if options.transpose else ("cells", cells)
            source.note(f"{what} as documents, of {cells:,} cells x {features:,} features, {values:,} values", count)
            if options.transpose:
                named = Named(held.features)
            else:
                meta = {c: held.column(c, f, options.list_separator) for c, f in options.meta.items()}
                named = Named(held.cells, meta)
            try:
                yield from matrix_batches(source, options, held.matrix, held.by_line != options.transpose, named)
            except DAMAGE as e:
                raise BadFile(source.name, 0, f"cannot be read ({e}); the file is damaged") from None


def _annotated(source: Source, group: Any, options: ReadOptions) -> Annotated:
    try:
        return Annotated(source.name, group, options.layer)
    except DAMAGE as e:
        raise BadFile(source.name, 0, f"not AnnData or 10x that can be read ({e})") from None


def _opened(source: Source) -> Any:
    """The file or Zarr folder as a group, to be closed."""
    if source.path is None or address_of(source.path) is not None:
        raise BadFile(source.name, 0, "HDF5 is read from a file on disk, not from standard input or an address; copy it first")
    if source.path.is_dir():
        import contextlib

        import zarr  # a tenth of a second, for folders alone

        return contextlib.nullcontext(zarr.open_group(str(source.path), mode="r"))
    try:
        import h5py
    except ImportError:
        raise TopicsError("reading .h5ad and .h5 needs h5py: pip install 'topicstream[h5]'") from None
    try:
        return h5py.File(source.path, "r")
    except OSError as e:
        raise BadFile(source.name, 0, f"not HDF5 that can be read ({e})") from None


READER = H5AD()
