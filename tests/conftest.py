"""No test may pass or fail by chance: property tests draw the same examples in every run
(``--hypothesis-profile=default`` draws others), however slow the machine is, and no line of
progress comes for the time alone.

No test waits for the disk: ``os.fsync`` only looks whether the file is open. What a crash of the
machine leaves cannot be tested here; the tests of kills run processes of their own, with the real
one.

The process of the tests keeps what it frees: a chunk of a store is 4 MB, and the system takes
longer to give such memory again than to decode a small one. Limits of memory are tested in
processes of their own.

A test has its folder in memory where there is room (``SCRATCH``): a sixth of the processor time of
the suite was spent on files that come and go on a disk.  The slow tests that watch kills, disks and
caches have theirs on a disk; those marked ``product`` do not.

A connection of DuckDB serves many tests (``tests/kept_connections.py``).
"""

import ctypes
import gc
import os
import re
import shutil
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from tests import kept_connections
from tests.left_out import half_known, half_shown  # noqa: F401  fixtures
from tests.s3 import endpoint, put  # noqa: F401  fixtures
from tests.tiers import add_tiers, find_unused
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
kept_connections.install()

machine.return_freed_memory = lambda: None
for parameter, value in (
    (-8, 2),
    (-1, 1 << 30),
    (-3, 32 << 20),
):  # M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
    getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(parameter, value)  # only glibc has it


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a test the marks of its tier (``tests/tiers.py``)."""
    add_tiers(item)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a quick case that is none (``tests/tiers.py``); skip what needs an add-on that was
    deleted (``tests/wall.py``).
    """
    missing = find_missing()
    if missing:  # and with them the cases that are about them
        skip_users_of(missing, items)
    elif not any("::" in argument for argument in config.args):
        unused = find_unused(items)
        if unused:
            raise pytest.UsageError("; ".join(unused))


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not look through it again and
    again.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a test a folder in memory, and one of the slow tests that are no products pytest's own.

    ``-n 0 --basetemp=FOLDER`` keeps what tests write in a folder of one's choice.
    """
    config = request.config
    marked = request.node.get_closest_marker
    on_disk = marked("slow") is not None and marked("product") is None
    chosen = config.getoption("basetemp") is not None and not hasattr(config, "workerinput")
    if on_disk or chosen or not SCRATCH.is_dir() or shutil.disk_usage(SCRATCH).free < ROOM:
        yield request.getfixturevalue("tmp_path")
        return
    name = re.sub(r"\W", "_", request.node.name)[:30]
    with TemporaryDirectory(prefix=f"{name}0-", dir=SCRATCH) as folder:
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
