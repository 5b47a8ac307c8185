"""The memory plan of an inference, counted by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from topicstream.base.errors import DoesNotFit
from topicstream.base.machine import PROCESS_BYTES
from topicstream.base.memory import MemoryLimit
from topicstream.inference.memory import plan_inference, thread_bytes

MB = 1 << 20
WORDS = 500_000
TOPICS = 100


def model_of(in_memory=False):
    """A model of which a plan asks for sizes alone."""
    phi = object() if in_memory else None
    return SimpleNamespace(n_topics=TOPICS, n_words=WORDS, phi=phi, path="m")


def plan_of(limit, threads=2, owned=True, in_memory=False, **given):
    return plan_inference(
        model_of(in_memory), MemoryLimit(int(limit)), threads, owned=owned, **given
    )


def thread_of(docs, tables):
    """12 MB, 60 bytes a share, 64 cells a document of 40 bytes, and its gathered rows."""
    return 12 * MB + 60 * TOPICS * docs + 64 * docs * (40 + 4 * TOPICS * tables)


def test_bytes_of_a_thread():
    for docs, gathered in ((2048, 0), (32, 1), (64, 2)):
        assert thread_bytes(TOPICS, docs, gathered) == thread_of(docs, gathered)


def test_parts_of_a_roomy_plan():
    plan = plan_of(64 << 30)
    assert (plan.load, plan.docs, plan.cells, plan.threads) == (True, 2048, 1 << 17, 2)
    assert plan.memory.parts == {
        "process": PROCESS_BYTES,
        "words": 110 * WORDS,
        "topics": 4 * WORDS * TOPICS,
        "threads": 2 * thread_of(2048, 0),
    }
    assert plan_of(64 << 30, tables=2).memory.parts["topics"] == 2 * 4 * WORDS * TOPICS
    assert plan_of(64 << 30, table_bytes=777).memory.parts["topics"] == 777
    theirs = plan_of(64 << 30, owned=False)
    assert not theirs.load and "topics" not in theirs.memory.parts
    assert theirs.memory.parts["threads"] == 2 * thread_of(2048, 1)
    held = plan_of(64 << 30, in_memory=True)
    assert not held.load and held.memory.parts == plan_of(64 << 30).memory.parts
    assert plan.room.free == plan.memory.free and plan.room.share == 0.5


def needed(fixed, threads, docs, tables):
    """The least limit of a plan."""
    return PROCESS_BYTES + 1.06 * (110 * WORDS + fixed + threads * thread_of(docs, tables)) + 1


@pytest.mark.parametrize("table", [4 * WORDS * TOPICS, 1 << 34])
def test_blocks_get_smaller_then_the_table_stays_on_disk_then_threads_get_fewer(table):
    given = {"table_bytes": table}
    if table < 1 << 30:
        exactly = needed(table, 2, 2048, 0)
        plan = plan_of(exactly, **given)
        assert (plan.load, plan.docs, plan.threads) == (True, 2048, 2)
        plan = plan_of(exactly - 2, **given)
        assert (plan.load, plan.docs, plan.threads) == (True, 1024, 2)
    else:  # a table of more than half the limit is not loaded
        assert not plan_of(2 * table - 1, **given).load
        assert plan_of(2 * table, **given).load
    for docs in (2048, 64, 32):
        plan = plan_of(needed(0, 2, docs, 1), owned=False, **given)
        assert (plan.load, plan.docs, plan.threads) == (False, docs, 2)
    plan = plan_of(needed(0, 2, 32, 1) - 2, owned=False, **given)
    assert (plan.docs, plan.threads) == (32, 1)
    with pytest.raises(DoesNotFit, match="inference with m does not fit"):
        plan_of(needed(0, 1, 32, 1) - 2, owned=False, **given)
