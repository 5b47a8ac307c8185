"""Memory of scoring: models opened within a limit, and blocks that stay small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from topicstream.base.machine import default_threads
from topicstream.base.memory import MemoryLimit, Room, plan_memory
from topicstream.base.system import resident_bytes
from topicstream.model.manifest import read_manifest
from topicstream.model.topic_model import TopicModel

BLOCKS_IN_FLIGHT = 40 << 20
"""Bytes of the blocks that are read and not scored yet."""
BYTES_PER_THREAD = 12 << 20
LEAST_ROOM = 16 << 20
"""Bytes that data may take in a process that holds much already, such as a notebook."""
BYTES_PER_WORD = 150
LANES = 16
BLOCK_CELLS = 1 << 15
"""Most cells of a block."""
GATHERED = 32 << 20
"""Bytes per thread that the rows of a block's words may take."""


def open_within(
    models: Sequence[str | Path | TopicModel],
    mem_limit: str | int | MemoryLimit | None = None,
    threads: int | None = None,
    *,
    beside: int = 0,
    dense: bool = False,
) -> tuple[list[TopicModel], int]:
    """Open models for scoring within a memory limit.

    Fewer threads are tried first. Tables are loaded where they fit beside the rest.

    Parameters
    ----------
    models
        Folders, or models that are open already and count as nothing.
    mem_limit
        Memory limit of the whole process.
    threads
        Most threads [default: all processors].
    beside
        Bytes of other data that the process holds.
    dense
        Whether models of dense rows are accepted, too.

    Returns
    -------
    The models, and the threads to score with.

    Raises
    ------
    DoesNotFit
        The limit is too small for one thread.
    """
    threads = threads if threads is not None else default_threads()
    folders = [model for model in models if not isinstance(model, TopicModel)]
    manifests = [read_manifest(folder) for folder in folders]
    share = 0
    if manifests:
        words = sum(manifest.words for manifest in manifests)
        task = f"scoring {' beside '.join(map(str, folders))}"
        fixed = {"words": BYTES_PER_WORD * words, "blocks": BLOCKS_IN_FLIGHT, "results": beside}
        per_thread = {"threads": bytes_of_thread(max(manifest.topics for manifest in manifests))}
        plan = plan_memory(task, MemoryLimit.parse(mem_limit), threads, fixed, per_thread)
        threads = plan.workers
        share = plan.free // len(manifests)
    opened = [
        model if isinstance(model, TopicModel) else TopicModel.open(model, share, dense=dense)
        for model in models
    ]
    return opened, threads


def room_beside_scoring(model: TopicModel, limit: MemoryLimit, threads: int) -> Room:
    """Return the memory for data that is held while an open model scores documents.

    It is LEAST_ROOM at least.
    """
    scoring = BLOCKS_IN_FLIGHT + threads * bytes_of_thread(model.n_topics)
    return Room(limit, max(LEAST_ROOM, limit.bytes - resident_bytes() - scoring))


def bytes_of_thread(topics: int) -> int:
    """Count the bytes that a scoring thread holds."""
    return BYTES_PER_THREAD + 6 * block_cells(topics) * (topics + LANES)


def block_cells(topics: int | None) -> int:
    """Return the cells of a block: 2^15 or fewer.

    Fewer where the rows gathered for them could take more than 32 MB a thread.
    """
    if not topics:
        return BLOCK_CELLS
    return max(1 << 11, min(BLOCK_CELLS, GATHERED // (4 * topics)))


def block_docs(topics: int | None) -> int:
    """Return the documents of a block, whose shares take an eighth of its rows' room."""
    return block_cells(topics) // 8
