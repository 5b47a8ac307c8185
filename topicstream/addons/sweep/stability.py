"""Stability of topics over seeds: topics matched one to one, and their consensus model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.optimize import linear_sum_assignment
from scipy.stats import t as student

from topicstream.base.files.durable import lock
from topicstream.evaluation.matching import l1_distances
from topicstream.evaluation.memory import open_within
from topicstream.model.manifest import origin_of
from topicstream.model.store import ModelWriter
from topicstream.model.top import top_words
from topicstream.model.topic_kinds import BACKGROUND
from topicstream.model.topic_model import TopicModel

ALIKE = 0.5
"""Likeness from which on matched topics count as the same: they share half of their probability."""


@dataclass(frozen=True)
class SeedAgreement:
    """Agreement of the topics of S models of K topics.

    Attributes
    ----------
    between
        float64[S, S], likeness of each pair of models: mean over matched topics of 1 - l1 / 2, 1
        for the same topics, 0 for no word in common. A background does not count.
    central
        The model that is most like the others.
    matches
        int64[S, K], topic of each model that is matched to each topic of the central one.
    likeness
        float64[S, K], their likeness to the central one's.
    """

    between: np.ndarray
    central: int
    matches: np.ndarray
    likeness: np.ndarray

    @property
    def mean(self) -> float:
        """Return the mean likeness over the pairs of models."""
        return float(self.between[np.triu_indices(len(self.between), 1)].mean())

    @property
    def error(self) -> float | None:
        """Compute the standard error of the mean by the jackknife over models, None for two."""
        s = len(self.between)
        if s < 3:
            return None
        total = self.between.sum() - np.trace(self.between)
        per_seed = self.between.sum(axis=1) - np.diagonal(self.between)
        without = (total - 2 * per_seed) / ((s - 1) * (s - 2))
        return float(np.sqrt((s - 1) / s * ((without - without.mean()) ** 2).sum()))

    def by_topic(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Average the likeness of each topic over the other models.

        Returns
        -------
        tuple
            Mean, and lower and upper end of its 95 % interval (Student's t, NaN for two models),
            float64[K] each.
        """
        others = np.delete(self.likeness, self.central, axis=0)
        mean = others.mean(axis=0)
        n = len(others)
        if n < 2:
            return mean, np.full(len(mean), np.nan), np.full(len(mean), np.nan)
        half = student.ppf(0.975, n - 1) * others.std(axis=0, ddof=1) / np.sqrt(n)
        return mean, np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0)


def measure_agreement(models: Sequence[Path], mem_limit: str | int | None) -> SeedAgreement:
    """Match the topics of every pair of models, two in memory at a time."""
    s = len(models)
    pairs: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    between = np.eye(s)
    for i, j in itertools.combinations(range(s), 2):
        (a, b), _ = open_within([models[i], models[j]], mem_limit, 1)
        distances = l1_distances(a, b)
        rows, columns = linear_sum_assignment(distances)
        likeness = 1.0 - distances[rows, columns] / 2.0
        pairs[i, j] = columns, likeness
        back = np.argsort(columns)
        pairs[j, i] = back, likeness[back]
        counted = np.array([kind != BACKGROUND for kind in a.kinds])
        between[i, j] = between[j, i] = likeness[counted].mean() if counted.any() else 1.0
    central = int(np.argmax(between.sum(axis=1)))
    topics = len(pairs[0, 1][0])
    matches = np.tile(np.arange(topics), (s, 1))
    alike = np.ones((s, topics))
    for other in range(s):
        if other != central:
            matches[other], alike[other] = pairs[central, other]
    return SeedAgreement(between, central, matches, alike)


def write_consensus(models: Sequence[Path], agreement: SeedAgreement, out: Path) -> np.ndarray:
    """Write the model that the others have in common.

    Each topic is the mean of the central model's and of those matched to it that share at least
    half of their probability. Rows are read and written a span at a time.

    Returns
    -------
    numpy.ndarray
        int64[K], number of topics in each mean, the central one included.
    """
    opened = [TopicModel.open(path, memory_limit=-1) for path in models]
    central = opened[agreement.central]
    same = agreement.likeness >= ALIKE
    about = origin_of(
        central.manifest,
        seed_words=None,
        tables={},
        seed=None,
        stopped=f"consensus of {len(models)} seeds",
    )
    with (
        lock(out, "writing", kind="model"),
        ModelWriter(out, central.n_words, central.n_topics) as writer,
    ):
        for start, rows in central.spans():
            total = rows.astype(np.float64)
            ids = np.arange(start, start + len(rows))
            for s, model in enumerate(opened):
                if s != agreement.central:
                    total += np.where(same[s], model.rows(ids)[:, agreement.matches[s]], 0.0)
            writer.write_rows(start, (total / same.sum(axis=0)).astype(np.float32))
        writer.commit(about, central.vocabulary, central.alpha, central.beta)
    return np.asarray(same.sum(axis=0))


def topic_rows(model: TopicModel, agreement: SeedAgreement, seeds: np.ndarray) -> pa.Table:
    """Tabulate the topics of the consensus.

    Columns: topic, kind, share, words, seeds (that have it), stability, low, high.
    """
    mean, low, high = agreement.by_topic()
    first, _ = top_words(model, 10)
    return pa.table(
        {
            "topic": pa.array(model.column_ids),
            "kind": pa.array(model.kinds),
            "share": pa.array(model.shares),
            "words": pa.array([" ".join(model.vocabulary.texts(column)) for column in first.T]),
            "seeds": pa.array(seeds),
            "stability": pa.array(mean),
            "low": pa.array(low, from_pandas=True),
            "high": pa.array(high, from_pandas=True),
        }
    )
