"""Log-likelihood of whole documents or vectors under models of clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream.base.cluster import Cluster
from topicstream.base.errors import InputError
from topicstream.base.text import noun_of
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import Perplexity, add_in_order
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.evaluation.visiting import Item, documents_of_block, visit_blocks
from topicstream.inference.methods import make_block_method
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.dirichlet import exponential


@dataclass(frozen=True, kw_only=True)
class ClusterScore(Perplexity):
    """Likelihood of documents under a mixture.

    Attributes
    ----------
    nats_per_point
        Mean of -log p(x) of a document.
    oov_tokens, oov_rate
        Tokens of words that the model does not know, and their share.
    skipped
        Documents without a word that the model knows.
    """

    nats_per_point: float
    oov_tokens: float
    oov_rate: float
    measured: str = (
        "log-likelihood of whole documents, each drawn from one cluster (multinomial "
        "coefficients left out)"
    )


@dataclass(frozen=True)
class PointScore:
    """Likelihood of vectors under a mixture.

    Attributes
    ----------
    nats_per_point
        Mean of -log p(x) of a vector.
    points
        Number of vectors.
    """

    nats_per_point: float
    points: int
    measured: str = "log-likelihood"


@dataclass(frozen=True)
class _BlockLikelihood:
    """A visit that measures how well clusters predict a block.

    Attributes
    ----------
    method
        The method of inference that finds the clusters of documents.
    index
        As of ``documents_of_block``.
    dense
        Whether documents are rows of numbers.
    """

    method: Any
    index: np.ndarray | None
    dense: bool

    def __call__(self, item: Item) -> tuple[int, float, float, np.ndarray]:
        """Return documents, tokens, unknown tokens, and log p(x) of documents with known words."""
        docs = documents_of_block(item[0], self.index, dense=self.dense)
        with_words = docs.take(np.flatnonzero(np.diff(docs.indptr) > 0))
        fit, _ = self.method.likelihoods(with_words)
        return len(docs), item[0].tokens, float(docs.unknown.sum()), fit


def score_clusters(
    model: TopicModel,
    store: Corpus,
    parts: tuple[str, ...],
    threads: int | Cluster,
    progress: Callable[[int, int], None] | None = None,
) -> ClusterScore | PointScore:
    """Compute the log-likelihood of the documents or rows of parts (``train``, ``heldout``).

    Raises
    ------
    InputError
        The parts are empty, or no document has a word that the model knows.
    """
    method = make_block_method(model)
    index = None if store.width else match_words(model.vocabulary, store)
    visit = _BlockLikelihood(method, index, bool(store.width))
    fit = 0.0
    tokens = 0.0
    oov = 0.0
    docs = 0
    documents_done = 0
    topics = model.n_topics
    sizes = {part: store.part(part == "heldout").docs for part in parts}
    for part, size in sizes.items():
        if not size:
            continue
        grid = store.grid(block_cells(topics), block_docs(topics), heldout=part == "heldout")
        results = visit_blocks(visit, store, grid, np.zeros(size, np.bool_), threads)
        for docs_in_block, block_tokens, unknown, values in results:
            fit = add_in_order(fit, values)  # the same bits for any blocks
            docs += len(values)
            documents_done += docs_in_block
            tokens += block_tokens - unknown
            oov += unknown
            if progress is not None:
                progress(documents_done, sum(sizes.values()))
    if not docs:
        problem = "no document contains a word that the model knows"
        if store.width:
            problem = f"no {noun_of(store.width)} to score; set some aside at ingest (--heldout 1%)"
        raise InputError(f"{store.path}: {problem}")
    if store.width:
        return PointScore(-fit / docs, docs)
    nats = -fit / tokens
    oov_rate = oov / max(tokens + oov, 1e-300)
    return ClusterScore(
        perplexity=exponential(nats),
        nats_per_token=nats,
        nats_per_point=-fit / docs,
        tokens=tokens,
        docs=docs,
        skipped=documents_done - docs,
        oov_tokens=oov,
        oov_rate=oov_rate,
    )
