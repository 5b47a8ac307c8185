"""How an ingest keeps to its memory limit: the size of a piece, and how many are in work."""

from __future__ import annotations

from dataclasses import dataclass

from topicstream.base.machine import PROCESS_BYTES, default_threads
from topicstream.base.memory import MemoryLimit, Room, plan_memory
from topicstream.base.places import places
from topicstream.base.relations import LEAST_MEMORY
from topicstream.ingestion.parts.tasks import WORK_BYTES

LARGEST_PIECE = 8 << 20
SMALLEST_PIECE = 1 << 20


@dataclass(frozen=True)
class IngestPlan:
    """Workers and bytes of a piece that fit the limit."""

    limit: MemoryLimit
    workers: int
    piece_bytes: int

    @property
    def words(self) -> Room:
        """For the words and names that are kept, when no piece is in work any more."""
        return Room(self.limit, self.limit.bytes - PROCESS_BYTES - places().buffers())

    @property
    def relations(self) -> int:
        """Return the bytes for the query engine, beside pieces in work."""
        return max(LEAST_MEMORY, self.words.free // 2)

    @property
    def words_of_part(self) -> int:
        """Return the bytes for the words of a part file.

        They are read again beside the query engine.
        """
        return self.relations // 2

    @property
    def room(self) -> Room:
        """Return what a piece may take that is in work alone."""
        return Room(self.limit, self.words.free - LEAST_MEMORY)


def plan_ingest(mem_limit: str | int | None, workers: int | None) -> IngestPlan:
    """As many workers as asked for (default: the processors) with the largest pieces that fit.

    DoesNotFit.
    """
    limit = MemoryLimit.parse(mem_limit)
    threads = workers if workers is not None else default_threads()
    half = (
        limit.bytes - PROCESS_BYTES - places().buffers()
    ) // 2  # for the query engine; the other one for pieces and what the allocator loses
    piece = LARGEST_PIECE
    while piece > SMALLEST_PIECE and WORK_BYTES * piece * (threads + 2) > 0.85 * half:
        piece //= 2
    work = WORK_BYTES * piece
    plan = plan_memory(
        "ingest",
        limit,
        threads,
        {"query engine": half, "waiting pieces": 2 * work},
        {"pieces": work},
    )
    return IngestPlan(limit, plan.workers, piece)
