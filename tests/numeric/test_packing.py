"""Sums of sparse deltas that travel as bytes: what other processes add is what the blocks made."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.numeric.kernels.scatter import RowRange
from topicstream.numeric.parallel import Workers
from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.rounds import RoundSpace, SparseRound
from topicstream.numeric.tables.spec import Rule, SparseDelta, TableSpec, padded, quantum_of
from topicstream.numeric.tables.sums import PIECES, PackedSums

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


def put_blocks(blocks: list[tuple[np.ndarray, SparseDelta]]) -> SparseRound:
    """A round of these blocks."""
    deltas = SparseRound(RoundSpace(len(blocks)), quantum_of(2.0 * TOKENS))
    for place, block in enumerate(blocks):
        deltas.put(place, *block)
    return deltas


def make_sums(words: int, columns: int, ranges: int = 3) -> PackedSums:
    """A collector for a table of so many ranges."""
    edges = np.linspace(0, words, ranges + 1).astype(np.int64)
    return PackedSums(edges, columns, quantum_of(2.0 * TOKENS), Workers(1).run_ranges)


def add_sums(
    sums: PackedSums, words: int, columns: int, ranges: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """A table of ones with all sums added to it, and the change of its column sums."""
    table = np.ones((words, padded(columns)), np.float32)
    change = np.zeros(padded(columns))
    edges = np.linspace(0, words, ranges + 1).astype(np.int64).tolist()
    touched = sums.touched()
    for i in np.flatnonzero(touched).tolist():
        rows = table[edges[i] : edges[i + 1]]
        sums.add_range(i, RowRange(edges[i], rows, np.zeros(0), change, np.zeros(3)), 1.0)
    return table, change


def sum_exactly(
    blocks: list[tuple[np.ndarray, SparseDelta]], words: int, columns: int
) -> np.ndarray:
    """The same table by Python's whole numbers."""
    quantum = quantum_of(2.0 * TOKENS)
    whole = [[0] * padded(columns) for _ in range(words)]
    for ids, delta in blocks:
        for u, word in enumerate(ids.tolist()):
            for j in range(int(delta.ptr[u]), int(delta.ptr[u + 1])):
                whole[word][int(delta.topic[j])] += round(float(delta.value[j]) / quantum)
    sums = np.array(whole, np.float64) * quantum
    return (1.0 + sums).astype(np.float32)


@pytest.mark.parametrize(("words", "columns"), [(600, 100), (80, 700), (40, 7), (10, 1)])
def test_sums_of_blocks_travel_without_loss(words: int, columns: int) -> None:
    rng = np.random.default_rng(4)
    blocks = [make_delta(rng, words, columns) for _ in range(5)]
    here = make_sums(words, columns)
    arrays = [array.copy() for array in here.pack(1, put_blocks(blocks[2:]))]
    for array in arrays:
        array.flags.writeable = False  # as what arrives is
    there = make_sums(words, columns)
    there.pack(0, put_blocks(blocks[:2]))
    assert there.missing([0, 1]) == [1]
    there.receive(1, arrays)
    assert there.missing([0, 1]) == []
    table, change = add_sums(there, words, columns)
    expected = sum_exactly(blocks, words, columns)
    assert (table == expected).all()
    assert np.allclose(change, (expected.astype(np.float64) - 1.0).sum(axis=0), atol=1e-3)
    there.clear()
    assert not there.touched().any()


def test_the_largest_and_the_smallest_sums_keep_all_their_bits() -> None:
    quantum = quantum_of(2.0 * TOKENS)
    values = np.array([2 * TOKENS, -2 * TOKENS, quantum, -quantum, 0.75, -1024.0], np.float32)
    ids = np.array([0, 1, 2, 3, 4, 5], np.int32)
    delta = SparseDelta(np.arange(7), np.array([99, 0, 15, 16, 31, 32], np.uint16), values)
    sums = make_sums(6, 100, ranges=1)
    sums.receive(3, [array.copy() for array in sums.pack(0, put_blocks([(ids, delta)]))])
    table = np.zeros((6, 112))
    sums.add_range(0, RowRange(0, table, np.zeros(0), np.zeros(112), np.zeros(3)), 0.5)
    expected = np.zeros((6, 112))
    expected[ids, delta.topic] = values
    assert (table == expected).all()  # half of two equal sums


def test_rows_that_cancel_are_left_out() -> None:
    ids = np.array([3, 9], np.int32)
    topic = np.array([1, 5, 2], np.uint16)
    ptr = np.array([0, 2, 3])
    one = SparseDelta(ptr, topic, np.array([1.5, 2.0, 4.0], np.float32))
    other = SparseDelta(ptr, topic, np.array([-1.5, -2.0, 1.0], np.float32))
    sums = make_sums(10, 20, ranges=1)
    places, *pieces = sums.pack(0, put_blocks([(ids, one), (ids, other)]))
    assert places.tolist() == [[0, 0, 1, 0]]
    assert pieces[0].tolist() == [9]
    assert pieces[1].nbytes < 30


def test_less_than_half_of_the_bytes_travel() -> None:
    """As long as most blocks change most topics of their words, which they share."""
    rng = np.random.default_rng(5)
    words = 500
    blocks = []
    plain = 0
    for _ in range(2):
        ids = np.arange(words, dtype=np.int32)
        ptr = np.arange(words + 1, dtype=np.int64) * 60
        topic = np.concatenate([np.sort(rng.permutation(100)[:60]) for _ in range(words)])
        value = (rng.normal(size=60 * words) * 0.01).astype(np.float32)
        blocks.append((ids, SparseDelta(ptr, topic.astype(np.uint16), value)))
        plain += 6 * 60 * words
    sums = PackedSums(np.array([0, words]), 100, quantum_of(2.0 * 1.4e7), Workers(1).run_ranges)
    assert sum(array.nbytes for array in sums.pack(0, put_blocks(blocks))) < 0.5 * plain


def test_pieces_have_about_as_many_entries() -> None:
    rng = np.random.default_rng(6)
    words = 4000
    sums = make_sums(words, 100, ranges=64)
    _, *pieces = sums.pack(0, put_blocks([make_delta(rng, words, 100)]))
    sizes = [data.nbytes for data in pieces[1::2]]
    assert len(sizes) == PIECES
    assert max(sizes) < 1.4 * min(sizes)


@pytest.mark.parametrize(
    "spec",
    [TableSpec(), TableSpec(rows=4, delta="sparse"), TableSpec(delta="sparse", bound=0.0)],
)
def test_dense_deltas_and_tables_in_block_order_are_not_packed(spec: TableSpec) -> None:
    table = DenseTable(spec, 4, 20, None, None, Workers(1).run_ranges)
    assert table.new_sums(TOKENS) is None


def test_tables_of_sparse_exact_deltas_are_packed() -> None:
    for rule in (Rule.ADD, Rule.BLEND):
        spec = TableSpec(delta="sparse", rule=rule)
        table = DenseTable(spec, 4, 20, None, None, Workers(1).run_ranges)
        assert table.new_sums(TOKENS) is not None
