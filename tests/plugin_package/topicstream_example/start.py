"""A start of another package: seed topics are the shares of words, with noise by the seed."""

from __future__ import annotations

import numpy as np

from topicstream.engines.base import padded
from topicstream.training.starts.best import LearnedSeeds
from topicstream.training.starts.seeds import Seeds
from topicstream.training.starts.start import Ground, Start


class NoisyMean(Start):
    """``--start noisy-mean``: each topic has every word, more or less often."""

    def seeds(self, ground: Ground) -> Seeds:
        """Draw a factor for each word and topic."""
        topics = ground.engine.shape.topics
        draws = np.random.default_rng(ground.seed).random((len(ground.n_w), topics))
        rows = np.zeros((len(ground.n_w), padded(topics)), np.float32)
        rows[:, :topics] = ground.n_w[:, None] * draws / topics
        words = np.arange(len(ground.n_w))
        return LearnedSeeds(words, rows, rows.sum(axis=0, dtype=np.float64), ground.n_w)
