"""Relational topic models of linked documents (Chang & Blei 2010)."""

ENTRY_POINTS = {
    "topicstream.engines": {
        "rtm": "topicstream.addons.links.engine:RelationalTopicModel",
    },
    "topicstream.scorers": {
        "links": "topicstream.addons.links.scorer:LINKS",
    },
    "topicstream.views": {
        "links": "topicstream.addons.links.view:LinksView",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
