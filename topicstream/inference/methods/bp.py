"""Belief propagation with fixed topics: the fixed point of EM (Zeng, Liu & Cao 2012).

Each document is inferred by itself. The arithmetic is the local step's
(numeric/kernels/local_step.py) with the weight POINT. Nothing is drawn at random and nothing is
shared between documents: the same document always gets the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from topicstream.base.options import option
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method
from topicstream.numeric.kernels.arrays import RowCells, TopicWeights
from topicstream.numeric.kernels.local_step import (
    EVEN,
    INNER,
    POINT,
    TOLERANCE,
    LocalRule,
    local_step,
    own_local_step,
)


@dataclass(frozen=True)
class BPOptions:
    """Options of belief propagation."""

    tol: float = option(
        TOLERANCE,
        "Stop when at most this share of a document's tokens changed topic.",
        min=0,
        show=True,
    )
    inner: int = option(INNER, "Maximum number of iterations for a document.", min=1, show=True)


class BP(Method):
    """Belief propagation with fixed topics: a deterministic fixed point for each document.

    References
    ----------
    Zeng, Liu & Cao (2012). Memory-efficient topic modeling. arXiv:1206.1147.
    """

    name: ClassVar[str] = "bp"
    cites: ClassVar[str] = "Zeng et al. 2012"
    Options: ClassVar[type] = BPOptions
    weighs_cells: ClassVar[bool] = True
    takes_priors: ClassVar[bool] = True
    options: BPOptions

    def shares(self, docs: Documents) -> np.ndarray:
        return self.fold_in(docs)[0]

    def fold_in(self, docs: Documents) -> tuple[np.ndarray, int]:
        """Compute ``shares``, and count the iterations of all documents together."""
        docs = self.rows.weigh(docs)
        rows = self.rows
        out = np.empty((len(docs), rows.topics), np.float32)
        row_of_cell, base = rows.gather(docs)
        cells = RowCells(docs.indptr, row_of_cell, docs.counts)
        weights = TopicWeights(base, rows.beta, rows.inverse)
        rule = LocalRule(POINT, EVEN, self.options.tol, self.options.inner)
        if docs.priors is None:
            return out, local_step(cells, weights, rows.alpha, rule, out)
        return out, own_local_step(cells, weights, *docs.priors, rule, out)
