"""Classes that documents are given by a threshold of their scores: precision, recall and F1 of
every threshold at once.
"""

from __future__ import annotations

import numpy as np


class Predicted:
    """What every threshold would predict, counted document by document.

    hit, said      int64[L, T]: true classes, and all classes, whose score lies between threshold t
                   and the next
    first_hit, first_said   int64[L, T + 1]: documents whose largest score lies just below threshold
                            t, by that class
    true           int64[L]: documents with each class;  unknown: classes of documents that the
                   model does not have
    first          documents of one class, and those of them whose largest score is that class's
    """

    def __init__(self, classes: int, thresholds: np.ndarray) -> None:
        n = len(thresholds)
        self.thresholds = thresholds
        self.hit, self.said = (np.zeros((classes, n), np.int64) for _ in range(2))
        self.first_hit, self.first_said = (np.zeros((classes, n + 1), np.int64) for _ in range(2))
        self.true = np.zeros(classes, np.int64)
        self.docs = self.unlabelled = self.unknown = 0
        self.first = np.zeros(2, np.int64)

    def add(self, scores: np.ndarray, indptr: np.ndarray, classes: np.ndarray) -> None:
        """Count documents.

        scores: float32[D, L]; indptr: int64[D+1], classes: int64[.], -1: not of the model.
        """
        n_labels = np.diff(indptr)
        self.unlabelled += int((n_labels == 0).sum())
        owner = np.repeat(np.arange(len(n_labels)), n_labels)
        self.docs += int((n_labels > 0).sum())
        self.unknown += int((classes < 0).sum())
        true = np.zeros(scores.shape, bool)
        true[owner[classes >= 0], classes[classes >= 0]] = True
        self.true += true.sum(0)
        scores, true = scores[n_labels > 0], true[n_labels > 0]
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
        one = n_labels[n_labels > 0] == 1
        self.first += [int(one.sum()), int((one & right).sum())]

    def counts(self, t: int, at_least_one: bool) -> tuple[np.ndarray, np.ndarray]:
        """(right, predicted) of each class with threshold number t, int64[L]."""
        right, said = self.hit[:, t:].sum(1), self.said[:, t:].sum(1)
        if at_least_one:
            right, said = (
                right + self.first_hit[:, : t + 1].sum(1),
                said + self.first_said[:, : t + 1].sum(1),
            )
        return right, said

    def best(self) -> tuple[int, bool]:
        """The threshold's number, and whether a document gets one class at least, of the highest
        micro F1.
        """
        every = [(t, one) for t in range(len(self.thresholds)) for one in (False, True)]
        return max(
            every,
            key=lambda rule: precision_recall_f1(*self.counts(*rule), int(self.true.sum()))[2],
        )


def precision_recall_f1(
    right: np.ndarray, said: np.ndarray, true: int
) -> tuple[float, float, float]:
    """Precision, recall and F1 of all decisions together."""
    hit, all_said = int(right.sum()), int(said.sum())
    f1 = 2 * hit / (all_said + true) if all_said + true else 0.0
    return hit / max(all_said, 1), hit / max(true, 1), f1
