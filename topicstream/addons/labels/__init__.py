"""Labelled LDA: a topic for each label of the documents (Ramage et al. 2009)."""

ENTRY_POINTS = {
    "topicstream.engines": {
        "llda": "topicstream.addons.labels.engine:LabeledBeliefPropagation",
    },
    "topicstream.scorers": {
        "labels": "topicstream.addons.labels.scorer:LABEL_SCORES",
    },
}
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
