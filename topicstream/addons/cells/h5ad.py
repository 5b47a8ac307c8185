"""Single cells: AnnData (``.h5ad``, or its Zarr folder) and 10x Genomics' HDF5 files.

Documents are the cells. AnnData keeps a matrix of cells x features in ``X`` or a layer (compressed
along either, or dense), names in ``obs`` and ``var``, and columns of ``obs`` as metadata. 10x keeps
features x cells in ``matrix``, compressed along the cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, TopicsError, one_line
from topicstream.ingestion.open.source import Input, Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import unique_names
from topicstream.ingestion.parse.documents import TEXT, as_metadata
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.sparse import Compressed, Dense, Matrix, MatrixReader, Side
from topicstream.ingestion.readers.parquet import seekable

DAMAGE = (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError)
"""Errors that h5py and zarr raise for damaged files."""
NAMES_AT_ONCE = 1 << 16
"""Names that are Python objects at a time: a million of them would be more than the cells in
memory.
"""


def read_cells(source: Input, group: Any, options: ReadOptions) -> Matrix:
    """Read the matrix of an open file of AnnData or 10x, its rows the cells.

    Raises
    ------
    InputError
        Where the layer asked for, or a column of metadata, is not there.
    BadFile
        Where it is neither, or holds several matrices, none of which is chosen.
    """
    name = source.name
    genomes = [key for key in group if hasattr(group[key], "keys") and "barcodes" in group[key]]
    genomes = [options.layer] if options.layer in genomes else genomes
    if "obs" in group:
        cells, features, (matrix, by_cell, shape) = _read_anndata(name, group, options.layer)
    elif len(genomes) == 1 and (options.layer in (None, *genomes) or "layer" in options.recalled):
        cells, features, (matrix, by_cell, shape) = _read_tenx(source, group[genomes[0]])
    elif genomes:
        raise BadFile(name, 0, f"choose one of its matrices with --layer: {', '.join(genomes)}")
    else:
        raise BadFile(
            name,
            0,
            "HDF5 that is neither AnnData (no obs) nor 10x (no barcodes); convert it to .h5ad",
        )
    if (len(cells), len(features)) != tuple(int(n) for n in shape):
        raise BadFile(name, 0, "the names do not fit the matrix; the file is damaged")
    if options.transpose and options.meta_wanted:
        raise InputError(
            f"{name}: columns of obs belong to the cells, and with --transpose documents are "
            f"the features; leave out --meta"
        )
    meta_columns = options.fit(group.get("obs", ())).meta
    meta = {
        c: _read_column(name, group, c, f, options.list_separator) for c, f in meta_columns.items()
    }
    return Matrix(matrix, by_cell, Side(len(cells), cells, meta), Side(len(features), features))


Stored = tuple[Compressed | Dense, bool, Any]
"""A matrix, True if its lines are the cells, and its shape."""


def _read_anndata(name: str, group: Any, layer: str | None) -> tuple[pa.Array, pa.Array, Stored]:
    """Read names of cells and features, and the matrix, as AnnData keeps them."""
    if hasattr(group["obs"], "shape"):
        raise BadFile(
            name,
            0,
            "written by AnnData before 0.7; write it again: anndata.read_h5ad(file).write(file)",
        )
    layers_group = group.get("layers", {})
    var = group["var"]
    if layer is None:
        layers_group = group
        layer = "X"
    elif layer == "raw" and layer not in layers_group and "raw/X" in group:
        layers_group = group["raw"]
        layer = "X"
        var = group["raw/var"]
    if layer not in layers_group:
        missing = "X" if layers_group is group else f"layer {layer!r}"
        raise InputError(f"{name}: has no {missing}; {_advise_layer(group)}")
    return index_names(group["obs"]), index_names(var), _read_matrix(layers_group[layer])


def _advise_layer(group: Any) -> str:
    """Say what ``--layer`` may name in a file of AnnData."""
    if "mod" in group:
        return f"choose one of its modalities with --layer: {', '.join(group['mod'])}"
    layers = [*sorted(group.get("layers", {})), *(["raw"] if "raw/X" in group else [])]
    if not layers:
        return "it has no layers"
    return f"choose one of its layers with --layer: {', '.join(layers)}"


def _read_tenx(source: Input, matrix: Any) -> tuple[pa.Array, pa.Array, Stored]:
    """Read names of cells and features, and the matrix, as 10x keeps them."""
    cells = read_strings(matrix["barcodes"])
    names = matrix["features/name" if "features" in matrix else "gene_names"]
    features = unique_names(read_strings(names))
    typed = "features/feature_type" in matrix
    note_kinds(source, read_strings(matrix["features/feature_type"]).to_pylist() if typed else [])
    entries = Compressed(matrix["indptr"], matrix["indices"], matrix["data"], len(cells))
    return cells, features, (entries, True, matrix["shape"][:][::-1])


def select_modality(group: Any, options: ReadOptions) -> tuple[Any, ReadOptions]:
    """Select the modality of MuData that ``--layer`` names.

    A layer of it follows a slash.

    Returns
    -------
    tuple
        The group to read, and the options without the modality.
    """
    name, _, layer = (options.layer or "").partition("/")
    if name not in group.get("mod", ()):
        return group, options
    return group["mod"][name], replace(options, layer=layer or None)


def note_kinds(source: Input, kinds: Sequence[str]) -> None:
    """Note that features are of several kinds, as those of a multiome are."""
    distinct = sorted(set(kinds))
    if len(distinct) > 1:
        source.note(
            f"features of several kinds ({', '.join(distinct)}; --vocab FILE keeps those it lists)",
            len(kinds),
        )


def _read_matrix(node: Any) -> Stored:
    """Read a matrix as AnnData encodes it."""
    if hasattr(node, "shape"):
        return Dense(node), True, node.shape
    kind = node.attrs.get("encoding-type") or node.attrs.get("h5sparse_format") or "array"
    shape = node.attrs.get("shape")
    shape = node.attrs["h5sparse_shape"] if shape is None else shape
    by_cell = str(kind).startswith("csr")
    return (
        Compressed(node["indptr"], node["indices"], node["data"], int(shape[1 - by_cell])),
        by_cell,
        shape,
    )


def _read_column(name: str, group: Any, column: str, field: str, separator: str) -> pa.Array:
    """Read a column of ``obs`` as metadata ``column``."""
    frame = group.get("obs", {})
    if field not in frame:
        columns = ", ".join(sorted(set(frame) - {"_index"}))[:300] or "none"
        raise InputError(
            f"{name}: no column {field!r} in obs (it has {columns}); choose another --meta"
        )
    node = frame[field]
    old = frame.get("__categories", {})  # of AnnData before 0.8
    array = decode_categories(old[field], node) if field in old else obs_column(node)
    return as_metadata(array, column, f"{name}: obs column {field!r}", separator)


def obs_column(node: Any) -> pa.Array:
    """Read a column of a data frame, as AnnData encodes it.

    It is an array, categories with codes, or values with a mask.
    """
    if not hasattr(node, "shape"):
        if "codes" in node:
            return decode_categories(node["categories"], node["codes"])
        return pc.if_else(pa.array(node["mask"][:]), None, obs_column(node["values"]))
    values = np.asarray(node[:])
    return read_strings(node) if values.dtype.kind in "OSUT" else pa.array(values, from_pandas=True)


def decode_categories(categories: Any, codes: Any) -> pa.Array:
    """Look up categories by their codes, where a code below 0 is none."""
    places = np.asarray(codes[:], np.int64)
    return read_strings(categories).take(pa.array(places, mask=places < 0))


def read_strings(node: Any) -> pa.Array:
    """Convert an array of names, bytes or numbers (perhaps with a mask) to large_string."""
    values = node if hasattr(node, "shape") else node["values"]
    parts = [pa.array([], TEXT)]
    for first in range(0, values.shape[0], NAMES_AT_ONCE):
        values_of_part = np.asarray(values[first : first + NAMES_AT_ONCE]).astype(object).tolist()
        parts.append(
            pa.array(
                [
                    v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v)
                    for v in values_of_part
                ],
                TEXT,
            )
        )
    return pa.concat_arrays(parts)


def index_names(frame: Any) -> pa.Array:
    """Read the names along ``obs`` or ``var``, made unique.

    A name that occurs again gets -1, -2, ... as in AnnData's ``var_names_make_unique``.
    """
    return unique_names(read_strings(frame[frame.attrs.get("_index", "_index")]))


class H5AD(MatrixReader):
    """Reader of AnnData, MuData and 10x HDF5 files, whose documents are the cells."""

    name = "h5ad"
    about = "AnnData (.h5ad, Zarr), MuData and 10x HDF5; documents are the cells"
    suffixes = (".h5ad", ".h5", ".h5mu")
    signature = re.compile(rb"\x89HDF\r\n\x1a\n|MuData \(format")  # which MuData puts before HDF5
    side_names = ("cells", "features")
    shown = "{:,} cells x {:,} features"

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        problem = "not AnnData or 10x that can be read ({})"
        options = replace(options, transpose=options.transpose_requested)
        with _open_group(source) as file:
            try:
                group, options = select_modality(file, options)
                matrix = read_cells(source, group, options)
                problem = "cannot be read ({}); the file is damaged"
                if "obs" in group and not options.transpose:
                    index = {"__categories", group["obs"].attrs.get("_index", "_index")}
                    source.leave_out(set(group["obs"]) - index - set(options.meta.values()))
                yield from self.documents(source, options, matrix)
            except DAMAGE as e:
                raise BadFile(source.name, 0, problem.format(e)) from None


@contextmanager
def _open_group(source: Source) -> Iterator[Any]:
    """Open the file or Zarr folder as a group."""
    if source.path is not None and source.path.is_dir():
        import zarr  # a tenth of a second, for folders alone

        try:  # what the whole tree holds, consolidated, may be of types that are not known here
            group = zarr.open_group(str(source.path), mode="r", use_consolidated=False)
        except DAMAGE as e:
            raise BadFile(
                source.name,
                0,
                f"not a Zarr group that can be read ({one_line(e)[:200]}); copy it again",
            ) from None
        yield group
        return
    try:
        import h5py
    except ImportError:
        raise TopicsError(
            "reading .h5ad and .h5 needs h5py: pip install 'topicstream[h5]'"
        ) from None
    with seekable(source) as place:
        try:
            file = h5py.File(place, "r")
        except OSError as e:
            raise BadFile(source.name, 0, f"not a whole HDF5 file ({e}); get it again") from None
        with file:
            yield file


READER = H5AD()
