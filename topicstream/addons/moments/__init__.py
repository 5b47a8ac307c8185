"""Topics from pairs of words: anchors and full dependence mixtures."""

ENTRY_POINTS = {
    "topicstream.engines": {
        "anchors": "topicstream.addons.moments.anchors:Anchors",
        "fdm": "topicstream.addons.moments.fdm:FullDependenceMixture",
    },
    "topicstream.starts": {
        "anchors": "topicstream.addons.moments.start:AnchorStart",
    },
    "topicstream.scorers": {
        "pairs": "topicstream.addons.moments.scorer:PAIRS",
    },
    "topicstream.views": {
        "pairs": "topicstream.addons.moments.view:PairsView",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
