"""How an ingest fits the memory limit: fewer or smaller pieces in flight, an earlier spill of the vocabulary."""

from __future__ import annotations

import dataclasses

from topicstream.errors import DoesNotFit, UsageError
from topicstream.ingestion.read_options import Room
from topicstream.machine import PROCESS_BYTES, default_memory_limit, default_threads, format_bytes

PER_WORKER = 9
"""Bytes a worker takes per byte of a piece: raw, text, cells, frames, and what waits in the queues."""


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Workers, bytes of a piece, bytes for the vocabulary and for sorting ids, that fit the limit."""

    limit: int
    workers: int
    piece_bytes: int
    vocabulary: int

    @property
    def words(self) -> int:
        """Bytes for the words that are kept, when no piece is in work any more."""
        return self.limit - PROCESS_BYTES

    @property
    def room(self) -> Room:
        """What is left for a piece that is in work alone."""

        def free(limit: int) -> int:
            return limit - PROCESS_BYTES - MemoryPlan.of(limit, self.workers).vocabulary

        return Room(self.limit, self.limit - PROCESS_BYTES - self.vocabulary, free)

    @classmethod
    def of(cls, limit: int | None, workers: int | None) -> MemoryPlan:
        """DoesNotFit names the smallest limit."""
        limit = limit if limit is not None else default_memory_limit()
        wanted = workers if workers is not None else default_threads()
        if wanted < 1:
            raise UsageError(f"--workers {wanted}: must be at least 1")
        least = PROCESS_BYTES + (96 << 20)
        if limit < least:
            raise DoesNotFit(f"--mem-limit {format_bytes(limit)}: an ingest needs at least {format_bytes(least)}")
        piece = 8 << 20
        while piece > 1 << 20 and PROCESS_BYTES + PER_WORKER * piece * (wanted + 2) > 0.7 * limit:
            piece //= 2
        while wanted > 1 and PROCESS_BYTES + PER_WORKER * piece * (wanted + 2) > 0.8 * limit:
            wanted -= 1
        rest = limit - PROCESS_BYTES - PER_WORKER * piece * (wanted + 2)
        return cls(limit, wanted, piece, max(16 << 20, min(rest // 2, 1 << 30)))
