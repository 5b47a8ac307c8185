"""Stochastic sparse-L variational inference (Hughes & Sudderth 2016, section 3.4; Hoffman, Blei, Wang & Paisley 2013)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import BlockShape, Key, Out, Rule, SparseDelta, TableSpec, padded
from topicstream.engines.variational import statistics
from topicstream.engines.variational.ovb import Stochastic, StochasticOptions
from topicstream.engines.variational.sparsity import Sparse, SparsityOptions

FEW = 64  # K is at least this many times L: a block's statistic is kept sparse


@dataclass(frozen=True)
class SparseStochasticOptions(SparsityOptions, StochasticOptions):
    """Options of ``svi``."""


class StochasticSparse(Stochastic, Sparse):
    """``svi``: BLEND, one step a round."""

    name = "svi"
    cites = "Hughes & Sudderth 2016, section 3.4 and Alg. 2 LSparseStepForDoc; Hoffman, Blei, Wang & Paisley 2013"
    Options = SparseStochasticOptions

    def scratch_bytes(self, block: BlockShape) -> int:
        return Sparse.scratch_bytes(self, block)

    @property
    def few(self) -> bool:
        """Topics of a word in a block are few enough beside K that its statistic is kept sparse."""
        return FEW * self.most <= self.shape.topics

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(delta="sparse" if self.few else "dense", rule=Rule.BLEND)}

    def keep_bytes(self, block: BlockShape) -> int:
        most = min(block.cells * self.most, block.words * self.shape.topics)
        return 8 * block.words + 6 * most + 72 if self.few else 0

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
        if self.dense:
            self.dense_visit(block, rows, totals, params, out, out.delta["phi"])
            return
        _, cell_topic, cell_value = self.sparse_visit(block, rows, totals, params, out)
        start, order = self.cells_by_word(block, out)
        if not self.few:
            statistics.sum_cells(start, order, self.most, cell_topic, cell_value, out.delta["phi"])
            return
        most = min(block.n_cells * self.most, block.n_words * self.shape.topics)
        ptr = out.keep.array("delta ptr", block.n_words + 1, np.int64)
        topic = out.keep.array("delta topics", most + 1, np.uint16)
        value = out.keep.array("delta values", most, np.float32)
        total = out.scratch.array("total", padded(self.shape.topics), np.float64)
        n = statistics.merge_cells(start, order, self.most, cell_topic, cell_value, total, ptr, topic, value)
        out.delta["phi"] = SparseDelta(ptr, topic[:n], value[:n])
