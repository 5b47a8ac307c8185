"""``topics compact``: the same documents in fewer blocks, whoever reads meanwhile and wherever it
is killed.
"""

from __future__ import annotations

import json
import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import topicstream
from tests.ingest_tools import cells_by_id, digest, documents, write_jsonl
from tests.killing import Killable
from topicstream.base.errors import Busy, DoesNotFit, TopicsError
from topicstream.cli.main import topics
from topicstream.corpus import sweep as sweeping
from topicstream.corpus.documents import remove_values
from topicstream.corpus.format import CELLS, KINDS
from topicstream.corpus.info import verify
from topicstream.corpus.manifest import BlockEntry, Totals
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.upkeep.compact import compact
from topicstream.ingestion.upkeep.rewrite import group_blocks
from topicstream.retraining.forget import forget

FIRST = {"stopwords": "none", "min_df": 2}


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> list[Path]:
    """A store of a first ingest, and after one, two and three appends that replace a few documents
    each.
    """
    made = [tmp_path_factory.mktemp("stores") / "c.zarr"]
    topicstream.ingest(write_jsonl(made[0].parent / "in.jsonl", documents(200)), made[0], **FIRST)
    for night in range(3):
        made.append(shutil.copytree(made[-1], tmp_path_factory.mktemp("stores") / "c.zarr"))
        append(made[-1], night)
    return made


@pytest.fixture
def appended(stores, tmp_path):
    """Copies the store after so many appends to ``c.zarr``."""

    def copied(nights: int = 3) -> Path:
        return shutil.copytree(stores[nights], tmp_path / "c.zarr")

    return copied


def append(store: Path, night: int) -> None:
    changed = [
        {**d, "text": "changed " + d["text"]} for d in documents(200)[night * 20 : night * 20 + 10]
    ]
    source = write_jsonl(
        store.parent / "in.jsonl", documents(40, seed=night + 5, prefix=f"e{night}-") + changed
    )
    topicstream.ingest(source, store, append=True, grow_vocab=True, on_duplicate="replace")


def whole(store: Path) -> bool:
    return not list(verify(Corpus.open(store)))


def files(store: Path) -> set[str]:
    return {
        str(p.relative_to(store)) for p in store.rglob("*") if p.is_file() and p.name != ".lock"
    }


def days_pass(monkeypatch, days: int) -> None:
    """Let the store's clock say that it is some days later."""

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=days)

    monkeypatch.setattr(sweeping, "datetime", Later)


def test_the_same_documents_in_fewer_blocks(appended, monkeypatch):
    store = appended()
    before = cells_by_id(store)
    old = Corpus.open(store)
    removed = len(old.removed())
    assert removed == 30
    told = topicstream.compact(store)
    assert told["compacted"] and told["blocks"] == [8, 2] and told["files"] == [4, 1]
    assert (told["documents_purged"], told["waiting"]) == (30, True)
    new = Corpus.open(store)
    assert cells_by_id(store) == before and whole(store)
    assert new.n_docs + new.part(True).docs == len(before) and len(new.removed()) == 0
    assert new.n_cells == old.n_cells and new.n_tokens == old.n_tokens
    assert new.has_fingerprint(old.fingerprint) and not old.has_fingerprint(new.fingerprint)
    assert new.manifest.summary["documents"] == len(before)
    # whoever had it open reads on, to the last block
    assert not list(verify(old)) and sum(b.n_cells for b in old.blocks()) == old.n_cells
    named = {e.file for e in (*new.manifest.files.values(), *new.manifest.docs)}
    assert topicstream.compact(store)["waiting"]
    days_pass(monkeypatch, sweeping.DAYS_KEPT - 1)
    assert topicstream.compact(store)["waiting"] and not list(verify(old))
    days_pass(monkeypatch, sweeping.DAYS_KEPT)
    again = topicstream.compact(store)
    assert not again["compacted"] and not again["waiting"]
    with pytest.raises(Busy, match="the store was rewritten while it was read"):
        list(old.blocks())
    assert {f for f in files(store) if not f.startswith(("train-2/", "heldout-2/"))} == named | {
        "manifest.json",
        "zarr.json",
        ".topicstream",
        ".inputs.json",
        "vocab.parquet",
        "pruned.parquet",
    }


def test_appends_go_on_behind_it(appended, tmp_path):
    store = appended()
    other = Path(shutil.copytree(store, tmp_path / "other.zarr"))
    compact(store)
    for place in (store, other):
        append(place, 4)
    assert cells_by_id(store) == cells_by_id(other) and whole(store)
    compact(store)
    assert cells_by_id(store) == cells_by_id(other) and whole(store)
    current = Corpus.open(store).manifest.parts.values()
    assert {part.folder for part in current} == {"train-3", "heldout-3"}


def test_an_append_leaves_what_old_readers_need(appended, monkeypatch):
    store = appended(nights=1)
    old = Corpus.open(store)
    compact(store)
    append(store, 2)
    assert sum(b.n_cells for b in old.blocks()) == old.n_cells and whole(store)
    assert old.word_table("word").num_rows == old.n_words  # of a file that the append replaced
    days_pass(monkeypatch, sweeping.DAYS_KEPT)
    append(store, 3)
    assert not (store / "train").exists() and whole(store)
    days = json.loads((store / ".replaced.json").read_bytes())["days"]
    assert days and not {"train", "heldout"} & set(days)


def test_what_a_killed_writer_left_goes_at_the_next_write(appended):
    store = appended(nights=1)
    compact(store)
    from topicstream.base.files import ownership as owned

    strays = ["train-9/counts/c/0/0", "train-2/counts/c/99/0", "docs/part-00099.parquet"]
    for name in strays:
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        owned.create(store / name).close()
    compact(store)
    assert not any((store / name).exists() for name in strays)
    assert (store / "train").exists() and whole(store)


def test_full_blocks_stay_as_they_are(appended):
    """Those that have no room for a neighbour get a second name and are not rewritten."""
    store = appended(nights=2)
    manifest = Corpus.open(store).manifest
    blocks = [
        BlockEntry(rows=(0, 2), docs=10, cells=c, tokens=c, files={k: [(20, 0)] * 2 for k in KINDS})
        for c in (CELLS, 5, 7, CELLS - 3, 4, 2 * CELLS, 0)
    ]
    assert group_blocks(blocks) == [[0], [1, 2], [3], [4], [5], [6]]
    empty = [
        msgspec.structs.replace(b, removed=Totals(docs=10, cells=b.cells, tokens=b.cells))
        for b in blocks
    ]
    assert group_blocks(empty) == [list(range(7))]
    assert group_blocks(manifest.parts["train"].blocks) == [[0, 1, 2]]


def test_large_blocks_are_linked(appended, monkeypatch):
    monkeypatch.setattr("topicstream.ingestion.upkeep.rewrite.DOCS", 150)
    store = appended(nights=3)
    before = cells_by_id(store)
    inodes = {p.stat().st_ino for p in store.glob("train/words/c/*/0")}
    compact(store)
    assert cells_by_id(store) == before and whole(store)
    assert len(Corpus.open(store).part().blocks) > 1
    append(store, 4)
    before = cells_by_id(store)
    inodes = {p.stat().st_ino for p in store.glob("train-2/words/c/*/0")}
    compact(store)
    assert cells_by_id(store) == before and whole(store)
    assert inodes & {p.stat().st_ino for p in store.glob("train-3/words/c/*/0")}


def test_weights_and_stores_without_documents_set_aside(tmp_path):
    text = (
        "%%MatrixMarket matrix coordinate real general\n3 4 5\n1 1 0.5\n1 2 1.25\n2 2 3\n3 1 "
        "2\n3 4 0.125\n"
    )
    store = tmp_path / "w.zarr"
    for k in range(3):
        (tmp_path / f"m{k}.mtx").write_text(text)
        topicstream.ingest(
            tmp_path / f"m{k}.mtx", store, heldout=0, append=k > 0, weighted=k == 0
        )  # an append recalls it
    before = cells_by_id(store)
    assert compact(store)["blocks"] == [3, 1]
    assert cells_by_id(store) == before and whole(store) and Corpus.open(store).weighted


def test_a_block_of_nothing_goes(appended, tmp_path):
    store = appended(nights=1)
    source = write_jsonl(
        tmp_path / "in.jsonl", [{"id": f"e0-{i}", "text": "bax kex"} for i in range(40)]
    )
    topicstream.ingest(source, store, append=True, on_duplicate="replace")
    before = cells_by_id(store)
    compact(store)
    assert cells_by_id(store) == before and whole(store)


def test_nothing_happens_where_another_writes_or_there_is_no_room(appended, tmp_path, monkeypatch):
    store = appended(nights=1)
    before = digest(store)
    from topicstream.base.files.durable import lock

    with lock(store, "writing to"), pytest.raises(Busy):
        compact(store)
    (tmp_path / "c.zarr.wip").mkdir()
    (tmp_path / "c.zarr.wip" / "state.json").write_text("{}")
    with pytest.raises(TopicsError, match="unfinished ingest"):
        compact(store)
    shutil.rmtree(tmp_path / "c.zarr.wip")
    usage = shutil.disk_usage(store)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(DoesNotFit):
        compact(store)
    monkeypatch.undo()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("topicstream.corpus.manifest.write_json", full)
    with pytest.raises(OSError, match="No space"):
        compact(store)
    assert digest(store) == before


def test_a_damaged_block_stops_it(appended):
    store = appended(nights=1)
    chunk = store / "train" / "counts" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    before = digest(store)
    done = CliRunner().invoke(topics, ["compact", str(store)])
    assert done.exit_code != 0 and digest(store) == before


def test_a_model_is_still_of_its_corpus(appended, tmp_path):
    store = appended(nights=1)
    topicstream.train(store, tmp_path / "m", algo="sparse-bp", topics=3, passes=2)
    compact(store)
    assert topicstream.update(store, tmp_path / "m", passes=1).how == "nothing"
    append(store, 2)
    assert topicstream.update(store, tmp_path / "m", passes=1).how == "warm"


def test_a_run_on_the_blocks_before_says_that_they_are_gone(appended, tmp_path):
    store = appended(nights=1)
    topicstream.train(store, tmp_path / "m", algo="sparse-bp", topics=3, passes=1)
    compact(store)
    with pytest.raises(
        TopicsError, match=r"was compacted since.*--start warm --warm .*m --model OTHER.*--force"
    ):
        topicstream.train(store, tmp_path / "m", algo="sparse-bp", topics=3, passes=3)


def test_the_command(appended, tmp_path):
    store = appended(nights=1)
    said = CliRunner().invoke(topics, ["compact", str(store)])
    assert (
        said.exit_code == 0
        and "4 -> 2 storage blocks" in said.output
        and "10 removed documents" in said.output
    )
    done = CliRunner().invoke(topics, ["compact", str(store), "--json"])
    assert json.loads(done.output)["compacted"] is False
    assert CliRunner().invoke(topics, ["compact", str(tmp_path / "none")]).exit_code != 0


WORK = """
import topicstream
def work(store):
    return topicstream.compact(store)
"""


@pytest.mark.slow
def test_killed_at_random_instants(appended, tmp_path):
    """The old store or the new one, and after the same command again the bytes of an undisturbed
    run; appends go on, too.
    """
    place = appended(nights=2)
    old = digest(place)
    cells = cells_by_id(place)
    done = Path(shutil.copytree(place, tmp_path / "whole.zarr"))
    with Killable(WORK, {"store": str(shutil.copytree(place, tmp_path / "warm.zarr"))}) as work:
        _, count, _ = work(store=str(done))
        expected = digest(done)
        rng = random.Random(5)
        fingerprint = Corpus.open(place).fingerprint
        seen: set[bool] = set()
        passed = 0
        instants = [*rng.sample(range(1, count + 1), min(count, 10)), count, count - 1]
        for kills, kill_at in enumerate(instants):
            store = Path(shutil.copytree(place, tmp_path / f"{kills}.zarr"))
            reader = Corpus.open(store)
            killed, _, _ = work(kill_at=kill_at, store=str(store))
            passed += not killed
            assert cells_by_id(store) == cells and whole(store)
            assert sum(b.n_cells for b in reader.blocks()) == reader.n_cells
            seen.add(Corpus.open(store).fingerprint == fingerprint)
            if kills % 3 == 0:  # another writer comes first
                append(store, 7)
                after = cells_by_id(store)
                work(store=str(store))
                assert cells_by_id(store) == after and whole(store)
                left = {p.name for p in store.iterdir() if p.is_dir()}
                assert (
                    {"docs"}
                    < left
                    <= {"docs"}
                    | {f"{part}{n}" for part in ("train", "heldout") for n in ("", "-2", "-3")}
                )
            else:
                assert work(store=str(store))[0] is False
                assert digest(store) == expected
            shutil.rmtree(store)
        assert old != expected and seen == {True, False}
        assert passed < 3  # files are synced by threads: an instant may pass unseen


@pytest.mark.slow
def test_readers_go_on_while_it_is_compacted(appended):
    """Opened and read whole, again and again, while the store is appended to and compacted."""
    import threading

    store = appended(nights=1)
    errors: list[BaseException] = []
    wanted = True
    reads = 0

    def read() -> None:
        nonlocal reads
        while wanted:
            try:
                corpus = Corpus.open(store)
                assert sum(b.n_cells for b in corpus.blocks(prefetch=0)) == corpus.n_cells
                reads += 1
            except BaseException as e:
                errors.append(e)
                return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        night = 1
        while night < 7 or (reads < 4 and thread.is_alive()):
            append(store, night := night + 1)
            compact(store)
    finally:
        wanted = False
        thread.join()
    assert not errors, errors
    forget("nobody", store)
    assert len([p for p in store.iterdir() if p.name.startswith("train")]) == 1


def test_the_list_of_links_without_some():
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = pa.array([["a", "b"], None, [], ["c"], ["b", "b", "a"]], pa.list_(pa.large_string()))
    for gone, left in (
        ("b", [["a"], None, [], ["c"], ["a"]]),
        ("x", lists.to_pylist()),
        ("abc", [[], None, [], [], []]),
    ):
        assert (
            remove_values(
                lists, pc.is_in(lists.flatten(), value_set=pa.array(list(gone)))
            ).to_pylist()
            == left
        )
