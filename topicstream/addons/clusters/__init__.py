"""Mixtures of whole documents, of vectors and of image patches."""

ENTRY_POINTS = {
    "topicstream.engines": {
        "gmm": "topicstream.addons.clusters.gmm:GaussianMixture",
        "mixture": "topicstream.addons.clusters.mixture:DocumentMixture",
    },
    "topicstream.methods": {
        "gmm": "topicstream.addons.clusters.gmm_method:GMM",
        "mixture": "topicstream.addons.clusters.mixture_method:MixtureMethod",
    },
    "topicstream.starts": {
        "clusters": "topicstream.addons.clusters.starts:ClusterStart",
    },
    "topicstream.default_views": {
        "gmm": "topicstream.addons.clusters.view:ComponentsView",
    },
    "topicstream.readers": {
        "images": "topicstream.addons.clusters.images:READER",
        "npy": "topicstream.addons.clusters.dense_rows:NPY",
        "vectors": "topicstream.addons.clusters.dense_rows:VECTORS",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
