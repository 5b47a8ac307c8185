"""The start of an engine on vectors: its first parameters come from some points of the store."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topicstream.base.memory import Array
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import BlockShape, Engine, VectorEngine, workspace_bytes
from topicstream.numeric.tables.table import Table
from topicstream.training.plan import StartMemory
from topicstream.training.starts.sample import draw_documents
from topicstream.training.starts.seeds import Seeds
from topicstream.training.starts.start import Ground, Start

SAMPLE = 10_000
"""Least points of the sample, where the store has as many."""
POINTS_PER_COMPONENT = 50
"""Least points of the sample for each component."""


class PointStart(Start):
    """The engine's own start, from a sample of the points."""

    def memory(self, engine: Engine, block: BlockShape) -> StartMemory:
        points = min(engine.shape.docs, sample_points(engine.shape.topics))
        n = engine.shape.words
        scratch = workspace_bytes(engine, BlockShape(points, points * n, 0, n)).visit
        return StartMemory(scratch + Array((4, points, n), np.float64).nbytes)

    def has_seeds(self, engine: Engine) -> bool:
        return False

    def prepare(self, ground: Ground, params: dict[str, np.ndarray]) -> None:
        assert isinstance(ground.engine, VectorEngine)
        sample = vector_sample(ground.corpus, ground.grid, ground.seed, ground.engine.shape.topics)
        ground.engine.begin(sample, ground.seed, params)

    def seeds(self, ground: Ground) -> Seeds | None:
        return None

    def fill(
        self, ground: Ground, tables: Mapping[str, Table], params: Mapping[str, np.ndarray]
    ) -> None:
        assert isinstance(ground.engine, VectorEngine)
        for name, table in tables.items():
            rows = ground.engine.start_rows(name, params)
            table.fill(lambda a, b, rows=rows: rows[a:b])  # type: ignore[misc]


def sample_points(components: int) -> int:
    """Choose the size of the sample of points."""
    return max(SAMPLE, POINTS_PER_COMPONENT * components)


def vector_sample(corpus: Corpus, grid: Grid, seed: int, components: int) -> np.ndarray:
    """Read a random sample of vectors, float64[S, n], in the order of the store.

    The choice depends on the seed and the number of vectors alone.
    """
    chosen = np.sort(draw_documents(corpus, sample_points(components), seed))
    owner = np.searchsorted(grid.first_doc, chosen, side="right") - 1
    out = np.empty((len(chosen), corpus.width))
    filled = 0
    for block in corpus.blocks(np.unique(owner), grid=grid, prefetch=1):
        rows = chosen[owner == block.index] - block.first_doc
        cells = block.indptr[rows][:, None] + np.arange(corpus.width)
        out[filled : filled + len(rows)] = block.counts[cells]
        filled += len(rows)
    return out
