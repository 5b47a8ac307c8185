"""Belief propagation with the topics held still: the fixed point of EM (Zeng et al. 2012), each document on its own.

The arithmetic is the local step's (kernels/local_step.py) with the weight POINT.  Nothing is drawn at random and nothing
is shared between documents: the same document always gets the same bits.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from topicstream.errors import InputError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, TopicRows
from topicstream.kernels.local_step import EVEN, INNER, POINT, TOLERANCE, local_step


class BP(Method):
    """The default: deterministic, each document alone."""

    name: ClassVar[str] = "bp"
    cites: ClassVar[str] = "Zeng et al. 2012"

    def __init__(self, rows: TopicRows, *, tol: float = TOLERANCE, inner: int = INNER) -> None:
        if not (tol >= 0.0 and inner >= 1):
            raise InputError(f"tolerance {tol}, inner iterations {inner}: give at least 0 and 1")
        self.rows, self.tol, self.inner = rows, float(tol), int(inner)

    def shares(self, docs: Documents) -> np.ndarray:
        docs = self.rows.weigh(docs)
        out = np.empty((len(docs), self.rows.topics), np.float32)
        at, base = self.rows.of(docs)
        r = self.rows
        prior = (r.beta, r.inverse, r.alpha)
        local_step(docs.indptr, at, docs.counts, base, *prior, POINT, EVEN, self.tol, self.inner, out)
        return out
