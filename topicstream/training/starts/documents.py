"""The starts ``documents`` and ``kmeans``: topics made of documents.

A seed topic is a mixture: ``1 - SHARE`` of the corpus mean, ``SHARE`` of the words of its
document. So every word has a chance in every topic and the topics differ from the first cell on (a
random topic for each cell leaves all topics equal to within noise, and the first passes go into
leaving that point).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import padded
from topicstream.numeric.kernels.arrays import RowEntries
from topicstream.numeric.kernels.dirichlet import logs
from topicstream.numeric.tables.spec import Scratch
from topicstream.training.starts.sample import DRAW, Sample, draw_documents, uniform_draws
from topicstream.training.starts.seeds import MixedRows, Seeds, fill_rows, id_ranges
from topicstream.training.starts.start import Ground, Start

SHARE = 0.5
"""Part of a seed topic that is its document's words; the rest is the corpus mean."""
SAMPLE = 2000
"""Documents among which kmeans chooses."""
FEW_TOKENS = 20
"""Tokens a document, in the mean, below which the mean's part is split over topics at random."""
FREQUENT = 4096
"""Words whose split counts in the column sums."""


class DocumentStart(Start):
    """As many documents as topics, drawn at random."""

    far: ClassVar[bool] = False

    def seeds(self, ground: Ground) -> Seeds | None:
        topics = ground.engine.shape.topics
        return document_seeds(ground.corpus, ground.grid, topics, ground.seed, ground.n_w, self.far)


class FarDocumentStart(DocumentStart):
    """The start ``kmeans``: documents drawn far from each other."""

    far = True


def document_seeds(
    corpus: Corpus, grid: Grid, topics: int, seed: int, n_w: np.ndarray, far: bool = False
) -> DocumentSeeds:
    """Build the seed table of documents, which ``far`` draws far from each other.

    If there are fewer documents than topics, documents are used again.
    """
    candidates = max(SAMPLE, 2 * topics) if far else topics
    sample = Sample.read(corpus, grid, draw_documents(corpus, candidates, seed))
    if far:
        centres = draw_far_apart(sample, word_shares(n_w), topics, seed)
    else:
        centres = np.arange(min(topics, len(sample)))
    split = float(n_w.sum()) < FEW_TOKENS * corpus.part().docs
    return DocumentSeeds(sample, np.resize(centres, topics), n_w, seed, split)


def word_shares(n_w: np.ndarray) -> np.ndarray:
    """Compute the words' shares of the corpus, float64[W], each above 0."""
    return np.asarray(np.maximum(n_w / n_w.sum(), 1e-300))


def draw_far_apart(sample: Sample, mean: np.ndarray, topics: int, seed: int) -> np.ndarray:
    """Draw documents far from each other by Bregman k-means++.

    Each is drawn with probability proportional to its divergence from the nearest one drawn before.

    Returns
    -------
    numpy.ndarray
        int64[<= topics], documents of the sample. Fewer if no other differs from them.

    References
    ----------
    Hughes & Sudderth (2016). Fast learning of clusters and topics via sparse posteriors.
    arXiv:1609.07521.
    """
    ground = logs((1 - SHARE) * mean)
    nearest = np.full(len(sample), np.inf)
    chosen: list[int] = []
    draws = np.empty(topics)
    uniform_draws(seed, DRAW - 1, np.arange(topics), draws)
    for t in range(topics):
        weights = np.cumsum(np.ones(len(sample)) if t == 0 else nearest)
        if weights[-1] <= 0:
            break
        drawn = int(np.searchsorted(weights, draws[t] * weights[-1], side="right"))
        drawn = min(drawn, len(sample) - 1)  # rounding may draw the end of the last one
        chosen.append(drawn)
        np.minimum(nearest, sample.divergences(mean, ground, SHARE, drawn), out=nearest)
        nearest[drawn] = 0.0
    return np.array(chosen, np.int64)


class DocumentSeeds:
    """Seed topics from documents. Column sums are all N / K, or nearly.

    rows(ids)[u, k] = N/K ((1 - SHARE) n_w/N + SHARE p(w | document of topic k))

    Parameters
    ----------
    sample
        The documents.
    centres
        int64[K], the document of each topic in the sample.
    n_w
        float64[W], training tokens of each word.
    seed
        Random seed.
    split
        Whether the first part of a word is split over the topics by a flat Dirichlet instead of
        evenly. Most documents of a few words share none with any seed document: to them all topics
        would be equal, and stay so.
    """

    def __init__(
        self, sample: Sample, centres: np.ndarray, n_w: np.ndarray, seed: int, split: bool = False
    ) -> None:
        topics = len(centres)
        tokens = float(n_w.sum())
        self._mean = n_w / tokens
        self._topics = topics
        self._scale = tokens / topics
        self._seed = seed
        self._split = DRAW - 1 if split else 0
        used: set[int] = set()
        words = []
        topic = []
        value = []
        for t, d in enumerate(centres.tolist()):
            w = sample.words[sample.cells(d)]
            x = sample.counts[sample.cells(d)] / sample.lengths[d]
            if d in used:  # the same words at random weights, or the topics stay equal for good
                draws = np.empty(len(w))
                uniform_draws(seed, DRAW - 2 - t, w, draws)
                x = x * (draws + 0.05)
            used.add(d)
            words.append(w)
            topic.append(np.full(len(w), t, np.int32))
            value.append((x / x.sum()).astype(np.float32))
        cell_words = np.concatenate(words)
        order = np.argsort(cell_words, kind="stable")
        self._topic = np.concatenate(topic)[order]
        self._value = np.concatenate(value)[order]
        cells_of_word = np.bincount(cell_words, minlength=len(n_w))
        self._ptr = np.append(0, np.cumsum(cells_of_word)).astype(np.int64)
        self.totals = np.zeros(padded(topics))
        self.totals[:topics] = self._scale
        # the frequent words' shares differ from topic to topic; those of the others come to the
        # same
        if split:
            frequent = np.argsort(-n_w, kind="stable")[:FREQUENT].astype(np.int32)
            for split_by, sign in ((0, -1.0), (self._split, 1.0)):
                for places in id_ranges(len(frequent), max(1, 2**20 // topics)):
                    rows = self._rows(frequent[places], split_by, Scratch())
                    self.totals += sign * rows.sum(axis=0, dtype=np.float64)

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of some words, float32[U, padded(K)] (formula: the class)."""
        return self._rows(ids, self._split, scratch or Scratch())

    def _rows(self, ids: np.ndarray, split_by: int, scratch: Scratch) -> np.ndarray:
        """Fill the rows of some words, of which ``split_by`` is the ``draw`` of ``fill_rows``."""
        out = scratch.array("seeds", (len(ids), padded(self._topics)), np.float32)
        entries = RowEntries(self._ptr, self._topic, self._value)
        table = MixedRows(entries, self._mean, SHARE, self._scale, self._topics)
        fill_rows(table, ids, self._seed, split_by, out)
        return out
