"""Every bit of the JSON files, of the history and of the tables beside the blocks hangs on a
checksum.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import topicstream
from tests.ingest_tools import documents, write_jsonl
from topicstream.base.errors import StoreError, TopicsError
from topicstream.base.files.durable import read_json, read_sealed, sealed_line, write_json
from topicstream.base.files.ownership import claim
from topicstream.cli.main import find_fullest, run
from topicstream.corpus.format import metadata_problems
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.open.source import Source, printable


def test_every_flipped_bit_of_a_json_file_is_found(tmp_path):
    path = tmp_path / "x.json"
    value = {"a": 1, "b": {"c": [1.5, None, "über"]}, "z": "crc32c:00000000"}
    write_json(path, value)
    assert read_json(path) == value
    assert json.loads(path.read_text())["a"] == 1  # anyone can read it
    data = path.read_bytes()
    for at in range(len(data)):
        for bit in range(8):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            with pytest.raises(StoreError, match=r"x\.json"):
                read_json(path)
    for at in range(len(data) - 1):
        path.write_bytes(data[:at])
        with pytest.raises(StoreError, match=r"x\.json"):
            read_json(path)


def test_json_by_hand_is_taken(tmp_path):
    claim(tmp_path, "model")
    for i, value in enumerate(({"a": 1}, [1, 2], "x", {})):
        by_hand = tmp_path / f"{i}.json"
        path = tmp_path / "x.json"
        by_hand.write_text(json.dumps(value))
        assert read_json(by_hand) == value
        write_json(path, value)
        assert read_json(path) == value
    write_json(path, {"a": 1}, checked=False)
    assert json.loads(path.read_text()) == {"a": 1}


def test_every_flipped_bit_of_a_history_is_found(tmp_path):
    path = tmp_path / "h.jsonl"
    records = [{"pass": i, "seconds": 1.5 * i, "x": None} for i in range(3)]
    path.write_text("".join(map(sealed_line, records)))
    assert read_sealed(path) == (records, [])
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << (at % 8)]) + data[at + 1 :])
        found, damaged = read_sealed(path)
        assert damaged and all(r in records for r in found), at
    for at in range(len(data)):  # cut short by a kill: what is whole is there, nothing is said
        path.write_bytes(data[:at])
        found, damaged = read_sealed(path)
        assert found == records[: len(found)] and len(found) >= data[:at].count(b"\n")
        assert not damaged or b'"crc32c": "' in data[:at].split(b"\n")[-1]
    assert read_sealed(tmp_path / "none.jsonl") == ([], [])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("checksums")
    write_jsonl(place / "a.jsonl", documents(80))
    topicstream.ingest(place / "a.jsonl", place / "c.zarr", min_df=1, max_df=1.0)
    return place / "c.zarr"


@pytest.mark.parametrize("kind", ["vocab", "pruned"])
def test_a_table_is_verified_before_it_is_read(store, kind):
    path = Corpus.open(store).file(kind)
    data = path.read_bytes()
    path.write_bytes(data[:-20] + bytes([data[-20] ^ 4]) + data[-19:])
    try:
        with pytest.raises(StoreError, match=f"{kind}.parquet: does not match its checksum"):
            Corpus.open(store).file(kind)
    finally:
        path.write_bytes(data)
    assert Corpus.open(store).file(kind) == path


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [("train/words", "1048576", "1048577"), (".", "{", ""), ("heldout", "group", "array")],
)
def test_stock_metadata_is_verified(store, capsys, place, old, new):
    path = store / place / "zarr.json"
    data = path.read_text()
    path.write_text(data.replace(old, new, 1))
    try:
        rows = {p: Corpus.open(store).manifest.parts[p].rows for p in ("train", "heldout")}
        assert [str(path) in p for p in metadata_problems(store, False, rows)] == [True]
        assert run(["info", str(store), "--verify"]) == 3
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1 and "zarr.json" in said
    finally:
        path.write_text(data)
    assert run(["info", str(store), "--verify", "-q"]) == 0


def test_an_append_while_a_run_goes_on_does_not_take_its_words(store, tmp_path):
    from topicstream.base.progress import Shown as Progress
    from topicstream.model.topic_model import TopicModel
    from topicstream.training.loop import train

    write_jsonl(tmp_path / "b.jsonl", documents(60, seed=5, prefix="new"))

    class Appending(Progress):
        def end_pass(self, record, passes):
            if record["pass"] == 1:
                topicstream.ingest(tmp_path / "b.jsonl", store, append=True, grow_vocab=True)
            super().end_pass(record, passes)

    words = Corpus.open(store).n_words
    train(
        store, tmp_path / "model", algo="atbp", topics=3, passes=2, tol=0.0, progress=Appending(-1)
    )
    assert TopicModel.open(tmp_path / "model").n_words == words < Corpus.open(store).n_words


def test_messages_are_one_line():
    assert str(TopicsError("a: (Thrift\n said\nso)")) == "a: (Thrift  said so)"


def test_a_full_disk_is_named(tmp_path):
    assert find_fullest([str(tmp_path), "--out", str(tmp_path / "not" / "there")]) is not None
    assert find_fullest([]) == "."


def test_odd_names_and_marks(tmp_path):
    odd = tmp_path / "\udcff.txt"
    odd.write_bytes("ein Wort ü".encode("utf-16-le"))
    assert printable(str(odd)).endswith("\\xff.txt") and printable("ü.txt") == "ü.txt"
    with Source(str(odd), odd, encoding="utf-16") as source:
        assert source.read(100) == "ein Wort ü".encode()
        assert source.name.endswith("\\xff.txt")
    from topicstream.ingestion.options import ReadOptions
    from topicstream.ingestion.parts.tasks import pieces

    (tmp_path / "ok.txt").write_text("zwei Worte")
    tasks = pieces(tmp_path, ReadOptions(format="files", on_error="skip"))
    ids = [i for task in tasks for i in task.batch["id"].to_pylist()]
    assert "ok.txt" in ids and np.all([i.isprintable() for i in ids])
