"""The option ``--sparsity`` and the L-sparse visit of a block, shared by ``mvi`` and ``svi``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import BlockShape, Out, Shape, option, padded
from topicstream.engines.variational import choice, dense, sparse, statistics
from topicstream.engines.variational.family import COLD, RESTART_INNER, START_INNER, Variational, VariationalOptions
from topicstream.engines.variational.weights import WeightSource
from topicstream.errors import TopicsError


@dataclass(frozen=True)
class SparsityOptions(VariationalOptions):
    """Options of the engines of Hughes & Sudderth 2016."""

    sparsity: int = option(
        8, "topics a word of a document may have, L: 1 is a hard assignment, K is dense", min=1, decided=True
    )
    leave: float = option(
        0.011,
        "a topic leaves a document, for the rest of the visit, when its weight is below this share of the largest "
        "topic's, and after the first assignment when it holds less than 1.9 tokens and less than an even share; 0: with its "
        "last token (Hughes & Sudderth 2016)",
        min=0.0,
        max=1.0,
        advanced=True,
    )
    restarts: int = option(5, "restart proposals a document: a small topic emptied, kept if the bound rises", min=0)


class Sparse(Variational):
    """Base of ``mvi`` and ``svi``: L = K is the dense step itself."""

    Options: ClassVar[Any] = SparsityOptions

    def __init__(self, shape: Shape, options: Any) -> None:
        super().__init__(shape, options)
        if shape.topics >= 1 << 16:
            raise TopicsError(f"{self.name} numbers topics with 16 bits: at most 65535, not {shape.topics}")

    @property
    def most(self) -> int:
        """L."""
        return min(int(self.options.sparsity), self.shape.topics)

    @property
    def dense(self) -> bool:
        """Every topic may take a word."""
        return self.most >= self.shape.topics

    def scratch_bytes(self, block: BlockShape) -> int:
        if self.dense:
            return super().scratch_bytes(block)
        lists = 6 * self.most * (block.words + block.cells) + 12 * block.cells + 24 * block.words
        tiles = 8 * (block.document + 32) + 160
        return super().scratch_bytes(block) + lists + tiles * padded(self.shape.topics)

    def sparse_visit(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        out: Out,
        starting: bool = False,
        held: np.ndarray = COLD,
    ) -> tuple[WeightSource, np.ndarray, np.ndarray]:
        """The L-sparse local step; returns the weights' source, the cells' topics and values, flat."""
        o: Any = self.options
        src, e, log_scale, alpha = self.weigh(block, rows, totals, params, out, starting)
        longest, width, most = dense.longest_document(block.indptr), e.shape[1], self.most
        scratch = out.scratch
        lanes = scratch.array("lanes", (2, width + 16), np.float32)
        best_topic = scratch.array("best topics", block.n_words * most + 16, np.uint16)
        best_value = scratch.array("best weights", block.n_words * most + 16, np.float32)
        numbers = scratch.array("numbers", width + 16, np.uint16)
        choice.best_of_words(e, most, lanes[0], lanes[1], numbers, best_topic, best_value)
        cell_topic = scratch.array("cell topics", block.n_cells * most + 16, np.uint16)
        cell_value = scratch.array("cell values", block.n_cells * most + 16, np.float32)
        reports = scratch.array("reports", (block.n_docs, dense.REPORTS), np.float64)
        reports[:] = 0.0
        sparse.sparse_step(
            src,
            block.indptr,
            block.words,
            block.counts,
            e,
            log_scale,
            alpha,
            o.inner_tol,
            min(o.inner_max, START_INNER) if starting else o.inner_max,
            0 if starting else o.restarts,
            RESTART_INNER,
            most,
            math.log(o.leave) if o.leave > 0 else -math.inf,
            best_topic,
            best_value,
            reports,
            cell_topic,
            cell_value,
            scratch.array("document", (longest + 16) * width + 256, np.float32),
            scratch.array("kept", (2, (longest + 16) * width + 256), np.float32),
            lanes,
            scratch.array("sums by lane", 35 * (width + 16), np.float32),
            scratch.array("document's counts", longest + 32, np.float32),
            scratch.array("normalisers", (2, longest + 32), np.float32),
            held,
        )
        self.report(block, reports, out)
        return src, cell_topic, cell_value

    def cells_by_word(self, block: Block, out: Out) -> tuple[np.ndarray, np.ndarray]:
        """start and order of ``statistics.entries_by_word``."""
        start = out.scratch.array("cells of words", block.n_words + 1, np.int64)
        order = out.scratch.array("cells by word", block.n_cells, np.int32)
        statistics.entries_by_word(block.words, block.n_words, start, order)
        return start, order
