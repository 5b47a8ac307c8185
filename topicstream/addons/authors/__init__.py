"""Topics of authors: engine, inference, scores and views (Rosen-Zvi et al. 2004)."""

ENTRY_POINTS = {
    "topicstream.engines": {
        "atm": "topicstream.addons.authors.engine:AuthorTopicModel",
    },
    "topicstream.methods": {
        "authors": "topicstream.addons.authors.method:Authors",
    },
    "topicstream.scorers": {
        "authors": "topicstream.addons.authors.scorer:AUTHORS",
    },
    "topicstream.views": {
        "authors": "topicstream.addons.authors.views:AuthorsView",
        "author": "topicstream.addons.authors.views:AuthorsView",
        "experts": "topicstream.addons.authors.views:ExpertsView",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
