"""The big tables on disk: the same bits as in memory, and no more read and written than what a round touches."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.engines.base import Scratch, SparseDelta, TableSpec, padded
from topicstream.tables import dense as tables
from topicstream.tables.dense import DenseTable, runs

WORDS, TOPICS = 5000, 20


def one_after_another(work, n):
    for i in range(n):
        work(i)


def pair(tmp_path, **spec):
    """The same table in memory and on disk."""
    made = [
        DenseTable(TableSpec(**spec), WORDS, TOPICS, None, path, one_after_another)
        for path in (None, tmp_path / "table")
    ]
    start = np.random.default_rng(0).random((WORDS, padded(TOPICS)), np.float32)
    for t in made:
        t.fill(lambda a, b: start[a:b])
    return made


def rows_of(table):
    return np.concatenate([part.copy() for _, part in table.pieces()])


def counting(monkeypatch):
    moved = []
    for name in ("read_all", "write_all"):
        real = getattr(tables, name)
        monkeypatch.setattr(
            tables, name, lambda fd, a, at, *rest, real=real: (moved.append(a.nbytes), real(fd, a, at, *rest))
        )
    return moved


def dense_round(table, seed):
    rng = np.random.default_rng(seed)
    deltas = table.new_round(3, 400, None, 1e6)
    for r in range(3):
        vocab = np.sort(rng.choice(WORDS, 5 + 40 * r, replace=False)).astype(np.int32)
        room = deltas.slot(r, vocab, Scratch())
        room[:] = rng.normal(size=(len(vocab), padded(TOPICS)))
        deltas.put(r, vocab, room)
    table.apply(deltas, 0.5)


def sparse_round(table, seed):
    rng = np.random.default_rng(seed)
    deltas = table.new_round(2, 400, None, 1e6)
    for r, n in enumerate((3, 60)):
        vocab = np.sort(rng.choice(WORDS, n, replace=False)).astype(np.int32)
        ptr = np.arange(0, 4 * n + 1, 4)
        topic = np.tile(np.arange(4, dtype=np.uint16), n)
        deltas.put(r, vocab, SparseDelta(ptr, topic, rng.normal(size=4 * n).astype(np.float32)))
    table.apply(deltas)


@pytest.mark.parametrize(("turn", "kind"), [(dense_round, "dense"), (sparse_round, "sparse")])
@pytest.mark.parametrize("near", [1, 16 << 10])
def test_a_round_that_touches_few_rows_gives_the_same_bits_on_disk(tmp_path, monkeypatch, turn, kind, near):
    monkeypatch.setattr(tables, "NEAR_BYTES", near)
    monkeypatch.setattr(tables, "WINDOW_BYTES", 64 << 10)
    memory, disk = pair(tmp_path, delta=kind)
    moved = counting(monkeypatch)
    for seed in range(4):
        turn(memory, seed)
        turn(disk, seed)
    whole = disk.nbytes
    assert sum(moved) < whole if near == 1 else sum(moved) < 8 * whole  # four rounds, read and written
    np.testing.assert_array_equal(rows_of(disk), rows_of(memory))
    np.testing.assert_array_equal(disk.totals, memory.totals)


def test_runs():
    assert runs(np.array([3]), 1) == [(3, 4)]
    assert runs(np.array([0, 1, 2, 5, 9, 10]), 1) == [(0, 3), (5, 6), (9, 11)]
    assert runs(np.array([0, 1, 2, 5, 9, 10]), 3) == [(0, 6), (9, 11)]
