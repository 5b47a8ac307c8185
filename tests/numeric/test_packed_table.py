"""The packed table: its bytes, its histogram and its constants, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topicstream.base.errors import StoreError
from topicstream.engines.base import Scratch, SparseDelta, TableSpec
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.merging import MergedRound
from topicstream.numeric.tables.packed import PackedTable
from topicstream.numeric.tables.range_buffer import MergeSpace
from topicstream.numeric.tables.rounds import RoundSpace
from topicstream.numeric.tables.slots import PIECE
from topicstream.numeric.tables.table import Merging, Sizes

SPEC = TableSpec(dtype="int32", layout="packed", delta="sparse", mass="row")


def serial(work, n):
    for i in range(n):
        work(i)


def filled(counts, constants=None):
    """A table that has counted ``counts`` [W, K]."""
    counts = np.asarray(counts, np.int64)
    sums = counts.sum(1).astype(float)
    table = PackedTable(SPEC, *counts.shape, sums, None, serial, constants)
    row, topic = np.nonzero(counts)
    ptr = np.append(0, np.cumsum(np.bincount(row, minlength=len(counts)), dtype=np.int64))
    ids = np.arange(len(counts), dtype=np.int32)
    table.add([(ids, SparseDelta(ptr, topic.astype(np.int32), counts[row, topic]))])
    return table


def test_counts_around_the_histogram_s_edge():
    table = filled([[4096, 4095], [4097, 4096], [1, 0]])  # a 4096 of the first topic, too
    table.finish_pass()
    counts, times = table.histogram
    np.testing.assert_array_equal(counts, [1, 4095, 4096, 4097])
    np.testing.assert_array_equal(times, [1, 1, 2, 1])


def test_the_largest_count_falls_at_the_end_of_a_pass():
    table = filled([[9, 1], [0, 2]])
    moved = SparseDelta(np.array([0, 2]), np.array([0, 1], np.int32), np.array([-4, 4]))
    table.add([(np.array([0], np.int32), moved)])
    ids = np.arange(2, dtype=np.int32)
    assert table.gather(ids, Scratch()).largest == 9
    table.finish_pass()
    assert table.gather(ids, Scratch()).largest == 5


def test_constants_are_added_to_the_counts_of_their_rows():
    constants = Constants(np.array([1, 1]), np.array([2, 0]), np.array([50.0, 3.0]), 3)
    table = filled([[4, 0, 2], [5, 6, 0], [1, 0, 7]], constants)
    ids = np.array([0, 1, 2], np.int32)
    rows = table.gather(ids, Scratch())
    assert rows.largest == 50
    np.testing.assert_array_equal(rows.length, [2, 3, 2])
    entries = np.zeros(7, np.uint64)
    rows.copy(0, 3, np.array([0, 2, 5]), entries)
    mask = np.uint64((1 << rows.bits) - 1)
    pairs = list(zip((entries >> np.uint64(rows.bits)).tolist(), (entries & mask).tolist()))
    # (count, topic), descending in count
    assert pairs == [(4, 0), (2, 2), (50, 2), (8, 0), (6, 1), (7, 2), (1, 0)]
    table.finish_pass()
    np.testing.assert_array_equal(table.summary()["constants"], [5.0, 0.0])


def test_the_largest_count_of_a_file_is_known(tmp_path):
    filled([[0, 7, 1], [1, 0, 0]]).save(tmp_path / "rows")
    table = filled([[0, 7, 1], [0, 0, 1]])
    table.load(tmp_path / "rows")
    assert table.gather(np.arange(2, dtype=np.int32), Scratch()).largest == 7


@pytest.mark.parametrize("saved, fits", [(2, True), (3, False)])
def test_a_topic_behind_the_last_is_refused(saved, fits, tmp_path):
    path = tmp_path / "rows"
    table = filled([[0, 0, 1], [1, 0, 0]])  # two bits hold topics 0 to 3
    table.save(path)
    content = path.read_bytes()
    assert int.from_bytes(content[-8:-4], "little") == 1 << 2 | 2
    path.write_bytes(content[:-8] + bytes([1 << 2 | saved, 0, 0, 0]) + content[-4:])
    if fits:
        table.load(path)
    else:
        with pytest.raises(StoreError, match="an invalid topic"):
            table.load(path)


def test_bytes_of_a_table_in_the_densest_case():
    sizes = Sizes(rows=130, columns=10, entries=900, largest=1000)
    plan = PackedTable.footprint(SPEC, sizes)
    # 900 entries of 32 bits;  of a word its begin, length and room: 8 + 4 + 4
    assert (plan.rows, plan.fixed) == (900 * 4, 130 * 16)
    assert plan.window == 3 * (PIECE + 10) * 8
    # a place takes 4 + 8 + 2; the 130 rows make 64 ranges of three at most
    of_range = 3 * 10 * (14 + 14)
    assert plan.merging == Merging(fixed=20 * 130, sums=1300 * 14 * 9 // 8, range=of_range)


def test_a_sum_of_samples_is_a_table_of_its_own():
    sizes = Sizes(rows=130, columns=10, entries=600, largest=1000)
    plan = PackedTable.footprint(replace(SPEC, samples=range(2)), sizes)
    # two samples of 600 entries each, 1200 of at most 1300
    assert (plan.rows, plan.fixed) == ((600 + 1200) * 4, 130 * 32)
    plan = PackedTable.footprint(replace(SPEC, samples=range(3)), sizes)
    assert plan.rows == (600 + 1300) * 4


def test_an_emptied_table_has_no_totals():
    table = filled([[4, 0, 2], [5, 6, 0]])
    assert table.totals[:3].tolist() == [9, 6, 2]
    table.clear()
    assert table.totals.tolist() == [0] * len(table.totals)


def take_behind_others(deltas, i, take=MergedRound.take):
    """The sums of a range, behind 100 of topic 1 that are none of them."""
    ids, delta = take(deltas, i)
    before = (ids[0], -1, 1, 100)
    arrays = (ids, delta.ptr, delta.topic, delta.value)
    longer = [np.append(b, a).astype(a.dtype)[1:] for b, a in zip(before, arrays, strict=True)]
    return longer[0], SparseDelta(*longer[1:])


def test_sums_of_a_round_that_merge_are_those_of_its_deltas(tmp_path, monkeypatch):
    """Row 0 loses 1 of topic 0 to topic 2 by two blocks, row 3 gains topic 1 by the second."""
    monkeypatch.setattr(MergedRound, "take", take_behind_others)
    table = filled([[4, 0, 2], [5, 6, 0], [1, 0, 7], [2, 2, 2]])
    deltas = table.new_round(RoundSpace(2, merge=MergeSpace(1 << 20, tmp_path)), 4, 1e3)
    moves = (
        ([0], [0, 2], [0, 2], [-1, 1]),
        ([0, 3], [0, 2, 4], [0, 2, 0, 1], [-1, 1, -1, 1]),
    )
    for block, (rows, ptr, topics, values) in enumerate(moves):
        delta = SparseDelta(np.array(ptr), np.array(topics, np.int32), np.array(values))
        deltas.put(block, np.array(rows, np.int32), delta)
    table.apply(deltas)
    assert table.totals[:3].tolist() == [9, 9, 13]
    rows = np.concatenate([rows.copy() for _, rows in table.pieces()])
    assert rows[:, :3].tolist() == [[2, 0, 4], [5, 6, 0], [1, 0, 7], [1, 3, 2]]
