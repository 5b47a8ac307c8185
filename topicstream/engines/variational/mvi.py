"""Memoized sparse-L variational inference (Hughes & Sudderth 2016, section 3.4; memoized after their paper of 2013).

Each block keeps its statistics; a visit puts new ones in their place, S += S_new - S_old, and the topics follow at the end
of the round.  Documents are started cold at each visit; ``--local-start warm`` keeps their counts, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import ArraySpec, BlockShape, Key, Out, Shape, SparseDelta, TableSpec, option, padded
from topicstream.engines.variational import check, statistics
from topicstream.engines.variational.family import COLD, LONG_ENOUGH
from topicstream.engines.variational.sparsity import Sparse, SparsityOptions
from topicstream.errors import TopicsError


@dataclass(frozen=True)
class MemoizedOptions(SparsityOptions):
    """Options of ``mvi``."""

    local_start: str = option(
        "cold",
        "where a document begins at each visit: anew, or (warm) where its last visit left it, which keeps documents x topics "
        "numbers on disk and is easily caught in a poor optimum (Hughes & Sudderth, Fig. 5)",
        choices=("cold", "warm"),
        was="cold",
        advanced=True,
    )
    verify_bound: bool = option(
        False,
        "after each pass, compare the bound and the table with sums from scratch; stop where they differ",
        advanced=True,
    )


class Memoized(Sparse):
    """``mvi``: ADD; block memory is the block's statistic, words x topics, sparse below L = K."""

    Options: ClassVar[Any] = MemoizedOptions
    name = "mvi"
    cites = "Hughes & Sudderth 2016, section 3.4 and Alg. 2 LSparseStepForDoc"
    starts = ("documents", "kmeans", "best", "anchors", "warm", "random")
    random_topics = True
    best_from: ClassVar[float] = LONG_ENOUGH
    tracks_bound: ClassVar[bool] = True

    def __init__(self, shape: Shape, options: Any) -> None:
        super().__init__(shape, options)
        if options.verify_bound and self.dense:
            raise TopicsError(
                f"--verify-bound checks sparse statistics: give --sparsity below the {shape.topics} topics, or leave it out"
            )

    @property
    def stats(self) -> Mapping[str, int]:
        return {**super().stats, "fresh": 1, "seal": 1} if self.options.verify_bound else super().stats

    def end_pass_rows(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], rows: Iterable[tuple[int, np.ndarray]]
    ) -> dict[str, float]:
        """As in every engine that tracks its bound; with ``verify_bound`` also what check.py finds, relative:
        ``bound_error`` and ``table_error``.  Raises TopicsError where one is above its TOLERANCE."""
        if not self.options.verify_bound:
            return super().end_pass_rows(params, stats, rows)
        seal = 0.0

        def sealed() -> Iterable[tuple[int, np.ndarray]]:
            nonlocal seal
            for first, piece in rows:
                seal += check.seal_of_rows(first, piece, self.shape.topics)
                yield first, piece

        record = super().end_pass_rows(params, stats, sealed())
        errors = {
            "bound_error": abs(float(stats["local_bound"][0]) - float(stats["fresh"][0])) / abs(record["bound"]),
            "table_error": abs(seal - float(stats["seal"][0])) / max(float(stats["tokens"][0]), 1.0),
        }
        for name, error in errors.items():
            if not error < check.TOLERANCE:
                raise TopicsError(
                    f"--verify-bound: {name} is {error:.2g}, more than rounding explains ({check.TOLERANCE:.2g}): "
                    "the statistics of a block and the topics no longer agree; train anew and report this"
                )
        return {**record, **errors}

    def block_cells(self) -> int:
        """Small enough that lists, statistics and their changes fit 300 MB at a hundred topics."""
        return min(super().block_cells(), 1 << 18)

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", delta="dense" if self.dense else "sparse")}

    @property
    def memory(self) -> Mapping[str, ArraySpec]:
        topics = self.shape.topics
        warm = {"counts": ArraySpec("block", "float32", limit=lambda b: b.docs * topics)}
        held = warm if self.options.local_start == "warm" else {}
        if self.dense:
            return {**held, "statistic": ArraySpec("block", "float32", limit=lambda b: b.words * topics)}

        return {
            **held,
            "ptr": ArraySpec("block", "int32", limit=lambda b: b.words + 1, ends=True),
            "topic": ArraySpec(
                "block", "uint16", limit=lambda b: self._most_entries(b) + 1, below=topics
            ),  # statistics.merge_cells
            "value": ArraySpec("block", "float32", limit=self._most_entries),
        }

    def _most_entries(self, block: BlockShape) -> int:
        """Of a block's statistic."""
        return min(block.cells * self.most, block.words * self.shape.topics)

    def keep_bytes(self, block: BlockShape) -> int:
        return 0 if self.dense else 8 * block.words + 2 * 6 * self._most_entries(block)

    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        self._visit(block, rows, totals, {}, params, out)

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
        self._visit(block, rows, totals, memory, params, out)

    def _visit(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        out: Out,
    ) -> None:
        """A visit; no memory means the first one."""
        topics, starting, held = self.shape.topics, not memory, COLD
        if "counts" in out.memory:
            flat = out.memory["counts"] = out.memory["counts"][: block.n_docs * topics]
            flat[:] = 0.0 if starting else memory["counts"]
            held = flat.reshape(block.n_docs, topics)
        if self.dense:
            delta = out.delta["phi"]
            self.dense_visit(block, rows, totals, params, out, delta, starting, held)
            kept = out.memory["statistic"][: block.n_words * topics]
            kept.reshape(block.n_words, topics)[:] = delta[:, :topics]
            out.memory["statistic"] = kept
            if not starting:
                delta[:, :topics] -= memory["statistic"].reshape(block.n_words, topics)
            return
        src, cell_topic, cell_value = self.sparse_visit(block, rows, totals, params, out, starting, held)
        start, order = self.cells_by_word(block, out)
        ptr, topic, value = (out.memory[name] for name in ("ptr", "topic", "value"))
        ptr = ptr[: block.n_words + 1]
        total = out.scratch.array("total", padded(topics), np.float64)
        n = statistics.merge_cells(start, order, self.most, cell_topic, cell_value, total, ptr, topic, value)
        topic, value = topic[:n], value[:n]
        out.memory.update(ptr=ptr, topic=topic, value=value)
        out.stats["local_bound"][0] = out.stats["bound"][0] - statistics.sparse_data_term(src, ptr, topic, value)
        if self.options.verify_bound:
            alpha = out.scratch.array("alpha", len(params["alpha"]), np.float64)  # as ``weigh`` left it
            out.stats["fresh"][0] = check.documents(
                block.indptr, block.counts, self.most, cell_topic, cell_value, alpha, topics
            )
            out.stats["seal"][0] = check.seal_of_statistic(block.vocab, ptr, topic, value)
        if starting:
            old = (np.zeros(block.n_words + 1, np.int32), topic[:0], value[:0])
        else:
            old = (memory["ptr"], memory["topic"], memory["value"])
        room = n + len(old[1])
        delta_ptr = out.keep.array("delta ptr", block.n_words + 1, np.int64)
        delta_topic = out.keep.array("delta topics", room, topic.dtype)
        delta_value = out.keep.array("delta values", room, np.float32)
        n = statistics.change(topics, *old, ptr, topic, value, delta_ptr, delta_topic, delta_value)
        out.delta["phi"] = SparseDelta(delta_ptr, delta_topic[:n], delta_value[:n])
