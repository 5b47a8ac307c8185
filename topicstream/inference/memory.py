"""The memory plan of an inference: place of the model's table, threads, size of a block."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from topicstream.base.errors import DoesNotFit
from topicstream.base.memory import MemoryLimit, MemoryPlan, Room, plan_memory
from topicstream.corpus.vocabulary import BYTES_PER_WORD
from topicstream.model.topic_model import TopicModel

BYTES_PER_THREAD = 12 << 20
"""A thread's stack, and the piece of the input that it reads."""
BYTES_PER_SHARE = 60
"""A share of a document in work: float32, the lists, its text as JSON, and what waits to be
written."""
BYTES_PER_CELL = 40
"""A cell of a document in work."""
BLOCK_DOCS = 1 << 11
BLOCK_CELLS = 1 << 17
"""Most documents and cells of a block."""
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
        """Return the number of threads that answer at once."""
        return self.memory.workers

    @property
    def room(self) -> Room:
        """Return the memory left for one document, or for documents that are held together."""
        return Room(self.memory.limit, self.memory.free, share=0.5)


def thread_bytes(topics: int, docs: int, gathered: int) -> int:
    """Count the bytes of a thread for blocks of ``docs`` documents.

    ``gathered`` is the number of topic rows fetched for a cell.
    """
    cells = docs * (BLOCK_CELLS // BLOCK_DOCS)
    of_cells = cells * (BYTES_PER_CELL + 4 * topics * gathered)
    return BYTES_PER_THREAD + BYTES_PER_SHARE * topics * docs + of_cells


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
        Most threads.
    owned
        Whether the model may be loaded. A caller's own model stays as it is.
    tables
        Number of tables of the topics' size that rows are gathered from.
    table_bytes
        Bytes to load, if not those of these tables.

    Raises
    ------
    DoesNotFit
        One thread with the smallest blocks does not fit.
    """
    topics = model.n_topics
    words = {"words": BYTES_PER_WORD * model.n_words}
    table = 4 * model.n_words * topics * tables if table_bytes is None else table_bytes
    in_memory = model.phi is not None

    def plan(load: bool, docs: int) -> InferencePlan:
        """Plan with the table in memory or on disk, and so many documents a block."""
        cells = docs * (BLOCK_CELLS // BLOCK_DOCS)
        resident = {"topics": table} if load or in_memory else {}
        gathered = 0 if load or in_memory else tables
        per_thread = {"threads": thread_bytes(topics, docs, gathered)}
        task = f"inference with {model.path or 'this model'}"
        memory = plan_memory(task, limit, threads, {**words, **resident}, per_thread)
        return InferencePlan(memory, load, docs, cells)

    may_load = owned and not in_memory and 2 * table <= limit.bytes
    for load, docs in product((True, False) if may_load else (False,), BLOCKS):
        with suppress(DoesNotFit):
            candidate = plan(load, docs)
            if candidate.threads == threads:
                return candidate
    return plan(False, LEAST_DOCS)
