"""Stochastic sparse-L variational inference (paper 002, section 3.4; Hoffman, Blei, Wang & Paisley 2013)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import BlockShape, Key, Out
from topicstream.engines.variational import statistics
from topicstream.engines.variational.ovb import Stochastic, StochasticOptions
from topicstream.engines.variational.sparsity import Sparse, SparseOptions


@dataclass(frozen=True)
class SparseStochasticOptions(SparseOptions, StochasticOptions):
    """Options of ``svi``."""


class StochasticSparse(Stochastic, Sparse):
    """``svi``: BLEND, one step a round."""

    name = "svi"
    cites = "002 (Hughes & Sudderth), section 3.4 and Alg. 2 LSparseStepForDoc; Hoffman, Blei, Wang & Paisley 2013"
    Options = SparseStochasticOptions

    def scratch_bytes(self, block: BlockShape) -> int:
        return Sparse.scratch_bytes(self, block)

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
        delta = out.delta["phi"]
        if self.dense:
            self.dense_visit(block, rows, totals, params, out, delta)
            return
        _, cell_topic, cell_value = self.sparse_visit(block, rows, totals, params, out)
        delta[:] = 0.0
        statistics.add_cells(block.words, self.most, cell_topic, cell_value, delta)
