"""The start ``best``: several short trainings on a sample of documents.

One more training starts from the topics that recur among them. The topics that explain the sample
best are kept.

Training ends in a local optimum that the seeds decide. Of ten planted topics one is now and then
held twice while two others share one, and no number of passes over the corpus mends that (half of
all seeds, on corpora of make_corpus.py). On a sample a whole training costs little, and its
perplexity tells the good seeds from the bad. Other tries lose other topics, so those that recur are
nearly all (docs/internals/decisions/cells.md). Each try runs in one thread, so any number of
threads gives the same bits.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from topicstream.base.memory import Array, total_bytes
from topicstream.engines.base import About, BlockShape, Engine, Shape, padded
from topicstream.numeric.kernels.arrays import Cells, Doubles, Floats, Ints
from topicstream.numeric.kernels.dirichlet import exp, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import WIDTH, fma, load, splat, store, total
from topicstream.numeric.tables.spec import Scratch
from topicstream.training.plan import StartMemory
from topicstream.training.starts.documents import SHARE as SEED_SHARE
from topicstream.training.starts.documents import document_seeds, draw_far_apart, word_shares
from topicstream.training.starts.sample import Sample, sample_size
from topicstream.training.starts.seeds import Seeds, make_rows
from topicstream.training.starts.start import Ground, Start

SWEEPS = 30
"""Sweeps of a try."""
FURTHER_SWEEPS = 10
"""Sweeps of the recurring topics, which have been learned already."""
FURTHER_GAIN = 0.01
"""Gain in perplexity of those further sweeps if no topic is lost. A lost topic costs more."""
SEED_STEP = 1_000_003
"""Difference of the seeds of two tries."""
ALPHA = 0.1
BETA = 0.01
SHARE = 0.9
"""Part of a seed topic that was learned on the sample.

The rest, and all of a word that the sample does not have, is the corpus mean.
"""
EXACT = 2.0**24
"""Scale at which topics' normalised shares become whole numbers."""
MOST_TOPICS = 64
LEAST_CELLS = 20_000_000
MOST_BYTES = 128 << 20
"""``best`` is the default only where it costs little.

That is up to ``MOST_TOPICS`` topics, from ``LEAST_CELLS`` cells on (it saves passes) or where
documents are long enough for the engine, and if one thread's tries fit in ``MOST_BYTES``, beside
the rest in the smallest limits. A start decides the result, so it may not depend on the limit.
"""


def pays(shape: Shape, about: About) -> bool:
    """Return True if the tries cost little beside the passes that they save.

    They also pay where documents have ``best_from`` tokens or more, from which on the engine ends
    better.
    """
    worth = shape.cells >= LEAST_CELLS or shape.tokens >= about.best_from * shape.docs
    return worth and shape.topics <= MOST_TOPICS and tries_fit(shape, about.tries)


def tries_fit(shape: Shape, tries: int) -> bool:
    """Return True if one thread's tries fit in ``MOST_BYTES``."""
    return sum(memory_of_tries(shape, tries)) <= MOST_BYTES


def memory_of_tries(shape: Shape, tries: int) -> StartMemory:
    """Count the bytes that the tries hold.

    In all: the sample, the shares of all topics and the best topics so far. Each thread: its
    topics, twice, and their shares.
    """
    width = padded(shape.topics)
    size = sample_size(shape.docs, shape.cells, shape.words)
    shared = [
        Array((4, size.cells), np.float64),
        Array((tries, shape.topics, size.documents), np.float32),
    ]
    thread = total_bytes(
        [Array((2, size.words, width), np.float32), Array((size.documents, width), np.float32)]
    )
    return StartMemory(total_bytes(shared) + thread, thread)


class BestStart(Start):
    """The start ``best``, or ``kmeans`` where too few documents differ."""

    learned = True

    def memory(self, engine: Engine, block: BlockShape) -> StartMemory:
        return memory_of_tries(engine.shape, engine.about.tries)

    def seeds(self, ground: Ground) -> Seeds | None:
        topics = ground.engine.shape.topics
        seed = ground.seed
        n_w = ground.n_w
        sample = Sample.draw(ground.corpus, ground.grid, seed)
        mean = word_shares(sample.mask_counts(n_w))
        if len(draw_far_apart(sample, mean, topics, seed)) < topics:
            return document_seeds(ground.corpus, ground.grid, topics, seed, n_w, far=True)
        tries = ground.engine.about.tries
        return learn_best_topics(sample, n_w, topics, seed, ground.workers.threads, tries)


class LearnedSeeds:
    """Topics learned on a sample.

    rows(ids)[u, k] = N_k ((1 - SHARE) n_w/N + SHARE p(w|k)); N_k as the sample has them.

    Parameters
    ----------
    words
        int32[U], words of the sample, in order.
    phi
        float32[U, padded(K)], the topics' counts of them.
    totals
        float64[padded(K)], column sums of ``phi``.
    n_w
        float64[W], training tokens of each word.

    Attributes
    ----------
    totals
        float64[padded(K)], N_k.
    """

    def __init__(
        self, words: np.ndarray, phi: np.ndarray, totals: np.ndarray, n_w: np.ndarray
    ) -> None:
        tokens = float(n_w.sum())
        self._words = words
        self._phi = phi
        self._mean = n_w / tokens
        self.totals = totals / totals.sum() * tokens
        self._scale = np.where(totals > 0, self.totals / np.maximum(totals, 1e-300), 0.0)

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of some words, float32[U, padded(K)] (formula: the class)."""
        return make_rows(self._make, ids, len(self.totals), scratch)

    def _make(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Fill the rows of some words (``make_rows``)."""
        place = np.searchsorted(self._words, ids)
        place[place == len(self._words)] = 0
        np.multiply(
            (1 - SHARE) * self._mean[ids][:, None], self.totals, out=out, casting="same_kind"
        )
        in_sample = np.flatnonzero(self._words[place] == ids)
        out[in_sample] += (SHARE * self._phi[place[in_sample]] * self._scale).astype(np.float32)


class TriedTopics(NamedTuple):
    """A training on the sample.

    Attributes
    ----------
    perplexity
        Of the sample, in the last sweep.
    phi
        float32[U, padded(K)], the topics' counts of words.
    totals
        float64[padded(K)], their sums.
    """

    perplexity: float
    phi: np.ndarray
    totals: np.ndarray


def learn_best_topics(
    sample: Sample, n_w: np.ndarray, topics: int, seed: int, threads: int, tries: int
) -> LearnedSeeds:
    """Learn topics on the sample in several tries, and return the best.

    ``tries`` trainings start from documents drawn far apart, one more from the topics that recur.
    The topics of the lowest perplexity win. At least ``topics`` documents of the sample must
    differ.
    """
    from scipy.sparse import csr_array  # a tenth of a second, which other starts need not spend

    words, rows = np.unique(sample.words, return_inverse=True)
    local: Ints = rows.astype(np.int32)
    mean = word_shares(sample.mask_counts(n_w))
    width = padded(topics)
    shares = np.empty((tries, topics, len(sample)), np.float32)

    def train(phi: np.ndarray, sweeps: int) -> tuple[TriedTopics, np.ndarray]:
        """Train topics from their seeds, and return them with the documents' counts of topics."""
        totals = phi.sum(axis=0, dtype=np.float64)
        theta = np.empty((len(sample), width), np.float32)
        theta[:] = (sample.lengths / topics)[:, None]
        cells = Cells(sample.indptr, local, sample.counts)
        share = np.empty(width, np.float32)
        tables = TryTables(phi, np.empty_like(phi), totals, theta, share)
        perplexity = short_training(cells, tables, topics, ALPHA, BETA, sweeps)
        return TriedTopics(float(perplexity), phi, totals), theta

    def run_try(number: int) -> TriedTopics:
        """Train from documents drawn far apart, and note the shares of topics in documents."""
        centres = draw_far_apart(sample, mean, topics, seed + number * SEED_STEP)
        scale = float(sample.lengths.sum()) / topics
        phi = np.zeros((len(words), width), np.float32)
        phi[:, :topics] = ((1 - SEED_SHARE) * scale * mean[words])[:, None]
        for k in range(topics):
            cells = sample.cells(int(centres[k]))
            counts = sample.counts[cells]
            phi[local[cells], k] += (SEED_SHARE * scale * counts / counts.sum()).astype(np.float32)
        tried, theta = train(phi, SWEEPS)
        np.divide(theta[:, :topics].T, sample.lengths, out=shares[number], casting="same_kind")
        return tried

    with ThreadPoolExecutor(max(1, min(threads, tries)), thread_name_prefix="try") as pool:
        best = min(pool.map(run_try, range(tries)), key=lambda tried: tried.perplexity)
    phi = np.zeros((len(words), width), np.float32)
    # float64: a product of two float32 is exact, so it is the same whether fused with the addition
    cells = csr_array((sample.counts, local, sample.indptr), (len(sample), len(words)))
    phi[:, :topics] = cells.T @ choose_recurring(shares).astype(np.float64)
    recurring, _ = train(phi, FURTHER_SWEEPS)
    if recurring.perplexity < (1 - FURTHER_GAIN) * best.perplexity:
        best = recurring
    return LearnedSeeds(words, best.phi, best.totals, n_w)


def choose_recurring(shares: np.ndarray) -> np.ndarray:
    """Choose the K distinct topics that the tries have most in common.

    A topic's support is the mean over the tries of its correlation with the nearest topic of each.
    Each chosen topic reduces the support of those that correlate with it.

    Parameters
    ----------
    shares
        float32[T, K, D], shares of the topics of T tries in each document. Overwritten.

    Returns
    -------
    numpy.ndarray
        float32[D, K], shares of the chosen topics in each document.
    """
    tries, topics, docs = shares.shape
    profiles = shares.reshape(tries * topics, docs)
    mean = profiles.mean(axis=1, keepdims=True)
    profiles -= mean
    length = np.maximum(np.linalg.norm(profiles, axis=1, keepdims=True), np.float32(1e-30))
    profiles /= length
    # multiples of 2^-24 below 1: float64 sums of their products are exact, so the order in which a
    # BLAS library adds them up decides nothing
    profiles *= np.float32(EXACT)
    np.rint(profiles, out=profiles)
    profiles /= np.float32(EXACT)
    nearest = np.full((tries, tries * topics), -np.inf)
    for i, tried in enumerate(shares):
        for j, other in enumerate(shares):
            products = other.astype(np.float64) @ tried.T.astype(np.float64)
            nearest[i, j * topics : (j + 1) * topics] = products.max(axis=1)
    support = nearest.mean(axis=0)
    support_left = support.copy()
    chosen = list[int]()
    for _ in range(topics):
        chosen.append(int(support_left.argmax()))
        last = profiles[chosen[-1]].astype(np.float64)
        # a try at a time, so that no float64 copy of all of them is made
        correlation = np.concatenate([tried.astype(np.float64) @ last for tried in shares])
        remaining = np.minimum(1.0 - correlation, 1.0)
        np.minimum(support_left, support * remaining, out=support_left)
    weights = np.maximum(profiles[chosen] * length[chosen] + mean[chosen], np.float32(1e-6)).T
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class TryTables(NamedTuple):
    """The tables that a short training works on, padding zero.

    Attributes
    ----------
    phi, nxt
        float32[U, KP]. phi holds the seeds on entry and the topics' counts on return.
    totals
        float64[KP], column sums of phi, on entry and on return.
    theta, share
        float32[D, KP], on entry tokens of documents / K; float32[KP], work space.
    """

    phi: Floats
    nxt: Floats
    totals: Doubles
    theta: Floats
    share: Floats


@kernel
def short_training(
    cells: Cells, tables: TryTables, topics: int, alpha: float, beta: float, sweeps: int
) -> float:
    """Run ``sweeps`` sweeps of smoothed PLSA over a sample and return the last perplexity.

    This is simplified BP (Zeng, Cheung & Liu 2013, Fig. 4). A document's shares are updated once
    with the topics fixed and then with the visit that counts, so a sweep costs two visits of every
    cell.

    Parameters
    ----------
    cells
        The sample; ``words`` are rows of phi, ``counts`` float64.
    topics
        K.
    alpha, beta
        Priors of a topic and of a word.

    References
    ----------
    Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on
    Pattern Analysis and Machine Intelligence 35(5), 1121-1134.
    """
    (indptr, words, counts) = cells
    (phi, nxt, totals, theta, share) = tables
    docs = len(indptr) - 1
    width = phi.shape[1]
    inverse = np.empty(width, np.float32)
    own = np.empty(width, np.float32)
    mu = np.empty(width, np.float32)
    added = np.empty(width)
    loglik = 0.0
    tokens = 0.0
    smooth = splat(np.float32(beta))
    for _ in range(sweeps):
        loglik = 0.0
        tokens = 0.0
        # 1 / (lam_k + W beta): the norm of each topic, fixed for the sweep
        for k in range(width):
            inverse[k] = 1.0 / (totals[k] + len(phi) * beta) if totals[k] > 0 else 0.0
            added[k] = 0.0
        nxt[:] = 0
        for d in range(docs):
            length = 0.0
            for visit in range(2):
                # the document's factor of a message: (theta_dk + alpha) / (lam_k + W beta)
                for k in range(width):
                    share[k] = (theta[d, k] + np.float32(alpha)) * inverse[k]
                    own[k] = 0
                length = 0.0
                for j in range(indptr[d], indptr[d + 1]):
                    # mu_k ~ share_k (phi_wk + beta), and its sum z over the topics
                    row = np.int64(words[j]) * width
                    lanes = splat(np.float32(0))
                    for k in range(0, width, WIDTH):
                        m = load(share, k) * (load(phi, row + k) + smooth)
                        store(mu, k, m)
                        lanes = lanes + m
                    z = total(lanes)
                    # theta_dk gains x mu_k / z, and in the second visit phi_wk does
                    scale = splat(np.float32(counts[j]) / z)
                    for k in range(0, width, WIDTH):
                        store(own, k, fma(load(mu, k), scale, load(own, k)))
                    length += counts[j]
                    if visit == 1:
                        # the visit that counts: log p(w | d) up to the document's norm, and phi
                        loglik += counts[j] * log(np.float64(z))
                        for k in range(0, width, WIDTH):
                            store(nxt, row + k, fma(load(mu, k), scale, load(nxt, row + k)))
                for k in range(width):
                    theta[d, k] = own[k]
            # the norm of theta_d + alpha, left out of every message above
            loglik -= length * log(length + topics * alpha)
            tokens += length
            for k in range(width):
                added[k] += own[k]
        # the counts of this sweep are the topics of the next
        phi[:] = nxt
        totals[:] = added
    return exp(-loglik / tokens)  # type: ignore[no-any-return]
