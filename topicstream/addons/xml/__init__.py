"""Readers of TEI and HTML."""

ENTRY_POINTS = {
    "topicstream.readers": {
        "markup": "topicstream.addons.xml.markup:READER",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
