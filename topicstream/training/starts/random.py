"""The start ``random``: a random topic for each cell or token, which the engine draws.

Engines that need seed topics get random ones.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.base import Engine, padded
from topicstream.numeric.kernels.dirichlet import logs
from topicstream.numeric.tables.spec import Scratch
from topicstream.training.starts.sample import DRAW, uniform_draws
from topicstream.training.starts.seeds import Seeds, make_rows, sum_seed_columns
from topicstream.training.starts.start import Ground, Start


class RandomStart(Start):
    """Random topics."""

    def has_seeds(self, engine: Engine) -> bool:
        return engine.about.random_seeds

    def seeds(self, ground: Ground) -> Seeds | None:
        if not ground.engine.about.random_seeds:
            return None
        return RandomSeeds(ground.n_w, ground.engine.shape.topics, ground.seed)


class RandomSeeds:
    """Seed topics that split the tokens of each word by a flat Dirichlet.

    A row depends on the seed and the word alone.

    rows(ids)[u, k] = n_w e[w, k] / sum_k e[w, k],  e ~ Exp(1)
    """

    def __init__(self, n_w: np.ndarray, topics: int, seed: int) -> None:
        self._n_w = n_w
        self._topics = topics
        self._seed = seed
        self.totals = sum_seed_columns(self._make, len(n_w), padded(topics))

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of some words, float32[U, padded(K)] (formula: the class)."""
        return make_rows(self._make, ids, padded(self._topics), scratch)

    def _make(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Fill the rows of some words (``make_rows``)."""
        words = np.asarray(ids, np.int64)
        numbers = (words[:, None] * self._topics + np.arange(self._topics)).ravel()
        draws = np.empty(len(numbers))
        uniform_draws(self._seed, DRAW - 1, numbers, draws)
        split = 1e-6 - logs(1.0 - draws.reshape(len(words), self._topics))
        split *= (self._n_w[words] / split.sum(axis=1))[:, None]
        out[:, : self._topics] = split
