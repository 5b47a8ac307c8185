"""In how many documents the top words of a topic stand together, counted in one pass over the corpus."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.memory import block_cells
from topicstream.parallel.order import in_order


def cooccurrence(corpus: Corpus, tops: np.ndarray, threads: int = 1) -> tuple[np.ndarray, int]:
    """Count documents of the training part.

    Parameters
    ----------
    corpus
        What is counted.
    tops
        Words of each topic, int64[K, n] ids of the corpus, -1: unknown to it.
    threads
        The counts do not depend on them.

    Returns
    -------
    Documents with both words of a pair, int64[K, n, n] (the diagonal: with the word), and the number of documents that have
    any word.
    """
    known = np.unique(tops[tops >= 0])
    column = np.full(corpus.n_words, -1, np.int32)
    column[known] = np.arange(len(known), dtype=np.int32)
    wanted = np.where(tops >= 0, column[np.maximum(tops, 0)], len(known))  # unknown words: a column without documents
    first, second = np.broadcast_arrays(wanted[:, :, None], wanted[:, None, :])

    def visit(block: Block) -> tuple[np.ndarray, int]:
        here = column[block.vocab[block.words]]
        indptr = np.concatenate(([0], np.cumsum(here >= 0)))[block.indptr]
        chosen = here[here >= 0]
        shape = (block.n_docs, len(known) + 1)
        occurs = csr_array((np.ones(len(chosen), np.int64), chosen, indptr), shape=shape)
        together = (occurs.T @ occurs).tocsr()
        pairs = np.asarray(together[first.ravel(), second.ravel()]).reshape(first.shape)
        return pairs, int((np.diff(block.indptr) > 0).sum())

    total, docs = np.zeros(first.shape, np.int64), 0
    grid = corpus.grid(block_cells(None), block_cells(None))
    for pairs, in_block in in_order(visit, corpus.blocks(grid=grid), threads):
        total += pairs
        docs += in_block
    return total, docs
