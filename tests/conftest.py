"""No test may pass or fail by chance: property tests draw the same examples in every run
(``--hypothesis-profile=default`` draws others), however slow the machine is, and no line of
progress comes for the time alone.

No test waits for the disk: ``os.fsync`` only looks whether the file is open. What a crash of the
machine leaves cannot be tested here; the tests of kills run processes of their own, with the real
one.

The process of the tests keeps what it frees: a chunk of a store is 4 MB, and the system takes
longer to give such memory again than to decode a small one. Limits of memory are tested in
processes of their own.

A quick test has its folder in memory where there is room (``SCRATCH``): a sixth of the processor
time of the suite was spent on files that come and go on a disk.
"""

import ctypes
import gc
import os
import shutil
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from tests.s3 import endpoint, put  # noqa: F401  fixtures
from tests.wall import find_missing, skip_users_of
from topicstream.base import machine

settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


SCRATCH = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that are free where folders of quick tests lie: one takes some megabytes."""

os.fsync = os.fstat

machine.return_freed_memory = lambda: None
for parameter, value in (
    (-8, 2),
    (-1, 1 << 30),
    (-3, 32 << 20),
):  # M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
    getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(parameter, value)  # only glibc has it


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests of campaigns as slow."""
    if item.get_closest_marker("campaign"):
        item.add_marker("slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs an add-on that was deleted (``tests/wall.py``)."""
    if missing := find_missing():
        skip_users_of(missing, items)


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not look through it again and
    again.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Give a quick test a folder in memory, and a slow one pytest's own.

    ``-n 0 --basetemp=FOLDER`` keeps what tests write in a folder of one's choice.
    """
    config = request.config
    slow = request.node.get_closest_marker("slow") is not None
    chosen = config.getoption("basetemp") is not None and not hasattr(config, "workerinput")
    if slow or chosen or not SCRATCH.is_dir() or shutil.disk_usage(SCRATCH).free < ROOM:
        yield tmp_path
        return
    with TemporaryDirectory(prefix=f"{tmp_path.name}-", dir=SCRATCH) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _no_line_for_the_time_alone(monkeypatch):
    monkeypatch.setattr("topicstream.base.progress.EVERY", inf)


@pytest.fixture(autouse=True)
def _no_address_of_a_test_before():
    """A process that has read an address plans memory for objects on their way from then on."""
    yield
    remote = sys.modules.get("topicstream.addons.cloud.remote")
    if remote is not None:
        remote._store.cache_clear()
        remote.forget_versions()
