"""A round that several members add up, each its own ranges of rows, comes out as that of one
machine.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from topicstream.numeric.kernels.scatter import changed_entries, put_entries
from topicstream.numeric.parallel import Workers
from topicstream.numeric.tables.layouts import LAYOUTS
from topicstream.numeric.tables.rounds import RoundSpace
from topicstream.numeric.tables.spec import Rule, SparseDelta, TableSpec, padded

ROWS = 300
COLUMNS = 21
BLOCKS = 5
SPECS = {
    "dense, rows held to a mass": TableSpec(mass="row"),
    "dense, float64": TableSpec(dtype="float64"),
    "sparse": TableSpec(delta="sparse"),
    "sparse, shrunk": TableSpec(delta="sparse", rule=Rule.BLEND),
    "a fixed number of rows": TableSpec(rows=ROWS, dtype="float64"),
}


def blocks(spec):
    """(ids, delta) of every block."""
    rng = np.random.default_rng(4)
    for _ in range(BLOCKS):
        ids = np.sort(rng.choice(ROWS, 120, replace=False)).astype(np.int32)
        if spec.axis is None:
            ids = np.arange(ROWS, dtype=np.int32)
        if spec.delta == "sparse":
            ptr = np.append(0, np.cumsum(rng.integers(0, 4, len(ids))))
            topic = rng.integers(0, COLUMNS, int(ptr[-1])).astype(np.uint16)
            yield ids, SparseDelta(ptr, topic, rng.random(int(ptr[-1]), np.float32))
        else:
            dense = np.zeros((len(ids), padded(COLUMNS)), np.float32)
            dense[:, :COLUMNS] = rng.random((len(ids), COLUMNS)) - 0.2
            yield ids, dense


def table_and_round(spec, folder):
    table = LAYOUTS[spec.layout](
        spec, ROWS, COLUMNS, np.full(ROWS, 30.0), folder, Workers(1).run_ranges
    )
    start = np.zeros((ROWS, padded(COLUMNS)), np.float32)
    start[:, :COLUMNS] = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32) * 3
    table.fill(lambda a, b: start[a:b])
    return table, table.new_round(RoundSpace(BLOCKS), ROWS, 1e4)


def put(deltas, i, ids, delta):
    room = deltas.slot(i, ids)
    if room is not None:
        room[:] = delta
    deltas.put(i, ids, delta)


def held_by(table):
    """All bits of a table."""
    return [rows.tobytes() for _, rows in table.pieces()], table.totals.tobytes(), table.scale


def collect_sums_of_members(made, spec):
    """Give every member its own blocks, and return its own sum with those of all others."""
    members = len(made)
    for i, (ids, delta) in enumerate(blocks(spec)):
        put(made[i % members][1], i, ids, delta)
    collectors = [table.new_sums(1e4) for table, _ in made]
    for own, (_, deltas) in enumerate(made):
        arrays = [array.copy() for array in collectors[own].pack(own, deltas)]
        for other, collector in enumerate(collectors):
            if other != own:
                collector.receive(own, arrays)
    return collectors


@pytest.mark.parametrize("members", [1, 2, 3, 5])
@pytest.mark.parametrize("name", SPECS)
def test_owners_add_up_what_one_machine_does(name, members, tmp_path):
    spec = SPECS[name]
    shrinks = SPECS[name].rule is Rule.BLEND
    whole, deltas = table_and_round(spec, None)
    for i, (ids, delta) in enumerate(blocks(spec)):
        put(deltas, i, ids, delta)
    factor = 0.3 * whole.blend(0.3) if shrinks else 1.0
    whole.apply(deltas, factor, hold=True)

    made = [table_and_round(spec, tmp_path if n % 2 else None) for n in range(members)]
    if spec.delta == "sparse":
        collectors = collect_sums_of_members(made, spec)
        for (table, _), sums in zip(made, collectors, strict=True):
            table.apply_sums(sums, 0.3 * table.blend(0.3) if shrinks else 1.0)
            assert held_by(table) == held_by(whole)
            table.close()
        return
    for i, (ids, delta) in enumerate(blocks(spec)):
        own = i % members
        put(made[own][1], i, ids, delta)
        for other in range(members):
            if other != own:
                choose = partial(made[own][0].spans, owner=other, members=members)
                made[other][1].receive(i, made[own][1].part(i, choose))
    entered = []
    for n, (table, received) in enumerate(made):
        assert not received.missing(BLOCKS)
        factor = 0.3 * table.blend(0.3) if shrinks else 1.0
        entered.append(table.add_owned(received, factor, True, n, members))
    for n, (table, _) in enumerate(made):
        table.take_owned(entered, n)
        assert held_by(table) == held_by(whole)
        assert table.worst.tolist() == whole.worst.tolist()
        table.close()


def test_a_block_that_has_put_nothing_is_missing():
    _, deltas = table_and_round(TableSpec(), None)
    for i, (ids, delta) in enumerate(blocks(TableSpec())):
        if i != 2:
            put(deltas, i, ids, delta)
    assert deltas.missing(BLOCKS) == [2]


@pytest.mark.parametrize("bits", ["u4", "u8"])
def test_entries_that_changed_are_those_that_numpy_finds_and_put_them_there(bits):
    rng = np.random.default_rng(1)
    numbers = rng.random((40, padded(COLUMNS))).astype(bits.replace("u", "f"))
    numbers[3, 4] = 0.0
    rows = np.array([0, 3, 5, 17, 39], np.int32)
    after = numbers.view(bits).copy()
    before = numbers.view(bits)[rows]
    after[3, [4, 9]] = (-numbers[3, [4, 9]]).view(bits)  # -0.0 is another number
    after[5, :COLUMNS] = 1
    after[17, :10] = 2
    after[39, :11] = 3
    lengths = np.empty(5, np.int32)
    columns = np.empty(before.size, np.uint16)
    values = np.empty(before.size, bits)
    n, m = changed_entries(before, after, rows, COLUMNS, lengths, columns, values)

    moved = before[:, :COLUMNS] != after[rows, :COLUMNS]
    whole = moved.sum(axis=1) > COLUMNS / 2
    assert (
        lengths.tolist()
        == np.where(whole, COLUMNS, moved.sum(axis=1)).tolist()
        == [0, 2, COLUMNS, 10, COLUMNS]
    )
    assert columns[:n].tolist() == np.nonzero(moved[~whole])[1].tolist()
    assert values[:m].tolist() == after[rows, :COLUMNS][moved | whole[:, np.newaxis]].tolist()

    there = numbers.view(bits).copy()
    put_entries(there, rows, COLUMNS, lengths, columns[:n], values[:m])
    assert (there == after).all()
