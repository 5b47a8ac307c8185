"""Naive Bayes with the topics as classes (Yao, Mimno and McCallum 2009): no iteration, each document on its own.

    theta[k]  ~  sum_w x_w p(w|k)              a sum of probabilities, as Yao, Mimno and McCallum write it
    theta[k]  ~  prod_w p(w|k)^x_w             ``log``: the usual multinomial model, all topics equally likely beforehand

with p(w|k) = (phi_wk + beta) / (lam_k + W beta).  A word that is impossible in every topic says nothing.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows


class NaiveBayes(Method):
    """What comparisons measure the others by; fast, and bad at documents of several topics."""

    name: ClassVar[str] = "naive-bayes"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009"

    def __init__(self, rows: TopicRows, *, log: bool = False) -> None:
        self.rows, self.log = rows, bool(log)
        prior = rows.alpha64
        self._prior = prior / prior.sum() if prior.sum() > 0 else np.full(rows.topics, 1 / rows.topics)

    def shares(self, docs: Documents) -> np.ndarray:
        out = np.empty((len(docs), self.rows.topics), np.float32)
        at, base = self.rows.of(docs)
        inverse = self.rows.inverse[: self.rows.topics].astype(np.float64)
        for d in range(len(docs)):
            cells = slice(docs.indptr[d], docs.indptr[d + 1])
            p = (base[at[cells], : self.rows.topics].astype(np.float64) + self.rows.beta) * inverse
            x = docs.counts[cells].astype(np.float64)[:, None]
            if self.log:  # sums run over axis 0, row after row: the same bits for any number of topics and documents
                said = p.max(axis=1, initial=0.0) > 0.0
                with np.errstate(divide="ignore"):
                    score = (x[said] * np.log(p[said])).sum(axis=0)
                top = score.max()
                score = np.exp(score - top) if said.any() and top > -np.inf else np.zeros(len(score))
            else:
                score = (x * p).sum(axis=0)
            total = score.sum()
            out[d] = score / total if total > 0.0 else self._prior
        return out
