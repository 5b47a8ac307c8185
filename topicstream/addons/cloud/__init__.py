"""Stores, models and raw files in buckets and on web servers."""

ENTRY_POINTS = {
    "topicstream.commands": {
        "publish": "topicstream.addons.cloud.command:command",
    },
    "topicstream.places": {
        "cloud": "topicstream.addons.cloud.places:CloudPlaces",
    },
    "topicstream.functions": {
        "publish": "topicstream.addons.cloud.publication:publish",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
COMMAND_HELP = {
    "publish": "Upload a corpus store or a model to an object store.",
}
"""The lines of ``topics --help``, which imports no command."""
