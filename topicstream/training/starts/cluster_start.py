"""The start ``kmeans`` of a mixture of documents: several draws of far documents, each trained in short on a sample of documents;
the clusters that foretell the sample best are kept (Hughes & Sudderth 2016 take the best of several starts)."""

from __future__ import annotations

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Shape, padded
from topicstream.kernels.cluster_scores import log_sums
from topicstream.kernels.linear import products, spread
from topicstream.training.starts.initial import (
    SHARE,
    DocumentSeeds,
    Sample,
    Seeds,
    draw_documents,
    far_apart,
    make_seeds,
)
from topicstream.training.starts.tries import LearnedSeeds, sample_size

SWEEPS = 12
BETA = 0.1


def cluster_start_bytes(shape: Shape, threads: int) -> int:
    """Bytes held while the tries are made, one after the other."""
    documents = sample_size(shape.docs, shape.cells)
    cells = int(documents * shape.cells / max(shape.docs, 1) * 1.5)
    return cells * 48 + min(shape.words, cells) * padded(shape.topics) * 32 + documents * shape.topics * 16


def best_clusters(corpus: Corpus, grid: Grid, topics: int, seed: int, n_w: np.ndarray, tries: int) -> Seeds | None:
    """The seed table of the best of ``tries`` starts; that of one ``kmeans`` where documents are too few to learn from."""
    sample = Sample.read(corpus, grid, draw_documents(corpus, sample_size(corpus.n_docs, corpus.n_cells), seed))
    mean = np.maximum(n_w / n_w.sum(), 1e-300)
    words, local = np.unique(sample.words, return_inverse=True)
    local, counts = local.astype(np.int64).reshape(-1), sample.counts.astype(np.float32)
    best, found = -np.inf, None
    for number in range(tries):
        centres = far_apart(sample, mean, topics, seed + number * 1_000_003, SHARE)
        if len(centres) < topics:
            return make_seeds(corpus, grid, "kmeans", topics, seed, n_w)
        seeds = DocumentSeeds(sample, [[int(c)] for c in centres], n_w, SHARE, seed)
        fit, phi = _short(sample.indptr, local, counts, seeds.rows(words.astype(np.int32))[:, :topics])
        if fit > best:
            best, found = fit, phi
    assert found is not None
    width = padded(topics)
    rows = np.zeros((len(words), width), np.float32)
    rows[:, :topics] = found
    return LearnedSeeds(words, rows, rows.sum(axis=0, dtype=np.float64), n_w)


def _short(indptr: np.ndarray, rows: np.ndarray, counts: np.ndarray, phi: np.ndarray) -> tuple[float, np.ndarray]:
    """(log-likelihood, words of clusters float32[U, K]) after some sweeps of EM from phi: float32[U, K]."""
    docs, topics = len(indptr) - 1, phi.shape[1]
    sums, sizes = np.empty((len(phi) + 1, topics)), np.full(topics, docs / topics)
    scores, fit, shares = np.empty((docs, topics), np.float32), np.empty(docs), np.empty((docs, topics), np.float32)
    base = np.ascontiguousarray(phi)
    for _ in range(SWEEPS):
        norms = np.log(base.sum(axis=0, dtype=np.float64) + len(phi) * BETA).astype(np.float32)
        first = np.log((sizes + 1.0) / (docs + topics)).astype(np.float32)
        products(indptr, rows, counts, np.log(base + np.float32(BETA)) - norms, first, scores)
        log_sums(scores, fit, shares)
        sums[:] = 0.0
        spread(indptr, rows, counts, shares, 0, topics, sums)
        for d in range(0, docs, 4096):
            sizes = shares[d : d + 4096].sum(axis=0, dtype=np.float64) + (sizes if d else 0.0)
        base[:] = sums[:-1]
    return float(fit.sum()), base
