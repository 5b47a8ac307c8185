"""How an ingest divides its memory, counted by hand."""

from __future__ import annotations

import pytest

from topicstream.base.errors import DoesNotFit
from topicstream.base.machine import PROCESS_BYTES
from topicstream.base.relations import LEAST_MEMORY
from topicstream.ingestion.parts.tasks import WORK_BYTES
from topicstream.ingestion.plan import IngestPlan, plan_ingest

MB = 1 << 20


def limit_for(piece, threads):
    """The least limit at which pieces of so many MB take .85 of half of the memory."""
    return int(PROCESS_BYTES + 2 * WORK_BYTES * piece * MB * (threads + 2) / 0.85) + 4


@pytest.mark.parametrize(("threads", "pieces"), [(1, (8, 4)), (3, (8, 4, 2))])
def test_pieces_are_as_large_as_fit_with_two_that_wait(threads, pieces):
    for piece in pieces:
        plan = plan_ingest(limit_for(piece, threads), threads)
        assert (plan.piece_bytes, plan.workers) == (piece * MB, threads)
        smaller = plan_ingest(limit_for(piece, threads) - 40, threads)
        assert (smaller.piece_bytes, smaller.workers) == (piece * MB // 2, threads)


def test_the_smallest_pieces_have_fewer_workers():
    plan = plan_ingest("512M", 64)
    assert plan.piece_bytes == MB
    # of half the memory beside the process, what the allocator loses is taken off
    half = (512 * MB - PROCESS_BYTES) // 2
    room = (512 * MB - PROCESS_BYTES) / 1.06 - half
    assert plan.workers == int(room / (WORK_BYTES * MB)) - 2


def test_memory_without_pieces():
    plan = IngestPlan(plan_ingest("1G", 1).limit, 1, 8 * MB)
    free = (1 << 30) - PROCESS_BYTES
    assert plan.words.free == free
    assert plan.relations == free // 2 and plan.words_of_part == free // 4
    assert plan.room.free == free - LEAST_MEMORY


def test_less_than_the_least_is_refused():
    with pytest.raises(DoesNotFit, match="at least 512M"):
        plan_ingest("511M", 1)
