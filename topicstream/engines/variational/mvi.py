"""Memoized sparse-L variational inference (Hughes & Sudderth 2016, section 3.4).

Each block keeps its statistics; a visit puts new ones in their place, S += S_new - S_old, and the
topics follow at the end of the round. Documents are started cold at each visit: from where their
last visit left them they are caught in poor optima (Hughes & Sudderth, Fig. 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.engines.about import LONG_ENOUGH
from topicstream.engines.base import (
    ArraySpec,
    BlockShape,
    Buffer,
    Layout,
    Out,
    TableSpec,
    Visit,
)
from topicstream.engines.parts import PART, DeltaParts
from topicstream.engines.variational import statistics
from topicstream.engines.variational.sparsity import Sparse, SparsityOptions
from topicstream.numeric.kernels.arrays import RowEntries


@dataclass(frozen=True)
class MemoizedOptions(SparsityOptions):
    """Options of ``mvi``."""


class Memoized(Sparse):
    """Memoized sparse-L variational inference (``mvi``).

    Each block stores its statistic S, words x topics (sparse below L = K). A visit replaces it, phi
    += S_new - S_old, at the end of the round (ADD). See ``Variational``.

    Attributes
    ----------
    state
        ``ptr``, ``topic``, ``value``: the block's statistic by word. ``statistic`` where L = K.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = Memoized(shape, MemoizedOptions(sparsity=8))
    >>> sorted(engine.state), engine.dense
    (['ptr', 'topic', 'value'], False)

    References
    ----------
    Hughes & Sudderth (2013). Memoized online variational inference for Dirichlet process mixture
    models. NIPS 26.

    Hughes & Sudderth (2016). Fast learning of clusters and topics via sparse posteriors.
    arXiv:1609.07521. Section 3.4, Alg. 2.
    """

    Options: ClassVar[Any] = MemoizedOptions
    name = "mvi"
    cites = "Hughes & Sudderth 2016, section 3.4 and Alg. 2 LSparseStepForDoc"
    about = replace(Sparse.about, best_from=LONG_ENOUGH)
    tracks_bound: ClassVar[bool] = True

    @property
    def layout(self) -> Layout:
        """Choose blocks whose lists, statistics and changes fit 300 MB at K = 100."""
        return replace(super().layout, block_cells=min(super().layout.block_cells, 1 << 18))

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", delta="dense" if self.dense else "sparse")}

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        topics = self.shape.topics
        if self.dense:
            return {"statistic": ArraySpec("block", "float32", limit=lambda b: b.words * topics)}
        return {
            "ptr": ArraySpec("block", "int32", limit=lambda b: b.words + 1, ends=True),
            "topic": ArraySpec("block", "uint16", limit=self._most_topics, below=topics),
            "value": ArraySpec("block", "float32", limit=self._most_entries),
        }

    def _most_entries(self, block: BlockShape) -> int:
        """Bound the entries of a block's statistic."""
        return min(block.cells * self.most, block.words * self.shape.topics)

    def _most_topics(self, block: BlockShape) -> int:
        """Bound the entries of ``topic``.

        ``merge_cells`` writes each topic before it knows whether it is new: there is room for one
        more.
        """
        return self._most_entries(block) + 1

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        if self.dense:
            return super().workspace(block)
        most = 2 * self._most_entries(block)
        part = PART + 2 * self.shape.topics
        return super().workspace(block) | {
            "delta ptr": Buffer(block.words + 1, "int64", keep=True),
            "delta topic": Buffer(most, "uint16", keep=True, part=part),
            "delta value": Buffer(most, "float32", keep=True, part=part),
        }

    def start(self, visit: Visit, out: Out) -> None:
        self.process(visit, out)

    def process(self, visit: Visit, out: Out) -> None:
        """Visit a block, for the first time if its state is empty."""
        if self.dense:
            self._process_dense(visit, out)
            return
        block = visit.block
        state = visit.state
        starting = not state
        src, cells = self.sparse_visit(visit, out, starting)
        ptr = out.state["ptr"][: block.n_words + 1]
        topic = out.state["topic"]
        value = out.state["value"]
        n = statistics.merge_cells(*cells, out.array("total"), RowEntries(ptr, topic, value))
        topic = topic[:n]
        value = value[:n]
        out.state.update(ptr=ptr, topic=topic, value=value)
        data_term = statistics.sparse_data_term(src, ptr, topic, value)
        out.stats["local_bound"][0] = out.stats["bound"][0] - data_term
        if starting:
            old_ptr = np.zeros(block.n_words + 1, np.int32)
            old_topic = topic[:0]
            old_value = value[:0]
        else:
            old_ptr = state["ptr"]
            old_topic = state["topic"]
            old_value = state["value"]
        parts = DeltaParts(out, "phi", old_ptr[1:].astype(np.int64) + ptr[1:])
        for a, b in parts:
            old = RowEntries(old_ptr[a : b + 1], old_topic, old_value)
            new = RowEntries(ptr[a : b + 1], topic, value)
            delta = RowEntries(*parts.arrays)
            parts.add(statistics.change(self.shape.topics, old, new, delta))

    def _process_dense(self, visit: Visit, out: Out) -> None:
        """Visit a block with a dense statistic."""
        block = visit.block
        topics = self.shape.topics
        starting = not visit.state
        delta = out.delta["phi"]
        self.dense_visit(visit, out, delta, starting)
        statistic = out.state["statistic"][: block.n_words * topics]
        statistic.reshape(block.n_words, topics)[:] = delta[:, :topics]
        out.state["statistic"] = statistic
        if not starting:
            delta[:, :topics] -= visit.state["statistic"].reshape(block.n_words, topics)
