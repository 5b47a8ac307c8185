"""The start ``best``: several short trainings on a sample of documents, and the topics of the one that explains it best.

Topics end in a local optimum of the seeds' making: of ten planted topics one is now and then held twice while two others
share one, and no number of passes over the corpus mends it (half of all seeds, on corpora of make_corpus.py).  On a
sample a whole training costs little, and its perplexity tells the good seeds from the bad.  Each try runs in one thread,
so any number of threads gives the same bits.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Shape, padded
from topicstream.training.starts.initial import SHARE as SEED_SHARE
from topicstream.training.starts.initial import Sample, Seeds, draw_documents, far_apart, make_seeds
from topicstream.training.starts.short_training import short_training

TRIES = 8
SWEEPS = 30
DOCUMENTS, CELLS = 10_000, 1_000_000  # of the sample, at most
ALPHA, BETA = 0.1, 0.01
SHARE = 0.9  # of a seed topic that was learned on the sample; the rest, and all of a word not in it, is the corpus mean
MOST_TOPICS, LEAST_CELLS, MOST_BYTES = 64, 20_000_000, 80 << 20
"""``best`` is the default where it costs little: up to so many topics, from so many cells on (the passes it saves make up for
it) or where documents are long enough for the engine, and when one thread's tries fit beside the rest in the smallest limits
(a start decides the result, so it may not depend on the limit)."""


def pays(shape: Shape, long: float = np.inf) -> bool:
    """Whether the tries cost little beside the passes to come, or documents have ``long`` tokens, from which on the engine ends
    better for them."""
    worth = shape.cells >= LEAST_CELLS or shape.tokens >= long * shape.docs
    return worth and shape.topics <= MOST_TOPICS and tries_bytes(shape, 1) <= MOST_BYTES


def sample_size(docs: int, cells: int) -> int:
    """Documents of the sample."""
    return max(1, min(DOCUMENTS, docs, int(CELLS * docs / max(cells, 1))))


def tries_bytes(shape: Shape, threads: int) -> int:
    """Bytes held while ``best`` works."""
    width = padded(shape.topics)
    documents = sample_size(shape.docs, shape.cells)
    cells = int(documents * shape.cells / max(shape.docs, 1) * 1.5)
    one = min(shape.words, cells) * width * 8 + documents * width * 4
    return cells * 32 + one * (min(threads, TRIES) + 1)


class LearnedSeeds:
    """Topics learned on a sample.  rows(ids)[u, k] = N_k ((1 - share) n_w/N + share p(w|k)); N_k as the sample has them."""

    def __init__(self, words: np.ndarray, phi: np.ndarray, totals: np.ndarray, n_w: np.ndarray) -> None:
        tokens = float(n_w.sum())
        self._words, self._phi, self._mean = words, phi, n_w / tokens
        self.totals = totals / totals.sum() * tokens
        self._scale = np.where(totals > 0, self.totals / np.maximum(totals, 1e-300), 0.0)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """float32[U, padded(K)]: see the class."""
        at = np.searchsorted(self._words, ids)
        at[at == len(self._words)] = 0
        out = ((1 - SHARE) * self._mean[ids][:, None] * self.totals).astype(np.float32)
        seen = np.flatnonzero(self._words[at] == ids)
        out[seen] += (SHARE * self._phi[at[seen]] * self._scale).astype(np.float32)
        return np.asarray(out)


def best_of(sample: Sample, n_w: np.ndarray, topics: int, seed: int, threads: int) -> LearnedSeeds:
    """Train TRIES times on the sample, from seeds drawn far apart, and keep the topics of the lowest perplexity.
    The sample has ``topics`` documents that differ, or more."""
    words, local = np.unique(sample.words, return_inverse=True)
    local = local.astype(np.int32)
    mean = np.maximum(n_w / n_w.sum(), 1e-300)
    width = padded(topics)

    def one(number: int) -> tuple[float, np.ndarray, np.ndarray]:
        centres = far_apart(sample, mean, topics, seed + number * 1_000_003, SEED_SHARE)
        scale = float(sample.lengths.sum()) / topics
        phi = np.zeros((len(words), width), np.float32)
        phi[:, :topics] = ((1 - SEED_SHARE) * scale * mean[words])[:, None]
        for k in range(topics):
            cells = sample.cells(int(centres[k]))
            phi[local[cells], k] += (SEED_SHARE * scale * sample.counts[cells] / sample.counts[cells].sum()).astype(
                np.float32
            )
        totals = phi.sum(axis=0, dtype=np.float64)
        theta = np.empty((len(sample), width), np.float32)
        perplexity = short_training(
            sample.indptr, local, sample.counts, phi, np.empty_like(phi), totals, theta,
            np.empty(width, np.float32), ALPHA, BETA, SWEEPS,
        )  # fmt: skip
        return float(perplexity), phi, totals

    best: tuple[float, np.ndarray, np.ndarray] | None = None
    with ThreadPoolExecutor(max(1, min(threads, TRIES)), thread_name_prefix="try") as pool:
        for found in pool.map(one, range(TRIES)):
            if best is None or found[0] < best[0]:
                best = found
    assert best is not None
    return LearnedSeeds(words, best[1], best[2], n_w)


def best_seeds(corpus: Corpus, grid: Grid, topics: int, seed: int, n_w: np.ndarray, threads: int) -> Seeds | None:
    """The seed table of ``best``; that of ``kmeans`` where the documents are too few to learn from."""
    sample = Sample.read(corpus, grid, draw_documents(corpus, sample_size(corpus.n_docs, corpus.n_cells), seed))
    mean = np.maximum(n_w / n_w.sum(), 1e-300)
    if len(far_apart(sample, mean, topics, seed, SEED_SHARE)) < topics:
        return make_seeds(corpus, grid, "kmeans", topics, seed, n_w)
    return best_of(sample, n_w, topics, seed, threads)
