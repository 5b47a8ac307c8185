"""Online variational Bayes (Hoffman, Blei & Bach 2010)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.engines.base import (
    Layout,
    Out,
    PassEnd,
    Phase,
    Rule,
    SteppingEngine,
    TableSpec,
    Visit,
    option,
)
from topicstream.engines.variational.family import Variational, VariationalOptions

# steps before a run may settle: a small corpus makes few steps a pass, and its perplexity falls
# slowly (docs/internals/decisions/stochastic-stopping.md)
STEPS = 200
ROUND = 8  # blocks of a step: as many threads can share it


@dataclass(frozen=True)
class StochasticOptions(VariationalOptions):
    """Options of the stochastic engines.

    The weight of step t = 0, 1, ... is rho_t = (tau + t)^-kappa. Of eight schedules tried on five
    corpora, 0.7 and 10 were best or near it after four passes at K = 100. Slower decay (0.5 and 1,
    gensim's) keeps forgetting: 22 % worse on short documents, 3 % on articles.
    """

    kappa: float = option(0.7, "Step size decay: rho = (tau + t)^-kappa.", min=0.5, max=1.0)
    tau: float = option(10.0, "Step size delay: rho = (tau + t)^-kappa.", min=1.0)
    block_docs: int = option(512, "Documents per step, rounded up to a multiple of 8.", min=8)


class Stochastic(SteppingEngine, Variational):
    """Base class of ``ovb`` and ``svi``, which take one step a round.

    A step blends the round's expected counts S, scaled to the corpus of D documents, into the
    topics:

        phi = (1 - rho_t) phi + rho_t (D / docs of the round) S

    Blocks come in shuffled order without replacement.
    """

    Options: ClassVar[Any] = StochasticOptions
    # perplexity falls slowly for long: half the ``tol`` of others, on means of five passes
    about = replace(Variational.about, tol="0.05%", window=5)

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(rule=Rule.BLEND)}

    @property
    def phases(self) -> tuple[Phase, ...]:
        passes = math.ceil(STEPS * int(self.options.block_docs) / self.shape.docs)
        return (Phase(order="shuffled", start="table", settles_after=passes),)

    @property
    def layout(self) -> Layout:
        return Layout(1 << 20, -(-int(self.options.block_docs) // ROUND), ROUND)

    def initial_params(self) -> dict[str, np.ndarray]:
        return {**super().initial_params(), "step": np.zeros(1, np.float64)}

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        return {**super().end_pass(end), "rho": self._rho(end.params)}


class OnlineVariationalBayes(Stochastic):
    """Online variational Bayes (``ovb``).

    It takes the dense local step, without restarts unless requested. See ``Stochastic`` and
    ``Variational``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = OnlineVariationalBayes(shape, OnlineVariationalBayes.Options(block_docs=256))
    >>> engine.phases[0].settles_after  # 200 steps of 256 documents
    6

    References
    ----------
    Hoffman, Blei & Bach (2010). Online learning for latent Dirichlet allocation. NIPS 23. Alg. 2.
    """

    name = "ovb"
    cites = (
        "Hoffman, Blei & Bach 2010, Alg. 2; Zeng, Liu & Cao 2012, baselines; Hughes & Sudderth "
        "2016, section 3.4"
    )

    def process(self, visit: Visit, out: Out) -> None:
        self.dense_visit(visit, out, out.delta["phi"])
