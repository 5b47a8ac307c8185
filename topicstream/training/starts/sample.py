"""Documents drawn at random from the training part, and their cells: what starts learn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.numeric.kernels.arrays import Array, Doubles, Ints, Longs
from topicstream.numeric.kernels.dirichlet import logs
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits, stream, uniform

FEW_WORDS = 10
"""Documents with fewer distinct words are drawn only where there are not enough others."""
DRAW = 2**32 - 1
"""Pass number under which starts draw; no pass has it."""
DOCUMENTS = 10_000
CELLS = 1_000_000
"""Size of a sample that topics are learned on, at most."""
FEWEST = 1_000
"""Least documents of such a sample, where the corpus has as many.

Where these have more than CELLS cells, the sample has a part of the words, the same of each.
"""


@kernel
def uniform_draws(seed: int, draw: int, numbers: Array, out: Doubles) -> None:
    """Draw out[i] uniformly from [0, 1), by (seed, draw, numbers[i]) alone."""
    for i in range(len(numbers)):
        out[i] = uniform(bits(stream(seed, draw, numbers[i])))


@kernel
def _products(indptr: Longs, words: Ints, values: Doubles, weights: Doubles, out: Doubles) -> None:
    """Sum values[i] * weights[words[i]] over the cells of each document, in order."""
    for d in range(len(indptr) - 1):
        total = 0.0
        for i in range(indptr[d], indptr[d + 1]):
            total += values[i] * weights[words[i]]
        out[d] = total


def draw_documents(corpus: Corpus, n: int, seed: int) -> np.ndarray:
    """Draw at most ``n`` distinct training documents, int64, in order of their random keys."""
    best_keys = np.zeros(0)
    best = np.zeros(0, np.int64)
    first = 0
    removed = corpus.removed()
    for storage in range(len(corpus.part().blocks)):
        lengths = corpus.lengths(storage)
        # removed documents keep their row, without words
        is_here = (removed[:, 1] == 0) & (removed[:, 2] == storage)
        lengths[removed[is_here, 3]] = 0
        keys = np.empty(len(lengths))
        uniform_draws(seed, DRAW, first + np.arange(len(lengths)), keys)
        keys += lengths < FEW_WORDS  # behind all others
        candidates = np.flatnonzero(lengths > 0)
        if len(candidates) > n:
            candidates = candidates[np.argpartition(keys[candidates], n)[:n]]
        best_keys = np.append(best_keys, keys[candidates])
        best = np.append(best, first + candidates)
        order = np.argsort(best_keys, kind="stable")[:n]
        best_keys = best_keys[order]
        best = best[order]
        first += len(lengths)
    return best


class SampleSize(NamedTuple):
    """The size of a sample that topics are learned on.

    Attributes
    ----------
    documents
        Documents.
    share
        Share of the words that it keeps.
    cells, words
        Cells and words at most: half as many again as in the mean, or a tenth more where it keeps a
        share of the words, and so many of them in many documents.
    """

    documents: int
    share: float
    cells: int
    words: int


def sample_size(docs: int, cells: int, words: int) -> SampleSize:
    """Choose the size of the sample of a corpus."""
    length = cells / max(docs, 1)
    documents = max(1, min(DOCUMENTS, docs, max(FEWEST, int(CELLS / max(length, 1e-9)))))
    share = min(1.0, CELLS / max(documents * length, 1.0))
    excess = 1.5 if share == 1.0 else 1.1
    most_cells = int(documents * length * share * excess)
    most_words = min(words, int(excess * words * share) + 1, most_cells)
    return SampleSize(documents, share, most_cells, most_words)


class Sample:
    """Cells of chosen documents.

    Attributes
    ----------
    indptr
        int64[n+1].
    words
        int32, ids of the corpus.
    counts
        float64.
    lengths
        float64[n], tokens of each document.
    """

    def __init__(self, indptr: np.ndarray, words: np.ndarray, counts: np.ndarray) -> None:
        self.indptr = indptr
        self.words = words
        self.counts = counts
        self.lengths = np.add.reduceat(counts, indptr[:-1])
        shares = counts / np.repeat(self.lengths, np.diff(indptr))
        self._entropies = np.empty(len(self))
        _products(
            indptr, np.arange(len(words), dtype=np.int32), shares, logs(shares), self._entropies
        )

    @classmethod
    def draw(cls, corpus: Corpus, grid: Grid, seed: int) -> Sample:
        """Draw the documents that topics are learned on.

        Of long documents a share of the words is drawn.
        """
        size = sample_size(corpus.n_docs, corpus.n_cells, corpus.n_words)
        draws = np.zeros(corpus.n_words)
        if size.share < 1.0:
            uniform_draws(~seed & 2**32 - 1, DRAW, np.arange(len(draws)), draws)
        return cls.read(
            corpus, grid, draw_documents(corpus, size.documents, seed), draws < size.share
        )

    @classmethod
    def read(
        cls, corpus: Corpus, grid: Grid, chosen: np.ndarray, selected: np.ndarray | None = None
    ) -> Sample:
        """Read documents by their numbers, in this order.

        ``selected`` (bool[W]) says which words are read. None: all.
        """
        place = np.argsort(chosen, kind="stable")
        chosen_sorted = chosen[place]
        owner = np.searchsorted(grid.first_doc, chosen_sorted, side="right") - 1
        parts: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(0, np.int32), np.zeros(0))] * len(
            chosen
        )
        for block in corpus.blocks(np.unique(owner), grid=grid, prefetch=1):
            for i in np.flatnonzero(owner == block.index):
                row = int(chosen_sorted[i]) - block.first_doc
                cells = slice(int(block.indptr[row]), int(block.indptr[row + 1]))
                words = block.vocab[block.words[cells]]
                counts = block.counts[cells].astype(np.float64)
                if selected is not None:
                    is_selected = selected[words]
                    words = words[is_selected]
                    counts = counts[is_selected]
                parts[int(place[i])] = (words, counts)
        # words that weigh nothing may have been all of a document
        parts = [part for part in parts if len(part[0])]
        indptr = np.append(0, np.cumsum([len(words) for words, _ in parts])).astype(np.int64)
        words = np.concatenate([words for words, _ in parts]).astype(np.int32)
        return cls(indptr, words, np.concatenate([counts for _, counts in parts]))

    def __len__(self) -> int:
        return len(self.lengths)

    def mask_counts(self, n_w: np.ndarray) -> np.ndarray:
        """Zero the counts (float64[W]) of words that the sample does not have."""
        in_sample = np.zeros(len(n_w), bool)
        in_sample[self.words] = True
        return np.where(in_sample, n_w, 0.0)

    def divergences(
        self, mean: np.ndarray, ground: np.ndarray, share: float, centre: int
    ) -> np.ndarray:
        """Compute the divergence of every document d from the seed topic q of document ``centre``.

        sum_w p_d(w) log(p_d(w) / q(w)), q = (1 - share) mean + share p_centre: the multinomial
        divergence of k-means++ in Hughes & Sudderth (2016).

        Parameters
        ----------
        mean
            float64[W], above 0.
        ground
            float64[W], log((1 - share) mean). Changed for the words of the centre and restored.
        share
            Part of the seed topic that is its document's.
        centre
            Number of the document in the sample.

        Returns
        -------
        numpy.ndarray
            float64[n].
        """
        cells = self.cells(centre)
        words = self.words[cells]
        mean_part = (1.0 - share) * mean[words]
        ground[words] = logs(mean_part + share * self.counts[cells] / self.lengths[centre])
        cross = np.empty(len(self))
        _products(self.indptr, self.words, self.counts, ground, cross)
        ground[words] = logs(mean_part)
        return np.asarray(np.maximum(self._entropies - cross / self.lengths, 0.0))

    def cells(self, d: int) -> slice:
        """Return the slice of document d's cells."""
        return slice(int(self.indptr[d]), int(self.indptr[d + 1]))
