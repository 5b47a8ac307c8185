"""The weights of a training's cells, of its own words and documents."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.model.weighting import Weights


@dataclass(frozen=True)
class TrainingWeights(Weights):
    """n_w: float64[W], sums of the weighted cells; counts: float64[W], of the cells as they are."""

    n_w: np.ndarray = field(default_factory=lambda: np.zeros(0))
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of_corpus(cls, kind: str, corpus: Corpus) -> TrainingWeights:
        """Of the training part of a corpus, which is read once more for tf."""
        counts = corpus.word_counts()
        plain = Weights.of(kind, counts, corpus.document_counts(), corpus.n_docs)
        n_w = plain.sums(counts, map(plain.block, corpus.blocks()) if plain.per_word is None else ())
        own = {f.name: getattr(plain, f.name) for f in fields(Weights)}
        return cls(**own, n_w=n_w, counts=counts)
