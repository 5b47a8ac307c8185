"""Small blocks, their packed rows and single sweeps: what the tests of the Gibbs engines
stand on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.visits import out_for
from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Out, PackedRows, Shape, Visit, padded
from topicstream.engines.gibbs.chain import Chain
from topicstream.numeric.kernels.packed import copy_rows, topic_bits
from topicstream.numeric.tables.slots import RowPiece


def random_block(seed: int, docs: int, words: int, length: int) -> Block:
    """A block whose documents have about ``length`` tokens over skewed words, some of them
    repeated; one is empty.
    """
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(1, words + 1)
    rows = rng.multinomial(length, p / p.sum(), size=docs)
    rows[docs // 2] = 0
    rows[0, rows.sum(0) == 0] = 1
    d, w = np.nonzero(rows)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(d, minlength=docs)))).astype(np.int64)
    counts = rows[d, w].astype(np.int32)
    return Block(
        0,
        7,
        indptr,
        w.astype(np.int32),
        counts,
        np.arange(words, dtype=np.int32),
        float(counts.sum()),
    )


def table_of(block: Block, z: np.ndarray, topics: int) -> np.ndarray:
    """n_wt int64[U, K] of a block's tokens."""
    n_wt = np.zeros((block.n_words, topics), np.int64)
    np.add.at(n_wt, (np.repeat(block.words, block.counts), z), 1)
    return n_wt


def pack_tight(n_wt: np.ndarray, dtype: Any = np.uint32) -> RowPiece:
    """Dense counts as tight packed rows, descending."""
    bits = topic_bits(n_wt.shape[1])
    ptr = [0]
    entries = []
    for row in n_wt.astype(np.int64):
        held = sorted(((int(c) << bits) | t for t, c in enumerate(row) if c), reverse=True)
        entries += held
        ptr.append(len(entries))
    return RowPiece(
        np.arange(len(n_wt), dtype=np.int32), np.array(ptr, np.int64), np.array(entries, dtype)
    )


def pack_rows(n_wt: np.ndarray, dtype: Any = np.uint32) -> PackedRows:
    """The same as an engine gets them."""
    _, ptr, entries = pack_tight(n_wt, dtype)

    def copy(first: int, stop: int, start: np.ndarray, arena: np.ndarray) -> None:
        copy_rows(
            ptr[first:stop], np.diff(ptr[first : stop + 1]).astype(np.int32), entries, start, arena
        )

    return PackedRows(
        np.diff(ptr).astype(np.int32), topic_bits(n_wt.shape[1]), int(n_wt.max(initial=0)), copy
    )


def draw(
    engine: Chain,
    block: Block,
    z: np.ndarray,
    rows: PackedRows,
    n_t: np.ndarray,
    params: dict[str, np.ndarray],
    key: Key,
) -> Out:
    """One ``process`` on packed rows."""
    totals = np.zeros(padded(engine.shape.topics))
    totals[: len(n_t)] = n_t
    out = out_for(engine, block, {})
    engine.process(Visit(block, {"phi": rows}, {"phi": totals}, {"z": z}, params, key), out)
    return out


def visit(
    engine: Chain,
    block: Block,
    z: np.ndarray,
    n_wt: np.ndarray,
    params: dict[str, np.ndarray],
    key: Key,
) -> tuple[np.ndarray, np.ndarray, Out]:
    """One ``process``: (new z, new n_wt, out)."""
    out = draw(engine, block, z, pack_rows(n_wt), n_wt.sum(0), params, key)
    delta = out.delta["phi"]
    new = n_wt.copy()
    rows = np.repeat(np.arange(block.n_words), np.diff(delta.ptr))
    np.add.at(new, (rows, delta.topic), delta.value)
    return out.state["z"], new, out


def make(kind: type[Chain], block: Block, topics: int, words: int, **options: Any) -> Chain:
    """An engine for a corpus that is this one block."""
    shape = Shape(block.n_docs, words, block.n_cells, block.tokens, topics)
    return kind(shape, kind.Options(**options))
