"""The memory plan of an inference: place of the model's table, threads, size of a block."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from topicstream.base.errors import DoesNotFit
from topicstream.base.memory import MemoryLimit, MemoryPlan, Room, plan_memory
from topicstream.corpus.vocabulary import BYTES_PER_WORD
from topicstream.model.topic_model import TopicModel

A_THREAD = 12 << 20
"""Bytes of a thread: its stack, and the piece of the input that it reads."""
A_SHARE = 60
"""Bytes of one share of a document in work: float32, the lists, its text as JSON, and what waits to
be written.
"""
A_CELL = 40
BLOCK_DOCS = 1 << 11
BLOCK_CELLS = 1 << 17
LEAST_DOCS = 1 << 5
BLOCKS = [BLOCK_DOCS >> i for i in range(7)]
"""Documents of a block, from the most to the fewest."""


@dataclass(frozen=True)
class InferencePlan:
    """The memory that an inference may hold.

    Attributes
    ----------
    memory
        The plan behind it.
    load
        True if the method's tables are brought into memory.
    docs, cells
        Documents and cells of a block.
    """

    memory: MemoryPlan
    load: bool
    docs: int
    cells: int

    @property
    def threads(self) -> int:
        """Threads that answer at once."""
        return self.memory.workers

    @property
    def room(self) -> Room:
        """The memory left for one document, or for documents that are held together."""
        return Room(self.memory.limit, self.memory.free, share=0.5)


def thread_bytes(topics: int, docs: int, gathered: int) -> int:
    """Count the bytes of a thread for blocks of ``docs`` documents.

    ``gathered`` is the number of topic rows fetched for a cell.
    """
    cells = docs * (BLOCK_CELLS // BLOCK_DOCS)
    return A_THREAD + A_SHARE * topics * docs + cells * (A_CELL + 4 * topics * gathered)


def plan_inference(
    model: TopicModel,
    limit: MemoryLimit,
    threads: int,
    *,
    owned: bool,
    tables: int = 1,
    table_bytes: int | None = None,
) -> InferencePlan:
    """Plan the memory of an inference.

    Blocks get smaller first, then the table stays on disk, then threads get fewer.

    Parameters
    ----------
    model
        The model that answers.
    limit
        Memory of the whole process.
    threads
        Threads wanted.
    owned
        True if the model may be loaded: it is not the caller's.
    tables
        Number of tables of the topics' size that rows are gathered from.
    table_bytes
        Bytes to load, if not those of these tables.

    Raises
    ------
    DoesNotFit
        If one thread with the smallest blocks does not fit.
    """
    topics = model.n_topics
    words = {"words": BYTES_PER_WORD * model.n_words}
    table = 4 * model.n_words * topics * tables if table_bytes is None else table_bytes
    in_memory = model.phi is not None

    def plan(load: bool, docs: int) -> InferencePlan:
        cells = docs * (BLOCK_CELLS // BLOCK_DOCS)
        resident = {"topics": table} if load or in_memory else {}
        each = {"threads": thread_bytes(topics, docs, 0 if load or in_memory else tables)}
        task = f"inference with {model.path or 'this model'}"
        return InferencePlan(
            plan_memory(task, limit, threads, {**words, **resident}, each), load, docs, cells
        )

    loads = (True, False) if owned and not in_memory and 2 * table <= limit.bytes else (False,)
    for load, docs in product(loads, BLOCKS):
        with suppress(DoesNotFit):
            if (planned := plan(load, docs)).threads == threads:
                return planned
    return plan(False, LEAST_DOCS)
