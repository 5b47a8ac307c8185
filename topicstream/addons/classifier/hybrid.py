"""The method ``hybrid``: the classifier's answer, then sampled.

Yao, Mimno and McCallum (2009), Hybrid MaxEnt:

    z_i  ~  theta_k p(w_i | k)  independently;      theta[k] = (n_k + alpha_k) / (n + sum alpha)

``resamples`` times, each from the theta before; the draws depend on the document's id and the seed
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.addons.classifier.maxent import MaxEnt, MaxEntOptions
from topicstream.base.options import option
from topicstream.inference.documents import Documents, fnv1a
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.methods.gibbs import count_units, draw_topic
from topicstream.numeric.kernels.arrays import Doubles, Floats, RowCells, TopicWeights, Words
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import step, stream


@kernel
def draw_by_shares(
    cells: RowCells,
    weights: TopicWeights,
    alpha: Doubles,
    keys: Words,
    seed: int,
    times: int,
    shares: Floats,
) -> None:
    """Refine shares by sampling every token's topic ``times`` over.

    Every token gets a topic by shares[d, k] p(w | k), then the shares come from the counts. A token
    whose weights are all zero counts nowhere. The arguments are those of ``sample_alone``; here
    ``shares`` is updated.
    """
    (indptr, rows, x) = cells
    (base, beta, inverse) = weights
    topics = len(alpha)
    n = np.zeros(topics)
    p = np.zeros(topics)
    alpha_sum = alpha.sum()
    for d in range(len(indptr) - 1):
        if indptr[d] == indptr[d + 1]:
            continue
        state = stream(seed, 2, keys[d])
        for _ in range(times):
            n[:] = 0.0
            for i in range(indptr[d], indptr[d + 1]):
                # running sums of theta_k p(w | k), among which each token draws its topic
                cumulated = 0.0
                for k in range(topics):
                    cumulated += (np.float64(base[rows[i], k]) + beta) * inverse[k] * shares[d, k]
                    p[k] = cumulated
                # a count of n takes ceil(n) draws, the last one for what is left
                left = np.float64(x[i])
                for _ in range(count_units(x[i])):
                    k = draw_topic(p, topics, state)
                    state = step(state)
                    if k >= 0:
                        n[k] += min(left, 1.0)
                    left -= 1.0
            # theta_k = (n_k + alpha_k) / (n + sum alpha)
            mass = n.sum() + alpha_sum
            for k in range(topics):
                shares[d, k] = (n[k] + alpha[k]) / mass if mass > 0.0 else 1.0 / topics


@dataclass(frozen=True)
class HybridOptions(MaxEntOptions):
    """Options of the classifier and of the draws after it."""

    resamples: int = option(1, "Number of times to draw the topics.", min=1, show=True)
    seed: int = option(0, "Random seed.", min=0, show=True)


class Hybrid(Method):
    """The classifier's answer, corrected by sampling topics for the words of the document."""

    name: ClassVar[str] = "hybrid"
    cites: ClassVar[str] = "Yao, Mimno and McCallum 2009"
    poor_on_short: ClassVar[bool] = True
    Options: ClassVar[type] = HybridOptions
    tables: ClassVar[int] = 2
    options: HybridOptions

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        super().__init__(rows, **options)
        self.first = MaxEnt(rows, temperature=self.options.temperature)

    def load(self) -> None:
        self.rows.model.load()
        self.first.load()

    def shares(self, docs: Documents) -> np.ndarray:
        theta = self.first.shares(docs)
        cells, base = self.rows.gather(docs)
        inverse = self.rows.inverse[: self.rows.topics].astype(np.float64)
        options = self.options
        draw_by_shares(
            RowCells(docs.indptr, cells, docs.counts),
            TopicWeights(base, self.rows.beta, inverse),
            self.rows.alpha64,
            fnv1a(docs.ids),
            options.seed,
            options.resamples,
            theta,
        )
        return theta
