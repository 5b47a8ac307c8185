"""The sum of a round's deltas: one hash for every order of arrival and every number of threads, and
exact where it says so.
"""

from __future__ import annotations

import functools
import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import few_quick
from topicstream.engines.base import Rule, SparseDelta, TableSpec, padded
from topicstream.numeric.kernels.scatter import RowRange
from topicstream.numeric.tables import range_buffer, rounds
from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.merging import MergedRound
from topicstream.numeric.tables.range_buffer import MergeSpace
from topicstream.numeric.tables.rounds import DenseRound, RoundSpace, SparseRound
from topicstream.numeric.tables.spec import quantum_of

ROWS = 700
COLUMNS = 20
BLOCKS = 24
TOKENS = 1e6


def serial(work, n):
    for i in range(n):
        work(i)


def table(kind, mass=None, folder=None, rule=Rule.ADD):
    spec = TableSpec(delta=kind, mass="row" if mass is not None else "none", rule=rule)
    made = DenseTable(spec, ROWS, COLUMNS, mass, folder, serial)
    start = np.random.default_rng(0).random((ROWS, padded(COLUMNS)), np.float32)
    start[:, COLUMNS:] = 0
    made.fill(lambda a, b: start[a:b])
    return made


@functools.cache
def delta_of(kind, seed):
    """(ids, delta) of a block, which nobody changes; values of widely different sizes, so that
    plain sums depend on their order.
    """
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(ROWS, rng.integers(0, 300), replace=False)).astype(np.int32)
    if kind == "sparse":
        ptr = np.concatenate(([0], np.cumsum(rng.integers(0, 5, len(ids))))).astype(np.int64)
        topic = rng.integers(0, COLUMNS, ptr[-1]).astype(np.uint16)
        return ids, SparseDelta(
            ptr, topic, (10.0 ** rng.uniform(-9, 4, ptr[-1]) - 50).astype(np.float32)
        )
    rows = np.zeros((len(ids), padded(COLUMNS)), np.float32)
    rows[:, :COLUMNS] = 10.0 ** rng.uniform(-9, 4, (len(ids), COLUMNS)) - 50
    return ids, rows


def enter(deltas, slot, kind, seed):
    ids, delta = delta_of(kind, seed)
    room = deltas.slot(slot, ids)
    if room is not None:
        room[:] = delta
        delta = room
    deltas.put(slot, ids, delta)


def digest(target):
    h = hashlib.sha256(target.totals.tobytes())
    for _, rows in target.pieces():
        h.update(rows.tobytes())
    return h.hexdigest()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("turns", few_quick([12, 250], [12]))
def test_any_order_and_one_to_eight_threads_give_one_hash(kind, held, turns):
    mass = np.random.default_rng(3).random(ROWS) * 10 + 1 if held else None
    hashes = set()
    rng = np.random.default_rng(1)
    for turn in range(turns):
        target = table(kind, mass)
        deltas = target.new_round(RoundSpace(BLOCKS), 300, TOKENS)
        order = rng.permutation(BLOCKS)  # block order[i] arrives in slot i: merged in another order
        with ThreadPoolExecutor(1 + turn % 8) as pool:
            list(
                pool.map(
                    lambda pair, d=deltas: enter(d, pair[0], kind, int(pair[1])), enumerate(order)
                )
            )
        target.apply(deltas)
        hashes.add(digest(target))
    assert len(hashes) == 1


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_rows_in_ram_and_on_disk_and_spilled_deltas_have_the_same_bits(
    kind, factor, tmp_path, monkeypatch
):
    rule = Rule.ADD if factor == 1.0 else Rule.BLEND
    hashes = set()
    monkeypatch.setattr(rounds, "WINDOW_BYTES", 1 << 14)
    for folder, spill in [(None, None), (None, tmp_path), (tmp_path, None), (tmp_path, tmp_path)]:
        target = table(kind, folder=folder, rule=rule)
        deltas = target.new_round(RoundSpace(BLOCKS, spill), 300, TOKENS)
        for turn in range(3):
            for block in range(BLOCKS - turn):  # the last round of a pass is shorter
                enter(deltas, block, kind, 100 * turn + block)
            target.apply(deltas, factor)
        hashes.add(digest(target))
    assert len(hashes) == 1


@pytest.mark.quick(
    "20000-1.0-1000000.0-True-dense",
    "0-0.3-*-False-sparse",
    "20000-1.0-1000000000000.0-True-sparse",
    "1073741824-*",
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    ("bound", "factor", "tokens"),
    [
        (0, 0.3, 1e10),
        (20_000, 1.0, TOKENS),
        (20_000, 0.3, 1e10),
        (20_000, 1.0, 1e12),
        (1 << 30, 1.0, TOKENS),
    ],
)
@pytest.mark.quick("1073741824-1.0-1000000.0-True-sparse", "20000-1.0-1000000.0-True-dense")
def test_deltas_that_merge_as_blocks_end_give_the_same_bits(
    kind, held, bound, factor, tokens, tmp_path
):
    """Coarser quanta of larger corpora: sums of all rows, of some, of none are float64."""
    mass = np.random.default_rng(3).random(ROWS) * 10 + 1 if held else None
    rule = Rule.ADD if factor == 1.0 else Rule.BLEND
    hashes = set()
    for turn in (0, 1, 3):
        target = table(kind, mass, rule=rule)
        merge = MergeSpace(bound, tmp_path) if turn else None
        deltas = target.new_round(RoundSpace(BLOCKS, tmp_path, merge), 300, tokens)
        assert isinstance(deltas, MergedRound) == (turn > 0)
        for number in range(3):
            order = np.random.default_rng(turn).permutation(BLOCKS - number)
            with ThreadPoolExecutor(turn + 1) as pool:
                list(
                    pool.map(
                        lambda i, d=deltas, n=number: enter(d, int(i), kind, 100 * n + int(i)),
                        order,
                    )
                )
            if merge is not None:
                spilled = any(buffer.runs or buffer.pieces for buffer in merge.buffers)
                assert spilled == (bound < 1 << 30)
            target.apply(deltas, factor)
        hashes.add(digest(target))
    assert len(hashes) == 1


@pytest.mark.parametrize("tokens", [TOKENS, 1e10, 1e12])
def test_rows_with_all_topics_from_the_first_have_the_sums_of_others(tokens, tmp_path, monkeypatch):
    """Sums of which all, some and none outgrow whole numbers."""
    hashes = set()
    for few in (0, range_buffer.FEW_COLUMNS):
        monkeypatch.setattr(range_buffer, "FEW_COLUMNS", few)
        merge = MergeSpace(1 << 30, tmp_path)
        target = table("sparse")
        deltas = target.new_round(RoundSpace(BLOCKS, tmp_path, merge), 300, tokens)
        for block in range(BLOCKS):
            enter(deltas, block, "sparse", block)
        lengths = np.concatenate([buffer._length for buffer in merge.buffers])
        assert (lengths[lengths > 0] >= deltas.layout.columns).all() == (
            few > 0 or tokens == TOKENS
        )
        target.apply(deltas)
        hashes.add(digest(target))
    assert len(hashes) == 1


def test_a_range_that_wrote_pieces_has_a_buffer_again_where_there_is_room(tmp_path):
    """A round that fits nowhere, then two that fit: the first of those counts what comes."""
    merge = MergeSpace(0, tmp_path)
    target = table("sparse")
    plain = table("sparse")
    deltas = target.new_round(RoundSpace(BLOCKS, tmp_path, merge), 300, TOKENS)
    waiting = plain.new_round(RoundSpace(BLOCKS), 300, TOKENS)
    in_pieces = []
    for number, bound in enumerate((0, 0, 1 << 30)):
        merge.bound = bound
        for block in range(BLOCKS):
            enter(deltas, block, "sparse", 100 * number + block)
            enter(waiting, block, "sparse", 100 * number + block)
        in_pieces.append(sum(bool(buffer.pieces) for buffer in merge.buffers))
        target.apply(deltas)
        plain.apply(waiting)
    assert in_pieces[0] and in_pieces[1] and not in_pieces[2]
    assert digest(target) == digest(plain)


def test_the_sum_is_that_of_the_deltas_within_the_quantum():
    target = table("dense")
    before = np.concatenate([rows.copy() for _, rows in target.pieces()]).astype(np.float64)
    deltas = target.new_round(RoundSpace(BLOCKS), 300, TOKENS)
    for block in range(BLOCKS):
        ids, rows = delta_of("dense", block)
        before[ids] += rows
        enter(deltas, block, "dense", block)
    target.apply(deltas)
    after = np.concatenate([rows.copy() for _, rows in target.pieces()])
    np.testing.assert_allclose(
        after, before.astype(np.float32), rtol=2e-7, atol=BLOCKS * quantum_of(2 * TOKENS)
    )


@given(st.floats(1e-3, 1e18), st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=30))
def test_sums_of_multiples_of_the_quantum_are_exact(bound, shares):
    quantum = quantum_of(bound)
    assert np.log2(quantum) == int(np.log2(quantum)) and bound <= quantum * 2.0**53 < 2 * bound * (
        1 + 1e-12
    )
    values = [round(share * bound / len(shares) / quantum) for share in shares]
    total = 0.0
    for value in values:
        total += value * quantum
    assert total == sum(values) * quantum


def test_a_bound_of_nothing_rounds_nothing():
    assert quantum_of(0.0) == 0.0
    assert TableSpec(rows=3).quantum(1e9) == 0.0 and TableSpec(rows="documents").quantum(1e9) == 0.0
    assert (
        TableSpec().quantum(2.0**29) == 2.0**-23
        and TableSpec(bound=2.0**30).quantum(7.0) == 2.0**-23
    )


def test_a_cut_marks_the_ranges_that_deltas_change():
    """Ranges of rows 0 to 2, 3 to 5 and 6 to 8; block 0 changes rows 0 and 1, block 1 row 7."""
    deltas = DenseRound(RoundSpace(2), most_rows=3, width=8, quantum=0.0)
    for block, rows in enumerate(([0, 1], [7])):
        ids = np.array(rows, np.int32)
        deltas.put(block, ids, deltas.slot(block, ids))
    changed = deltas.cut(np.array([0, 3, 6, 9]))
    assert changed.tolist() == [True, False, True]
    assert deltas.cuts.tolist() == [[0, 0], [2, 0], [2, 0], [2, 1]]


def test_each_block_has_a_slot_of_its_own():
    deltas = DenseRound(RoundSpace(3), most_rows=4, width=8, quantum=0.0)
    for block, rows in enumerate(([5], [1, 2, 3, 9], [0, 7])):
        slot = deltas.slot(block, np.array(rows, np.int32))
        assert slot.shape == (len(rows), 8)
        slot[:] = block
        deltas.put(block, np.array(rows, np.int32), slot)
    assert [np.unique(delta).tolist() for _, delta in deltas.deltas] == [[0], [1], [2]]
    assert [ids.tolist() for ids in deltas.ids] == [[5], [1, 2, 3, 9], [0, 7]]


def test_windows_of_a_mapped_round_return_the_pages_of_all_its_rows(tmp_path, monkeypatch):
    """Three rows of two blocks of 8 columns fill a window, so ten rows take four."""
    monkeypatch.setattr(rounds, "WINDOW_BYTES", 3 * 2 * 8 * 4)
    deltas = DenseRound(RoundSpace(2, tmp_path), most_rows=6, width=8, quantum=0.0)
    released = []
    monkeypatch.setattr(deltas._slots, "release_pages", lambda a, b: released.append((a, b)))
    of_blocks = (np.array([0, 2, 3, 8], np.int32), np.array([1, 2, 9], np.int32))
    for block, ids in enumerate(of_blocks):
        slot = deltas.slot(block, ids)
        slot[:] = block + 1
        deltas.put(block, ids, slot)
    assert released == [(0, 4), (6, 9)]
    released.clear()
    part = RowRange(0, np.zeros((10, 8), np.float32), np.zeros(0), np.zeros(8), np.zeros(3))
    deltas.cut(np.array([0, 10]))
    deltas.add_range(0, part, 1.0)
    assert part.rows[:, 0].tolist() == [1, 2, 3, 1, 0, 0, 0, 0, 1, 2]
    # rows 0-2, 3-5, 6-8 and 9 of each block, by their places in its slot
    assert released == [(0, 2), (6, 8), (2, 3), (8, 8), (3, 4), (8, 8), (4, 4), (8, 9)]
    released.clear()
    in_memory = DenseRound(RoundSpace(1), most_rows=6, width=8, quantum=0.0)
    in_memory.put(0, of_blocks[0], in_memory.slot(0, of_blocks[0]))
    monkeypatch.setattr(in_memory._slots, "release_pages", lambda a, b: released.append((a, b)))
    in_memory.cut(np.array([0, 10]))
    in_memory.add_range(0, part, 0.0)
    assert released == []


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_delta_that_was_sent_is_the_delta(kind):
    ids, delta = delta_of(kind, 3)
    here = DenseRound(RoundSpace(1), 300, padded(COLUMNS), 0.0)
    there = DenseRound(RoundSpace(1), 300, padded(COLUMNS), 0.0)
    if kind == "sparse":
        here = SparseRound(RoundSpace(1), 0.0)
        there = SparseRound(RoundSpace(1), 0.0)
    enter(here, 0, kind, 3)
    there.receive(0, here.part(0, lambda some: [slice(0, len(some))]))
    [(sent_ids, sent)] = there.deltas
    assert sent_ids.tolist() == ids.tolist()
    if kind == "dense":
        assert np.array_equal(sent, delta)
        return
    assert sent.ptr.tolist() == delta.ptr.tolist()
    assert sent.topic.tolist() == delta.topic.tolist()
    assert sent.value.tolist() == delta.value.tolist()
