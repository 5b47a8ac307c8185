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
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
