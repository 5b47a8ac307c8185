"""How well the passes of a run did, whether that has come to rest, and signs that the topics are no
good, each with what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine, passes_needed
from topicstream.model.top import Best
from topicstream.tables.table import Table
from topicstream.training.invariants import worth_a_warning
from topicstream.training.stopping import SPAN, Share, converged, risen

if TYPE_CHECKING:
    from topicstream.training.heldout import HeldOut

FIRST_WORDS = 10
LEAST_DIVERSITY = 0.3
PIECE = 1 << 16  # entries of the table that are looked at together


class Course:
    """``running``: perplexities of the latest passes; ``measured``: held-out ones, each with its
    pass.
    """

    def __init__(self, engine: Engine, corpus: Corpus, threads: int, start: str) -> None:
        self._engine, self._corpus, self._threads = engine, corpus, threads
        self.running: list[float] = []
        self.measured: list[tuple[int, float]] = []
        # passes before a run can have settled: twenty from the random start, which lingers near the
        # uniform point
        self.least = 20 if start == "random" else 5
        if (
            after := engine.phases[-1].settles_after
        ):  # what is learned then may raise perplexity: a window that begins behind it
            self.least = max(self.least, after + 2 * SPAN)

    def note(self, value: float) -> None:
        """The running perplexity of one more pass."""
        self.running = [*self.running[-SPAN:], value]

    def forget(self) -> None:
        """Another phase may have another objective."""
        self.running, self.measured = [], []

    def measure(
        self,
        number: int,
        tables: Mapping[str, Table],
        params: Mapping[str, np.ndarray],
        record: dict[str, object],
    ) -> tuple[float | None, float | None]:
        """What the documents set aside say after this pass: their perplexity, and what is lowest
        for the best pass (None: there
        are none).  More than that goes into ``record``, for the record of the pass."""
        if self._engine.about.completion:
            perplexity = low = self._heldout.perplexity(
                tables["phi"], params["alpha"], float(params["beta"][0])
            )
        else:
            nats, perplexity = self._heldout.likelihood(tables, params) or (None, None)
            low = perplexity
            if nats is not None:
                record["heldout"] = {"nats a point": nats}
                low = perplexity or -nats
        if low is not None and passes_needed(self._engine.phases) is None:
            self.measured.append((number, low))
        return perplexity, low

    def warnings(
        self,
        last: Mapping[str, Any],
        tables: Mapping[str, Table],
        params: Mapping[str, np.ndarray],
        n_w: np.ndarray,
    ) -> list[str]:
        """What a user should hear of the topics of a run that has ended; last: the latest history
        record.
        """
        engine, shape = self._engine, self._engine.shape
        warnings = worth_a_warning(engine, tables, params)
        if engine.about.dense or "phi" not in tables:
            return warnings
        warnings += self._against_unigram(last, tables, params, n_w) + alpha_at_bound(
            engine, params
        )
        if not engine.about.topics_axis:
            warnings += hardly_diverse(
                topic_diversity(tables["phi"].pieces(), shape.topics, shape.words)
            )
        return warnings

    def _against_unigram(
        self,
        last: Mapping[str, Any],
        tables: Mapping[str, Table],
        params: Mapping[str, np.ndarray],
        n_w: np.ndarray,
    ) -> list[str]:
        """A warning where the words' frequencies predict words better than the topics do: on
        documents set aside, where the last pass measured them or has no perplexity of its own, else
        on those of training, once a run could have settled."""
        if (
            not self._engine.about.completion
            or self._engine.about.topics_axis
            or self._corpus.weights is not None
        ):
            return []
        value, running = last.get("heldout_perplexity"), last.get("running_perplexity")
        if value is None and running is not None:
            late = passes_needed(self._engine.phases) is not None or int(last["pass"]) >= self.least
            return (
                worse_than_unigram("running", float(running), unigram_perplexity(n_w))
                if late
                else []
            )
        beta = float(params["beta"][0])
        if value is None:
            value = self._heldout.perplexity(tables["phi"], params["alpha"], beta)
        if value is None:
            return []
        return worse_than_unigram(
            "held-out", float(value), self._heldout.unigram_perplexity(n_w, beta)
        )

    @cached_property
    def _heldout(self) -> HeldOut:
        from topicstream.training.heldout import (
            HeldOut,
        )  # its kernels are loaded by runs that ask for it

        return HeldOut(self._engine, self._corpus, self._threads)

    @property
    def best(self) -> int:
        """The pass of the lowest held-out perplexity; 0 where none was measured."""
        return min(self.measured, key=lambda m: m[1], default=(0, 0.0))[0]

    def converged(self, tol: float, passes: int) -> bool:
        """Whether perplexity has settled, held-out where it is measured."""
        if self.measured:
            return self.measured[-1][0] == passes >= self.least and risen(self.measured, tol)
        return converged(self.running, tol, passes, self.least)

    def settled(self, tol: float) -> str:
        """What is said of that."""
        least = tol if isinstance(tol, Share) else format(tol, "g")
        if self.measured:
            return f"no new low of held-out perplexity by {least} in {SPAN} passes"
        over = f" over {SPAN} passes" if isinstance(tol, Share) else ""
        return f"{self._engine.about.objective.name} changed by less than {least}{over}"


def unigram_perplexity(n_w: np.ndarray) -> float:
    """Of the training words under their own frequencies.  n_w: float64[W]."""
    p = n_w[n_w > 0] / n_w.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def worse_than_unigram(what: str, perplexity: float, unigram: float) -> list[str]:
    """A warning where topics predict words worse than their frequencies do; what: whose perplexity
    it is.
    """
    if not perplexity > unigram:
        return []
    return [
        f"the {what} perplexity, {perplexity:,.1f}, is worse than that of the words' "
        f"frequencies alone, {unigram:,.1f}: "
        "give more passes, another --algo or --start, or a lower -K"
    ]


def alpha_at_bound(engine: Engine, params: Mapping[str, np.ndarray]) -> list[str]:
    """A warning where alpha came from moments and its sum stands at a bound; engines that learn
    priors warn themselves.
    """
    if engine.about.alpha_sum_bounds is None or getattr(engine.options, "alpha", None) is not None:
        return []
    low, high = engine.about.alpha_sum_bounds
    total = float(params["alpha"].sum())
    if low * 1.001 < total < high * 0.999:
        return []
    return [
        f"alpha stands at its bound, {low if total <= low * 1.001 else high:g} over all topics: "
        f"under these topics documents do "
        "not mix as they should; give --alpha, choose another --algo, or ingest with "
        "--min-tokens to leave short documents out"
    ]


def topic_diversity(pieces: Iterable[tuple[int, np.ndarray]], topics: int, words: int) -> float:
    """Share of distinct words among the topics' ten top words, of those that there can be."""
    best = Best(min(FIRST_WORDS, words), topics)
    step = max(1, PIECE // topics)
    for first, rows in pieces:
        for at in range(0, len(rows), step):
            best.add(first + at, rows[at : at + step, :topics])
    ids = best.ids[best.scores > 0]
    return len(np.unique(ids)) / max(1, min(len(ids), words))


def hardly_diverse(diversity: float) -> list[str]:
    """A warning where the topics share most of their top words."""
    if diversity >= LEAST_DIVERSITY:
        return []
    return [
        f"topic diversity is {diversity:.2f} (the share of distinct words among the topics' ten "
        f"top words): many topics are alike; "
        "lower -K, leave more stop words out, or choose another --algo"
    ]
