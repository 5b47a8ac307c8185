"""In how many documents the top words of a topic stand together, counted in one pass over the corpus."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from topicstream.corpus.reader import Corpus
from topicstream.evaluation.memory import block_cells
from topicstream.evaluation.visiting import Item, visited
from topicstream.parallel.scheduler import Cluster


def cooccurrence(corpus: Corpus, tops: np.ndarray, threads: int | Cluster = 1) -> tuple[np.ndarray, int]:
    """Count documents of the training part.

    Parameters
    ----------
    corpus
        What is counted.
    tops
        Words of each topic, int64[K, n] ids of the corpus, -1: unknown to it.
    threads
        Threads of this process, or the cluster whose workers count; the counts do not depend on them.

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

    def visit(item: Item) -> tuple[np.ndarray, int]:
        block, _ = item
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
    for pairs, in_block in visited(visit, corpus, grid, np.zeros(corpus.part().docs, np.bool_), threads):
        total += pairs
        docs += in_block
    return total, docs
