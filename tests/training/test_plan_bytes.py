"""The bytes of a memory plan, purpose by purpose, counted by hand from the shapes."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.base.memory import MemoryLimit, MemoryPlan
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Shape, workspace_bytes
from topicstream.engines.shapes import PriorShape
from topicstream.training import plan as planning
from topicstream.training.plan import Allowance, Placement, StartMemory, Sums, Work
from topicstream.training.setup import make_options
from topicstream.training.table_bytes import TableBytes

MB = 1 << 20
DECODED = 8 * (1 << 20) + 4 * (1 << 16)
"""A storage block: cells of 8 bytes, and documents of 4."""
SHAPE = Shape(5000, 2000, 100_000, 3e5, 20)
LARGE = Shape(5000, 2000, 500_000, 1.5e6, 20)
BLOCK = BlockShape(500, 10_000, 30_000, 1500, 300)
NUMBERS = 8 * 1500 * 4
"""Ids of the words of the 8 blocks of a round."""
CELLS = 2 * 4 * 10_000 + 8 * 500 + 3 * 4 * 1500 + 5 * 2000 + 4 * 10_000
"""What a block of cells takes, and cutting it: five bytes a word of the corpus."""
SEEDS = 1500 * 32 * 4
"""Rows of seed topics, 20 topics in 32 columns."""


def engine_of(name: str, shape: Shape = SHAPE):
    """An engine with its default options."""
    kind = find(name)
    return kind(shape, make_options(kind, {}))


def work_of(name: str, shape: Shape = SHAPE, **given) -> Work:
    """The work of an engine on the block."""
    engine = engine_of(name, shape)
    return Work(engine, engine.layout, BLOCK, **given)


def bytes_of_tables(**others):
    """Bytes of tables as no engine has them, so that each can be told in a sum."""
    figures = {
        "rows": 11_000,
        "fixed": 7,
        "saved": 12_000,
        "window": 13_000,
        "gathered": 17_000,
        "scratch": 19_000,
        "delta": 23_000,
        "merged": 29_000,
        "waiting": 0,
        "ranges": 31_000,
        "buffers": 37_000,
        "sums": 41_000_000,
    }
    return SimpleNamespace(**(figures | others))


def stages_of(work: Work, place: Placement, **figures):
    """The stages, without purposes that take nothing."""
    stages = planning._stages(work, bytes_of_tables(**figures), place)
    return [tuple(dict(+Counter(part)) for part in stage) for stage in stages]


def test_stages_with_everything_in_memory():
    work = work_of("bp", start=StartMemory(1001, 101))
    start, first, passes, end = stages_of(work, Placement(False, False, 2))
    always = {"tables": 11_007, "vocabulary": 48 * 2000}
    fixed = always | {"deltas": 8 * 23_000 + NUMBERS, "prefetch": 3 * DECODED}
    worker = {"blocks": CELLS, "visits": 19_000, "prefetch": DECODED}
    state = 10_000 * 20 * 4
    assert start == (fixed | {"start": 1001}, {"start": 101, "prefetch": DECODED})
    assert first[0] == fixed | {"start": 1001}
    assert first[1] == worker | {"seed topics": SEEDS + 3 * MB, "state": state}
    assert passes == (fixed, worker | {"state": 2 * state})
    assert end == (always | {"model file": 40 * MB}, {})


def test_stages_with_tables_on_disk_and_deltas_that_merge():
    work = work_of("bp", seeded=False)
    _, first, passes, _ = stages_of(work, Placement(True, True, 0))
    assert passes[0] == {
        "tables": 7,
        "vocabulary": 48 * 2000,
        "deltas": 37_000 + 8 * MB,
        "prefetch": DECODED,
    }
    assert passes[1] == {
        "blocks": CELLS,
        "visits": 19_000 + 13_000 + 29_000 + 31_000,
        "prefetch": DECODED,
        "state": 2 * 10_000 * 20 * 4,
        "gathered rows": 17_000,
    }
    assert "seed topics" not in first[1] and first[0] == passes[0]
    few = stages_of(work, Placement(True, True, 0), sums=5000, waiting=1)[2][0]
    assert few["deltas"] == 37_000 + 5000 + NUMBERS
    in_memory = stages_of(work, Placement(False, True, 0))[2]
    assert in_memory[0]["tables"] == 11_007
    assert in_memory[1]["visits"] == 19_000 + 29_000 + 31_000
    assert "gathered rows" not in in_memory[1]


def test_stages_of_a_member_whose_deltas_wait_in_files():
    work = work_of("bp", members=3)
    for on_disk, tables, rows in ((True, 7, 17_000), (False, 11_007, 0)):
        passes = stages_of(work, Placement(on_disk, True, 1))[2]
        assert passes[0]["tables"] == tables
        assert passes[0]["deltas"] == NUMBERS and passes[0]["prefetch"] == 2 * DECODED
        assert passes[1]["visits"] == 19_000 + 23_000 + 13_000
        assert passes[1]["exchange"] == 3 * 13_000
        assert passes[1].get("gathered rows", 0) == rows
    alone = stages_of(work_of("bp"), Placement(False, True, 1))[2]
    assert "exchange" not in alone[0] and "exchange" not in alone[1]


def test_what_members_exchange():
    """3 members, 8 blocks a round: one visits 3 of them, a third of which it adds up itself."""
    place = Placement(False, True, 1)
    waiting = Placement(False, False, 1)
    deltas = 8 * 23_000
    own = 3 * 23_000
    sent = own * 2 // 3
    arriving = (deltas - own) // 3
    work = work_of("bp", members=3)
    few = bytes_of_tables(saved=12_000)
    assert planning._count_exchanged_bytes(work, few, place) == sent + 2 * arriving
    # those of the whole round are counted elsewhere where they wait in memory
    assert planning._count_exchanged_bytes(work, few, waiting) == own + sent + 2 * arriving - deltas
    many = bytes_of_tables(saved=150_000)
    assert planning._count_exchanged_bytes(work, many, place) == arriving + 150_000 + 50_000
    all_changed = bytes_of_tables(saved=10**9)
    assert (
        planning._count_exchanged_bytes(work, all_changed, place) == arriving + deltas + deltas // 3
    )
    assert planning._count_exchanged_bytes(work_of("bp"), many, place) == 0
    sparse = work_of("sparse-bp", LARGE, members=2)
    assert sparse.layout.round_blocks == 4
    assert (
        planning._count_exchanged_bytes(sparse, bytes_of_tables(saved=0), place)
        == 23_000 + 2 * 23_000
    )
    packed = 2 * (4 * 23_000) // 3  # sums of all blocks, where each of 8 members sends little else
    many_members = work_of("sparse-bp", LARGE, members=8)
    assert planning._count_exchanged_bytes(many_members, bytes_of_tables(saved=0), place) == packed


def test_bytes_of_covariates():
    prior = PriorShape(("one", "year"), np.array([0, 1]), np.ones(2), patterns=70, longest=2)
    shape = Shape(5000, 2000, 500_000, 1.5e6, 20, covariates=prior)
    memory = planning._prior_bytes(engine_of("sparse-bp", shape), BLOCK)
    # twelve arrays of 2 columns and 20 topics; 500 numbers of rows, and 70 rows of 3 numbers
    assert memory == StartMemory(12 * 2 * 20 * 8, 4 * 500 + 8 * 70 * 3)
    work = work_of("sparse-bp", shape, members=2)
    figures = 8 * (6 * 2 * 20 + 2 * 2 + 2 * 20 + 2)
    passes = stages_of(work, Placement(False, False, 0))[2]
    assert passes[0]["covariates"] == 6 * figures + memory.fixed  # 4 blocks a round
    assert passes[1]["covariates"] == figures + memory.worker


def test_bytes_of_the_tables_of_an_engine():
    """2000 words, 20 topics in 32 columns; vb has the successor of its table beside it."""
    added = TableBytes(engine_of("bp"), BLOCK)
    replaced = TableBytes(engine_of("vb"), BLOCK)
    table = 2000 * 32 * 4
    assert (added.rows, added.saved, added.fixed) == (table, table, 0)
    assert (replaced.rows, replaced.saved) == (2 * table, table)
    assert added.gathered == added.delta == added.merged == 1500 * 32 * 4
    assert added.waiting == 0 and added.slower_on_disk == 4.0
    # sums are float64 and grow by an eighth; 20 bytes of a row's own; a range is 32 rows
    assert added.sums == 2000 * 32 * 8 * 9 // 8 and added.buffers == 20 * 2000
    assert added.ranges == 32 * 32 * 16
    assert added.window == table + 8 * MB
    packed = TableBytes(engine_of("gs"), BLOCK)
    assert packed.slower_on_disk == 1.2
    # a delta of pairs has no rows of its own; what the visit keeps is its delta
    kept = workspace_bytes(engine_of("gs"), BLOCK).deltas
    assert packed.delta == packed.merged == kept > 0


def test_a_table_of_documents_waits_for_the_end_of_its_round():
    """The tables of links: words, and documents, whose deltas are not rounded and so wait."""
    from topicstream.corpus.block import AxisShape

    shape = Shape(5000, 2000, 100_000, 3e5, 20, axes={"links": 5000})
    block = BlockShape(500, 10_000, 30_000, 1500, 300, axes={"links": AxisShape(700, 900, 50)})
    engine = engine_of("rtm", shape)
    tables = TableBytes(engine, block)
    kinds = {name: spec.quantum(3e5) > 0 for name, spec in engine.tables.items()}
    assert kinds["phi"] and not kinds["theta"]
    words = 1500 * 32 * 4
    assert tables.delta == words + tables.waiting and tables.waiting >= 500 * 32 * 4
    assert tables.gathered >= words + 700 * 32 * 4


@pytest.mark.parametrize("held", [0, 1])
def test_sums_take_what_a_stage_leaves_free(held):
    """A start that holds a model leaves a quarter to it."""
    work = work_of("bp", start=StartMemory(held, 0))
    memory = MemoryPlan("it", MemoryLimit.parse("512M"), 2, {"process": 100 * MB})
    stages = [
        ({}, {}),
        ({"tables": 10 * MB}, {"visits": 5 * MB}),
        ({"tables": 20 * MB}, {"visits": 6 * MB}),
        ({}, {}),
    ]
    tables = bytes_of_tables(sums=1 << 40, delta=100 * MB)
    plan, sums, needed = planning._add_sums(work, tables, memory, stages)
    free = [int((512 * MB - 100 * MB - int(used * MB * 1.06)) / 1.06) for used in (20, 32)]
    of_start = int(free[0] * (0.75 if held else 1.0))
    assert sums == Sums(8 * MB + of_start, 8 * MB + free[1])
    assert needed == 3 * 100 * MB * 8 * 2 // 3
    assert plan.parts == {
        "process": 100 * MB,
        "tables": 20 * MB,
        "visits": 12 * MB,
        "deltas": free[1],
    }
    few = bytes_of_tables(sums=9 * MB, delta=100 * MB)
    assert planning._add_sums(work, few, memory, stages)[1:] == (Sums(9 * MB, 9 * MB), 6 * MB)
    least = bytes_of_tables(sums=5 * MB, delta=100 * MB)
    assert planning._add_sums(work, least, memory, stages)[1] == Sums(5 * MB, 5 * MB)
    round_of = bytes_of_tables(sums=1 << 40, delta=MB)
    assert planning._add_sums(work, round_of, memory, stages)[1] == Sums(24 * MB, 24 * MB)


def test_seed_topics_are_held_whole_where_there_is_room():
    work = work_of("sparse-bp")
    assert planning._seed_bytes(work) == (SEEDS, SEEDS)
    large = Work(work.engine, work.layout, BlockShape(500, 10_000, 30_000, 90_000, 300))
    whole = 90_000 * 32 * 4
    assert planning._seed_bytes(large) == (whole, 8 * MB)
    at_once = Work(engine_of("bp"), work.layout, large.block)
    assert planning._seed_bytes(at_once) == (whole, whole)
    unseeded = Work(work.engine, work.layout, large.block, seeded=False)
    assert planning._seed_bytes(unseeded) == (0, 0)
    start = ({"tables": MB}, {"seed topics": 8 * MB})
    for limit, rows in ((700 * MB, 90_000), (512 * MB, 8 * MB // 128)):
        memory = MemoryPlan("it", MemoryLimit(limit), 2, {"process": 500 * MB})
        plan, held = planning._add_seed_rows(large, memory, start, 1000)
        assert held == rows
        if rows == 90_000:
            assert plan.parts == {
                "process": 500 * MB,
                "tables": MB,
                "seed topics": 2 * whole,
                "deltas": 1000,
            }
        else:
            assert plan is memory


def test_files_of_the_deltas_of_a_round():
    tables = bytes_of_tables(waiting=3000)
    merging = Placement(True, True, 0)
    work = work_of("bp")
    assert planning._count_spilled_bytes(work, tables, Placement(True, False, 0), Sums()) == 0
    assert (
        planning._count_spilled_bytes(work_of("bp", members=2), tables, merging, Sums())
        == 8 * 23_000
    )
    # all fits the sums: only what waits is written; else every block's part, as float64
    enough = Sums(41_000_000, 41_000_000)
    assert planning._count_spilled_bytes(work, tables, merging, enough) == 8 * 3000
    for less in (Sums(41_000_000, 40_999_999), Sums(40_999_999, 41_000_000)):
        assert planning._count_spilled_bytes(work, tables, merging, less) == 8 * (3000 + 2 * 20_000)


@pytest.mark.parametrize(("best", "state", "files"), [(False, 12_345, 4), (True, 1 << 40, 4)])
def test_disk(best, state, files):
    """Block state of the pass before, of this one and of a checkpoint's, and a spare small one."""
    room = Allowance(MemoryLimit.parse("4G"), 1, "disk", disk_free=1 << 50)
    plan = planning.make_plan(work_of("vb", pass_state=state, keeps_best=best), room)
    table = 2000 * 32 * 4
    assert plan.disk == {
        "block state": files * state,
        "checkpoints": (2 + best) * table,
        "tables": 2 * table,
        "deltas": 0,
    }
    assert plan.spare == (not best)
    need = sum(plan.disk.values())
    with pytest.raises(planning.DiskTooSmall):
        planning.make_plan(
            work_of("vb", pass_state=state, keeps_best=best),
            Allowance(MemoryLimit.parse("4G"), 1, "disk", disk_free=need - 1),
        )
    planning.make_plan(
        work_of("vb", pass_state=state, keeps_best=best),
        Allowance(MemoryLimit.parse("4G"), 1, "disk", disk_free=need),
    )


def test_a_spare_file_of_state_takes_no_more_than_an_eighth_of_the_limit():
    for state, spare in ((512 * MB, True), (512 * MB + 1, False)):
        room = Allowance(MemoryLimit.parse("4G"), 1)
        plan = planning.make_plan(work_of("bp", pass_state=state), room)
        assert plan.spare == spare and plan.disk["block state"] == state * (3 + spare)


def place_chosen(monkeypatch, needs, *, disk=4.0, sums=None):
    """The place and threads that are chosen where each placement takes so many MB.

    needs: by (tables on disk, deltas merge, prefetch), MB of the process and of a thread.
    """

    def stages(work, tables, place):
        fixed, worker = needs(place)
        stage = ({"tables": fixed * MB}, {"visits": worker * MB})
        return [stage] * 4

    def add_sums(work, tables, memory, stages):
        return memory, Sums(*sums[:2]), sums[2]

    monkeypatch.setattr(planning, "_stages", stages)
    if sums:
        monkeypatch.setattr(planning, "_add_sums", add_sums)
    monkeypatch.setattr(
        planning, "TableBytes", lambda *_: bytes_of_tables(slower_on_disk=disk, sums=0)
    )
    room = Allowance(MemoryLimit(1000 * MB), 4, process=0)
    plan = planning.make_plan(work_of("bp", seeded=False), room)
    return plan.place[:3], plan.threads


def test_the_fastest_place_is_chosen(monkeypatch):
    """Slowness: 1.1 to 2.1 where deltas merge, 1.1 without prefetch, divided by the threads."""
    everything = place_chosen(monkeypatch, lambda place: (100, 100))
    assert everything == ((False, False, 2), 4)
    # three threads with prefetch (1 / 3) against four without (1.1 / 4)
    dear = place_chosen(monkeypatch, lambda place: (100 + 100 * place.prefetch, 200))
    assert dear == ((False, False, 0), 4)

    def tight(place):
        return (100 if place.deltas_spill else 700), 200

    # one thread with all in memory; four whose deltas merge
    assert place_chosen(monkeypatch, tight, sums=(1, 100, 100)) == ((False, True, 2), 4)

    def beside(place):
        return (100 if place.deltas_spill else 300), 200

    # three threads in memory (1 / 3) against four (1.1 / 4 with enough for sums, 2.1 / 4 with none)
    assert place_chosen(monkeypatch, beside, sums=(1, 100, 100)) == ((False, True, 2), 4)
    assert place_chosen(monkeypatch, beside, sums=(1, 0, 100)) == ((False, False, 2), 3)
    # 1.1 + 1 - .78 = 1.32 < 4 / 3 < 1.1 + 1 - .75
    assert place_chosen(monkeypatch, beside, sums=(1, 78, 100)) == ((False, True, 2), 4)
    assert place_chosen(monkeypatch, beside, sums=(1, 75, 100)) == ((False, False, 2), 3)

    def on_disk(place):
        return (0 if place.tables_on_disk else 700), 100

    # two threads in memory (1 / 2) against four on disk (1.1 times 1.7 or 1.9 fourths)
    assert place_chosen(monkeypatch, on_disk, disk=1.7, sums=(1, 1, 1)) == ((True, True, 2), 4)
    assert place_chosen(monkeypatch, on_disk, disk=1.9, sums=(1, 1, 1)) == ((False, False, 2), 2)
