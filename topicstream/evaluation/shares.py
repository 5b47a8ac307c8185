"""Topics of a corpus' documents as ``infer`` answers them, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import known_block
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import make_method, method_of
from topicstream.model.topic_model import TopicModel
from topicstream.parallel.order import in_order


def document_shares(
    model: TopicModel, corpus: Corpus, *, heldout: bool = False, threads: int = 1
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Shares of the topics by the model's default method.

    Returns
    -------
    For each block, in document order: global number of its first document, p(k|d) float32[D, K], and the known tokens of its
    documents, float64[D].  A document without a known word gets the prior's mean.
    """
    index = match_words(model.vocabulary, corpus)
    method = make_method(method_of(model), TopicRows(model))

    def visit(block: Block) -> tuple[int, np.ndarray, np.ndarray]:
        docs = known_block(block, index)
        return block.first_doc, method.shares(docs), docs.tokens - docs.unknown

    topics = model.n_topics
    grid = corpus.grid(block_cells(topics), block_docs(topics), heldout=heldout)
    yield from in_order(visit, corpus.blocks(grid=grid, heldout=heldout), threads)
