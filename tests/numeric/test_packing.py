"""Sums of sparse deltas that travel as bytes: what other processes add is what the blocks made."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.numeric.tables.rounds import RoundSpace, RowRange, SparseRound
from topicstream.numeric.tables.spec import SparseDelta, quantum_of

TOKENS = 1e5


def make_delta(
    rng: np.random.Generator, words: int, columns: int
) -> tuple[np.ndarray, SparseDelta]:
    """A block's changes, of any size, topics more than once in some rows."""
    ids = np.sort(rng.choice(words, words // 2, replace=False)).astype(np.int32)
    lengths = rng.integers(0, min(columns, 60) + 1, len(ids))
    ptr = np.append(0, np.cumsum(lengths)).astype(np.int64)
    kind = np.int32 if columns > 500 else np.uint16
    topic = rng.integers(0, columns, ptr[-1]).astype(kind)
    sizes = 10.0 ** rng.integers(-10, 5, ptr[-1])
    return ids, SparseDelta(ptr, topic, (rng.normal(size=ptr[-1]) * sizes).astype(np.float32))


def add_round(deltas: SparseRound, words: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """A table of ones with a round added to it, and the change of its sums."""
    width = -(-columns // 16) * 16
    table = np.ones((words, width), np.float32)
    change = np.zeros(width)
    deltas.cut(np.array([0, words]))
    deltas.add_range(0, RowRange(0, table, np.zeros(0), change, np.zeros(3)), 1.0)
    return table, change


@pytest.mark.parametrize(("words", "columns"), [(600, 100), (80, 700), (40, 7), (10, 1)])
def test_sums_of_blocks_travel_without_loss(words: int, columns: int) -> None:
    rng = np.random.default_rng(4)
    quantum = quantum_of(2.0 * TOKENS)
    blocks = [make_delta(rng, words, columns) for _ in range(5)]
    here = SparseRound(RoundSpace(5), quantum, columns)
    there = SparseRound(RoundSpace(5), quantum, columns)
    for place, block in enumerate(blocks):
        here.put(place, *block)
    expected = add_round(here, words, columns)
    for place in (0, 2):
        there.put(place, *blocks[place])
    ids, data, parts = here.pack([1, 3, 4])
    frozen = [array.copy() for array in (ids, data, parts)]
    for array in frozen:
        array.flags.writeable = False  # as what arrives is
    there.receive(1, frozen)
    table, change = add_round(there, words, columns)
    assert (table == expected[0]).all()
    assert (change == expected[1]).all()


def test_rows_that_cancel_are_left_out() -> None:
    deltas = SparseRound(RoundSpace(2), quantum_of(TOKENS), 20)
    ids = np.array([3, 9], np.int32)
    topic = np.array([1, 5, 2], np.uint16)
    ptr = np.array([0, 2, 3])
    deltas.put(0, ids, SparseDelta(ptr, topic, np.array([1.5, 2.0, 4.0], np.float32)))
    deltas.put(1, ids, SparseDelta(ptr, topic, np.array([-1.5, -2.0, 1.0], np.float32)))
    sent, data, _ = deltas.pack([0, 1])
    assert sent.tolist() == [9]
    assert data.nbytes < 30


def test_half_of_the_bytes_travel() -> None:
    """As long as most blocks change most topics of their words, which they share."""
    rng = np.random.default_rng(5)
    words = 500
    deltas = SparseRound(RoundSpace(2), quantum_of(2.0 * 1.4e7), 100)
    plain = 0
    for place in range(2):
        ids = np.arange(words, dtype=np.int32)
        ptr = np.arange(words + 1, dtype=np.int64) * 60
        topic = np.concatenate([np.sort(rng.permutation(100)[:60]) for _ in range(words)])
        value = (rng.normal(size=60 * words) * 0.01).astype(np.float32)
        deltas.put(place, ids, SparseDelta(ptr, topic.astype(np.uint16), value))
        plain += 6 * 60 * words
    assert sum(array.nbytes for array in deltas.pack([0, 1])) < 0.55 * plain


def test_integers_and_tables_in_block_order_are_not_packed() -> None:
    assert not SparseRound(RoundSpace(1), 1.0).packs
    assert not SparseRound(RoundSpace(1), 0.0, 100).packs
