"""Learned priors of the engines that store messages: histograms of theta and phi in a pass, a fixed point at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream.engines.base import BlockShape, Buffer, Engine, Out, PassEnd, Visit, option
from topicstream.engines.message.priors import (
    BINS,
    bin_values,
    count_documents,
    count_words,
    document_counts,
    expected_rise,
    pull_of,
)
from topicstream.kernels.dirichlet_fit import Histogram, fit_alpha, fit_beta

REACH = 10.0
MOST = 30.0  # that alpha is pulled to, over all topics


def reach_option() -> Any:
    """The option ``prior_reach``."""
    help = "With --learn-priors: keep each prior within this factor of its initial value."
    return option(REACH, help, min=1.0, max=1e6, advanced=True, was=REACH, decided=True)


def bounds(began: float, reach: float) -> tuple[float, float]:
    """The least and the largest value that a learned prior may take."""
    return began / reach, began * reach


def held(values: np.ndarray, began: float, reach: float) -> int:
    """How many of the learned priors are at a bound."""
    low, high = bounds(began, reach)
    return int(((values <= low * (1 + 1e-9)) | (values >= high * (1 - 1e-9))).sum())


class Learning(Engine):
    """Base of engines that learn their priors where ``learn_priors`` says so; ``prior_reach`` bounds them."""

    _warned = False

    @property
    def stats(self) -> Mapping[str, int]:
        """loglik, tokens; with learned priors the histograms that they are learned from, and the words sampled."""
        if not self.options.learn_priors:
            return super().stats
        bins = {"topic_bins": self.shape.topics * BINS, "length_bins": BINS, "row_bins": BINS, "sampled": 1}
        return {**super().stats, **bins}

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        return {"weight": Buffer(block.words, "float64")} if self.options.learn_priors else {}

    def count_for_priors(self, visit: Visit, theta: np.ndarray, out: Out, active: np.ndarray | None = None) -> None:
        """Add a block to the histograms, when priors are learned: the documents' topics (``count_documents``) and the
        block's share of the sampled rows of phi, without the pseudo-counts of seed words."""
        if not self.options.learn_priors:
            return
        block, phi, topics = visit.block, visit.rows["phi"], self.shape.topics
        count_documents(theta, topics, active, out.stats["topic_bins"], out.stats["length_bins"])
        rows, weight = (out.stats["row_bins"], out.stats["sampled"]), out.array("weight")
        count_words(block.words, block.counts, block.vocab, phi.base, phi.counts, topics, weight, *rows)

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        return self.learn(end)

    def learn(self, end: PassEnd, pull: float = 0.0, fixed: int = 0) -> dict[str, float]:
        """Move alpha (per topic, but of the ``fixed`` last ones) and beta in place; returns what goes into the history.
        Nothing happens when priors are not learned, or when no document has been counted."""
        params, stats, reach = end.params, end.stats, self.options.prior_reach
        if not self.options.learn_priors or not stats["length_bins"].any():
            return {}
        first, topics = self.initial_params(), self.shape.topics
        a, b = float(first["alpha"][0]), float(first["beta"][0])
        low, high = (np.full(topics, bound) for bound in bounds(a, reach))
        low[topics - fixed :] = high[topics - fixed :] = first["alpha"][topics - fixed :]
        of_topics, of_lengths = document_counts(stats["topic_bins"], stats["length_bins"], topics)
        held_to = pull_of(of_lengths, pull, min(a, MOST / topics))
        params["alpha"][:] = fit_alpha(params["alpha"], of_topics, of_lengths, expected_rise, low, high, held_to)
        sampled, lam, beta = float(stats["sampled"][0]), end.totals["phi"][:topics], float(params["beta"][0])
        if sampled > 0:
            rows, words = Histogram(stats["row_bins"], bin_values()), self.shape.words
            params["beta"][0] = fit_beta(beta, rows, words / sampled, lam, words, expected_rise, *bounds(b, reach))
        n = held(params["alpha"][: topics - fixed], a, reach) + held(params["beta"], b, reach)
        if n and not self._warned:
            self._warned = True
            which = "learned prior is" if n == 1 else "learned priors are"
            end.say(f"warning: {n} {which} at a bound, {reach:g} times above or below its initial value (--prior-reach)")
        return {"alpha_sum": float(params["alpha"].sum()), "beta": float(params["beta"][0]), "priors_held": n}
