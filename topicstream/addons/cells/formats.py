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
