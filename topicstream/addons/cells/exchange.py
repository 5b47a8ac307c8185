"""Topics of single cells for the programs of that field: AnnData (``.h5ad`` or Zarr).

AnnData gets shares of topics in ``obsm["X_topic"]``, p(feature | topic) in ``varm["topic"]`` and
the settings in ``uns["topicstream"]``, in a file of its own or in a copy of the one that was
ingested (``--into``). Cells without a feature that the model knows get the prior's mean, as
``infer`` and ``transform`` give it, and are marked in ``obs["topics_are_prior"]``. Features that
the model does not know get NaN in ``varm``.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.addons.cells.h5ad import DAMAGE, index_names
from topicstream.base.errors import InputError, TopicsError
from topicstream.base.files.outputs import written
from topicstream.base.files.ownership import temporary_path
from topicstream.base.machine import __version__
from topicstream.base.records import Json
from topicstream.inference.config import InferConfig
from topicstream.inference.infer import Answers
from topicstream.inference.method import TopicRows
from topicstream.model.exchange import Export
from topicstream.model.topic_model import TopicModel

PRIOR_COLUMN = "topics_are_prior"


class CellTopics(NamedTuple):
    """Topics of cells.

    Attributes
    ----------
    names
        Names of the cells.
    shares
        p(topic | cell), float32[cells, K], by number of the topic.
    are_prior
        Whether the cell has no feature that the model knows, and so the prior's mean, bool[cells].
    """

    names: pa.Array
    shares: np.ndarray
    are_prior: np.ndarray


def prior_mean(model: TopicModel) -> np.ndarray:
    """Return the topics of a cell without a known feature, float32[K], by number."""
    prior: np.ndarray = TopicRows(model).prior[order_by_number(model)]
    return prior.astype(np.float32)


def infer_cell_topics(job: Export) -> CellTopics:
    """Infer the topics of all cells of the store: training, then held out."""
    numbers = np.array(job.numbers)
    run = Answers(InferConfig(job.model, job.corpus, edits=False))
    names = []
    pieces = []
    flags = []
    for batch in run.batches():
        topics = batch.column("topics")
        shares = batch.column("shares")
        rows = np.repeat(np.arange(len(batch)), np.diff(shares.offsets.to_numpy()))
        piece = np.zeros((len(batch), job.model.n_topics), np.float32)
        piece[rows, np.searchsorted(numbers, topics.values.to_numpy())] = shares.values.to_numpy()
        names.append(batch.column("id").cast(pa.large_string()))
        pieces.append(piece)
        flags.append(batch.column("flag").is_valid().to_numpy(zero_copy_only=False))
    return CellTopics(
        pa.chunked_array(names, pa.large_string()).combine_chunks(),
        np.concatenate(pieces),
        np.concatenate(flags),
    )


def reorder_by_name(
    row_names: pa.Array, names: pa.Array, values: np.ndarray, unknown: float | np.ndarray
) -> tuple[np.ndarray, int]:
    """Order rows of ``values`` by the names in ``row_names``, ``unknown`` where there is none.

    Returns
    -------
    tuple
        The rows, and the number of known names.
    """
    places = pc.index_in(row_names, value_set=names)
    rows = np.empty((len(row_names), *values.shape[1:]), values.dtype)
    rows[:] = unknown
    rows[places.is_valid().to_numpy(zero_copy_only=False)] = values[places.drop_null().to_numpy()]
    return rows, len(row_names) - places.null_count


def order_by_number(model: TopicModel) -> np.ndarray:
    """Order the columns of a model by the numbers of their topics."""
    return np.argsort(model.column_ids)


def collect_settings(job: Export) -> dict[str, str | float | np.ndarray]:
    """Collect the facts about the model that a reader of the file needs."""
    model = job.model
    origin = job.model.manifest
    return {
        "program": f"topicstream {__version__}",
        "engine": origin.engine or "",
        "topics": model.n_topics,
        "seed": -1 if origin.seed is None else origin.seed,
        "passes": origin.passes or 0,
        "topic_ids": np.array(job.numbers),
        "alpha": model.alpha[order_by_number(model)],
        "beta": model.beta,
    }


def write_h5ad(job: Export) -> dict[str, Json]:
    """Write one AnnData file."""
    try:
        import h5py
    except ImportError:
        raise TopicsError("--format h5ad needs h5py: pip install 'topicstream[h5]'") from None
    cells = infer_cell_topics(job)
    features = job.model.vocabulary.words
    topics = job.model.topic_word[order_by_number(job.model)].T
    inputs = () if job.into is None else (job.into,)
    with (
        written(job.path, force=job.force, inputs=inputs) as file,
        # HDF5 reads what it writes, and the file has no name yet by which to open it again
        open(os.dup(file.fileno()), "r+b") as place,
    ):
        if job.into is None:
            with h5py.File(place, "w") as data:
                _set_encoding(data, "anndata", "0.1.0")
                for axis, values in (("obs", cells.names), ("var", features)):
                    _write_names(data, axis, values)
                _write_topics(data, cells, topics, job)
        else:
            if os.path.isdir(job.into):
                raise InputError(f"--into {job.into}: is a folder; --out NAME.zarr goes with it")
            with open(job.into, "rb") as source:
                shutil.copyfileobj(source, place)
            with _open_h5ad(h5py, place, job.into) as data:
                cells = _reorder_cells(data, cells, job)
                topics = _reorder_rows(data, "var", features, topics, job.into)[0]
                _write_topics(data, cells, topics, job)
    return _summarize(cells, job)


def write_zarr(job: Export) -> dict[str, Json]:
    """Write an AnnData folder in Zarr, or a copy of one with the topics."""
    import zarr  # a tenth of a second, for this format alone

    cells = infer_cell_topics(job)
    features = job.model.vocabulary.words
    topics = job.model.topic_word[order_by_number(job.model)].T
    beside = temporary_path(job.path)
    try:
        if job.into is None:
            data = zarr.open_group(str(beside), mode="w")
            _set_encoding(data, "anndata", "0.1.0")
            for axis, values in (("obs", cells.names), ("var", features)):
                _write_names(data, axis, values)
        else:
            if not os.path.isdir(job.into):
                raise InputError(f"--into {job.into}: no Zarr folder; --out NAME.h5ad goes with it")
            shutil.copytree(job.into, beside, symlinks=True)
            data = _open_zarr(zarr, beside, job.into)
            cells = _reorder_cells(data, cells, job)
            topics = _reorder_rows(data, "var", features, topics, job.into)[0]
        _write_topics(data, cells, topics, job)
        if job.into is not None:
            _consolidate(zarr, beside)
        os.rename(beside, job.path)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return _summarize(cells, job)


def _open_zarr(zarr: Any, copy: Path, place: str | Path) -> Any:
    """Open a copy of a Zarr folder, or raise InputError."""
    try:
        return zarr.open_group(str(copy), mode="r+", use_consolidated=False)
    except DAMAGE:
        raise InputError(
            f"--into {place}: not a Zarr group; give an AnnData folder, or leave out --into"
        ) from None


def _consolidate(zarr: Any, copy: Path) -> None:
    """List the new arrays in the consolidated metadata of a copy, or drop what is outdated."""
    metadata_file = copy / ".zmetadata"
    root = copy / "zarr.json"
    about = json.loads(root.read_text()) if root.exists() else {}
    if not metadata_file.exists() and not about.get("consolidated_metadata"):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that Zarr 3 has no specification of it yet
            zarr.consolidate_metadata(str(copy))
    except DAMAGE:  # types that are not known here
        metadata_file.unlink(missing_ok=True)
        if about:
            about.pop("consolidated_metadata", None)
            root.write_text(json.dumps(about))


def _summarize(cells: CellTopics, job: Export) -> dict[str, Json]:
    """Return the summary of an export of cells."""
    unknown = int(cells.are_prior.sum())
    return {
        "documents": len(cells.shares),
        "topics": job.model.n_topics,
        **({"unknown_cells": unknown} if unknown else {}),
    }


def _open_h5ad(h5py: Any, copy: BinaryIO, place: str | Path) -> Any:
    """Open a copy of an HDF5 file, or raise InputError."""
    try:
        return h5py.File(copy, "r+")
    except OSError:
        raise InputError(
            f"--into {place}: not an HDF5 file; give an .h5ad, or --format h5ad without --into"
        ) from None


def _reorder_cells(data: Any, cells: CellTopics, job: Export) -> CellTopics:
    """Order the topics of cells as the file names them.

    A cell that no store has gets the prior's mean.
    """
    assert job.into is not None
    numbers = np.arange(len(cells.names))
    places, names = _reorder_rows(data, "obs", cells.names, numbers, job.into, unknown=-1)
    shares = cells.shares[places]
    shares[places < 0] = prior_mean(job.model)
    return CellTopics(names, shares, cells.are_prior[places] | (places < 0))


def _reorder_rows(
    data: Any,
    axis: str,
    names: pa.Array,
    values: np.ndarray,
    place: str | Path,
    unknown: float = np.nan,
) -> tuple[np.ndarray, pa.Array]:
    """Order rows as the file names them, ``unknown`` where the model has none.

    Returns
    -------
    tuple
        The rows, and the file's names.
    """
    try:
        file_names = index_names(data[axis])
    except DAMAGE:
        raise InputError(
            f"--into {place}: names no {axis} as AnnData does; give an .h5ad, or --format h5ad "
            f"without --into"
        ) from None
    rows, n_known = reorder_by_name(file_names, names, values, unknown)
    if axis == "obs" and not n_known:  # the file was one of several
        file, mark = (pa.scalar(text, names.type) for text in (Path(place).name, ":"))
        rows, n_known = reorder_by_name(
            pc.binary_join_element_wise(file, file_names, mark), names, values, unknown
        )
    if not n_known:
        raise InputError(
            f"--into {place}: none of its {axis} names is known to the model (it has "
            f"{file_names[0]}, the model {names[0]})"
        )
    return rows, file_names


def _write_topics(data: Any, cells: CellTopics, topics: np.ndarray, job: Export) -> None:
    """Write the topics of cells and features, and the settings, into a group of HDF5 or Zarr."""
    _write_column(data["obs"], PRIOR_COLUMN, cells.are_prior)
    for group, name, values in (("obsm", "X_topic", cells.shares), ("varm", "topic", topics)):
        _replace_value(_open_mapping(data, group), name, values, "array")
    uns = _open_mapping(data, "uns")
    if "topicstream" in uns:
        del uns["topicstream"]
    facts = _open_mapping(uns, "topicstream")
    for name, value in collect_settings(job).items():
        kind = "numeric-scalar"
        if isinstance(value, str):
            kind = "string"
        elif isinstance(value, np.ndarray):
            kind = "array"
        _replace_value(facts, name, value, kind)


def _replace_value(group: Any, name: str, value: Any, kind: str) -> None:
    """Write a value into a group of HDF5 or Zarr, in the place of one that is there."""
    if name in group:
        del group[name]
    if not hasattr(group, "create_array"):
        large = isinstance(value, np.ndarray) and value.ndim > 1
        packed = {"compression": "lzf", "chunks": True} if large else {}
        node = group.create_dataset(name, data=value, **packed)
    elif kind in ("string", "string-array"):
        texts = np.array(value, object)
        node = group.create_array(name, shape=texts.shape, dtype=str)
        node[...] = texts
    else:
        node = group.create_array(name, data=np.asarray(value))
    _set_encoding(node, kind, "0.2.0")


def _write_names(data: Any, axis: str, names: pa.Array) -> None:
    """Write a data frame without columns."""
    frame = data.create_group(axis)
    _set_encoding(frame, "dataframe", "0.2.0")
    frame.attrs["_index"] = "_index"
    _list_columns(frame, [])
    _replace_value(frame, "_index", names.to_pylist(), "string-array")


def _write_column(frame: Any, name: str, values: np.ndarray) -> None:
    """Add a column to a data frame, or replace it."""
    _replace_value(frame, name, values, "array")
    columns = [str(column) for column in frame.attrs.get("column-order", ())]
    if name not in columns:
        _list_columns(frame, [*columns, name])


def _list_columns(frame: Any, names: list[str]) -> None:
    """Note the columns of a data frame: as an array for HDF5, as a list for Zarr."""
    in_zarr = hasattr(frame, "create_array")
    frame.attrs["column-order"] = names if in_zarr else np.array(names, object if names else float)


def _open_mapping(parent: Any, name: str) -> Any:
    """Open a group of a name, made as AnnData's mapping if it is new."""
    if name not in parent:
        _set_encoding(parent.create_group(name), "dict", "0.1.0")
    return parent[name]


def _set_encoding(thing: Any, kind: str, version: str) -> None:
    """Set the attributes by which AnnData knows the encoding of a node."""
    thing.attrs["encoding-type"] = kind
    thing.attrs["encoding-version"] = version
