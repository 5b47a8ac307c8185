"""The method naive Bayes, with the topics as classes.

No iteration, each document on its own (Yao, Mimno and McCallum 2009). By default a sum of
probabilities, as they write it, and with ``log`` the usual multinomial model, all topics equally
likely beforehand:

    theta[k]  ~  sum_w x_w p(w|k)
    theta[k]  ~  prod_w p(w|k)^x_w

with p(w|k) = (phi_wk + beta) / (lam_k + W beta). A word that is impossible in every topic is left
out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from topicstream.base.options import option
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method


@dataclass(frozen=True)
class NaiveBayesOptions:
    """Options of naive Bayes."""

    log: bool = option(False, "Sum logarithms of the probabilities instead of the probabilities.")


class NaiveBayes(Method):
    """Naive Bayes, a fast baseline that is poor for documents with several topics.

    It is one sum over the words.
    """

    name: ClassVar[str] = "naive-bayes"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009"
    poor_on_short: ClassVar[bool] = True
    Options: ClassVar[type] = NaiveBayesOptions
    options: NaiveBayesOptions

    def shares(self, docs: Documents) -> np.ndarray:
        out = np.empty((len(docs), self.rows.topics), np.float32)
        rows, base = self.rows.gather(docs)
        inverse = self.rows.inverse[: self.rows.topics].astype(np.float64)
        for d in range(len(docs)):
            cells = slice(docs.indptr[d], docs.indptr[d + 1])
            p = (
                base[rows[cells], : self.rows.topics].astype(np.float64) + self.rows.beta
            ) * inverse
            x = docs.counts[cells].astype(np.float64)[:, None]
            # sums run over axis 0, row after row: the same bits for any number of topics and
            # documents
            if self.options.log:
                possible = p.max(axis=1, initial=0.0) > 0.0
                with np.errstate(divide="ignore"):
                    score = (x[possible] * np.log(p[possible])).sum(axis=0)
                top = score.max()
                score = (
                    np.exp(score - top)
                    if possible.any() and top > -np.inf
                    else np.zeros(len(score))
                )
            else:
                score = (x * p).sum(axis=0)
            total = score.sum()
            out[d] = score / total if total > 0.0 else self.rows.prior
        return out
