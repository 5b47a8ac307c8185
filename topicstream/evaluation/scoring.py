"""What a scorer is, and what it is given: one analysis of a model, one entry of ``registry.SCORERS``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from topicstream.corpus.reader import Corpus
from topicstream.evaluation.config import EvalConfig
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Progress


@dataclass(frozen=True)
class Scoring:
    """One evaluation.

    store      the corpus of ``config.corpus``, opened where a scorer needs it
    elsewhere  the corpus that a path for ``config.heldout`` names, of which all documents are scored
    split      observed share of a document's words
    """

    config: EvalConfig
    model: TopicModel
    store: Corpus | None
    elsewhere: Corpus | None
    split: float
    threads: int
    progress: Progress

    @property
    def corpus(self) -> Corpus:
        """``store``, of a scorer that needs it."""
        assert self.store is not None
        return self.store

    @property
    def of_clusters(self) -> bool:
        """Whether a document of the model has one cluster, not shares of topics."""
        return self.model.cluster_sizes is not None

    def step(self, what: str) -> Callable[[int, int], None]:
        """Tells of the documents done."""
        return partial(self.progress.step, what, unit="documents")


class Measured(Protocol):
    """A score that says in words what it measures."""

    @property
    def measured(self) -> str: ...
    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Scorer:
    """One analysis.

    asked         whether a configuration asks for it
    score         its entries of the result, by name; plain values, with ``measured`` in words
    needs_corpus  whether it then reads ``config.corpus``
    """

    asked: Callable[[EvalConfig], bool]
    score: Callable[[Scoring], dict[str, Any]]
    needs_corpus: Callable[[EvalConfig], bool] = lambda config: True


def finite(values: dict[str, Any]) -> dict[str, Any]:
    """The values, None for those that JSON cannot hold."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def as_result(score: Measured, of: str) -> dict[str, Any]:
    """A score as plain values; ``of``: of which documents, in words."""
    return {**finite(score.as_dict()), "measured": f"{score.measured}; {of}"}
