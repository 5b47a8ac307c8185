"""What a user should hear of the topics when a run ends: signs that the model is no good, each with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from topicstream.engines.base import Engine
from topicstream.model.top import Best

FIRST_WORDS = 10
LEAST_DIVERSITY = 0.3
PIECE = 1 << 16  # entries of the table that are looked at together


def unigram_perplexity(n_w: np.ndarray) -> float:
    """Of the training words under their own frequencies.  n_w: float64[W]."""
    p = n_w[n_w > 0] / n_w.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def worse_than_unigram(what: str, perplexity: float, unigram: float) -> list[str]:
    """A warning where topics predict words worse than their frequencies do; what: whose perplexity it is."""
    if not perplexity > unigram:
        return []
    return [
        f"the {what} perplexity, {perplexity:,.0f}, is worse than that of the words' frequencies alone, {unigram:,.0f}: "
        "give more passes, another --algo or --start, or a lower -K"
    ]


def alpha_at_bound(engine: Engine, params: Mapping[str, np.ndarray]) -> list[str]:
    """A warning where alpha came from moments and its sum stands at a bound; engines that learn priors warn themselves."""
    if engine.about.alpha_sum_bounds is None or getattr(engine.options, "alpha", None) is not None:
        return []
    low, high = engine.about.alpha_sum_bounds
    total = float(params["alpha"].sum())
    if low * 1.001 < total < high * 0.999:
        return []
    return [
        f"alpha stands at its bound, {low if total <= low * 1.001 else high:g} over all topics: under these topics documents do "
        "not mix as they should; give --alpha, choose another --algo, or ingest with --min-tokens to leave short documents out"
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
        f"topic diversity is {diversity:.2f} (the share of distinct words among the topics' ten top words): many topics are alike; "
        "lower -K, leave more stop words out, or choose another --algo"
    ]

