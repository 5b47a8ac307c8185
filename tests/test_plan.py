"""The memory plan on the shape of a large corpus: what has to fit does, what does not is refused in words."""

from __future__ import annotations

import re

import numpy as np
import pytest

import topicstream
from tests.ingest_tools import documents, write_jsonl
from tests.listening import Listening
from tests.planted import draw, store
from topicstream import machine
from topicstream.corpus.block import AxisShape
from topicstream.engines import engines, find
from topicstream.engines.base import BlockShape, Rule, Shape, SparseDelta
from topicstream.errors import DoesNotFit
from topicstream.progress import Shown as Progress
from topicstream.tables.rounds import SparseRound
from topicstream.training import plan as planning
from topicstream.training.loop import train
from topicstream.training.plan import make_plan, memory_bytes, wider_rounds
from topicstream.training.setup import make_options
from topicstream.training.state.checkpoint import content_hash

# measured on 787,244 made documents of 51,859,491 cells (scripts/tools/make_corpus.py --cells 52e6): cells of a block -> its words
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
DOCS, WORDS, CELLS, TOKENS, HEAVIEST = 787_244, 141_043, 51_859_491, 70_400_000, 2_933_060
TABLE_ENTRIES = {10: 1_405_374, 100: 9_290_866, 1000: 21_366_914}
BASE = 92 << 20  # resident after imports, kernels from the cache and letting go of library pages

ALL = sorted(name for name, kind in engines().items() if not kind.on_vectors)  # tests/test_gmm.py has those


def plan_for(name: str, topics: int, limit: int, **more):
    kind = find(name)
    shape = Shape(DOCS, WORDS, CELLS, float(TOKENS), topics, axes={"authors": 800_000, "labels": 1000, "links": DOCS})
    engine = kind(shape, make_options(kind, {}))
    layout = engine.layout()
    cells = min(layout.block_cells, layout.block_docs * 86)
    docs = min(-(-cells * DOCS // CELLS), layout.block_docs) + 60
    words = int(np.interp(cells, list(WORDS_OF), list(WORDS_OF.values())))
    axes = {"authors": AxisShape(4 * docs, 5 * docs, 60), "labels": AxisShape(1000, 3 * docs, 20), "links": AxisShape(9 * docs, 10 * docs, 500)}
    block = BlockShape(docs, cells, int(cells * 1.37), words, 466, TABLE_ENTRIES[topics], HEAVIEST, axes)
    kept = memory_bytes(engine, BlockShape(DOCS, CELLS, TOKENS, WORDS)) if engine.memory else 0
    given = {"base": BASE, "threads": 2, "disk_free": 100 << 40} | more
    return engine, make_plan(engine, layout, block, kept, limit=limit, **given)


def dense_messages(name: str) -> bool:
    kind = find(name)
    engine = kind(Shape(1000, 1000, 50_000, 6e4, 1000), make_options(kind, {}))
    return any(s.per == "cell" and s.width >= 1000 for s in engine.memory.values())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("topics", "limit"), [(10, "300M"), (10, "512M"), (100, "300M"), (100, "512M"), (1000, "512M"), (1000, "2G")]
)
def test_what_has_to_fit_does(name, topics, limit):
    small = machine.parse_bytes(limit) < 1 << 30
    if small and dense_messages(name):
        pytest.skip("stores K numbers a cell")
    if small and name in ("anchors", "fdm"):
        pytest.skip("a thousand random columns, or pairs of topics, of a block's words")
    if limit == "300M" and name == "atm":
        pytest.skip("its table has a row for each of 800,000 authors")
    _, plan = plan_for(name, topics, machine.parse_bytes(limit))
    assert plan.total <= machine.parse_bytes(limit)
    assert plan.total >= BASE + (12 << 20)
    if topics == 1000:
        _, plan = plan_for(name, topics, machine.parse_bytes(limit), tables="disk")
        assert plan.tables_on_disk and plan.total <= machine.parse_bytes(limit) and plan.disk["tables"]


@pytest.mark.parametrize("name", ALL)
def test_more_memory_is_never_planned_worse(name):
    last = 0.0
    for limit in ("300M", "512M", "1G", "2G", "8G", "64G"):
        try:
            _, plan = plan_for(name, 100, machine.parse_bytes(limit))
        except DoesNotFit:
            assert last == 0.0
            continue
        disk = 1.2 if name in ("gs", "sparselda") else 4
        speed = plan.threads / ((disk if plan.tables_on_disk else 1) * (1.5 if plan.deltas_on_disk else 1))
        assert speed >= last
        last = speed
    assert (plan.threads, plan.tables_on_disk, plan.deltas_on_disk, plan.prefetch) == (2, False, False, 2)


@pytest.mark.parametrize("name", ["gs", "sparselda"])
def test_packed_tables_go_to_disk_where_memory_has_no_room(name):
    _, plan = plan_for(name, 1000, 400 << 20)
    assert plan.tables_on_disk and plan.disk["tables"] >= 4 * TABLE_ENTRIES[1000]
    with pytest.raises(DoesNotFit, match="with --tables memory: the smallest limit"):
        plan_for(name, 1000, 400 << 20, tables="memory")


def test_a_refusal_names_a_limit_that_is_enough():
    with pytest.raises(DoesNotFit) as refused:
        plan_for("atbp", 1000, 200 << 20)
    found = re.search(r"smallest limit that would do is (\d+)M", str(refused.value))
    assert found
    engine, plan = plan_for("atbp", 1000, int(found[1]) << 20)
    assert plan.threads == 1 and plan.tables_on_disk and plan.deltas_on_disk and plan.prefetch == 0
    assert engine.tables["phi"].rule is Rule.ADD


def test_a_disk_that_is_too_small_is_named():
    with pytest.raises(DoesNotFit, match=r"needs .* of disk \(block memory 5\d\d GB"):
        plan_for("bp", 1000, 2 << 30, disk_free=60 << 30)


def test_spilled_deltas_are_read_back(tmp_path):
    spill = SparseRound(3, 0.0, tmp_path / "x.scratch")
    assert not (tmp_path / "x.scratch").exists()  # it goes with the process
    rng = np.random.default_rng(2)
    made = []
    for i, n in enumerate((0, 5, 1000)):
        ptr = np.array([0, n // 3, n // 3, n], np.int64)
        made.append(SparseDelta(ptr, rng.integers(0, 99, n).astype(np.uint16), rng.random(n).astype(np.float32)))
        spill.put(i, np.arange(3, dtype=np.int32), made[-1])
    kept = [delta for _, delta in spill.deltas()]
    for one, two in zip(made, kept):
        assert (one.ptr == two.ptr).all() and len(two.topic) == len(one.topic)
        for part in (slice(0, None), slice(2, 4), slice(1, 1)):
            assert (one.topic[part] == two.topic[part]).all() and two.topic[part].dtype == np.uint16
            assert (one.value[part] == two.value[part]).all()
    spill.clear()
    spill.put(0, np.arange(3, dtype=np.int32), made[2])
    [(_, again)] = spill.deltas()
    assert (again.value[:] == made[2].value).all()
    spill.close()


@pytest.mark.parametrize("name", ["sparse-bp", "mvi", "gs", "sparselda", "atbp"])
def test_deltas_on_disk_give_the_same_bits(name, tmp_path, monkeypatch):
    _, indptr, words, counts = draw(docs=300, words=100, topics=5, length=60, seed=3)
    corpus = store(tmp_path / "corpus.zarr", indptr, words, counts, 100)
    given = {"algo": name, "topics": 5, "passes": 2, "tol": 0.0, "block_cells": 1500, "threads": 2}
    train(corpus, tmp_path / "ram", **given, progress=Progress(-1))
    monkeypatch.setattr(planning, "_slowness", lambda choice, disk: -float(choice[2]))  # spilled first
    told = Listening()
    train(corpus, tmp_path / "spilled", **given, progress=told)
    assert any("deltas spilled to disk" in line for line in told.said)
    assert content_hash(tmp_path / "ram") == content_hash(tmp_path / "spilled")


def test_a_model_to_start_from_is_counted(tmp_path, caplog):
    _, plain = plan_for("sparse-bp", 100, 2 << 30)
    _, warm = plan_for("sparse-bp", 100, 2 << 30, beside=300 << 20)
    assert warm.total - plain.total >= 300 << 20
    topicstream.ingest(write_jsonl(tmp_path / "a.jsonl", documents(60)), tmp_path / "c.zarr")
    given = {"algo": "bp", "topics": 3, "passes": 1, "threads": 1}
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", **given)
    with caplog.at_level("INFO", "topicstream"):
        topicstream.train(tmp_path / "c.zarr", tmp_path / "n", start="warm", warm=tmp_path / "m", **given)
    assert "model to start from" in caplog.text


@pytest.mark.parametrize(("threads", "blocks", "said"), [(16, 128, "--round-blocks 16 "), (64, 128, "--round-blocks 16 "), (4, 128, ""), (16, 32, "")])
def test_more_threads_than_a_round_has_blocks_are_told_of_wider_rounds(threads, blocks, said):
    engine, _ = plan_for("sparse-bp", 100, 2 << 30)
    found = wider_rounds(engine, engine.layout().round_blocks, threads, blocks)
    assert said in found if said else not found
    stepping, _ = plan_for("ovb", 100, 2 << 30)
    assert not wider_rounds(stepping, stepping.layout().round_blocks, 64, 10_000)  # there a round is a step
