"""The option ``--sparsity`` and the L-sparse visit of ``mvi`` and ``svi``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.engines.base import BlockShape, Buffer, Out, Shape, Visit, option, padded
from topicstream.engines.variational import choice, dense, sparse, statistics
from topicstream.engines.variational.family import Variational, VariationalOptions
from topicstream.engines.variational.statistics import WeightSource
from topicstream.numeric.kernels.dirichlet import log


@dataclass(frozen=True)
class SparsityOptions(VariationalOptions):
    """Options of the engines of Hughes & Sudderth (2016)."""

    sparsity: int = option(
        8,
        "Topics that a word of a document may have, L; 1: hard assignment, K: dense.",
        min=1,
        decided=True,
    )
    leave: float = option(
        0.011,
        "Drop a topic from a document for the rest of the visit when its weight falls below "
        "this share of the largest topic's (after the first assignment also below 1.9 tokens and "
        "an even share); 0: only with its last token, as Hughes & Sudderth 2016.",
        min=0.0,
        max=1.0,
        advanced=True,
    )
    restarts: int = option(
        5,
        "Restart proposals per document: empty a small topic, and accept if the bound rises.",
        min=0,
    )


class Sparse(Variational):
    """Base class of ``mvi`` and ``svi``.

    A word of a document has at most L topics. L = K is the dense local step.
    """

    Options: ClassVar[Any] = SparsityOptions

    def __init__(self, shape: Shape, options: SparsityOptions) -> None:
        super().__init__(shape, options)
        if shape.topics >= 1 << 16:
            raise TopicsError(f"{self.name} supports at most 65,535 topics, not {shape.topics}")

    @property
    def most(self) -> int:
        """Return L."""
        return min(int(self.options.sparsity), self.shape.topics)

    @property
    def dense(self) -> bool:
        """Tell whether a word may have every topic."""
        return self.most >= self.shape.topics

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        common = super().workspace(block)
        if self.dense:
            return common
        width = padded(self.shape.topics)
        most = self.most
        longest = block.document
        return common | {
            "lanes": Buffer((2, width + 16), "float32"),
            "best topics": Buffer(block.words * most + 16, "uint16"),
            "best weights": Buffer(block.words * most + 16, "float32"),
            "cell topics": Buffer(block.cells * most + 16, "uint16"),
            "cell values": Buffer(block.cells * most + 16, "float32"),
            "document": Buffer((longest + 16) * width + 256, "float32"),
            "kept": Buffer((2, (longest + 16) * width + 256), "float32"),
            "sums by lane": Buffer(35 * (width + 16), "float32"),
            "normalisers": Buffer((2, longest + 32), "float32"),
            "cells of words": Buffer(block.words + 1, "int64"),
            "cells by word": Buffer(block.cells, "int32"),
            "total": Buffer(width, "float64"),
        }

    def sparse_visit(
        self, visit: Visit, out: Out, starting: bool = False
    ) -> tuple[WeightSource, tuple[Any, ...]]:
        """Run the L-sparse local step on a block.

        Returns
        -------
        The source of the weights, and the arguments of ``statistics`` functions: start and order of
        the cells by word, and the topics of each cell.
        """
        leave = self.options.leave
        words = self.weigh_words(visit, out, starting)
        most = self.most
        lanes = out.array("lanes")
        faint = log(leave) if leave > 0 else -math.inf
        lists = sparse.Lists(most, faint, out.array("best topics"), out.array("best weights"))
        choice.best_of_words(words.e, most, lanes[0], lanes[1], lists.topic, lists.value)
        reports = np.zeros(len(dense.REPORTS))
        shares = statistics.CellLists(most, out.array("cell topics"), out.array("cell values"))
        buffers = sparse.Buffers(
            out.array("document"),
            out.array("kept"),
            out.array("lanes"),
            out.array("sums by lane"),
            out.array("document's counts"),
            out.array("normalisers"),
        )
        sparse.sparse_step(words, self.effort(starting), lists, reports, shares, buffers)
        self.add_reports(visit.block, reports, out)
        start = out.array("cells of words")
        order = out.array("cells by word")
        statistics.entries_by_word(visit.block.words, start, order)
        return words.src, (start, order, shares)
