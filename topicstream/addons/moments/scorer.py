"""The prediction of two words of a document by topics and the matrix of their pairs.

It is the objective of ``fdm``, on any part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topicstream.addons.moments import word_pairs
from topicstream.base.errors import InputError
from topicstream.base.memory import MemoryLimit
from topicstream.base.options import option
from topicstream.base.text import render
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import check_documents
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.scoring import Entry, Scorer
from topicstream.model.topic_model import TopicModel


@dataclass(frozen=True)
class PairScore:
    """Cross-entropy in nats a pair.

    The divergence from the pairs' own distribution is a part of it (None: words x words float64 do
    not fit the memory limit).
    """

    cross_entropy: float
    kl: float | None
    documents: int
    measured: str


def second_moment(alpha: np.ndarray) -> np.ndarray:
    """Compute E[theta theta^T] of a Dirichlet, float64[K, K]: how topics pair under its alpha."""
    total = alpha.sum()
    return np.asarray((np.outer(alpha, alpha) + np.diag(alpha)) / (total * (total + 1)))


CROSS_ENTROPY = """pairs of words        {cross_entropy:.4f} nats a pair[   ({kl:.4f} from the \
pairs' own distribution)]
  {measured}; {documents:document}"""
STRIPE = 32 << 20
"""Bytes of the rows of the pairs' own matrix that are held at a time."""


def measure_entropy(store: Corpus, heldout: bool, documents: float) -> float:
    """Compute the entropy of the pairs themselves, in nats, by stripes of rows of M.

    It is the least that any model's cross-entropy can be.
    """
    from scipy.special import entr  # .03 s, which every evaluation would spend

    total = 0.0
    rows = max(1, STRIPE // (8 * store.n_words))
    for first in range(0, store.n_words, rows):
        m = np.zeros((min(rows, store.n_words - first), store.n_words))
        for block in store.blocks(heldout=heldout):
            word_pairs.add_stripe(block.indptr, block.words, block.counts, block.vocab, first, m)
        total += float(entr(m[m > 0] / documents).sum())
    return total


def pair_entropy(
    model: TopicModel,
    store: Corpus,
    *,
    heldout: bool = True,
    smooth: bool = False,
    mem_limit: str | int | None = None,
) -> PairScore:
    """Compute the cross-entropy of the pairs of words of a part's documents, in nats.

    All pairs of every document of two tokens or more count, each document with the same weight
    (Fisher, Kozdoba & Mannor, eq. 3).

    Parameters
    ----------
    smooth
        Use the model's beta, as inference does. Otherwise the topics are as they were learned.
    mem_limit
        Memory of the process. None: what the machine allows.
    """
    if match_words(model.vocabulary, store) is not None:
        raise InputError(
            f"{store.path}: pairs are scored over the words that {model.path} was trained on; "
            f"give its corpus"
        )
    if store.weighted:
        raise InputError(f"{store.path}: has real-valued cells; pairs of words need whole counts")
    check_documents(store, ("heldout",) if heldout else ("train",))
    k = model.n_topics
    stored = "pairs" in model.manifest.tables
    a = model.table("pairs").gather(np.arange(k)) if stored else second_moment(model.alpha)
    pair_source = "as learned" if stored else "of a Dirichlet of its alpha"
    width = -(-k // 16) * 16  # whole registers
    wide = np.zeros((width, width), np.float32)
    wide[:k, :k] = a / np.sum(a)
    total = np.zeros(3)
    for block in store.blocks(heldout=heldout):
        mu = np.zeros((block.n_words, width), np.float32)
        if smooth:
            mu[:, :k] = model.probabilities(block.vocab)
        else:
            mu[:, :k] = model.rows(block.vocab) / np.maximum(model.totals, 1e-300)
        z = np.empty_like(mu)
        sums = np.zeros(3)
        word_pairs.expect(
            block.cells,
            word_pairs.PairVectors(mu, mu @ wide, z),
            1.0,
            0,
            0,
            block.first_doc,
            sums,
        )
        total += sums
    if not total[1] > 0:
        raise InputError(f"{store.path}: no document there has two words")
    part = "documents set aside" if heldout else "training documents"
    measured = (
        f"cross-entropy of all pairs of words of a document, topics' pairs {pair_source}; {part}"
    )
    cross = float(-total[0] / total[1])
    limit = MemoryLimit.parse(mem_limit)
    kl = (
        cross - measure_entropy(store, heldout, total[2])
        if 8 * store.n_words**2 <= limit.bytes
        else None
    )
    return PairScore(cross, kl, int(total[2]), measured)


@dataclass(frozen=True)
class PairOptions:
    """Options of the scorer."""

    pairs: bool = option(
        False,
        "Cross-entropy of word pairs in the held-out documents, under the matrix of topic pairs "
        "(fdm) or else "
        "the model's alpha.",
    )


PAIRS = Scorer(
    "pairs",
    lambda run, options: {
        "pairs": Entry(
            pair_entropy(run.model, run.corpus, smooth=True, mem_limit=run.config.mem_limit)
        )
    },
    Options=PairOptions,
    is_requested=lambda options: options.pairs,
    text=lambda name, score: render(CROSS_ENTROPY, score),
)
