"""Single cells: AnnData and 10x files in and out."""

ENTRY_POINTS = {
    "topicstream.formats": {
        "bed": "topicstream.addons.cells.formats:BED",
        "h5ad": "topicstream.addons.cells.formats:H5AD",
        "zarr": "topicstream.addons.cells.formats:ZARR",
    },
    "topicstream.readers": {
        "h5ad": "topicstream.addons.cells.h5ad:READER",
        "tenx": "topicstream.addons.cells.tenx:READER",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
