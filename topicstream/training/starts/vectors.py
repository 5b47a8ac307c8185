"""Some vectors of a store, for the start of an engine of vectors."""

from __future__ import annotations

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import BlockShape, Engine
from topicstream.training.starts.initial import draw_documents

SAMPLE, EACH = 10_000, 50  # vectors at least (where there are as many), and for each component


def vector_sample(corpus: Corpus, grid: Grid, seed: int, components: int) -> np.ndarray:
    """float64[S, n], in the order of the store; which, depends on the seed and their numbers alone."""
    chosen = np.sort(draw_documents(corpus, max(SAMPLE, EACH * components), seed))
    owner = np.searchsorted(grid.first_doc, chosen, side="right") - 1
    out, at = np.empty((len(chosen), corpus.vectors)), 0
    for block in corpus.blocks(np.unique(owner), grid=grid, prefetch=1):
        rows = chosen[owner == block.index] - block.first_doc
        cells = block.indptr[rows][:, None] + np.arange(corpus.vectors)
        out[at : at + len(rows)] = block.counts[cells]
        at += len(rows)
    return out


def sample_bytes(engine: Engine, threads: int) -> int:
    """What the start of an engine of vectors takes, by threads."""
    points = min(engine.shape.docs, max(SAMPLE, EACH * engine.shape.topics))
    block = BlockShape(points, points * engine.shape.words, 0, engine.shape.words)
    return engine.scratch_bytes(block) + 8 * points * 4 * engine.shape.words
