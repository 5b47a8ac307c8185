"""Deltas that enter as blocks finish: the same bits as deltas that wait, in any order, with few of them held."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.planted import draw, store
from topicstream.engines.base import Scratch, SparseDelta, TableSpec, padded
from topicstream.progress import Shown as Progress
from topicstream.tables.dense import DenseTable
from topicstream.tables.folded import FoldedRound
from topicstream.training.loop import train
from topicstream.training.state.checkpoint import content_hash

ROWS, COLUMNS, BLOCKS = 700, 20, 24


def serial(work, n):
    for i in range(n):
        work(i)


def tables(kind, mass=None):
    made = []
    for _ in range(2):
        spec = TableSpec(delta=kind, mass="row" if mass is not None else "none")
        table = DenseTable(spec, ROWS, COLUMNS, mass, None, serial)
        start = np.random.default_rng(0).random((ROWS, padded(COLUMNS)), np.float32)
        start[:, COLUMNS:] = 0
        table.fill(lambda a, b, start=start: start[a:b])
        made.append(table)
    return made


def made(kind, seed):
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(ROWS, rng.integers(0, 300), replace=False)).astype(np.int32)
    if kind == "sparse":
        ptr = np.concatenate(([0], np.cumsum(rng.integers(0, 5, len(ids))))).astype(np.int64)
        topic = rng.integers(0, COLUMNS, ptr[-1]).astype(np.uint16)
        return ids, SparseDelta(ptr, topic, (rng.random(ptr[-1]) - 0.3).astype(np.float32))
    rows = np.zeros((len(ids), padded(COLUMNS)), np.float32)
    rows[:, :COLUMNS] = rng.random((len(ids), COLUMNS)) - 0.3
    return ids, rows


def enter(deltas, i, kind, seed):
    ids, delta = made(kind, seed)
    room = deltas.slot(i, ids, Scratch())
    if room is not None:
        room[:] = delta
        delta = room
    deltas.put(i, ids, delta)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("held", [False, True])
def test_any_order_of_completion_gives_the_bits_of_deltas_that_wait(kind, held):
    mass = np.random.default_rng(3).random(ROWS) * 10 + 1 if held else None
    waiting, folding = tables(kind, mass)
    for turn in range(3):
        late = waiting.new_round(BLOCKS, 300, None)
        early = folding.new_round(BLOCKS, 300, None, window=4)
        assert isinstance(early, FoldedRound)
        for i in range(BLOCKS - turn):  # the last round of a pass is shorter
            enter(late, i, kind, 100 * turn + i)
        waiting.apply(late)
        early.begin(folding)
        todo, lock = list(range(BLOCKS - turn)), threading.Lock()

        def work(_, todo=todo, lock=lock, early=early, turn=turn):
            while True:
                with lock:
                    if not todo:
                        return
                    i = todo.pop(0)
                try:
                    early.wait(i)
                    threading.Event().wait(float(np.random.default_rng(i).random()) * 2e-3)
                    enter(early, i, kind, 100 * turn + i)
                except BaseException:
                    early.fail()
                    raise

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        folding.apply(early)
        np.testing.assert_array_equal(waiting.array, folding.array)
        np.testing.assert_array_equal(waiting.totals, folding.totals)
        assert not early.touched.any()


def test_a_failed_visit_leaves_nobody_waiting():
    _, table = tables("dense")
    deltas = table.new_round(BLOCKS, 300, None, window=2)
    deltas.begin(table)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(deltas.wait, 5)
        deltas.fail()
        waiting.result(timeout=300)


@pytest.mark.parametrize("algo", ["atbp", "sparse-bp", "stbp", "mvi", "bp", "gs"])
def test_a_wide_round_has_the_same_bits_for_any_threads_and_places(algo, tmp_path):
    _, indptr, words, counts = draw(docs=400, words=100, topics=5, length=60, seed=3)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 100)
    given = {"algo": algo, "topics": 5, "passes": 2, "tol": 0.0, "block_cells": 500, "round_blocks": 24}
    found = set()
    for threads, where in ((1, "memory"), (2, "memory"), (4, "memory"), (2, "disk")):
        folder = tmp_path / f"{threads}{where}"
        train(corpus, folder, **given, threads=threads, tables=where, progress=Progress(-1))
        found.add(content_hash(folder))
    assert len(found) == 1
