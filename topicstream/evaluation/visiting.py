"""The blocks of a corpus, visited one by one by threads of this process or by the workers of a
cluster (results in block order), and their documents over the words and the topics of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from topicstream.corpus.block import Block
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.inference.documents import Documents, dense_documents, documents_of_cells
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import make_method, method_of
from topicstream.model.topic_model import TopicModel
from topicstream.parallel.order import in_order
from topicstream.parallel.scheduler import Cluster, threads_of_worker

Result = TypeVar("Result")
Item = tuple[Block, np.ndarray]
"""A block, and what is known beforehand of each of its documents."""
CELLS_OF_TASK = 1 << 21
"""At most, about: some seconds of work."""


def visited(
    visit: Callable[[Item], Result],
    corpus: Corpus,
    grid: Grid,
    of_documents: np.ndarray,
    threads: int | Cluster,
) -> Iterator[Result]:
    """What a visit of each block gives.

    Parameters
    ----------
    visit
        Called in any thread or, with a cluster, on any worker: it and its results are pickled.
    corpus, grid
        The blocks; an empty grid has none.
    of_documents
        An entry a document of the grid's part, such as its key; those of a block go with it.
    threads
        Threads of this process, or whose workers visit the blocks.
    """
    if isinstance(threads, int):
        yield from in_order(visit, _items(corpus, grid, of_documents), threads)
        return
    spans = (
        (
            grid.span(first, last),
            of_documents[grid.first_doc[first] : grid.first_doc[last - 1] + grid.docs[last - 1]],
        )
        for first, last in threads.spans(grid.cells.tolist(), CELLS_OF_TASK)
    )
    for results in threads.map(
        partial(_visit_span, visit=visit, corpus=corpus, threads=threads.threads), spans
    ):
        yield from results


def _items(corpus: Corpus, grid: Grid, of_documents: np.ndarray) -> Iterator[Item]:
    first = int(grid.first_doc[0]) if len(grid) else 0
    for block in corpus.blocks(grid=grid, heldout=grid.heldout):
        yield block, of_documents[block.first_doc - first :][: block.n_docs]


def _visit_span(
    span: tuple[Grid, np.ndarray],
    visit: Callable[[Item], Result],
    corpus: Corpus,
    threads: int | None,
) -> list[Result]:
    """Visit some blocks, on a worker."""
    return list(in_order(visit, _items(corpus, *span), threads_of_worker(threads)))


def known_block(block: Block, index: np.ndarray | None, *, dense: bool = False) -> Documents:
    """The documents of a block over a model's words, or its dense rows; index: as ``match_words``
    finds it.
    """
    ids = pa.nulls(block.n_docs, pa.large_string())
    if dense:
        return dense_documents(ids, block.indptr, block.counts)
    words = block.vocab.astype(np.int64) if index is None else index[block.vocab]
    return documents_of_cells(ids, block.indptr, block.words, block.counts, words)


def document_shares(
    model: TopicModel, corpus: Corpus, *, heldout: bool = False, threads: int = 1
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Shares of the topics by the model's default method.

    Returns ------- For each block, in document order: global number of its first document, p(k|d)
    float32[D, K], and the known tokens of its
    documents, float64[D].  A document without a known word gets the prior's mean.
    """
    index = None if corpus.width else match_words(model.vocabulary, corpus)
    method = make_method(method_of(model), TopicRows(model))

    def visit(block: Block) -> tuple[int, np.ndarray, np.ndarray]:
        docs = known_block(block, index, dense=bool(corpus.width))
        return block.first_doc, method.shares(docs), docs.tokens - docs.unknown

    topics = model.n_topics
    grid = corpus.grid(block_cells(topics), block_docs(topics), heldout=heldout)
    yield from in_order(visit, corpus.blocks(grid=grid, heldout=heldout), threads)


def shares_of(
    model: TopicModel,
    corpus: Corpus,
    numbers: np.ndarray,
    *,
    heldout: bool = False,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """p(k|d) float32[n, K] and known tokens float64[n] of some documents, by their global numbers
    int64[n], ascending.
    """
    theta, known_tokens = (
        np.zeros((len(numbers), model.n_topics), np.float32),
        np.zeros(len(numbers)),
    )
    for first, shares, tokens in document_shares(model, corpus, heldout=heldout, threads=threads):
        some = slice(*np.searchsorted(numbers, (first, first + len(shares))))
        theta[some], known_tokens[some] = (
            shares[numbers[some] - first],
            tokens[numbers[some] - first],
        )
        if progress is not None:
            progress(first + len(shares), corpus.part(heldout).docs)
        if some.stop == len(numbers):
            break
    return theta, known_tokens
