"""A table that is blended, beside its dense twin: rows and totals, round by round."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.reference.blend import Blended
from topicstream.engines.base import Rule, Scratch, SparseDelta, TableSpec, padded
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.tables.dense import DenseTable
from topicstream.numeric.tables.rounds import RoundSpace
from topicstream.training.executor import shrink_table

ROWS = 300
TOPICS = 7
TOKENS = 1e5
BLOCKS = 3
SLOW = [0.5, 0.3, 0.2, 0.1, 0.05]
"""Steps as svi and ovb take them."""
FAST = [0.9] * 9
"""Steps that shrink the table below a millionth, where its rows are multiplied out."""
IDS = np.array([0, 3, 4, 150, ROWS - 1], np.int32)


def run_in_order(work, n):
    for i in range(n):
        work(i)


def build_table(folder, delta, constants=None):
    """A filled table, and its twin."""
    spec = TableSpec(rule=Rule.BLEND, delta=delta, bound=1e9)
    table = DenseTable(spec, ROWS, TOPICS, None, folder, run_in_order, constants)
    start = np.random.default_rng(0).random((ROWS, padded(TOPICS)), np.float32)
    start[:, TOPICS:] = 0
    table.fill(lambda a, b: start[a:b])
    return table, Blended(start[:, :TOPICS])


def draw_deltas(rng):
    """The deltas of a round: (ids, float32[n, TOPICS]), with zeros."""
    deltas = []
    for _ in range(BLOCKS):
        ids = np.sort(rng.choice(ROWS, rng.integers(1, 80), replace=False)).astype(np.int32)
        delta = rng.gamma(0.5, 2.0, (len(ids), TOPICS)).astype(np.float32)
        deltas.append((ids, np.where(delta > 0.1, delta, 0).astype(np.float32)))
    return deltas


def sparse_of(delta):
    """The non-zero entries of a dense delta; the first one in two halves."""
    row, topic = np.nonzero(delta)
    value = delta[row, topic]
    row = np.append(row[:1], row)
    topic = np.append(topic[:1], topic)
    value = np.append(value[:1] / 2, value)
    value[1] /= 2
    ptr = np.searchsorted(row, np.arange(len(delta) + 1))
    return SparseDelta(ptr.astype(np.int64), topic.astype(np.uint16), value)


def enter_round(table, kind, rho, scale, deltas):
    """What the pass loop does at the end of a round."""
    target = table.new_round(RoundSpace(BLOCKS), ROWS, TOKENS)
    for i, (ids, delta) in enumerate(deltas):
        if kind == "sparse":
            target.put(i, ids, sparse_of(delta))
            continue
        room = target.slot(i, ids)
        room[:] = 0
        room[:, :TOPICS] = delta
        target.put(i, ids, room)
    table.apply(target, shrink_table(table, (rho, scale)), hold=False)


def check_table(table, twin, beside=None):
    """Rows, totals, and what a visit sees are the twin's."""
    close = dict(rtol=2e-5, atol=1e-5)
    added = np.zeros_like(twin.rows) if beside is None else beside
    rows = table.gather(IDS, Scratch())
    assert rows.scale == table.scale
    seen = rows.scale * rows.base[rows.index][:, :TOPICS]
    np.testing.assert_allclose(seen, (twin.rows + added)[IDS], **close)
    bare = np.empty((len(IDS), padded(TOPICS)), np.float32)
    table.dense(IDS, bare)
    np.testing.assert_allclose(bare[:, :TOPICS], twin.rows[IDS], **close)
    np.testing.assert_allclose(table.totals[:TOPICS], twin.totals, rtol=2e-5)
    np.testing.assert_allclose(table.seen_totals[:TOPICS], twin.totals + added.sum(0), rtol=2e-5)
    whole = np.concatenate([part.copy() for _, part in table.pieces()]) * table.scale
    np.testing.assert_allclose(whole[:, :TOPICS], twin.rows, **close)


@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("steps", [SLOW, FAST], ids=["slow", "fast"])
def test_every_round_is_that_of_the_twin(tmp_path, place, kind, steps):
    table, twin = build_table(tmp_path if place == "disk" else None, kind)
    rng = np.random.default_rng(1)
    for number, rho in enumerate(steps):
        deltas = draw_deltas(rng)
        scale = 3.0 + number
        enter_round(table, kind, rho, scale, deltas)
        twin.blend(rho, scale, deltas)
        check_table(table, twin)
    table.finish_pass()
    assert table.scale == 1.0
    check_table(table, twin)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_seed_words_do_not_wear_off(tmp_path, place):
    weights = np.array([2.0, 0.5, 7.0])
    constants = Constants(np.array([0, 4, 4]), np.array([1, 0, 6]), weights, TOPICS)
    beside = np.zeros((ROWS, TOPICS))
    beside[[0, 4, 4], [1, 0, 6]] = weights
    table, twin = build_table(tmp_path if place == "disk" else None, "dense", constants)
    rng = np.random.default_rng(2)
    for rho in [*SLOW, *FAST]:
        deltas = draw_deltas(rng)
        enter_round(table, "dense", rho, 2.0, deltas)
        twin.blend(rho, 2.0, deltas)
        check_table(table, twin, beside)


def test_a_step_with_rho_1_forgets_what_was_before():
    table, twin = build_table(None, "dense")
    deltas = draw_deltas(np.random.default_rng(3))
    enter_round(table, "dense", 1.0, 2.0, deltas)
    twin.blend(1.0, 2.0, deltas)
    check_table(table, twin)


def test_rows_are_multiplied_out_below_a_millionth():
    table, twin = build_table(None, "dense")
    before = table.dense(IDS, np.zeros((len(IDS), table.width), np.float32)).copy()
    for step, stored in ((1 - 2.0**-19, 2.0**-19), (0.5, 1.0)):  # 1.9e-6, and half of it
        assert table.blend(step) == 1 / stored
        assert table.scale == stored
    rows = np.concatenate([part.copy() for _, part in table.pieces()])[IDS]
    np.testing.assert_allclose(rows, before * 2.0**-20, rtol=1e-6)
    np.testing.assert_allclose(table.totals[:TOPICS], twin.rows.sum(0) * 2.0**-20, rtol=1e-6)


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_run_that_stops_between_rounds_goes_on_as_the_twin(tmp_path, place):
    """Scale and totals come from the checkpoint's state, rows from its file."""
    folder = tmp_path if place == "disk" else None
    table, twin = build_table(folder, "dense")
    rng = np.random.default_rng(4)
    for rho in SLOW:
        deltas = draw_deltas(rng)
        enter_round(table, "dense", rho, 2.0, deltas)
        twin.blend(rho, 2.0, deltas)
    state = SimpleNamespace(scale=table.scale, totals=table.totals.copy())
    table.save(tmp_path / "saved")
    again, _ = build_table(folder, "dense")
    again.scale = state.scale
    again.load(tmp_path / "saved")
    again.totals[:] = state.totals
    check_table(again, twin)
    doubled = 2.0
    again.rewrite(lambda first, rows: doubled * rows)
    twin.rows *= doubled
    check_table(again, twin)
