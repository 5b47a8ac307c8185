"""Labelled LDA: a topic for each label of the documents (Ramage et al. 2009)."""

ENTRY_POINTS = {
    "topicstream.engines": {
        "llda": "topicstream.addons.labels.engine:LabeledBeliefPropagation",
    },
    "topicstream.scorers": {
        "labels": "topicstream.addons.labels.scorer:LABEL_SCORES",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
