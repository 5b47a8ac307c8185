"""What scoring holds: models opened within a memory limit, and blocks that stay small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from topicstream.errors import DoesNotFit
from topicstream.machine import PROCESS_BYTES, default_threads, format_bytes, memory_limit
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel

BLOCKS_IN_FLIGHT = 40 << 20
A_THREAD = 12 << 20
A_WORD = 150
LANES = 16
BLOCK_CELLS = 1 << 15
GATHERED = 32 << 20


def open_within(
    model: str | Path | TopicModel, mem_limit: str | int | None = None, threads: int | None = None
) -> tuple[TopicModel, int]:
    """``open_all_within`` of one model."""
    (opened,), threads = open_all_within([model], mem_limit, threads)
    return opened, threads


def open_all_within(
    models: Sequence[str | Path | TopicModel],
    mem_limit: str | int | None = None,
    threads: int | None = None,
    *,
    beside: int = 0,
) -> tuple[list[TopicModel], int]:
    """Open models and settle the threads (default: all processors) so that scoring stays within a memory limit (default:
    what the machine allows): fewer threads first, and the tables' rows stay on disk unless they fit beside them.

    ``beside``: bytes of what else is held.  A given limit that cannot be kept raises DoesNotFit.
    """
    threads = threads if threads is not None else default_threads()
    manifests = [read_manifest(model) for model in models if not isinstance(model, TopicModel)]
    share = 0
    if manifests:
        words = sum(int(manifest["words"]) for manifest in manifests)
        names = " beside ".join(str(model) for model in models if not isinstance(model, TopicModel))
        each = bytes_of_thread(max(int(manifest["topics"]) for manifest in manifests))
        rest = ask_limit(mem_limit, A_WORD * words + beside, each, names)
        threads = max(1, min(threads, rest // each))
        share = max(0, rest - threads * each) // len(manifests)
    opened = [m if isinstance(m, TopicModel) else TopicModel.open(m, memory_limit=share) for m in models]
    return opened, threads


def bytes_of_thread(topics: int) -> int:
    """What a thread that scores holds."""
    return A_THREAD + 6 * block_cells(topics) * (topics + LANES)


def ask_limit(mem_limit: str | int | None, fixed: int, each: int, what: str) -> int:
    """Bytes that are left for threads and tables; DoesNotFit where a given limit has no room for one thread."""
    fixed += PROCESS_BYTES + BLOCKS_IN_FLIGHT
    limit = memory_limit(mem_limit)
    if mem_limit is not None and limit < fixed + each:
        needed = -(-(fixed + each) // (1 << 20))
        raise DoesNotFit(f"--mem-limit {format_bytes(limit)}: {what} needs {needed}M at least; give that or more")
    return limit - fixed


def block_cells(topics: int | None) -> int:
    """Cells of a block: 2^15, fewer where the rows gathered for them could take more than 32 MB a thread."""
    return BLOCK_CELLS if not topics else max(1 << 11, min(BLOCK_CELLS, GATHERED // (4 * topics)))


def block_docs(topics: int | None) -> int:
    """Documents of a block: their shares take an eighth of what its rows may."""
    return block_cells(topics) // 8
