"""Learned priors of the engines that store messages: histograms of theta and phi in a pass, a fixed point at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import Out, Rows, option
from topicstream.engines.message.priors import BINS, count_words, fit_alpha, fit_beta

REACH = 10.0


MOST = 30.0  # that alpha is pulled to, over all topics


def reach_option() -> Any:
    """The option ``prior_reach``."""
    help = "with --learn-priors: a prior stays within this factor of where it began"
    return option(REACH, help, min=1.0, max=1e6, advanced=True, was=REACH, decided=True)


def bounds(began: float, reach: float) -> tuple[float, float]:
    """The least and the largest value that a learned prior may take."""
    return began / reach, began * reach


def held(values: np.ndarray, began: float, reach: float) -> int:
    """How many of the learned priors stand at a bound."""
    low, high = bounds(began, reach)
    return int(((values <= low * (1 + 1e-9)) | (values >= high * (1 - 1e-9))).sum())


class Learning:
    """What an engine with learned priors has to say of them, once."""

    _told = False

    def warn_of_bounds(self, record: Mapping[str, Any], reach: float) -> list[str]:
        """That learned priors have come to stand at a bound."""
        if self._told or not record.get("priors_held"):
            return []
        self._told = True
        n = record["priors_held"]
        which = "learned prior stands" if n == 1 else "learned priors stand"
        return [f"{n} {which} at a bound, {reach:g} times where it began or that part of it (--prior-reach)"]


def prior_stats(topics: int) -> dict[str, int]:
    """Statistics to sum over a pass, by length."""
    return {"topic_bins": topics * BINS, "length_bins": BINS, "row_bins": BINS, "sampled": 1}


def count_rows(block: Block, phi: Rows, topics: int, out: Out) -> None:
    """Enter the block's share of the sampled rows of phi, seed words' pseudo-counts left out."""
    weight = out.scratch.array("weight", block.n_words, np.float64)
    rows = out.stats["row_bins"], out.stats["sampled"]
    count_words(block.words, block.counts, block.vocab, phi.base, phi.counts, topics, weight, *rows)


def learn(
    params: dict[str, np.ndarray],
    first: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    totals: np.ndarray,
    words: int,
    reach: float = REACH,
    pull: float = 0.0,
    fixed: int = 0,
) -> dict[str, Any]:
    """Move alpha (per topic, but of the ``fixed`` last ones) and beta in place; returns what goes into the history.  A no-op
    before the first pass."""
    if not stats["length_bins"].any():
        return {}
    a, b = float(first["alpha"][0]), float(first["beta"][0])
    bins = stats["topic_bins"], stats["length_bins"]
    topics = len(params["alpha"])
    low, high = (np.full(topics, bound) for bound in bounds(a, reach))
    low[topics - fixed :] = high[topics - fixed :] = first["alpha"][topics - fixed :]
    params["alpha"][:] = fit_alpha(params["alpha"], *bins, low, high, pull, min(a, MOST / topics))
    sampled, lam = float(stats["sampled"][0]), totals[:topics]
    params["beta"][0] = fit_beta(float(params["beta"][0]), stats["row_bins"], sampled, lam, words, *bounds(b, reach))
    at_bounds = held(params["alpha"][: topics - fixed], a, reach) + held(params["beta"], b, reach)
    return {"alpha_sum": float(params["alpha"].sum()), "beta": float(params["beta"][0]), "priors_held": at_bounds}
