"""Single cells: AnnData (``.h5ad``, or its Zarr folder) and 10x Genomics' HDF5 files; documents are the cells.

AnnData keeps a matrix of cells x features in ``X`` or a layer (compressed along either, or dense), names in ``obs`` and ``var``,
and columns of ``obs`` as metadata.  10x keeps features x cells in ``matrix``, compressed along the cells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.errors import InputError, TopicsError
from topicstream.files.remote import address_of
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.documents import TEXT, as_metadata
from topicstream.ingestion.parsing.reader import Reader
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.parsing.sparse import Compressed, Dense, Named, matrix_batches
from topicstream.ingestion.read_options import ReadOptions

DAMAGE = (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError)
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
        genomes = [key for key in group if hasattr(group[key], "keys") and "barcodes" in group[key]]
        if "obs" in group:
            held, var = group.get("layers", {}), group["var"]
            if layer is None:
                held, layer = group, "X"
            elif layer == "raw" and layer not in held and layer in group:
                held, layer, var = group["raw"], "X", group["raw/var"]
            if layer not in held:
                there = ", ".join([*sorted(group.get("layers", {})), *(["raw"] if "raw" in group else [])])
                raise InputError(
                    f"{name}: has no {'X' if held is group else f'layer {layer!r}'} (its layers: {there or 'none'}); choose one with --layer"
                )
            self.matrix, self.by_line = self._matrix_of(held[layer])
            self.cells, self.features = index_names(group["obs"]), index_names(var)
        elif len(genomes) == 1:
            inner = group[genomes[0]]
            features, cells = (int(n) for n in inner["shape"][:])
            pointers = np.asarray(inner["indptr"][:], np.int64)
            self.matrix, self.by_line = Compressed(pointers, inner["indices"], inner["data"], cells, features), True
            self.cells = strings(inner["barcodes"])
            self.features = unique_names(strings(inner["features/name" if "features" in inner else "gene_names"]))
        elif genomes:
            raise BadFile(name, 0, f"holds a matrix for each of {', '.join(genomes)}; write one of them as .h5ad")
        else:
            raise BadFile(name, 0, "HDF5 that is neither AnnData (no obs) nor 10x (no barcodes); convert it to .h5ad")
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

    def column(self, name: str, field: str, separator: str) -> pa.Array:
        """A column of ``obs`` as metadata ``name``."""
        frame = self._group.get("obs", {})
        if field not in frame:
            there = ", ".join(sorted(set(frame) - {"_index"}))[:300] or "none"
            raise InputError(f"{self._name}: no column {field!r} in obs (it has {there}); choose another --meta")
        held, old = frame[field], frame.get("__categories", {})  # AnnData before 0.8
        array = coded(old[field], held) if field in old else obs_column(held)
        return as_metadata(array, name, f"{self._name}: obs column {field!r}", separator)


def obs_column(held: Any) -> pa.Array:
    """A column of a data frame, as AnnData encodes it: an array, categories with codes, or values with a mask."""
    if not hasattr(held, "shape"):
        if "codes" in held:
            return coded(held["categories"], held["codes"])
        return pc.if_else(pa.array(held["mask"][:]), None, obs_column(held["values"]))
    values = np.asarray(held[:])
    return strings(held) if values.dtype.kind in "OSUT" else pa.array(values, from_pandas=True)


def coded(categories: Any, codes: Any) -> pa.Array:
    """Categories by their codes; a code below 0 is none."""
    places = np.asarray(codes[:], np.int64)
    return strings(categories).take(pa.array(places, mask=places < 0))


def strings(held: Any) -> pa.Array:
    """An array of names, bytes or numbers (perhaps with a mask) as large_string."""
    values = np.asarray((held if hasattr(held, "shape") else held["values"])[:]).astype(object).tolist()
    return pa.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values], TEXT)


def index_names(frame: Any) -> pa.Array:
    """The names along ``obs`` or ``var``; one that occurs again gets -1, -2, ... as AnnData's ``var_names_make_unique`` does."""
    return unique_names(strings(frame[frame.attrs.get("_index", "_index")]))


def unique_names(names: pa.Array) -> pa.Array:
    """Names, each of its own: one that occurs again gets -1, -2, ... as AnnData's ``make_index_unique`` has it.

    >>> unique_names(pa.array(["a", "b", "a", "a-1"])).to_pylist()
    ['a', 'b', 'a-2', 'a-1']
    """
    listed = names.to_pylist()
    taken, met, last = set(listed), set[str](), Counter[str]()
    if len(taken) == len(listed):
        return names
    for place, name in enumerate(listed):
        if name in met:
            last[name] = next(n for n in count(last[name] + 1) if f"{name}-{n}" not in taken)
            listed[place] = f"{name}-{last[name]}"
            taken.add(listed[place])
        met.add(name)
    return pa.array(listed, names.type)


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
            what, size = ("features", features) if options.transpose else ("cells", cells)
            source.note(f"{what} as documents, of {cells:,} cells x {features:,} features, {values:,} values", size)
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
