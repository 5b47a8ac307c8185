"""The files of single cells that other programs read."""

from __future__ import annotations

from topicstream.model.exchange import Format

H5AD = Format(
    "h5ad",
    "model and corpus",
    "AnnData: topics of cells in obsm, of features in varm",
    "topicstream.addons.cells.exchange:write_h5ad",
    suffix=".h5ad",
    options=("into",),
    edited=False,
)
ZARR = Format(
    "zarr",
    "model and corpus",
    "AnnData in Zarr: as h5ad, in a folder",
    "topicstream.addons.cells.exchange:write_zarr",
    suffix=".zarr",
    options=("into",),
    edited=False,
    folder=True,
)
BED = Format(
    "bed",
    "model",
    "topic_N.bed: regions of each topic above Otsu's threshold, or the first --words N",
    "topicstream.addons.cells.regions:write_bed",
    options=("words",),
    edited=False,
    numbered=True,
    folder=True,
)
