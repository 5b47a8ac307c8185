"""Packed rows and the packed table, in memory and on disk, against dense arrays of counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gibbs_driver import pack_tight
from topicstream.base.errors import StoreError, TopicsError
from topicstream.engines.base import Scratch, SparseDelta, TableSpec
from topicstream.engines.gibbs.chain import count_moves
from topicstream.numeric.kernels.arrays import RowEntries
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.packed import (
    READ_PAST,
    find_lane,
    passing,
    rise,
    row_mass,
    sink,
    sort_by_count,
    topic_bits,
)
from topicstream.numeric.tables import slots
from topicstream.numeric.tables.packed import PackedTable

SPEC = TableSpec(dtype="int32", layout="packed", delta="sparse", mass="row")
PLACES = pytest.mark.parametrize("place", ["memory", "disk"])


def serial(work, n):
    for i in range(n):
        work(i)


@kernel
def _find(arena, at, n, topic, m):
    return find_lane(arena, at, n, topic, m)


@kernel
def _mass(arena, at, n, coef, m):
    return row_mass(arena, at, n, coef, m)


@kernel
def _passing(arena, at, n, coef, m, x):
    return passing(arena, at, n, coef, m, x)


@kernel
def _take(arena, n, topic, m):
    """Take one of a topic out of the row; returns its length."""
    p = find_lane(arena, 0, n, topic, m)
    e = np.int64(arena[p])
    arena[p] = e - (np.int64(1) << m)
    sink(arena, 0, n, p, m)
    return n - 1 if (e >> m) == 1 else n


@kernel
def _put(arena, n, topic, m):
    """Put one of a topic into the row; returns its length."""
    p = find_lane(arena, 0, n, topic, m)
    if p < 0:
        arena[n] = (np.int64(1) << m) | topic
        return n + 1
    rise(arena, 0, p, m)
    return n


def dense_row(arena, n, m, topics):
    out = np.zeros(topics, np.int64)
    row = arena[:n].astype(np.int64)
    out[row & ((1 << m) - 1)] = row >> m
    return out


@settings(max_examples=60, deadline=None)
@given(
    topics=st.sampled_from([1, 2, 5, 33, 100]),
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 99)), min_size=1, max_size=200),
)
def test_a_row_stays_descending_and_sums_to_its_counts(topics, moves):
    m = topic_bits(topics)
    arena = np.zeros(topics + READ_PAST, np.uint32)
    n = 0
    truth = np.zeros(topics, np.int64)
    for put, t in moves:
        t %= topics
        if put or truth[t] == 0:
            n = _put(arena, n, t, m)
            truth[t] += 1
        else:
            n = _take(arena, n, t, m)
            truth[t] -= 1
        assert n == (truth > 0).sum()
        assert (np.diff(arena[:n].astype(np.int64) >> m) <= 0).all()
        np.testing.assert_array_equal(dense_row(arena, n, m, topics), truth)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 70), seed=st.integers(0, 10**6), wide=st.booleans())
def test_vectors_find_and_weigh_as_one_by_one(n, seed, wide):
    rng = np.random.default_rng(seed)
    m = topic_bits(100)
    at = int(rng.integers(0, 20))
    arena = rng.integers(0, 1 << 30, at + n + READ_PAST).astype(np.uint64 if wide else np.uint32)
    topic = rng.permutation(100)[:n]
    count = rng.integers(1, 1000, n)
    arena[at : at + n] = (count << m) | topic
    coef = rng.random(100)
    weights = coef[topic] * count
    assert _mass(arena, at, n, coef, m) == pytest.approx(weights.sum(), rel=1e-13)
    for t in range(100):
        where = np.flatnonzero(topic == t)
        assert _find(arena, at, n, t, m) == (where[0] if len(where) else -1)
    if n:
        x = rng.random() * weights.sum()
        k, left = _passing(arena, at, n, coef, m, x)
        place = min(int(np.searchsorted(np.cumsum(weights), x, side="right")), n - 1)
        assert k % 8 == 0 and k <= place < k + 8
        assert left == pytest.approx(x - weights[:k].sum(), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(counts=st.lists(st.integers(1, 50), min_size=1, max_size=300), nearly=st.booleans())
def test_sorting_by_count(counts, nearly):
    m = topic_bits(512)
    if nearly:
        counts = sorted(counts, reverse=True)
        counts[len(counts) // 2] += 3
    entries = np.array([(c << m) | t for t, c in enumerate(counts)], np.uint32)
    expected = np.sort(entries)
    sort_by_count(entries, 0, len(entries), m)
    assert (np.diff(entries.astype(np.int64) >> m) <= 0).all()
    np.testing.assert_array_equal(np.sort(entries), expected)


def delta_of(change: np.ndarray) -> tuple[np.ndarray, SparseDelta]:
    """A dense change [W, K] as (vocab, delta), topics in an arbitrary order."""
    vocab = np.flatnonzero((change != 0).any(1)).astype(np.int32)
    ptr = np.zeros(len(vocab) + 1, np.int64)
    topic = []
    for i, w in enumerate(vocab):
        topic += list(np.flatnonzero(change[w])[::-1])
        ptr[i + 1] = len(topic)
    rows = np.repeat(vocab, np.diff(ptr))
    topic = np.array(topic, np.int32)
    return vocab, SparseDelta(ptr, topic, change[rows, topic].astype(np.int32))


def table_for(counts: np.ndarray, place: str, folder: Path, most: int = 0) -> PackedTable:
    """An empty table whose rows are to sum to those of ``counts``."""
    at = folder if place == "disk" else None
    return PackedTable(
        replace(SPEC, samples=range(most)), *counts.shape, counts.sum(1).astype(float), at, serial
    )


def dense(table: PackedTable) -> np.ndarray:
    return np.concatenate([rows.copy() for _, rows in table.pieces()])[:, : table.columns]


def tight(table: PackedTable, vocab: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ptr, entries) of rows as a block would have them, copied by two."""
    rows = table.gather(vocab, Scratch())
    ptr = np.append(0, np.cumsum(rows.length, dtype=np.int64))
    entries = np.full(ptr[-1], -1).astype(np.uint64)
    half = len(vocab) // 2
    rows.copy(0, half, ptr[:half], entries)
    rows.copy(half, len(vocab), ptr[half:-1], entries)
    assert (entries >> np.uint64(rows.bits)).max(initial=0) <= rows.largest
    return ptr, entries


@pytest.mark.quick("disk")
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    words=st.integers(1, 150),
    topics=st.sampled_from([1, 4, 40]),
    blocks=st.integers(1, 4),
)
@PLACES
def test_a_table_is_the_sum_of_its_deltas(place, seed, words, topics, blocks):
    rng = np.random.default_rng(seed)
    truth = rng.poisson(0.8, (words, topics)).astype(np.int64)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(slots, "PIECE", int(rng.integers(1, 500)))
        folder = Path(name)
        table = table_for(truth, place, folder)
        table.add([delta_of(truth)])
        for _ in range(3):
            share = truth.copy()
            deltas = []
            for _ in range(blocks):  # each block moves tokens of its own
                own = rng.binomial(share, 0.4)
                share -= own
                moved = np.stack(
                    [rng.multinomial(n, np.full(topics, 1 / topics)) for n in own.sum(1)]
                )
                deltas.append(moved - own)
            table.add([delta_of(d) for d in deltas])
            truth = truth + sum(deltas)
            np.testing.assert_array_equal(dense(table), truth)
            assert table.finish_pass()[0] == 0
            np.testing.assert_array_equal(table.totals[:topics], truth.sum(0))
            values, times = np.unique(truth[truth > 0], return_counts=True)
            np.testing.assert_array_equal(table.histogram, (values, times))
        vocab = np.flatnonzero(rng.random(words) < 0.5).astype(np.int32)
        bits = topic_bits(topics)
        (ptr, entries) = tight(table, vocab)
        for u, w in enumerate(vocab):
            row = entries[ptr[u] : ptr[u + 1]]
            assert (np.diff(row.astype(np.int64) >> bits) <= 0).all()
            np.testing.assert_array_equal(dense_row(row, len(row), bits, topics), truth[w])
        table.save(folder / "saved")
        for other in ("memory", "disk"):
            again = table_for(truth, other, folder)
            again.load(folder / "saved")
            np.testing.assert_array_equal(dense(again), truth)
            np.testing.assert_array_equal(tight(again, vocab)[1], entries)
            again.save(folder / "again")
            assert (folder / "again").read_bytes() == (folder / "saved").read_bytes()
            (folder / "again").unlink()
            again.close()
        table.close()
        assert [path.name for path in folder.iterdir()] == ["saved"]


@PLACES
def test_memory_falls_with_the_entries(place, tmp_path):
    spread = np.ones((100, 64), np.int64)
    table = table_for(spread, place, tmp_path)
    table.add([delta_of(spread)])
    before = table.nbytes
    gathered = np.zeros_like(spread)
    gathered[:, 3] = 64
    table.add([delta_of(gathered - spread)])
    np.testing.assert_array_equal(dense(table), gathered)
    assert before - table.nbytes == 100 * 63 * 4


@PLACES
def test_counts_past_32_bits(place, tmp_path):
    topics = 64  # 6 bits: counts to 2^26 - 1 fit
    change = np.zeros((200, topics), np.int64)
    change[5, 7] = (1 << 26) - 1
    change[150, 2] = 9
    more = np.zeros_like(change)
    more[5, 7] = 1
    table = table_for(change + more, place, tmp_path)
    table.add([delta_of(change)])
    entries = np.empty(2, np.uint32)
    rows = table.gather(np.array([5, 150], np.int32), Scratch())
    assert rows.largest == (1 << 26) - 1
    rows.copy(0, 2, np.arange(2), entries)
    assert list(entries.astype(int)) == [(((1 << 26) - 1) << 6) | 7, (9 << 6) | 2]
    table.add([delta_of(more)])
    assert list(tight(table, np.array([5, 150], np.int32))[1].astype(int)) == [
        ((1 << 26) << 6) | 7,
        (9 << 6) | 2,
    ]
    table.finish_pass()
    np.testing.assert_array_equal(table.histogram, ([9, 1 << 26], [1, 1]))
    table.save(tmp_path / "saved")
    for other in ("memory", "disk"):
        again = table_for(change + more, other, tmp_path)
        again.load(tmp_path / "saved")
        np.testing.assert_array_equal(dense(again), change + more)
        again.save(tmp_path / f"again {other}")
        assert (tmp_path / f"again {other}").read_bytes() == (tmp_path / "saved").read_bytes()


@PLACES
def test_samples_are_averaged_and_survive_a_checkpoint(place, tmp_path: Path):
    rng = np.random.default_rng(0)
    first = rng.poisson(1.0, (70, 9)).astype(np.int64)
    states = [first, *(rng.permuted(first, axis=1) for _ in range(2))]
    table = table_for(first, place, tmp_path, 3)
    last = np.zeros_like(first)
    for state in states:
        table.add([delta_of(state - last)])
        table.take_sample()
        last = state
    np.testing.assert_array_equal(table.totals[:9], last.sum(0))
    assert len(tight(table, np.arange(70, dtype=np.int32))[1]) == (last > 0).sum()
    table.save(tmp_path / "saved")
    again = table_for(first, place, tmp_path, 3)
    again.load(tmp_path / "saved")
    for held in (table, again):
        np.testing.assert_allclose(dense(held), np.mean(states, 0), rtol=1e-6)
        np.testing.assert_allclose(held.shown_totals[:9], np.mean(states, 0).sum(0), rtol=1e-12)
        ids = np.array([0, 3, 69], np.int32)
        out = np.zeros((3, 16), np.float32)
        np.testing.assert_allclose(held.dense(ids, out)[:, :9], np.mean(states, 0)[ids], rtol=1e-6)


@PLACES
def test_wrong_deltas_and_files_are_refused(place, tmp_path: Path):
    counts = np.ones((10, 4), np.int64)
    table = table_for(counts, place, tmp_path)
    change = np.zeros((10, 4), np.int64)
    change[2, 1] = -1
    with pytest.raises(TopicsError, match="came out negative"):
        table.add([delta_of(change)])
    table.save(tmp_path / "saved")
    with pytest.raises(StoreError, match="not the rows of a table of 11 words"):
        table_for(np.ones((11, 4), np.int64), place, tmp_path).load(tmp_path / "saved")
    (tmp_path / "saved").write_bytes((tmp_path / "saved").read_bytes()[:60])
    with pytest.raises(StoreError, match="truncated"):
        table_for(counts, place, tmp_path).load(tmp_path / "saved")


@PLACES
def test_a_damaged_length_asks_for_no_memory(place, tmp_path: Path):
    counts = np.ones((10, 4), np.int64)
    table = table_for(counts, place, tmp_path)
    table.add([delta_of(counts)])
    table.save(tmp_path / "saved")
    saved = (tmp_path / "saved").read_bytes()
    lengths = np.full(10, 4, np.int32).tobytes()
    assert saved.count(lengths) == 1
    (tmp_path / "saved").write_bytes(
        saved.replace(lengths, np.full(10, 2**31 - 1, np.int32).tobytes())
    )
    with pytest.raises(StoreError, match="an invalid topic or count"):
        table_for(counts, place, tmp_path).load(tmp_path / "saved")


@PLACES
def test_rows_with_more_tokens_than_the_corpus_has_are_refused(place, tmp_path: Path):
    counts = np.eye(10, dtype=np.int64)
    table = table_for(counts, place, tmp_path)
    table.add([delta_of(counts)])
    with pytest.raises(TopicsError, match="more topics than tokens"):
        table.add([delta_of(np.ones((10, 10), np.int64))])
    np.testing.assert_array_equal(dense(table), counts)


def test_packing_round_trip():
    n_wt = np.array([[0, 3, 1], [0, 0, 0], [7, 0, 7]])
    table = PackedTable(SPEC, 3, 3, n_wt.sum(1).astype(float), None, serial)
    table.fill(lambda a, b: n_wt[a:b])
    ptr, entries = tight(table, np.arange(3, dtype=np.int32))
    expected = pack_tight(n_wt)
    np.testing.assert_array_equal(ptr, expected.ptr)
    np.testing.assert_array_equal(np.sort(entries), np.sort(expected.entries))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    cells=st.integers(0, 60),
    words=st.integers(1, 12),
    topics=st.sampled_from([1, 3, 50]),
)
def test_moves_are_what_the_topics_say(seed, cells, words, topics):
    rng = np.random.default_rng(seed)
    word = rng.integers(0, words, cells).astype(np.int32)
    counts = rng.integers(1, 5, cells).astype(np.int32)
    owner = np.repeat(word, counts)
    before, after = (rng.integers(0, topics, len(owner)).astype(np.uint8) for _ in range(2))
    change = np.zeros((words, topics), np.int64)
    np.add.at(change, (owner, after), 1)

    def counted(before):
        size = 2 * (int((before != after).sum()) if len(before) else len(after)) + 2
        work = np.zeros(topics, np.int32)
        first = np.empty(words, np.int64)
        ptr = np.empty(words + 1, np.int64)
        topic = np.empty(size, np.int32)
        value = np.empty(size, np.int32)
        used = count_moves(word, counts, before, after, work, first, RowEntries(ptr, topic, value))
        assert not work.any() and ptr[-1] == used
        found = np.zeros((words, topics), np.int64)
        rows = np.repeat(np.arange(words), np.diff(ptr))
        assert len(set(zip(rows, topic[:used]))) == used and value[:used].all()
        found[rows, topic[:used]] = value[:used]
        return found

    np.testing.assert_array_equal(counted(before[:0]), change)
    np.add.at(change, (owner, before), -1)
    np.testing.assert_array_equal(counted(before), change)
