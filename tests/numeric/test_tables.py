"""The big tables on disk: the same bits as in memory, and no more of them in memory than is worked
on.
"""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.base.errors import StoreError
from topicstream.engines.base import Scratch, SparseDelta, TableSpec, padded
from topicstream.numeric.tables import dense as tables
from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.rounds import RoundSpace
from topicstream.numeric.tables.storage import Storage

WORDS = 5000
TOPICS = 20


def one_after_another(work, n):
    for i in range(n):
        work(i)


def pair(tmp_path, **spec):
    """The same table in memory and on disk."""
    made = [
        DenseTable(TableSpec(**spec), WORDS, TOPICS, None, folder, one_after_another)
        for folder in (None, tmp_path)
    ]
    start = np.random.default_rng(0).random((WORDS, padded(TOPICS)), np.float32)
    for t in made:
        t.fill(lambda a, b: start[a:b])
    return made


def rows_of(table):
    return np.concatenate([part.copy() for _, part in table.pieces()])


def dense_round(table, seed):
    rng = np.random.default_rng(seed)
    deltas = table.new_round(RoundSpace(3), 400, 1e6)
    for r in range(3):
        vocab = np.sort(rng.choice(WORDS, 5 + 40 * r, replace=False)).astype(np.int32)
        room = deltas.slot(r, vocab)
        room[:] = rng.normal(size=(len(vocab), padded(TOPICS)))
        deltas.put(r, vocab, room)
    table.apply(deltas, 0.5)


def sparse_round(table, seed):
    rng = np.random.default_rng(seed)
    deltas = table.new_round(RoundSpace(2), 400, 1e6)
    for r, n in enumerate((3, 60)):
        vocab = np.sort(rng.choice(WORDS, n, replace=False)).astype(np.int32)
        ptr = np.arange(0, 4 * n + 1, 4)
        topic = np.tile(np.arange(4, dtype=np.uint16), n)
        deltas.put(r, vocab, SparseDelta(ptr, topic, rng.normal(size=4 * n).astype(np.float32)))
    table.apply(deltas)


@pytest.mark.parametrize(("turn", "kind"), [(dense_round, "dense"), (sparse_round, "sparse")])
def test_rounds_give_the_same_bits_on_disk(tmp_path, monkeypatch, turn, kind):
    monkeypatch.setattr(tables, "RANGE_BYTES", 64 << 10)
    memory, disk = pair(tmp_path, delta=kind)
    for seed in range(4):
        turn(memory, seed)
        turn(disk, seed)
    np.testing.assert_array_equal(rows_of(disk), rows_of(memory))
    np.testing.assert_array_equal(disk.totals, memory.totals)
    ids = np.array([0, 3, 4, 4000, WORDS - 1], np.int32)
    for table in (memory, disk):
        rows = table.gather(ids, Scratch())
        np.testing.assert_array_equal(rows.base[rows.index], rows_of(memory)[ids])


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_table_is_saved_and_read_back(tmp_path, place):
    table = pair(tmp_path)[place == "disk"]
    table.save(tmp_path / "saved")
    before = rows_of(table)
    table.clear()
    assert not rows_of(table).any()
    table.load(tmp_path / "saved")
    np.testing.assert_array_equal(rows_of(table), before)
    folder = None if place == "memory" else tmp_path
    larger = DenseTable(TableSpec(), WORDS + 700, TOPICS, None, folder, one_after_another)
    with pytest.raises(StoreError, match="not 5700 rows of 20 numbers"):
        larger.load(tmp_path / "saved")


def test_rows_in_memory_are_one_array_and_ranges_are_sixty_four(tmp_path):
    memory, disk = pair(tmp_path)
    assert disk.array is None and np.array_equal(memory.array, rows_of(memory))
    for table in (memory, disk):  # of 5,000 rows, 79 each
        assert table.edges.tolist() == [*range(0, WORDS, 79), WORDS]
    few = DenseTable(TableSpec(), 3, TOPICS, None, None, one_after_another)
    assert few.edges.tolist() == [0, 1, 2, 3]


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


def test_a_mapped_array_leaves_memory_and_keeps_its_values(tmp_path):
    storage = Storage((64, 1 << 18), np.uint8, tmp_path)
    assert not list(tmp_path.iterdir())
    before = resident()
    for row in range(64):
        storage.array[row] = row + 1
        storage.release_pages(row, row + 1)
    assert resident() - before < 4 << 20
    assert (storage.array[:, ::4096] == np.arange(1, 65, dtype=np.uint8)[:, None]).all()
    storage.clear()
    assert not storage.array.any()
    storage.close()


def test_an_array_that_the_disk_has_no_room_for_is_an_error_at_once(tmp_path):
    with pytest.raises(OSError):
        Storage((1 << 50,), np.uint8, tmp_path)


# -- what the end of a pass finds, by hand
# --------------------------------------------------------------------------------------------------
ROWS_BY_HAND = [[2.0, 1.0], [3.0, -0.5], [0.0, 4.0], [1.0, 1.0]]
"""Rows of masses 3, 2, 5 and 2."""


def small_table(mass, row_mass):
    spec = TableSpec(mass=mass)
    table = DenseTable(spec, 4, 2, row_mass, None, one_after_another)
    rows = np.zeros((4, padded(2)), np.float32)
    rows[:, :2] = ROWS_BY_HAND
    table.fill(lambda a, b: rows[a:b])
    return table


def test_rows_are_held_to_their_mass_and_the_largest_correction_is_said():
    table = small_table("row", np.array([3.0, 2.0, 5.0, 2.0]))
    off, low, endless = table.finish_pass()
    assert off == pytest.approx(0.25) and low == pytest.approx(-0.25) and endless == 0
    np.testing.assert_allclose(rows_of(table)[:, :2], [[2, 1], [2, 0], [0, 5], [1, 1]])
    np.testing.assert_allclose(table.totals[:2], [5, 7])
    assert table.finish_pass().tolist() == [0, 0, 0]


def test_parts_of_rows_are_only_clipped():
    table = small_table("part", None)
    off, low, endless = table.finish_pass()
    assert off == 0 and low == pytest.approx(-0.2) and endless == 0
    np.testing.assert_allclose(rows_of(table)[:, :2], np.maximum(ROWS_BY_HAND, 0))
    np.testing.assert_allclose(table.totals[:2], [6, 6])
    table.clear()
    assert not table.totals.any()


def test_numbers_without_a_mass_stay():
    table = small_table("none", None)
    assert table.finish_pass().tolist() == [0, 0, 0]
    np.testing.assert_allclose(rows_of(table)[:, :2], ROWS_BY_HAND)


def test_a_number_without_end_is_said():
    table = small_table("part", None)
    table.fill(lambda a, b: np.full((b - a, padded(2)), np.inf, np.float32))
    assert table.finish_pass()[2] == 1


def test_the_largest_correction_of_a_pass_is_that_of_all_its_rounds():
    table = small_table("none", None)
    for worst in ([0.5, -0.1, 0.0], [0.2, -0.3, 1.0], [0.1, -0.2, 0.0]):
        table._sum(np.zeros((1, padded(2))), np.array([worst]))
    assert table.finish_pass().tolist() == [0.5, -0.3, 1]


@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_a_group_of_ranges_belongs_to_one_member(monkeypatch, members):
    """Group g has the ranges g, g + 64, ...: its sums are added up in one place."""
    monkeypatch.setattr(tables, "RANGE_BYTES", 10 * 4 * padded(TOPICS))
    table = DenseTable(TableSpec(), WORDS, TOPICS, None, None, one_after_another)
    assert len(table.edges) == 501
    owned = np.array([table._owned(m, members) for m in range(members)])
    assert (owned.sum(axis=0) == 1).all()
    owner = owned.argmax(axis=0)
    assert all(len(set(owner[group::64])) == 1 for group in range(64))
