"""Plan the memory of an ingest: the size of a piece, and how many pieces are in work."""

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
    """The plan of an ingest within its memory limit.

    Attributes
    ----------
    limit
        The limit of the process.
    workers
        Threads that prepare pieces.
    piece_bytes
        Bytes of a piece before parsing.
    """

    limit: MemoryLimit
    workers: int
    piece_bytes: int

    @property
    def words(self) -> Room:
        """Return the memory for words and names once all pieces are written."""
        return Room(self.limit, self.limit.bytes - PROCESS_BYTES - places().buffers())

    @property
    def relations(self) -> int:
        """Return the bytes for the query engine, beside pieces in work."""
        return max(LEAST_MEMORY, self.words.free // 2)

    @property
    def words_of_part(self) -> int:
        """Return the bytes for the words of a part file, which are read beside the query engine."""
        return self.relations // 2

    @property
    def room(self) -> Room:
        """Return the memory for a piece that is in work alone."""
        return Room(self.limit, self.words.free - LEAST_MEMORY)


def plan_ingest(mem_limit: str | int | None, workers: int | None) -> IngestPlan:
    """Plan as many workers as fit, with the largest pieces.

    Parameters
    ----------
    mem_limit
        The memory limit of the process.
    workers
        Workers wanted (default: all processors).

    Raises
    ------
    DoesNotFit
        If one worker with the smallest pieces does not fit.
    """
    limit = MemoryLimit.parse(mem_limit)
    threads = workers if workers is not None else default_threads()
    # one half for the query engine, the other for pieces and losses of the allocator
    half = (limit.bytes - PROCESS_BYTES - places().buffers()) // 2
    piece_bytes = LARGEST_PIECE
    while piece_bytes > SMALLEST_PIECE and WORK_BYTES * piece_bytes * (threads + 2) > 0.85 * half:
        piece_bytes //= 2
    work_bytes = WORK_BYTES * piece_bytes
    plan = plan_memory(
        "ingest",
        limit,
        threads,
        {"query engine": half, "waiting pieces": 2 * work_bytes},
        {"pieces": work_bytes},
    )
    return IngestPlan(limit, plan.workers, piece_bytes)
