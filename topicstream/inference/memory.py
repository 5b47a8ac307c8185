"""How an inference fits its memory limit: where the model's table lies, how many threads, how large a block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topicstream.errors import DoesNotFit
from topicstream.inference.documents import BLOCK_CELLS, BLOCK_DOCS
from topicstream.ingestion.read_options import Room
from topicstream.machine import PROCESS_BYTES, format_bytes, memory_limit
from topicstream.model.topic_model import TopicModel

A_WORD = 110
"""Bytes of a word of the model: text, counts, the table that finds it."""
A_THREAD = 12 << 20
A_SHARE = 60
"""Bytes of one share of a document in work: float32, the lists, its text as JSON, and what waits to be written."""
LEAST_DOCS, LEAST_CELLS = 32, 1 << 11


@dataclass(frozen=True)
class Fit:
    """What an inference may hold: threads; whether the table is loaded; documents and cells of a block; what is left for
    one document that is larger."""

    threads: int
    load: bool
    docs: int
    cells: int
    room: Room

    def ask(self, indptr: np.ndarray, topics: int, loaded: bool) -> None:
        """DoesNotFit where the first of the documents alone takes more than there is."""
        longest = int(np.diff(indptr).max(initial=0))
        if not loaded and longest > self.cells:
            self.room.ask(4 * topics * longest, f"a document of {longest:,} different words")


def fixed_bytes(model: TopicModel) -> int:
    """What inference holds whatever its blocks and threads are."""
    table = 4 * model.n_words * model.n_topics if model.phi is not None else 0
    return PROCESS_BYTES + A_WORD * model.n_words + table


def bytes_of_thread(topics: int, docs: int, cells: int, gathered: int = 1) -> int:
    """What a thread holds for blocks of so many documents and cells; gathered: rows of the table fetched for a cell."""
    return A_THREAD + A_SHARE * topics * docs + cells * (40 + 4 * topics * gathered)


def least_bytes(model: TopicModel, tables: int = 1) -> int:
    """What inference with one thread and the smallest blocks holds."""
    return fixed_bytes(model) + bytes_of_thread(model.n_topics, LEAST_DOCS, LEAST_CELLS, tables)


def fit(model: TopicModel, mem_limit: str | int | None, threads: int, *, own: bool, tables: int = 1) -> Fit:
    """Fit the limit (default: 70 % of what there is): blocks get smaller first, then threads fewer; the table is loaded
    where it takes at most half and leaves room for all that.  own: the table is ours to load; tables: how many of its size
    are loaded, or gathered from.

    DoesNotFit, naming the smallest limit, where a limit that was given cannot be kept."""
    limit, least = memory_limit(mem_limit), least_bytes(model, tables)
    topics, table = model.n_topics, 4 * model.n_words * model.n_topics * tables

    def each(docs: int, cells: int, loaded: bool) -> int:
        return bytes_of_thread(topics, docs, cells, 0 if loaded else tables)

    if mem_limit is not None and limit < least:
        raise DoesNotFit(
            f"--mem-limit {format_bytes(limit)}: inference with {model.path or 'this model'} needs at least "
            f"{-(-least // (1 << 20))}M; give that or more"
        )
    loaded = model.phi is not None
    room = limit - fixed_bytes(model)
    whole = threads * each(min(BLOCK_DOCS, 1 << 8), min(BLOCK_CELLS, 1 << 14), True)
    load = own and not loaded and table <= limit // 2 and table + whole <= room
    if load:
        room -= table
    docs, cells = BLOCK_DOCS, BLOCK_CELLS
    while docs > LEAST_DOCS and threads * each(docs, 0, True) > room // 2:
        docs //= 2
    while cells > LEAST_CELLS and threads * each(docs, cells, load or loaded) > room:
        cells //= 2
    threads = max(1, min(threads, room // each(docs, cells, load or loaded)))
    return Fit(threads, load, docs, cells, Room(limit, room))
