"""Dask: workers that read, train, infer and score, for ``--scheduler``."""

ENTRY_POINTS = {
    "topicstream.executors": {
        "dask": "topicstream.addons.cluster.executor:DaskWorkers",
    },
    "topicstream.schedulers": {
        "dask": "topicstream.addons.cluster.scheduler:DaskCluster",
    },
}
"""Entry points by group and name, as another package's (docs/internals/extending.md)."""
