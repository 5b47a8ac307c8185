"""How well the topics that are labels foretell the labels of documents: F1 of what is predicted from their words.

Theta of a document is folded in on all its words with every topic open, the prior of labels in proportion to their training
documents (Prior-LDA of Rubin et al. 2012).  What speaks for a label is the likelihood that the document loses without it,

    sum_w x_w log [ p(w) / p(w without the label) ] + log (share of the label among those of training)

the other topics taking its place in proportion: a share says how much of a document a label explains, this whether it applies
(docs/decisions/labels.md has both).  Labels for which no less than a threshold speaks are predicted; and, where that does
better, the first one of a document in which none reaches it.  Both are chosen on a tenth of the training documents (by their
ids), each without what itself put into the topics, for micro F1.  Documents without labels are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError
from topicstream.evaluation.clusters import clusters_of, score_agreement
from topicstream.evaluation.completion import halves, rows_of
from topicstream.evaluation.keys import document_keys, match_words
from topicstream.evaluation.memory import LANES, block_cells
from topicstream.evaluation.scoring import Scorer, Scoring
from topicstream.kernels.arrays import Floats, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.local_step import (
    EVEN,
    INNER,
    LEAST,
    POINT,
    TOLERANCE,
    inverse_norms,
    local_step,
    padded_floats,
)
from topicstream.model.topic_model import TopicModel
from topicstream.parallel.order import in_order
from topicstream.progress import Progress

LABELS = "labels"
TENTH = 10
THRESHOLDS = np.concatenate(([0.0], np.geomspace(0.25, 4096, 119))).astype(np.float32)
PRIOR_TOKENS = 1e-3  # of all labels together at least: the others must have a share that can take a label's place


class Predicted:
    """What every threshold would predict, counted document by document.

    hit, said      int64[L, T]: true labels, and all labels, whose score lies between threshold t and the next
    first_hit, first_said   int64[L, T + 1]: documents whose largest score lies just below threshold t, by that label
    true           int64[L]: documents with each label;  unknown: labels of documents that the model does not have
    first          documents of one label, and those of them whose largest score is that label's
    """

    def __init__(self, labels: int, thresholds: np.ndarray) -> None:
        n = len(thresholds)
        self.thresholds = thresholds
        self.hit, self.said = (np.zeros((labels, n), np.int64) for _ in range(2))
        self.first_hit, self.first_said = (np.zeros((labels, n + 1), np.int64) for _ in range(2))
        self.true = np.zeros(labels, np.int64)
        self.docs = self.unlabelled = self.unknown = 0
        self.first = np.zeros(2, np.int64)

    def add(self, scores: np.ndarray, indptr: np.ndarray, labels: np.ndarray) -> None:
        """Count documents.  scores: float32[D, L]; indptr: int64[D+1], labels: int64[.], -1: not of the model."""
        given = np.diff(indptr)
        self.unlabelled += int((given == 0).sum())
        owner = np.repeat(np.arange(len(given)), given)
        self.docs += int((given > 0).sum())
        self.unknown += int((labels < 0).sum())
        true = np.zeros(scores.shape, bool)
        true[owner[labels >= 0], labels[labels >= 0]] = True
        self.true += true.sum(0)
        scores, true = scores[given > 0], true[given > 0]
        place = np.searchsorted(self.thresholds, scores, "right") - 1
        d, k = np.nonzero(place >= 0)
        np.add.at(self.said, (k, place[d, k]), 1)
        hits = true[d, k]
        np.add.at(self.hit, (k[hits], place[d, k][hits]), 1)
        best = scores.argmax(1)
        rows = np.arange(len(scores))
        below = place[rows, best] + 1
        np.add.at(self.first_said, (best, below), 1)
        right = true[rows, best]
        np.add.at(self.first_hit, (best[right], below[right]), 1)
        one = given[given > 0] == 1
        self.first += [int(one.sum()), int((one & right).sum())]

    def counts(self, t: int, at_least_one: bool) -> tuple[np.ndarray, np.ndarray]:
        """(right, predicted) of each label with threshold number t, int64[L]."""
        right, said = self.hit[:, t:].sum(1), self.said[:, t:].sum(1)
        if at_least_one:
            right, said = right + self.first_hit[:, : t + 1].sum(1), said + self.first_said[:, : t + 1].sum(1)
        return right, said

    def best(self) -> tuple[int, bool]:
        """The threshold's number, and whether a document gets one label at least, of the highest micro F1."""
        every = [(t, one) for t in range(len(self.thresholds)) for one in (False, True)]
        return max(every, key=lambda rule: _micro(*self.counts(*rule), int(self.true.sum()))[2])


def _ratio(a: Any, b: Any) -> Any:
    return np.divide(a, b, out=np.zeros(np.shape(a)), where=np.asarray(b) > 0)


def _micro(right: np.ndarray, said: np.ndarray, true: int) -> tuple[float, float, float]:
    """Precision, recall and F1 of all decisions together."""
    hit, all_said = int(right.sum()), int(said.sum())
    f1 = 2 * hit / (all_said + true) if all_said + true else 0.0
    return hit / max(all_said, 1), hit / max(true, 1), f1


def named_topics(model: TopicModel) -> dict[str, int]:
    """Label -> topic, of a model whose topics are labels; InputError for another, StoreError where they cannot be."""
    names, docs = model.manifest.get("labels"), model.manifest.get("label_docs")
    if not (isinstance(names, dict) and isinstance(docs, list) and docs):
        raise InputError(
            f"{model.path}: its topics are no labels, so there is nothing to predict; train with --algo llda"
        )
    found = {str(names.get(str(k))): k for k in range(model.n_topics - len(docs), model.n_topics)}
    if len(found) != len(docs) or not all(isinstance(n, int) and n >= 0 for n in docs):
        raise StoreError(f"{model.path}: the names of its topics are damaged; restore the manifest or train again")
    return found


@kernel
def lost_without(
    indptr: Longs, rows: Ints, counts: Floats, base: Floats, beta: float, inverse: Floats, theta: Floats, lost: Floats
) -> None:
    """lost[d, j] = nats that document d loses without the j-th of the last topics, the others in its place in proportion.

    indptr: int64[D+1], rows, counts: [nnz], cells;  base: float32[U, KP], rows of phi;  inverse: float32[KP], 1 / (lam + W
    beta);  theta: float32[D, K];  lost: float32[D, L]
    """
    topics, labels = theta.shape[1], lost.shape[1]
    p, gone = np.empty(topics), np.empty(labels)
    for d in range(len(indptr) - 1):
        tokens, mass = 0.0, 0.0
        gone[:] = 0.0
        for k in range(topics):
            mass += np.float64(theta[d, k])
        for i in range(indptr[d], indptr[d + 1]):
            z = 0.0
            for k in range(topics):
                p[k] = np.float64(theta[d, k]) * ((base[rows[i], k] + beta) * inverse[k])
                z += p[k]
            if z <= LEAST:
                continue
            x = np.float64(counts[i])
            tokens += x
            for j in range(labels):
                q = p[topics - labels + j] / z
                gone[j] += x * (q if q < 1e-5 else -np.log(max(1.0 - q, 1e-12)))
        for j in range(labels):
            rest = max(1.0 - np.float64(theta[d, topics - labels + j]) / mass, 1e-12)
            lost[d, j] = gone[j] + tokens * np.log(rest)


class _Judge:
    """Scores the labels of documents, block by block; tenth: of documents that the model has been trained on."""

    def __init__(self, model: TopicModel, store: Corpus, tenth: bool) -> None:
        self.model, self.tenth = model, tenth
        names = named_topics(model)
        self.columns = np.array(sorted(names.values()), np.int64)
        texts, place = store.axes[LABELS].names().to_pylist(), {k: i for i, k in enumerate(self.columns.tolist())}
        self.own = np.array([place[names[text]] if text in names else -1 for text in texts], np.int64)
        self.index, self.width = match_words(model.vocabulary, store), -(-model.n_topics // LANES) * LANES
        self.inverse = inverse_norms(model.totals, model.n_words, model.beta, self.width)
        self.docs_of = np.array(model.manifest["label_docs"])
        share = self.docs_of / max(self.docs_of.sum(), 1)
        alpha = model.alpha.astype(np.float64)
        alpha[self.columns] = max(alpha[self.columns].sum(), PRIOR_TOKENS) * share
        self.prior = padded_floats(alpha, self.width)
        self.log_share = np.log(share, out=np.full(len(share), -np.inf), where=share > 0).astype(np.float32)

    def _fold_in(self, indptr: Any, rows: Any, counts: Any, base: Any, inverse: np.ndarray) -> np.ndarray:
        theta, beta = np.empty((len(indptr) - 1, self.model.n_topics), np.float32), self.model.beta
        local_step(indptr, rows, counts, base, beta, inverse, self.prior, POINT, EVEN, TOLERANCE, INNER, theta)
        return theta

    def _judge(self, indptr: Any, rows: Any, counts: Any, base: Any, inverse: np.ndarray, scores: np.ndarray) -> None:
        theta = self._fold_in(indptr, rows, counts, base, inverse)
        lost_without(indptr, rows, counts, base, self.model.beta, inverse, theta, scores)

    def _without_own(self, indptr: Any, rows: Any, counts: Any, base: Any, given: np.ndarray) -> tuple[Any, np.ndarray]:
        """Rows and norms without what a training document put into the topics ``given`` to it; one that no other document has
        is closed to it."""
        model = self.model
        only, lam = np.zeros(self.width, np.float32), np.array(model.totals, np.float64)
        only[given] = self.inverse[given]
        theta = self._fold_in(indptr, rows, counts, base, only)
        put = theta[:, given] * ((base[:, given] + model.beta) * self.inverse[given])
        put *= (counts / np.maximum(put.sum(1), 1e-30))[:, None]
        base[:, given] = np.maximum(base[:, given] - put, 0.0)
        lam[given] = np.maximum(lam[given] - put.sum(0), 0.0)
        norms = inverse_norms(lam, model.n_words, model.beta, self.width)
        norms[np.intersect1d(given, self.columns[self.docs_of < 2])] = 0.0
        return base, norms

    def __call__(self, item: tuple[Block, np.ndarray]) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """(documents of the block, scores float32[D, L] of those taken, where their labels begin, their labels)."""
        block, taken = item
        ids = block.vocab.astype(np.int64) if self.index is None else self.index[block.vocab]
        base, at = rows_of(self.model, ids, self.width)
        nothing = np.zeros(block.n_docs, np.uint64)
        seen = halves(block, at, nothing, np.zeros(block.n_words, np.uint64), None)[0]
        labels, chosen = block.rows(LABELS), np.flatnonzero(taken)
        indptr, cells = _rows(seen.indptr, chosen)
        label_ptr, which = _rows(labels.indptr, chosen)
        true = self.own[labels.ids[labels.local[which]]]
        scores = np.empty((len(chosen), len(self.columns)), np.float32)
        rows, counts = seen.rows[cells], seen.counts[cells]
        if not self.tenth:
            self._judge(indptr, rows, counts, base, self.inverse, scores)
        shared = np.arange(self.model.n_topics - len(self.columns))
        for d in range(len(chosen) if self.tenth else 0):
            mine, topics_of = slice(*indptr[d : d + 2]), true[slice(*label_ptr[d : d + 2])]
            part = np.array([0, indptr[d + 1] - indptr[d]]), np.arange(indptr[d + 1] - indptr[d]), counts[mine]
            given = np.concatenate((shared, self.columns[topics_of[topics_of >= 0]]))
            self._judge(*part, *self._without_own(*part, base[rows[mine]], given), scores[d : d + 1])
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
    """What the model predicts of parts (``train``, ``heldout``) of a store; tenth: of every tenth document
    by its id, which the model has been trained on."""
    if LABELS not in store.axes:
        raise InputError(f"{store.path}: its documents have no labels; ingest with --meta labels=FIELD")
    judge = _Judge(model, store, tenth)
    found, done = Predicted(len(judge.columns), thresholds), 0
    total = sum(store.part(part == "heldout")["docs"] for part in parts)
    for docs, scores, indptr, labels in in_order(judge, _blocks(store, parts, model.n_topics, tenth), threads):
        found.add(scores, indptr, labels)
        done += docs
        if progress is not None:
            progress(done, total)
    return found


def _blocks(store: Corpus, parts: tuple[str, ...], topics: int, tenth: bool) -> Iterator[tuple[Block, np.ndarray]]:
    for part in parts:
        heldout = part == "heldout"
        if not store.part(heldout)["docs"]:
            continue
        keys = document_keys(store, heldout) if tenth else None
        cells = block_cells(topics)
        grid = store.grid(cells, cells // 8, heldout=heldout, axes=[LABELS])
        for block in store.blocks(grid=grid, heldout=heldout, axes=[LABELS]):
            of = slice(block.first_doc, block.first_doc + block.n_docs)
            yield block, np.ones(block.n_docs, bool) if keys is None else keys[of] % np.uint64(TENTH) == 0


def _rows(indptr: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of some rows of a ragged array: their own indptr, and where their entries lie in the array."""
    lengths = np.diff(indptr)[chosen]
    out = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return out, np.arange(out[-1]) + np.repeat(indptr[:-1][chosen] - out[:-1], lengths)


def score_labels(
    model: TopicModel,
    store: Corpus,
    parts: tuple[str, ...],
    training: Corpus | None,
    *,
    threshold: float | None = None,
    threads: int = 1,
    progress: Progress,
) -> dict[str, Any]:
    """Precision, recall and F1 of the labels predicted for parts of ``store``.

    training   the corpus on whose training documents the threshold is chosen, where ``threshold`` does not say it

    Returns plain values; macro F1 is the mean over the labels that these documents and those of the training have.
    Raises InputError: no labels here, or no threshold and no training documents.
    """

    def told(what: str) -> Any:
        return partial(progress.step, what, unit="documents")

    at_least_one, chosen_on = False, 0
    if threshold is None:
        if training is None:
            raise InputError("the threshold of labels is chosen on training documents: give --corpus, or --threshold")
        tried = predict(
            model, training, ("train",), THRESHOLDS, threads=threads, tenth=True, progress=told("threshold")
        )
        if not tried.docs:
            raise InputError(f"{training.path}: no labelled documents to choose a threshold on; give --threshold")
        t, at_least_one = tried.best()
        threshold, chosen_on = float(THRESHOLDS[t]), tried.docs
    found = predict(model, store, parts, np.array([threshold], np.float32), threads=threads, progress=told("labels"))
    if not found.docs:
        raise InputError(f"{store.path}: none of these documents has a label")
    how = f"labels without which a document loses {threshold:.3g} nats or more"
    how += ", or else its first one" if at_least_one else ""
    how += f" (chosen on {chosen_on:,} training documents)" if chosen_on else ""
    rule = {"threshold": threshold, "at_least_one": at_least_one}
    return {**_figures(model, found, at_least_one), **rule, "measured": how}


def _figures(model: TopicModel, found: Predicted, at_least_one: bool) -> dict[str, Any]:
    """Precision, recall and F1 over all decisions, and label by label."""
    names = {k: name for name, k in named_topics(model).items()}
    columns = sorted(names)
    right, said = found.counts(0, at_least_one)
    precision, recall, micro = _micro(right, said, int(found.true.sum()) + found.unknown)
    f1 = _ratio(2.0 * right, said + found.true)
    trained = np.array(model.manifest["label_docs"])
    scored = (found.true > 0) & (trained > 0)
    each = [
        {
            "label": names[k],
            "docs": int(found.true[i]),
            "predicted": int(said[i]),
            "right": int(right[i]),
            "f1": float(f1[i]),
        }
        for i, k in enumerate(columns)
        if found.true[i] or said[i]
    ]
    one, first = found.first.tolist()
    return {
        "micro_f1": micro,
        "macro_f1": float(f1[scored].mean()) if scored.any() else None,
        "precision": precision,
        "recall": recall,
        "accuracy": first / one if one else None,
        "docs": found.docs,
        "unlabelled": found.unlabelled,
        "labels": int(scored.sum()),
        "unknown_labels": found.unknown,
        "each": each,
    }


# -- the scorer ------------------------------------------------------------------------------------------------------
def _label_scores(run: Scoring) -> dict[str, Any]:
    config = run.config
    parts: tuple[str, ...] = ("train", "heldout")
    if run.elsewhere is not None:
        store, of = run.elsewhere, f"all documents of {config.heldout}"
    elif run.of_clusters and not run.corpus.part(True)["docs"]:
        store, parts, of = run.corpus, ("train",), "training documents"
    else:
        store, parts, of = run.corpus, ("heldout",), "documents set aside"
    if run.of_clusters:
        of_part = partial(clusters_of, run.model, store, threads=run.threads)
        found = score_agreement(store, parts, config.label_field, run.model.n_topics, of_part)
    else:
        found = score_labels(
            run.model, store, parts, run.store, threshold=config.threshold, threads=run.threads, progress=run.progress
        )
    return {"labels": {**found, "measured": f"{found['measured']}; {of}"}}


LABEL_SCORES = Scorer(
    lambda config: config.labels,
    _label_scores,
    lambda config: not isinstance(config.heldout, str | Path) or config.threshold is None,
)
