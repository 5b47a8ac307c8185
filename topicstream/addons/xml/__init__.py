"""Readers of TEI and HTML."""

ENTRY_POINTS = {
    "topicstream.readers": {
        "markup": "topicstream.addons.xml.markup:READER",
    },
}
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
