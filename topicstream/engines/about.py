"""Facts about an algorithm that commands, reports and starts need before one is configured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from topicstream.numeric.kernels.dirichlet import exponential

TOPICS = 100  # the default number of topics


class Objective(NamedTuple):
    """The figure that a pass reports and that stops a run.

    Attributes
    ----------
    name
        Its name in the history. ``perplexity`` is exp(-total / weight), anything else is
        total / weight.
    total, weight
        The statistics that it divides.
    """

    name: str = "perplexity"
    total: str = "loglik"
    weight: str = "tokens"

    def value(self, stats: Mapping[str, np.ndarray]) -> float | None:
        """Compute the figure, or None if the pass lacks the statistics."""
        if self.total not in stats or self.weight not in stats or not stats[self.weight][0] > 0:
            return None
        mean = stats[self.total][0] / float(stats[self.weight][0])
        return exponential(-mean) if self.name == "perplexity" else float(mean)


class Priors(NamedTuple):
    """Default priors of an engine.

    Attributes
    ----------
    alpha
        Prior of each topic, or its sum over all topics where ``together``.
    beta
        Prior of each word.
    together
        Whether ``alpha`` is a sum over all topics.
    """

    alpha: float = 0.1
    beta: float = 0.01
    together: bool = False

    def alpha_of(self, topics: int) -> float:
        """Compute alpha of each of ``topics`` topics."""
        return self.alpha / topics if self.together else self.alpha

    @property
    def texts(self) -> tuple[str, str]:
        """Format alpha and beta as help shows them."""
        return f"{self.alpha:g}/K" if self.together else f"{self.alpha:g}", f"{self.beta:g}"


def requested_topics(axes: Mapping[str, int], options: Any, requested: int | None) -> int:
    """Return the requested number of topics, or the default."""
    return TOPICS if requested is None else requested


LONG_ENOUGH = 20.0
"""``best_from`` of engines that keep to their seeds: held-out perplexity is up to 13 % lower then,
but on titles and subject lines, where a sample's topics are poor, up to twice as high
(docs/internals/decisions/starts.md)."""


@dataclass(frozen=True)
class About:
    """The facts of one algorithm.

    Attributes
    ----------
    priors
        Default priors.
    starts
        Starts that it can make, the default first: ``random`` (a random topic for each cell or
        token), ``documents``, ``kmeans``, ``best``, ``anchors``, ``warm``.
    documents_from
        Number of topics from which on it starts from ``documents`` by default.
    best_from
        Tokens of a mean document from which on ``best`` replaces ``documents`` as the default where
        topics are few.
    poor_on_short
        Whether its topics of short documents are far behind those of samplers and messages.
    tries
        Number of tries of its start ``best``.
    random_seeds
        Whether its ``random`` start takes random topics as a seed table; otherwise ``start`` draws
        topics itself.
    real_cells
        Whether it takes real-valued cells.
    constants
        Whether it takes pseudo-counts of words beside ``phi``.
    dense
        Whether it takes a store of dense rows, and nothing else.
    learns_priors
        Whether it has ``learn_priors``.
    covariates
        Whether a document's alpha may depend on its covariates (``Shape.covariates``).
    products
        Whether its visits leave products of matrices to NumPy's BLAS, which then runs them in one
        thread.
    axes
        Axes that it reads beside words and documents: list columns (corpus/format.py).
    topics_axis
        Axis whose ids have a topic each: the last topics of the model, which have their names.
    topics
        A function of the ids of each axis, the options and the requested number of topics (or
        None) that returns the number of topics.
    stored_tables
        Tables that a model stores (``phi`` holds the topics).
    stored_params
        Params that a model stores beside alpha and beta, of one or two dimensions.
    objective
        The figure that a pass reports and that stops a run.
    passes
        Most passes of a run, by default.
    tol
        Change of the objective below which a run stops, by default; 0: never.
    window
        Passes over which the objective is averaged before its change is compared with ``tol``.
    alpha_sum_bounds
        Least and largest sum of alpha over all topics where alpha comes from moments; a run that
        ends there warns.
    completion
        Whether held-out documents are judged by completion; otherwise as whole points.
    """

    priors: Priors = field(default_factory=Priors)
    starts: tuple[str, ...] = ("documents", "random", "kmeans", "best", "anchors", "warm")
    documents_from: float = math.inf
    best_from: float = math.inf
    poor_on_short: bool = False
    tries: int = 8
    random_seeds: bool = False
    real_cells: bool = True
    constants: bool = True
    dense: bool = False
    learns_priors: bool = True
    covariates: bool = False
    products: bool = False
    axes: tuple[str, ...] = ()
    topics_axis: str = ""
    topics: Callable[[Mapping[str, int], Any, int | None], int] = requested_topics
    stored_tables: tuple[str, ...] = ("phi",)
    stored_params: tuple[str, ...] = ()
    objective: Objective = field(default_factory=Objective)
    passes: int = 200
    tol: float | str = "0.1%"
    window: int = 1
    alpha_sum_bounds: tuple[float, float] | None = None
    completion: bool = True
