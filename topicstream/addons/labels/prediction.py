"""The prediction of documents' labels by topics that are labels.

Classes are given by a threshold of their scores: precision, recall and F1 of every threshold at
once.

Theta of a document is folded in on all its words with every topic open, the prior of labels in
proportion to their training documents (Prior-LDA of Rubin et al. 2012). The score of a label is the
likelihood that the document loses without it,

    sum_w x_w log [ p(w) / p(w without the label) ] + log (share of the label among those of
    training)

where the other topics take its place in proportion. A share says how much of a document a label
explains, the score whether it applies (docs/internals/decisions/labels.md compares both). Labels
whose score reaches a threshold are predicted. Where that does better, a document in which none
reaches it gets the best one. Both are chosen on a tenth of the training documents (by their ids),
each without its own contribution to the topics, for micro F1. Documents without labels are left
out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from topicstream.base.errors import InputError, StoreError
from topicstream.corpus.block import Block
from topicstream.corpus.format import LABELS
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import document_keys, match_words
from topicstream.evaluation.memory import block_cells
from topicstream.evaluation.visiting import documents_of_block
from topicstream.inference.documents import select_ragged
from topicstream.inference.method import TopicRows
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import Floats, Ints, Longs, RowCells, TopicWeights
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.local_step import (
    EVEN,
    INNER,
    LEAST,
    POINT,
    TOLERANCE,
    LocalRule,
    inverse_norms,
    local_step,
    padded_floats,
)
from topicstream.numeric.parallel import in_order


def precision_recall_f1(
    right: np.ndarray, predicted: np.ndarray, true: int
) -> tuple[float, float, float]:
    """Compute precision, recall and F1 of all decisions together."""
    hit = int(right.sum())
    all_predicted = int(predicted.sum())
    f1 = 2 * hit / (all_predicted + true) if all_predicted + true else 0.0
    return hit / max(all_predicted, 1), hit / max(true, 1), f1


class Predicted:
    """Counts of the predictions of every threshold, document by document.

    Attributes
    ----------
    hit, predicted
        int64[L, T], true classes, and all classes, whose score lies between threshold t and the
        next.
    first_hit, first_predicted
        int64[L, T + 1], documents whose largest score lies just below threshold t, by that class.
    true
        int64[L], documents with each class.
    unknown
        Classes of documents that the model does not have.
    first
        Documents of one class, and those of them whose largest score is that class's.
    """

    def __init__(self, classes: int, thresholds: np.ndarray) -> None:
        n = len(thresholds)
        self.thresholds = thresholds
        self.hit = np.zeros((classes, n), np.int64)
        self.predicted = np.zeros((classes, n), np.int64)
        self.first_hit = np.zeros((classes, n + 1), np.int64)
        self.first_predicted = np.zeros((classes, n + 1), np.int64)
        self.true = np.zeros(classes, np.int64)
        self.docs = 0
        self.unlabelled = 0
        self.unknown = 0
        self.first = np.zeros(2, np.int64)

    def add(self, scores: np.ndarray, indptr: np.ndarray, classes: np.ndarray) -> None:
        """Count documents.

        Parameters
        ----------
        scores
            float32[D, L].
        indptr, classes
            int64[D+1], and int64 ids of classes, -1 for those that the model does not have.
        """
        n_labels = np.diff(indptr)
        self.unlabelled += int((n_labels == 0).sum())
        owner = np.repeat(np.arange(len(n_labels)), n_labels)
        self.docs += int((n_labels > 0).sum())
        self.unknown += int((classes < 0).sum())
        true = np.zeros(scores.shape, bool)
        true[owner[classes >= 0], classes[classes >= 0]] = True
        self.true += true.sum(0)
        scores = scores[n_labels > 0]
        true = true[n_labels > 0]
        place = np.searchsorted(self.thresholds, scores, "right") - 1
        d, k = np.nonzero(place >= 0)
        np.add.at(self.predicted, (k, place[d, k]), 1)
        hits = true[d, k]
        np.add.at(self.hit, (k[hits], place[d, k][hits]), 1)
        best = scores.argmax(1)
        rows = np.arange(len(scores))
        below = place[rows, best] + 1
        np.add.at(self.first_predicted, (best, below), 1)
        right = true[rows, best]
        np.add.at(self.first_hit, (best[right], below[right]), 1)
        single = n_labels[n_labels > 0] == 1
        self.first += [int(single.sum()), int((single & right).sum())]

    def counts(self, t: int, at_least_one: bool) -> tuple[np.ndarray, np.ndarray]:
        """Count right and predicted documents of each class at a threshold, int64[L]."""
        right = self.hit[:, t:].sum(1)
        predicted = self.predicted[:, t:].sum(1)
        if at_least_one:
            right = right + self.first_hit[:, : t + 1].sum(1)
            predicted = predicted + self.first_predicted[:, : t + 1].sum(1)
        return right, predicted

    def choose_rule(self) -> tuple[int, bool]:
        """Choose the rule of the highest micro F1.

        Returns
        -------
        tuple
            The threshold's number, and whether a document gets at least one class.
        """
        true = int(self.true.sum())

        def micro_f1(rule: tuple[int, bool]) -> float:
            """Compute the micro F1 of a rule."""
            return precision_recall_f1(*self.counts(*rule), true)[2]

        rules = itertools.product(range(len(self.thresholds)), (False, True))
        return max(rules, key=micro_f1)


TENTH = 10
"""Every tenth training document, by its id, chooses the threshold."""
PRIOR_TOKENS = 1e-3
"""Least prior of all labels together, so that other labels can take the place of one."""


def map_labels(model: TopicModel) -> dict[str, int]:
    """Map labels to topics, for a model whose topics are labels.

    Raises
    ------
    InputError
        If its topics are no labels.
    StoreError
        If their names are damaged.
    """
    names = model.manifest.topic_names
    docs = model.manifest.label_docs
    if not (names and docs):
        raise InputError(f"{model.path}: its topics are not labels; train with --algo llda")
    topics = {str(names.get(str(k))): k for k in range(model.n_topics - len(docs), model.n_topics)}
    if len(topics) != len(docs):
        raise StoreError(
            f"{model.path}: the names of its topics are damaged; restore the manifest or train "
            f"again"
        )
    return topics


@kernel
def measure_losses(
    indptr: Longs,
    rows: Ints,
    counts: Floats,
    base: Floats,
    beta: float,
    inverse: Floats,
    theta: Floats,
    lost: Floats,
) -> None:
    """Compute the nats that a document loses without each of the last topics.

    lost[d, j] is for the j-th of them, with the others in its place in proportion.

    Parameters
    ----------
    indptr, rows, counts
        The cells: int64[D+1], [nnz], [nnz].
    base, inverse
        float32[U, KP], rows of phi, and float32[KP], 1 / (lam + W beta).
    theta
        float32[D, K].
    lost
        float32[D, L], result.
    """
    topics = theta.shape[1]
    labels = lost.shape[1]
    p = np.empty(topics)
    gone = np.empty(labels)
    for d in range(len(indptr) - 1):
        tokens = 0.0
        mass = 0.0
        gone[:] = 0.0
        # sum_k theta_k, of which a label's part is left out
        for k in range(topics):
            mass += np.float64(theta[d, k])
        for i in range(indptr[d], indptr[d + 1]):
            # p(k, w) = theta_k p(w|k), and p(w) = sum_k p(k, w)
            z = 0.0
            for k in range(topics):
                p[k] = np.float64(theta[d, k]) * ((base[rows[i], k] + beta) * inverse[k])
                z += p[k]
            if z <= LEAST:
                continue
            # x log(p(w) / (p(w) - p(j, w))) = -x log(1 - q), which is x q where q is small
            x = np.float64(counts[i])
            tokens += x
            for j in range(labels):
                q = p[topics - labels + j] / z
                gone[j] += x * (q if q < 1e-5 else -log(max(1.0 - q, 1e-12)))
        for j in range(labels):
            # the others take its place: each token gets -log(1 - theta_j) back
            rest = max(1.0 - np.float64(theta[d, topics - labels + j]) / mass, 1e-12)
            lost[d, j] = gone[j] + tokens * log(rest)


Cells = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""indptr, rows and counts of documents, and the rows of the topics, as the kernels take them."""


class _LabelJudge:
    """A function that scores the labels of the documents of a block.

    Parameters
    ----------
    model, store
        The model and the store of the documents.
    tenth
        The model was trained on the documents: each is scored without its own contribution.
    """

    def __init__(self, model: TopicModel, store: Corpus, tenth: bool) -> None:
        self.model = model
        self.tenth = tenth
        self.rows = TopicRows(model)
        names = map_labels(model)
        self.columns = np.array(sorted(names.values()), np.int64)
        texts = store.axes[LABELS].names().to_pylist()
        place = {k: i for i, k in enumerate(self.columns.tolist())}
        self.label_columns = np.array(
            [place[names[text]] if text in names else -1 for text in texts], np.int64
        )
        self.index = match_words(model.vocabulary, store)
        self.width = len(self.rows.inverse)
        self.docs_of = np.array(model.manifest.label_docs)
        share = self.docs_of / max(self.docs_of.sum(), 1)
        alpha = model.alpha.astype(np.float64)
        alpha[self.columns] = max(alpha[self.columns].sum(), PRIOR_TOKENS) * share
        self.prior = padded_floats(alpha, self.width)
        self.log_share = np.log(share, out=np.full(len(share), -np.inf), where=share > 0).astype(
            np.float32
        )

    def _fold_in(self, cells: Cells, inverse: np.ndarray) -> np.ndarray:
        """Infer the topics of documents with every topic open, float32[D, K]."""
        theta = np.empty((len(cells[0]) - 1, self.model.n_topics), np.float32)
        (indptr, rows, counts, base) = cells
        weights = TopicWeights(base, self.model.beta, inverse)
        rule = LocalRule(POINT, EVEN, TOLERANCE, INNER)
        local_step(RowCells(indptr, rows, counts), weights, self.prior, rule, theta)
        return theta

    def _score(self, cells: Cells, inverse: np.ndarray, scores: np.ndarray) -> None:
        """Write the loss of each document without each label to ``scores``."""
        measure_losses(*cells, self.model.beta, inverse, self._fold_in(cells, inverse), scores)

    def _remove_contribution(
        self, cells: Cells, own_topics: np.ndarray
    ) -> tuple[Cells, np.ndarray]:
        """Remove a training document's contribution to its topics from cells and norms.

        A topic that no other document has is closed to it.
        """
        model = self.model
        inverse = self.rows.inverse
        (indptr, rows, counts, base) = cells
        only = np.zeros(self.width, np.float32)
        totals = np.array(model.totals, np.float64)
        only[own_topics] = inverse[own_topics]
        theta = self._fold_in(cells, only)
        contribution = theta[:, own_topics] * (
            (base[:, own_topics] + model.beta) * inverse[own_topics]
        )
        contribution *= (counts / np.maximum(contribution.sum(1), 1e-30))[:, None]
        base[:, own_topics] = np.maximum(base[:, own_topics] - contribution, 0.0)
        totals[own_topics] = np.maximum(totals[own_topics] - contribution.sum(0), 0.0)
        norms = inverse_norms(totals, model.n_words, model.beta, self.width)
        norms[np.intersect1d(own_topics, self.columns[self.docs_of < 2])] = 0.0
        return (indptr, rows, counts, base), norms

    def __call__(
        self, item: tuple[Block, np.ndarray]
    ) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """Score a block.

        Returns
        -------
        tuple
            Documents of the block, scores float32[D, L] of those taken, offsets of their labels,
            and their labels.
        """
        block, scored = item
        chosen = np.flatnonzero(scored)
        labels = block.rows(LABELS)
        docs = documents_of_block(block, self.index).take(chosen)
        label_ptr, labels_of_scored = select_ragged(labels.indptr, chosen)
        true = self.label_columns[labels.ids[labels.local[labels_of_scored]]]
        scores = np.empty((len(chosen), len(self.columns)), np.float32)
        rows, base = self.rows.gather(docs)
        if not self.tenth:
            self._score((docs.indptr, rows, docs.counts, base), self.rows.inverse, scores)
        shared = np.arange(self.model.n_topics - len(self.columns))
        for d in range(len(chosen) if self.tenth else 0):
            cells_of_document = slice(*docs.indptr[d : d + 2])
            topics = true[slice(*label_ptr[d : d + 2])]
            n = cells_of_document.stop - cells_of_document.start
            cells = (
                np.array([0, n]),
                np.arange(n),
                docs.counts[cells_of_document],
                base[rows[cells_of_document]],
            )
            own_topics = np.concatenate((shared, self.columns[topics[topics >= 0]]))
            self._score(*self._remove_contribution(cells, own_topics), scores[d : d + 1])
        scores += self.log_share
        return block.n_docs, scores, label_ptr, true


def predict(
    model: TopicModel,
    store: Corpus,
    parts: tuple[str, ...],
    thresholds: np.ndarray,
    *,
    threads: int = 1,
    tenth: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Predicted:
    """Count the predictions for parts (``train``, ``heldout``) of a store.

    ``tenth`` judges only every tenth document by its id, of those that the model was trained on.
    """
    judge = _LabelJudge(model, store, tenth)
    predicted = Predicted(len(judge.columns), thresholds)
    documents_done = 0
    total = sum(store.part(part == "heldout").docs for part in parts)
    for docs, scores, indptr, labels in in_order(
        judge, _blocks(store, parts, model.n_topics, tenth), threads
    ):
        predicted.add(scores, indptr, labels)
        documents_done += docs
        if progress is not None:
            progress(documents_done, total)
    return predicted


def _blocks(
    store: Corpus, parts: tuple[str, ...], topics: int, tenth: bool
) -> Iterator[tuple[Block, np.ndarray]]:
    """Yield the blocks of some parts, with bool[D] that marks the documents to score."""
    for part in parts:
        heldout = part == "heldout"
        keys_of_documents = (
            document_keys(store, heldout)
            if tenth
            else np.zeros(store.part(heldout).docs, np.uint64)
        )
        cells = block_cells(topics)
        grid = store.grid(cells, cells // 8, heldout=heldout, axes=[LABELS])
        for block in store.blocks(grid=grid, heldout=heldout, axes=[LABELS]):
            yield (
                block,
                keys_of_documents[block.first_doc : block.first_doc + block.n_docs]
                % np.uint64(TENTH)
                == 0,
            )
