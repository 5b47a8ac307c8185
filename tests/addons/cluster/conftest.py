"""Clusters that the tests of this folder share: a worker takes longer to start than most tests.

A quick test has workers in its own process; each is a ``product`` once more with workers in
processes of their own, which alone can be killed, stopped or altered (``APART``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

MEMBERS = 3
APART = pytest.mark.parametrize(
    "workers", [pytest.param("apart", marks=pytest.mark.product)], indirect=True
)
"""Of tests whose workers need processes of their own."""


@pytest.fixture(scope="package", params=["here", pytest.param("apart", marks=pytest.mark.product)])
def workers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a scheduler with three workers."""
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    options = {
        "processes": request.param == "apart",
        "n_workers": MEMBERS,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "memory_limit": 0,
    }
    # nobody looks at figures of these workers, which each would take a hundred times a second
    quiet = {
        "distributed.worker.profile.enabled": False,
        "distributed.admin.system-monitor.interval": "10s",
    }
    with dask.config.set(quiet), distributed.LocalCluster(**options) as made:
        yield made.scheduler_address


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let a command see the first few workers alone."""
    scheduler = pytest.importorskip("topicstream.addons.cluster.scheduler")
    every = scheduler.DaskCluster.addresses.fget

    def see(members: int) -> None:
        first = property(lambda self: sorted(every(self))[:members])
        monkeypatch.setattr(scheduler.DaskCluster, "addresses", first)

    return see


@pytest.fixture
def cluster(workers: str, only: Callable[[int], None]) -> str:
    """The address of a scheduler, of which a command sees two workers."""
    only(2)
    return workers
