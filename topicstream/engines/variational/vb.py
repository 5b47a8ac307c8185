"""Batch variational Bayes: every document's dense local step, then the global step (Blei, Ng & Jordan 2003; Zeng, Liu & Cao 2012; Hughes & Sudderth 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Out, Rule, TableSpec
from topicstream.engines.variational.family import LONG_ENOUGH, Variational


class VariationalBayes(Variational):
    """``vb``: REPLACE; the tables of a pass are those of the pass before."""

    name = "vb"
    cites = "Zeng, Liu & Cao 2012, eq. 8-10; Hughes & Sudderth 2016, Alg. 2 DenseStepForDoc; Blei, Ng & Jordan 2003"
    starts = ("documents", "kmeans", "best", "anchors", "warm", "random")
    random_topics = True
    best_from: ClassVar[float] = LONG_ENOUGH
    default_alpha_sum: ClassVar[float] = 2.0  # Zeng, Liu & Cao 2012: alpha = 2 / K, beta = 0.01
    default_beta: ClassVar[float] = 0.01
    prior_defaults = ("2/K", "0.01")
    tracks_bound: ClassVar[bool] = True

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", rule=Rule.REPLACE)}

    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        self.dense_visit(block, rows, totals, params, out, out.delta["phi"], starting=True)

    def process(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        self.dense_visit(block, rows, totals, params, out, out.delta["phi"])
