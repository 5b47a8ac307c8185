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
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
