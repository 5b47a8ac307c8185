"""Single cells: AnnData and 10x files in and out, pycisTopic, numbers of topics."""

ENTRY_POINTS = {
    "topicstream.formats": {
        "h5ad": "topicstream.addons.cells.formats:H5AD",
        "pycistopic": "topicstream.addons.cells.formats:PYCISTOPIC",
    },
    "topicstream.readers": {
        "h5ad": "topicstream.addons.cells.h5ad:READER",
        "tenx": "topicstream.addons.cells.tenx:READER",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
