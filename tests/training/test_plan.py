"""The memory plan on the shape of a large corpus: what has to fit does, what does not is refused in
words.
"""

from __future__ import annotations

import numpy as np
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests.ingest_tools import documents, write_jsonl
from tests.listening import Listening
from tests.planted import draw, store
from topicstream.base.errors import DoesNotFit
from topicstream.base.machine import PROCESS_BYTES
from topicstream.base.memory import MemoryLimit
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.block import AxisShape
from topicstream.engines import engines, find, parts
from topicstream.engines.base import BlockShape, Shape
from topicstream.numeric.tables.merging import MergedRound
from topicstream.numeric.tables.range_buffer import MergeSpace
from topicstream.training import plan as planning
from topicstream.training import threads
from topicstream.training.loop import train
from topicstream.training.plan import Allowance, Work, advise_wider_rounds, make_plan
from topicstream.training.setup import make_options, make_start
from topicstream.training.starts.warm import WarmStart
from topicstream.training.table_bytes import TableBytes, state_bytes

# measured on 787,244 made documents of 51,859,491 cells (scripts/tools/make_corpus.py --cells
# 52e6): cells of a block -> its words
WORDS_OF = {
    5488: 3481,
    16777: 8278,
    66576: 22465,
    133152: 35568,
    199728: 45560,
    393216: 66281,
    599184: 81032,
    810303: 92098,
}
DOCS = 787_244
WORDS = 141_043
CELLS = 51_859_491
TOKENS = 70_400_000
HEAVIEST = 2_933_060
TABLE_ENTRIES = {10: 1_405_374, 100: 9_290_866, 1000: 21_366_914}
ALL = sorted(
    name for name, kind in engines().items() if not kind.about.dense
)  # tests/addons/clusters/test_gmm.py has those


def plan_for(
    name: str, topics: int, limit: str, start: str = "random", keeps_best: bool = False, **room
):
    kind = find(name)
    shape = Shape(
        DOCS,
        WORDS,
        CELLS,
        float(TOKENS),
        topics,
        axes={"authors": 800_000, "labels": 1000, "links": DOCS},
    )
    engine = kind(shape, make_options(kind, {}))
    cells = min(engine.layout.block_cells, engine.layout.block_docs * 86)
    docs = min(-(-cells * DOCS // CELLS), engine.layout.block_docs) + 60
    words = int(np.interp(cells, list(WORDS_OF), list(WORDS_OF.values())))
    axes = {
        "authors": AxisShape(4 * docs, 5 * docs, 60),
        "labels": AxisShape(1000, 3 * docs, 20),
        "links": AxisShape(9 * docs, 10 * docs, 500),
    }
    block = BlockShape(
        docs, cells, int(cells * 1.37), words, 466, TABLE_ENTRIES[topics], HEAVIEST, axes
    )
    kept = state_bytes(engine, BlockShape(DOCS, CELLS, TOKENS, WORDS)) if engine.state else 0
    begin = make_start(start, engine)
    work = Work(
        engine,
        engine.layout,
        block,
        kept,
        begin.memory(engine, block),
        begin.has_seeds(engine),
        keeps_best,
    )
    return engine, make_plan(work, Allowance(MemoryLimit.parse(limit), **{"threads": 2, **room}))


def test_members_of_a_cluster_have_room_for_what_they_exchange():
    shape = Shape(DOCS, WORDS, CELLS, float(TOKENS), 800)
    engine = find("atbp")(shape, make_options(find("atbp"), {}))
    block = BlockShape(9000, 400_000, 0, 40_000)
    parts = []
    for members in (1, 2, 5):
        work = Work(engine, engine.layout, block, members=members)
        parts.append(make_plan(work, Allowance(MemoryLimit.parse("8G"), 1, "memory")).memory.parts)
    alone, two, five = parts
    assert "exchange" not in alone and two["tables"] == five["tables"] == alone["tables"]
    # two members hold a quarter of a round's deltas less than one, and one and a half times what
    # changed: all rows
    assert two["exchange"] >= 1.5 * two["tables"] - two["deltas"] / 4 > five["exchange"]


@pytest.mark.parametrize(("threads", "ahead"), [(1, 2), (2, 2), (12, 4)])
def test_every_storage_block_that_is_held_is_counted(threads, ahead):
    """Those decoded ahead, one that is being decoded, and one for each thread."""
    _, plan = plan_for("sparse-bp", 10, "64G", threads=threads)
    assert (plan.threads, plan.place.prefetch) == (threads, ahead)
    cells = 1 << 20
    docs = 1 << 16
    assert cells == planning.CELLS and docs == planning.DOCS
    block = 8 * cells + 4 * docs
    assert plan.memory.parts["prefetch"] == block * (ahead + 1 + threads)


def dense_messages(name: str) -> bool:
    kind = find(name)
    engine = kind(Shape(1000, 1000, 50_000, 6e4, 1000), make_options(kind, {}))
    return any(s.per == "cell" and s.width >= 1000 for s in engine.state.values())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("topics", "limit"), [(10, "512M"), (100, "512M"), (1000, "800M"), (1000, "2G")]
)
def test_what_has_to_fit_does(name, topics, limit):
    small = limit != "2G"
    if small and dense_messages(name):
        pytest.skip("stores K numbers a cell")
    if topics == 1000 and name == "anchors":
        pytest.skip("a thousand random columns of all words, twice: 2.5 GB")
    if small and name in ("anchors", "fdm"):
        pytest.skip("a thousand random columns, or pairs of topics, of a block's words")
    if small and name == "atm":
        pytest.skip("its table has a row for each of 800,000 authors")
    _, plan = plan_for(name, topics, limit)
    assert PROCESS_BYTES + (12 << 20) <= plan.memory.total <= plan.memory.limit.bytes
    if topics == 1000:
        _, plan = plan_for(name, topics, limit, tables="disk")
        assert plan.place.tables_on_disk and plan.disk["tables"]


@pytest.mark.parametrize("name", ALL)
def test_more_memory_is_never_planned_worse(name):
    last = 0.0
    for limit in ("512M", "700M", "1G", "2G", "8G", "64G"):
        try:
            _, plan = plan_for(name, 100, limit)
        except DoesNotFit:
            assert last == 0.0
            continue
        disk = 1.2 if name in ("gs", "sparselda") else 4
        speed = plan.threads / (
            (disk if plan.place.tables_on_disk else 1) * (1.2 if plan.place.deltas_spill else 1)
        )
        assert speed >= last
        last = speed
    assert (plan.threads, plan.place) == (2, (False, False, 2))


def test_a_start_takes_its_seed_topics_in_parts_where_they_do_not_fit():
    """A thousand topics at 1G: tables in memory, as in the passes; where there is room, whole."""
    block_words = WORDS_OF[199728]
    _, plan = plan_for("sparse-bp", 1000, "1G", "documents")
    assert not plan.place.tables_on_disk
    assert plan.seed_rows * 4 * 1008 <= planning.LEAST_SEEDS
    _, roomy = plan_for("sparse-bp", 1000, "8G", "documents")
    assert roomy.seed_rows == block_words
    more = roomy.memory.parts["seed topics"] - 2 * 4 * 1008 * block_words
    assert more == 2 * planning.SEED_RANGE


def test_packed_tables_go_to_disk_where_memory_has_no_room():
    name = "gs"
    _, plan = plan_for(name, 1000, "512M")
    assert plan.place.tables_on_disk and plan.disk["tables"] >= 4 * TABLE_ENTRIES[1000]
    with pytest.raises(
        DoesNotFit, match=r"and --tables memory does not fit .*: the smallest limit"
    ):
        plan_for(name, 1000, "512M", tables="memory")


@pytest.mark.parametrize("name", ["gs", "sparselda"])
def test_packed_tables_are_as_large_as_their_entries(name):
    """An entry has 10 bits for the topic and 22 for a count up to 2,933,060; where nothing is
    known, each token is one.
    """
    engine, _ = plan_for(name, 1000, "2G")
    entries = [1_000_000, 2_000_000, 0]
    blocks = [BlockShape(500, 40_000, 60_000, 9000, 466, n, HEAVIEST) for n in entries]
    one, two, unknown = (TableBytes(engine, block).saved for block in blocks)
    assert two - one == 4 * 1_000_000
    assert unknown - one == 4 * (TOKENS - 1_000_000)


def test_sums_of_a_round_take_what_is_left_and_the_disk_has_room_for_the_others():
    """A block of 8,278 words and 1,000 topics in 1,008 columns, 8 blocks a round."""
    engine, plan = plan_for("bp", 1000, "1G")
    assert plan.place.deltas_spill and engine.layout.round_blocks == 8
    assert plan.disk["deltas"] == 8 * 8278 * 1008 * 8  # all of them written, as float64
    assert plan.memory.total == 1 << 30
    assert plan.memory.parts["vocabulary"] == 48 * WORDS
    assert plan.memory.parts["process"] == PROCESS_BYTES
    _, roomy = plan_for("bp", 10, "8G")
    assert not roomy.place.deltas_spill
    assert roomy.disk["deltas"] == 0 and roomy.sums == (0, 0)


def test_a_refusal_names_a_limit_that_is_enough():
    with pytest.raises(
        DoesNotFit, match=r"smallest limit that would do is \d+M; raise --mem-limit, lower -K"
    ) as refused:
        plan_for("bp", 1000, "512M")
    assert "--tables" not in str(refused.value)
    _, plan = plan_for("bp", 1000, f"{refused.value.least}M")
    assert (
        plan.threads == 1
        and plan.place.tables_on_disk
        and plan.place.deltas_spill
        and plan.place.prefetch == 0
    )
    with pytest.raises(DoesNotFit):
        plan_for("bp", 1000, f"{refused.value.least - 1}M")


def test_a_disk_that_is_too_small_is_named():
    with pytest.raises(DoesNotFit, match=r"needs .* of disk \(block state 5\d\d GB"):
        plan_for("bp", 1000, "2G", disk_free=60 << 30)


@pytest.mark.parametrize("start", ["documents", "kmeans", "best", "anchors"])
def test_what_a_start_holds_is_counted(start):
    _, plain = plan_for("sparse-bp", 10, "2G")
    _, plan = plan_for("sparse-bp", 10, "2G", start)
    assert plan.memory.total >= plain.memory.total
    assert ("start" in plan.memory.parts) == (start in ("best", "anchors"))


class NoRoom(MergeSpace):
    """Buffers that have the least room there is."""

    spilled = 0
    bound = property(lambda self: 0, lambda self, bound: None)

    def make_room(self, asking):
        NoRoom.spilled += 1
        return super().make_room(asking)


@pytest.mark.quick("sparse-bp-5", "svi-130", "sparselda-5")
@pytest.mark.parametrize(
    ("name", "topics"),
    [
        ("sparse-bp", 5),
        ("mvi", 5),
        ("mvi", 40),
        ("gs", 5),
        ("sparselda", 5),
        ("atbp", 5),
        ("svi", 5),
        ("svi", 130),
        ("mixture", 5),
    ],
)
def test_deltas_that_merge_as_blocks_end_give_the_same_bits(name, topics, tmp_path, monkeypatch):
    _, indptr, words, counts = draw(docs=300, words=100, topics=5, length=60, seed=3)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 100)
    given = {"algo": name, "topics": topics, "passes": 2, "block_cells": 1500, "threads": 2}
    if topics > 5:
        given["sparsity"] = 2  # sparse statistics
    train(corpus, tmp_path / "ram", **given, progress=Progress(-1))
    monkeypatch.setattr(planning, "PLACES", {"auto": ((False, True),)})
    monkeypatch.setattr(parts, "PART", 100)
    put = MergedRound.put
    words_of_puts = []

    def count_words(self, i, ids, delta):
        words_of_puts.append(len(ids))
        put(self, i, ids, delta)

    monkeypatch.setattr(MergedRound, "put", count_words)
    told = Listening()
    train(corpus, tmp_path / "spilled", **given, progress=told)
    assert any("deltas merged as blocks end" in line for line in told.said)
    in_parts = name == "sparse-bp" or topics > 5
    assert (max(words_of_puts) < 60) == in_parts  # of a hundred
    monkeypatch.setattr(threads, "MergeSpace", NoRoom)
    NoRoom.spilled = 0
    train(corpus, tmp_path / "no room", **given, progress=Progress(-1))
    assert NoRoom.spilled
    hashes = {content_hash(tmp_path / name) for name in ("ram", "spilled", "no room")}
    assert len(hashes) == 1


def test_a_model_to_start_from_is_counted(tmp_path):
    topicstream.ingest(write_jsonl(tmp_path / "a.jsonl", documents(60)), tmp_path / "c.zarr")
    given = {"algo": "bp", "topics": 3, "passes": 1, "threads": 1}
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", **given)
    engine = find("bp")(Shape(DOCS, WORDS, CELLS, float(TOKENS), 100), find("bp").Options())
    memory = WarmStart(tmp_path / "m").memory(engine, BlockShape(10, 10, 10, 10))
    assert 16 << 20 < memory.fixed < 32 << 20


@pytest.mark.parametrize(
    ("threads", "blocks", "said"),
    [(16, 128, "--round-blocks 16 "), (64, 128, "--round-blocks 16 "), (4, 128, ""), (16, 32, "")],
)
def test_more_threads_than_a_round_has_blocks_are_told_of_wider_rounds(threads, blocks, said):
    engine, _ = plan_for("sparse-bp", 100, "2G")
    found = advise_wider_rounds(engine, engine.layout.round_blocks, threads, blocks)
    assert said in found if said else not found
    stepping, _ = plan_for("ovb", 100, "2G")
    assert not advise_wider_rounds(
        stepping, stepping.layout.round_blocks, 64, 10_000
    )  # there a round is a step
    little = find("sparse-bp")(Shape(DOCS, WORDS, 1 << 18, 1e6, 100), find("sparse-bp").Options())
    assert not advise_wider_rounds(little, 1, 2, 32)  # a pass takes less than a second


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sparse-bp", "--sparsity 16 halves it"),
        ("bp", "--algo sparse-bp keeps 32 bytes a cell"),
        ("rtm", ""),
    ],
)
def test_a_run_that_keeps_much_on_disk_says_what_keeps_less(name, said, monkeypatch):
    """52 million cells; of links no other engine learns the same, and whoever keeps less is told
    nothing.
    """
    _, plan = plan_for(name, 100, "4G")
    assert plan.disk["block state"] > 1 << 30
    last = plan.lines()[-1]
    assert (
        last.startswith(f"  less block state: {said}") if said else "less block state" not in last
    )
    monkeypatch.setattr(planning, "MUCH_STATE", plan.disk["block state"] + 1)
    assert "less block state" not in plan_for(name, 100, "4G")[1].lines()[-1]
