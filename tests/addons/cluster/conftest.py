"""A cluster that the tests of this folder share: its workers take longer to start than most
tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package")
def cluster() -> Iterator[str]:
    """The address of a scheduler with two workers in processes of their own."""
    distributed = pytest.importorskip("distributed")
    options = {
        "processes": True,
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "memory_limit": 0,
    }
    with distributed.LocalCluster(**options) as made:
        yield made.scheduler_address
