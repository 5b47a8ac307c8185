"""The start ``kmeans`` of a mixture of documents with several ``tries``.

Each try draws far documents and is trained briefly on a sample of documents. The clusters that
predict the sample best are kept (Hughes & Sudderth 2016 take the best of several starts).
"""

from __future__ import annotations

from typing import Self

import numpy as np

from topicstream.addons.clusters.model import log_sums
from topicstream.base.memory import Array, total_bytes
from topicstream.engines.base import BlockShape, Engine, padded
from topicstream.numeric.kernels.dirichlet import logs
from topicstream.training.plan import StartMemory
from topicstream.training.starts.best import SEED_STEP, LearnedSeeds
from topicstream.training.starts.documents import (
    DocumentSeeds,
    document_seeds,
    draw_far_apart,
    word_shares,
)
from topicstream.training.starts.sample import Sample, sample_size
from topicstream.training.starts.seeds import Seeds
from topicstream.training.starts.start import Ground, Start

SWEEPS = 12
BETA = 0.1


class ClusterStart(Start):
    """The best of several tries, or a single ``kmeans`` where documents are too few."""

    def __init__(self, tries: int) -> None:
        self._tries = tries

    @classmethod
    def for_engine(cls, engine: Engine) -> Self:
        return cls(engine.options.tries)

    def memory(self, engine: Engine, block: BlockShape) -> StartMemory:
        shape = engine.shape
        size = sample_size(shape.docs, shape.cells, shape.words)
        sample = (
            Array((6, size.cells), np.float64),
            Array((size.documents, 4, shape.topics), np.float32),
        )
        return StartMemory(
            total_bytes([*sample, Array((4, size.words, padded(shape.topics)), np.float64)])
        )

    def seeds(self, ground: Ground) -> Seeds | None:
        corpus = ground.corpus
        seed = ground.seed
        topics = ground.engine.shape.topics
        n_w = ground.n_w
        sample = Sample.draw(corpus, ground.grid, seed)
        known_words = sample.mask_counts(n_w)
        words, local = np.unique(sample.words, return_inverse=True)
        local = local.astype(np.int64).reshape(-1)
        counts = sample.counts.astype(np.float32)
        best = -np.inf
        phi = np.zeros((len(words), topics), np.float32)
        for number in range(self._tries):
            centres = draw_far_apart(
                sample, word_shares(known_words), topics, seed + number * SEED_STEP
            )
            if len(centres) < topics:
                return document_seeds(corpus, ground.grid, topics, seed, n_w, far=True)
            first = DocumentSeeds(sample, centres, known_words, seed).rows(words.astype(np.int32))[
                :, :topics
            ]
            fit, learned = _run_em(sample.indptr, local, counts, first)
            if fit > best:
                best = fit
                phi = learned
        rows = np.zeros((len(words), padded(topics)), np.float32)
        rows[:, :topics] = phi
        return LearnedSeeds(words, rows, rows.sum(axis=0, dtype=np.float64), n_w)


def _run_em(
    indptr: np.ndarray, rows: np.ndarray, counts: np.ndarray, phi: np.ndarray
) -> tuple[float, np.ndarray]:
    """Run some sweeps of EM from phi, float32[U, K].

    Returns
    -------
    tuple
        Log-likelihood, and the clusters' words, float32[U, K].
    """
    from scipy.sparse import csr_array  # .05 s, which other starts need not spend

    docs = len(indptr) - 1
    topics = phi.shape[1]
    # float64: a product of two float32 is exact, so it is the same whether fused with the addition
    cells = csr_array((counts.astype(np.float64), rows, indptr), shape=(docs, len(phi)))
    sizes = np.full(topics, docs / topics)
    fit = np.empty(docs)
    shares = np.empty((docs, topics), np.float32)
    base = np.ascontiguousarray(phi)
    for _ in range(SWEEPS):
        norms = logs(base.sum(axis=0, dtype=np.float64) + len(phi) * BETA).astype(np.float32)
        first = logs((sizes + 1.0) / (docs + topics)).astype(np.float32)
        words = logs(base + np.float32(BETA)).astype(np.float32)
        log_sums(cells @ (words - norms) + first, fit, shares)
        for d in range(0, docs, 4096):
            sizes = shares[d : d + 4096].sum(axis=0, dtype=np.float64) + (sizes if d else 0.0)
        base[:] = cells.T @ shares.astype(np.float64)
    return float(fit.sum()), base
