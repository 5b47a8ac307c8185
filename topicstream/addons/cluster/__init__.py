"""Dask: workers that read, train, infer and score, for ``--scheduler``."""

ENTRY_POINTS = {
    "topicstream.executors": {
        "dask": "topicstream.addons.cluster.executor:DaskWorkers",
    },
    "topicstream.schedulers": {
        "dask": "topicstream.addons.cluster.scheduler:DaskCluster",
    },
}
"""Group -> name -> ``module:attribute``, as another package's entry points (docs/extending.md)."""
