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
"""A block, and an entry for each of its documents, such as its key."""
CELLS_OF_TASK = 1 << 21
"""Approximate limit of the cells in a task of a cluster: some seconds of work."""


def visit_blocks(
    visit: Callable[[Item], Result],
    corpus: Corpus,
    grid: Grid,
    per_document: np.ndarray,
    threads: int | Cluster,
) -> Iterator[Result]:
    """Yield the result of a visit of each block, in block order.

    Parameters
    ----------
    visit
        A function of an ``Item``. It is called in any thread or, with a cluster, on any worker: it
        and its results are pickled.
    corpus, grid
        The blocks. An empty grid has none.
    per_document
        An entry for each document of the grid's part. A visit gets those of its block.
    threads
        Threads of this process, or the cluster whose workers visit the blocks.
    """
    if isinstance(threads, int):
        yield from in_order(visit, _items(corpus, grid, per_document), threads)
        return
    ranges = threads.task_ranges(grid.cells.tolist(), CELLS_OF_TASK)
    spans = (_cut_span(grid, per_document, first, last) for first, last in ranges)
    visit_span = partial(_visit_span, visit=visit, corpus=corpus, threads=threads.threads)
    for results in threads.map(visit_span, spans):
        yield from results


def _cut_span(
    grid: Grid, per_document: np.ndarray, first: int, last: int
) -> tuple[Grid, np.ndarray]:
    """Return the blocks first .. last - 1 of a grid, and the entries of their documents."""
    begin = grid.first_doc[first]
    end = grid.first_doc[last - 1] + grid.docs[last - 1]
    return grid.span(first, last), per_document[begin:end]


def _items(corpus: Corpus, grid: Grid, per_document: np.ndarray) -> Iterator[Item]:
    """Yield the blocks of a grid with the entries of their documents."""
    first = int(grid.first_doc[0]) if len(grid) else 0
    for block in corpus.blocks(grid=grid, heldout=grid.heldout):
        yield block, per_document[block.first_doc - first :][: block.n_docs]


def _visit_span(
    span: tuple[Grid, np.ndarray],
    visit: Callable[[Item], Result],
    corpus: Corpus,
    threads: int | None,
) -> list[Result]:
    """Visit some blocks, on a worker."""
    return list(in_order(visit, _items(corpus, *span), threads_of_worker(threads)))


def documents_of_block(block: Block, index: np.ndarray | None, *, dense: bool = False) -> Documents:
    """Convert a block to documents over a model's words, or of dense rows.

    Parameters
    ----------
    index
        Result of ``match_words``.
    dense
        Whether the block has dense rows.
    """
    ids = pa.nulls(block.n_docs, pa.large_string())
    if dense:
        return dense_documents(ids, block.indptr, block.counts)
    words = block.vocab.astype(np.int64) if index is None else index[block.vocab]
    return documents_of_cells(ids, block.indptr, block.words, block.counts, words)


NO_TOPICS = "this document has no word that the model knows, and so no topics"
LEAST_SHOWN = 0.5
"""Tokens of shown topics from which on a document counts, where a view drops some topics."""


class BlockShares(NamedTuple):
    """The topics of a block's documents, and which documents count in means.

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
        """Mark the documents that count in means, rankings and typical documents, bool[D].

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
        The view whose topics have the shares. None: the trained topics have them.
    """
    index = None if corpus.width else match_words(model.vocabulary, corpus)
    method = make_block_method(model)

    def visit(block: Block) -> BlockShares:
        docs = documents_of_block(block, index, dense=bool(corpus.width))
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
    if view.dropped:
        # only tokens of the shown topics count: n_dk = theta_dk (n_d + sum alpha) - alpha_k
        alpha = float(model.alpha.sum())
        shown_alpha = alpha - float(model.alpha[view.dropped].sum())
        share = view.columns(theta).sum(axis=1, dtype=np.float64)
        shown = np.maximum(share * (alpha + tokens) - shown_alpha, 0.0)
        enough = shown >= LEAST_SHOWN * np.minimum(1.0, tokens)
        # of a document without a known word, rounding leaves a trace of a token
        tokens = np.where(enough & (tokens > 0.0), shown, 0.0)
    return BlockShares(first, view.shares(theta), tokens)


def infer_shares(
    model: TopicModel,
    corpus: Corpus,
    numbers: np.ndarray,
    *,
    view: View | None = None,
    heldout: bool = False,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> BlockShares:
    """Infer the topics of some documents.

    Parameters
    ----------
    numbers
        int64[n], the documents' global numbers, ascending.
    view
        As of ``document_shares``.
    progress
        Called with the number of documents read and that of all documents.
    """
    topics = model.n_topics if view is None else len(view)
    shares = np.zeros((len(numbers), topics), np.float32)
    tokens = np.zeros(len(numbers))
    for block in document_shares(model, corpus, view=view, heldout=heldout, threads=threads):
        end = block.first + len(block.shares)
        rows = slice(*np.searchsorted(numbers, (block.first, end)))
        places = numbers[rows] - block.first
        shares[rows] = block.shares[places]
        tokens[rows] = block.tokens[places]
        if progress is not None:
            progress(end, corpus.part(heldout).docs)
        if rows.stop == len(numbers):
            break
    return BlockShares(int(numbers[0]) if len(numbers) else 0, shares, tokens)


def left_out_text(number: int) -> str:
    """Say how many documents count in no mean, "" if all do."""
    if not number:
        return ""
    verb = "is" if number == 1 else "are"
    return f"{counted(number, 'document')} without a known word {verb} left out"
