"""Visits of the blocks of a corpus, and their documents over the words and topics of a model.

Threads of this process or the workers of a cluster visit the blocks one by one. Results come in
block order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from topicstream.base.cluster import Cluster, threads_of_worker
from topicstream.base.text import counted
from topicstream.corpus.block import Block
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.inference.documents import Documents, dense_documents, documents_of_cells
from topicstream.inference.methods import make_block_method
from topicstream.model.edits import View
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.parallel import in_order

Result = TypeVar("Result")
Item = tuple[Block, np.ndarray]
"""A block, and what is known beforehand of each of its documents."""
CELLS_OF_TASK = 1 << 21
"""Approximate limit of the cells in a task: some seconds of work."""


def visit_blocks(
    visit: Callable[[Item], Result],
    corpus: Corpus,
    grid: Grid,
    of_documents: np.ndarray,
    threads: int | Cluster,
) -> Iterator[Result]:
    """Yield the result of a visit of each block, in block order.

    Parameters
    ----------
    visit
        Called in any thread or, with a cluster, on any worker: it and its results are pickled.
    corpus, grid
        The blocks. An empty grid has none.
    of_documents
        An entry for each document of the grid's part, such as its key. Those of a block go with it.
    threads
        Threads of this process, or the cluster whose workers visit the blocks.
    """
    if isinstance(threads, int):
        yield from in_order(visit, _items(corpus, grid, of_documents), threads)
        return
    spans = (
        (
            grid.span(first, last),
            of_documents[grid.first_doc[first] : grid.first_doc[last - 1] + grid.docs[last - 1]],
        )
        for first, last in threads.task_ranges(grid.cells.tolist(), CELLS_OF_TASK)
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
    """Convert a block to documents over a model's words, or to its dense rows.

    ``index`` comes from ``match_words``.
    """
    ids = pa.nulls(block.n_docs, pa.large_string())
    if dense:
        return dense_documents(ids, block.indptr, block.counts)
    words = block.vocab.astype(np.int64) if index is None else index[block.vocab]
    return documents_of_cells(ids, block.indptr, block.words, block.counts, words)


NO_TOPICS = "this document has no word that the model knows, and so no topics"
LEAST_SHOWN = 0.5
"""Tokens of the topics shown from which on a document has topics, where a view drops some."""


class BlockShares(NamedTuple):
    """The topics of a block's documents, which also decide what counts in a mean.

    Attributes
    ----------
    first
        Global number of the first document.
    shares
        p(k|d), float32[D, K].
    tokens
        Tokens of each document that the model knows (with a view: of the topics that it shows),
        float64[D].
    """

    first: int
    shares: np.ndarray
    tokens: np.ndarray

    @property
    def counted(self) -> np.ndarray:
        """Tell which documents count in means, rankings and typical documents, bool[D].

        A document without a known word has the prior as its topics, which says nothing of it.
        """
        return self.tokens > 0


def document_shares(
    model: TopicModel,
    corpus: Corpus,
    *,
    view: View | None = None,
    heldout: bool = False,
    threads: int = 1,
) -> Iterator[BlockShares]:
    """Stream the topics of documents by the model's default method, block by block in order.

    Parameters
    ----------
    view
        What is shown of the model: shares are those of its topics. None: of the trained topics.
    """
    index = None if corpus.width else match_words(model.vocabulary, corpus)
    method = make_block_method(model)

    def visit(block: Block) -> BlockShares:
        docs = known_block(block, index, dense=bool(corpus.width))
        return _block_shares(model, view, block.first_doc, method.shares(docs), docs)

    topics = model.n_topics
    grid = corpus.grid(block_cells(topics), block_docs(topics), heldout=heldout)
    yield from in_order(visit, corpus.blocks(grid=grid, heldout=heldout), threads)


def _block_shares(
    model: TopicModel, view: View | None, first: int, theta: np.ndarray, docs: Documents
) -> BlockShares:
    """Apply a view to the topics of a block's documents.

    The tokens of a document are 0 if it has none of the shown topics.
    """
    tokens = docs.tokens - docs.unknown
    if view is None:
        return BlockShares(first, theta, tokens)
    if view.dropped:  # a document has its words of the other topics alone
        alpha = float(model.alpha.sum())
        alpha_shown = alpha - float(model.alpha[view.dropped].sum())
        share = view.columns(theta).sum(axis=1, dtype=np.float64)
        shown = np.maximum(share * (alpha + tokens) - alpha_shown, 0.0)
        tokens = np.where(shown >= LEAST_SHOWN * np.minimum(1.0, tokens), shown, 0.0)
    return BlockShares(first, view.shares(theta), tokens)


def shares_of(
    model: TopicModel,
    corpus: Corpus,
    numbers: np.ndarray,
    *,
    view: View | None = None,
    heldout: bool = False,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> BlockShares:
    """Infer the topics of some documents, by their global numbers int64[n], ascending."""
    topics = model.n_topics if view is None else len(view)
    shares = np.zeros((len(numbers), topics), np.float32)
    tokens = np.zeros(len(numbers))
    for block in document_shares(model, corpus, view=view, heldout=heldout, threads=threads):
        end = block.first + len(block.shares)
        some = slice(*np.searchsorted(numbers, (block.first, end)))
        places = numbers[some] - block.first
        shares[some] = block.shares[places]
        tokens[some] = block.tokens[places]
        if progress is not None:
            progress(end, corpus.part(heldout).docs)
        if some.stop == len(numbers):
            break
    return BlockShares(int(numbers[0]) if len(numbers) else 0, shares, tokens)


def left_out_text(number: int) -> str:
    """Say how many documents count in no mean, "" if all do."""
    if not number:
        return ""
    verb = "is" if number == 1 else "are"
    return f"{counted(number, 'document')} without a known word {verb} left out"
