"""Topics of documents whose authors an author-topic model knows.

The authors' mixtures take the place of a prior:

    p(a, k | w)  ~  theta_a[k] p(w|k)

over the document's authors whom the model knows, each as likely beforehand. The document's share of
k is the sum over its words and authors (Zeng, Cheung & Liu 2013, eq. 24 with the sums of training
held still), without iteration. A document that names no author of the model is answered as by
``bp``.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, StoreError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods.bp import BP, BPOptions
from topicstream.numeric.kernels.arrays import (
    Doubles,
    Floats,
    Longs,
    RowCells,
    TopicWeights,
    address_of,
    most_in_row,
)
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.sums import dot_rows, sum_floats


class AuthorLists(NamedTuple):
    """The authors of documents: int64[D + 1], and rows of their mixtures, int64[E]."""

    indptr: Longs
    rows: Longs


@kernel
def spread_authors(
    cells: RowCells,
    weights: TopicWeights,
    authors: AuthorLists,
    theta: Floats,
    gained: Doubles,
    explained: Doubles,
) -> float:
    """Spread the cells of documents over pairs of author and topic.

    p(a, k | cell) ~ theta[a, k] p(w|k), over all topics and the authors of the cell's document. A
    cell that no pair explains is left out.

    Parameters
    ----------
    weights
        p(w|k); ``inverse`` is float32[>= K].
    theta
        float32[A, K].
    gained
        float64[A, K], to which each pair's tokens are added.
    explained
        float64[E], result: the tokens of each author of each document.

    Returns
    -------
    float
        Sum of x log(mean over the document's authors of p(w|a)).
    """
    (indptr, rows, counts) = cells
    (base, beta, inverse) = weights
    (aptr, local) = authors
    topics = theta.shape[1]
    loglik = 0.0
    word_weights = np.empty(topics, np.float32)
    weights_ = address_of(word_weights)
    theta_ = address_of(theta)
    b = np.float32(beta)
    # room for the most authors that a document has
    likelihood = np.empty(most_in_row(aptr), np.float32)
    for d in range(len(indptr) - 1):
        n = aptr[d + 1] - aptr[d]
        for i in range(indptr[d], indptr[d + 1]):
            w = rows[i]
            # p(w|k), then p(w|a) = sum_k theta_a[k] p(w|k) of each author
            for k in range(topics):
                word_weights[k] = (base[w, k] + b) * inverse[k]
            for e in range(n):
                a = local[aptr[d] + e]
                likelihood[e] = dot_rows(theta_ + 4 * topics * a, weights_, topics)
            total = sum_floats(likelihood, n)
            if total <= np.float32(0):
                continue
            # x p(a|w) to the author, and x p(a, k|w) to the pair, each as likely beforehand
            share = counts[i] / total
            loglik += float(counts[i]) * log(total / n)
            for e in range(n):
                a = local[aptr[d] + e]
                explained[aptr[d] + e] += share * likelihood[e]
                for k in range(topics):
                    gained[a, k] += share * theta[a, k] * word_weights[k]
    return loglik


AXIS = "authors"


class Authors(Method):
    """Topics from the document's authors (a field ``authors``), for a model of --algo atm."""

    name: ClassVar[str] = "authors"
    cites: ClassVar[str] = "Zeng, Cheung & Liu 2013"
    Options: ClassVar[type] = BPOptions
    columns: ClassVar[tuple[str, ...]] = (AXIS,)

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        self._bp = BP(rows, **options)
        try:
            self._table = rows.model.table(AXIS)
        except StoreError as e:
            raise InputError(f"--method authors: {e}; train with --algo atm") from None
        if self._table.columns != rows.topics or self._table.names is None:
            raise InputError(
                f"--method authors: {rows.model.path}: its table of authors is not over its topics"
            )

    def shares(self, docs: Documents) -> np.ndarray:
        out = self._bp.shares(docs)
        lists = docs.columns.get(AXIS)
        if lists is None or not len(docs):
            return out
        lists = lists.cast(pa.list_(pa.large_string()))
        owner = np.repeat(
            np.arange(len(docs)), pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        )
        author_ids = pc.fill_null(
            pc.index_in(lists.flatten(), value_set=self._table.names), -1
        ).to_numpy()
        pairs = np.unique(
            np.stack((owner[author_ids >= 0], author_ids[author_ids >= 0].astype(np.int64)), 1),
            axis=0,
        )
        if not len(pairs):
            return out
        ids, local = np.unique(pairs[:, 1], return_inverse=True)
        counts = np.maximum(self._table.gather(ids), 0.0).astype(np.float64) + self.rows.alpha64
        theta = (counts / np.maximum(counts.sum(1, keepdims=True), 1e-300)).astype(np.float32)
        cell_rows, base = self.rows.gather(docs)
        weights = TopicWeights(base, self.rows.beta, self.rows.inverse)
        sizes = np.bincount(pairs[:, 0], minlength=len(docs))
        ends = np.concatenate(([0], np.cumsum(sizes)))
        for d in np.flatnonzero((sizes > 0) & (np.diff(docs.indptr) > 0)):
            cells = slice(docs.indptr[d], docs.indptr[d + 1])
            local_of_document = local[ends[d] : ends[d + 1]]
            gained = np.zeros((len(local_of_document), self.rows.topics))
            slots = np.arange(len(local_of_document))
            ptr = np.array([0, cells.stop - cells.start])
            spread_authors(
                RowCells(ptr, cell_rows[cells], docs.counts[cells]),
                weights,
                AuthorLists(np.array([0, len(local_of_document)]), slots),
                theta[local_of_document],
                gained,
                np.zeros(len(local_of_document)),
            )
            share = gained.sum(0)
            if share.sum() > 0:
                out[d] = share / share.sum()
        return out
