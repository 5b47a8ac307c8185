"""Stochastic sparse-L variational inference (Hughes & Sudderth 2016, section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topicstream.engines.base import BlockShape, Buffer, Out, Rule, TableSpec, Visit
from topicstream.engines.parts import PART, DeltaParts
from topicstream.engines.variational import statistics
from topicstream.engines.variational.ovb import Stochastic, StochasticOptions
from topicstream.engines.variational.sparsity import Sparse, SparsityOptions
from topicstream.numeric.kernels.arrays import RowEntries

FEW = 64  # a block's statistic is sparse where K is at least this many times L


@dataclass(frozen=True)
class SparseStochasticOptions(SparsityOptions, StochasticOptions):
    """Options of ``svi``."""


class StochasticSparse(Stochastic, Sparse):
    """Stochastic sparse-L variational inference (``svi``).

    It takes the L-sparse local step and one blended step a round. See ``Stochastic`` and
    ``Variational``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = StochasticSparse(shape, SparseStochasticOptions(sparsity=1))
    >>> engine.tables["phi"].delta
    'sparse'

    References
    ----------
    Hoffman, Blei, Wang & Paisley (2013). Stochastic variational inference. JMLR 14, 1303-1347.

    Hughes & Sudderth (2016). Fast learning of clusters and topics via sparse posteriors.
    arXiv:1609.07521. Section 3.4, Alg. 2.
    """

    name = "svi"
    cites = (
        "Hughes & Sudderth 2016, section 3.4 and Alg. 2 LSparseStepForDoc; Hoffman, Blei, Wang "
        "& Paisley 2013"
    )
    Options = SparseStochasticOptions

    @property
    def sparse_statistic(self) -> bool:
        """Decide whether a block's statistic is sparse: L is small beside K."""
        return FEW * self.most <= self.shape.topics

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {
            "phi": TableSpec(delta="sparse" if self.sparse_statistic else "dense", rule=Rule.BLEND)
        }

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        if not self.sparse_statistic or self.dense:
            return super().workspace(block)
        most = min(block.cells * self.most, block.words * self.shape.topics)
        part = PART + self.shape.topics + 1
        return super().workspace(block) | {
            "delta ptr": Buffer(block.words + 1, "int64", keep=True),
            "delta topic": Buffer(most + 1, "uint16", keep=True, part=part),
            "delta value": Buffer(most + 1, "float32", keep=True, part=part),
        }

    def process(self, visit: Visit, out: Out) -> None:
        if self.dense:
            self.dense_visit(visit, out, out.delta["phi"])
            return
        _, cells = self.sparse_visit(visit, out)
        if not self.sparse_statistic:
            statistics.sum_cells(*cells, out.delta["phi"])
            return
        (start, order, lists) = cells
        total = out.array("total")
        ends = np.cumsum(np.minimum(self.most * np.diff(start), self.shape.topics))
        parts = DeltaParts(out, "phi", ends, spare=1)
        for a, b in parts:
            merged = RowEntries(*parts.arrays)
            parts.add(statistics.merge_cells(start[a : b + 1], order, lists, total, merged))
