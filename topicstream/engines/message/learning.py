"""Learned priors of the engines that store messages: histograms of theta and phi in a pass, a fixed point at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import Out, Rows
from topicstream.kernels.priors import BINS, count_words, learn_alpha, learn_beta

REACH = 10.0  # a learned prior stays within this factor of where it began


def prior_stats(topics: int) -> dict[str, int]:
    """Statistics to sum over a pass, by length."""
    return {"topic_bins": topics * BINS, "length_bins": BINS, "row_bins": BINS, "sampled": 1}


def count_rows(block: Block, phi: Rows, topics: int, out: Out) -> None:
    """Enter the block's share of the sampled rows of phi."""
    weight = out.scratch.array("weight", block.n_words, np.float64)
    rows = out.stats["row_bins"], out.stats["sampled"]
    count_words(block.words, block.counts, block.vocab, phi.base, phi.index, topics, weight, *rows)


def learn(
    params: dict[str, np.ndarray],
    first: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    totals: np.ndarray,
    words: int,
) -> dict[str, Any]:
    """Move alpha (per topic) and beta in place; returns what goes into the history.  A no-op before the first pass."""
    if not stats["length_bins"].any():
        return {}
    a, b = float(first["alpha"][0]), float(first["beta"][0])
    bins = stats["topic_bins"], stats["length_bins"]
    params["alpha"][:] = learn_alpha(params["alpha"], *bins, a / REACH, a * REACH)
    sampled, lam = float(stats["sampled"][0]), totals[: len(params["alpha"])]
    params["beta"][0] = learn_beta(
        float(params["beta"][0]), stats["row_bins"], sampled, lam, words, b / REACH, b * REACH
    )
    return {"alpha_sum": float(params["alpha"].sum()), "beta": float(params["beta"][0])}
