"""Batch variational Bayes: every document's dense local step, then the global step (Blei, Ng & Jordan 2003; papers 000, 002)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Out, Rule
from topicstream.engines.variational.family import Variational


class VariationalBayes(Variational):
    """``vb``: REPLACE; the tables of a pass are those of the pass before."""

    name = "vb"
    cites = "000 (Zeng, Liu & Cao), eq. 8-10; 002 (Hughes & Sudderth), Alg. 2 DenseStepForDoc; Blei, Ng & Jordan 2003"
    starts = ("documents", "kmeans", "best", "warm")
    default_alpha_sum: ClassVar[float] = 2.0  # paper 000: alpha = 2 / K, beta = 0.01
    default_beta: ClassVar[float] = 0.01
    tracks_bound: ClassVar[bool] = True

    @property
    def rule(self) -> Rule:
        return Rule.REPLACE

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
