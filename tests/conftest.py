"""No test may pass or fail by chance: property tests draw the same examples in every run (``--hypothesis-profile=default``
draws others), however slow the machine is, and no line of progress comes for the time alone.

No test waits for the disk: ``os.fsync`` only looks whether the file is open.  What a crash of the machine leaves cannot be
tested here; the tests of kills run processes of their own, with the real one."""

import gc
import os
from math import inf

import pytest
from hypothesis import HealthCheck, settings

from tests.s3 import endpoint, put  # noqa: F401  fixtures

settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


os.fsync = os.fstat


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_line_for_the_time_alone(monkeypatch):
    monkeypatch.setattr("topicstream.progress.EVERY", inf)
