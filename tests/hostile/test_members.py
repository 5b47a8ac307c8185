"""Members of manifests, states and edits are of the kinds that readers take them for, or refused in one line."""

from __future__ import annotations

import json
import shutil

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile.resealing import reseal_model, write_sealed
from tests.ingest_tools import documents, write_jsonl
from tests.refusing import refused
from topicstream.cli.main import run
from topicstream.errors import StoreError
from topicstream.files.durable import read_json, sealed_line
from topicstream.model.edits import LOG
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Shown as Progress
from topicstream.training.loop import train

MEMBERS = {"vocab_sha256": None, "beta": "0.1", "alpha": [], "options": [1], "labels": {"0": ["x"]}, "tables": {"a": 1}, "passes": -1}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_a_manifest_are_what_readers_take_them_for(model, capsys, name):
    write_sealed(model / "manifest.json", read_json(model / "manifest.json") | {name: MEMBERS[name]})
    assert name in refused("info", model, capsys=capsys)


OF_STORES = {
    "summary": [[]],
    "sources": {"count": 1, "first": "x"},
    "columns": {"id": "../x"},
    "heldout": {"asked": "0", "threshold": 5},
    "vocabulary": {"hash": 5},
    "generation": None,
    "docs": "",
    "docs ": [{"file": "docs/x.parquet"}],
    "files": {"vocab": {"file": "\ud800"}},
    "axes": {"authors": {"folder": "axes/authors"}},
}


@pytest.mark.parametrize("name", OF_STORES)
def test_members_of_the_manifest_of_a_store_are_what_readers_take_them_for(store, capsys, name):
    write_sealed(store / "manifest.json", read_json(store / "manifest.json") | {name.strip(): OF_STORES[name]})
    assert name in refused("info", store, capsys=capsys)


@pytest.mark.parametrize("name", ["generation", "heldout", "tokenizer", "vocabulary", "columns", "summary"])
def test_what_a_change_goes_on_from_is_not_missed_half_way(store, capsys, name):
    manifest = read_json(store / "manifest.json")
    write_sealed(store / "manifest.json", {k: v for k, v in manifest.items() if k != name})
    write_jsonl(store.parent / "more.jsonl", documents(3))
    before = sorted(p for p in store.rglob("*"))
    assert f"no {name}" in refused("compact", store, capsys=capsys)
    assert f"no {name}" in refused("forget", "d3", "--corpus", store, capsys=capsys)
    assert f"no {name}" in refused("ingest", store.parent / "more.jsonl", "--out", store, "--append", capsys=capsys)
    assert sorted(p for p in store.rglob("*") if p.name != ".lock") == [p for p in before if p.name != ".lock"]


@pytest.mark.parametrize("more", [-1, 1])
def test_a_store_has_the_words_that_its_manifest_says(store, tmp_path, capsys, more):
    manifest = read_json(store / "manifest.json")
    write_sealed(store / "manifest.json", manifest | {"n_words": manifest["n_words"] + more})
    train = ("train", "--corpus", store, "--model", tmp_path / "n", "--algo", "gs", "-K", "2", "--passes", "1")
    for line in (("info", store), train):
        assert "words where the manifest says" in refused(*line, capsys=capsys)
    code = run(["info", str(store), "--verify", "-q"])
    assert code == 3 and "words where the manifest says" in capsys.readouterr().err
    assert not (tmp_path / "n" / "manifest.json").exists()


@pytest.mark.parametrize("step", [[], "", [1e999], {}, None])
def test_a_table_of_chunks_without_a_size_is_refused(model, capsys, step):
    name = read_json(model / "manifest.json")["files"]["topics"]["name"]
    meta = json.loads((model / name / "zarr.json").read_text())
    meta["chunk_grid"]["configuration"]["chunk_shape"] = step
    text = json.dumps(meta).encode()
    (model / name / "zarr.json").write_bytes(text)
    manifest = read_json(model / "manifest.json")
    manifest["files"]["topics"]["crc32c"] = int(google_crc32c.value(text))
    write_sealed(model / "manifest.json", manifest)
    assert "incomplete" in refused("show", "--model", model, capsys=capsys)


def changed(path, **members):
    """Members of a JSON file exchanged (``...``: left out), sealed again."""
    value = {**read_json(path), **members}
    write_sealed(path, {k: v for k, v in value.items() if v is not ... and k != "checksum"})


@pytest.mark.parametrize(
    ("name", "members", "said"),
    [
        ("manifest.json", {"engine": ...}, "no engine"),
        ("manifest.json", {"seed": ...}, "no seed"),
        ("manifest.json", {"layout": {"block_cells": 5}}, "layout.round_blocks"),
        ("manifest.json", {"corpus": {"docs": "5"}}, "corpus"),
        ("training.json", {"engine": 5}, "no engine"),
        ("checkpoints/*/state.json", {"rounds": ...}, "passes and rounds"),
        ("checkpoints/*/state.json", {"facts": 5}, "facts"),
    ],
)
def test_what_an_update_goes_on_from_is_refused_in_a_line(store, made, tmp_path, capsys, name, members, said):
    model = tmp_path / "u"
    train(store, model, algo="sparse-bp", topics=3, passes=1, tol=0.0, threads=1, progress=Progress(-1))
    changed(sorted(model.glob(name))[-1], **members)
    before = sorted(p for p in model.rglob("*"))
    assert said in refused("update", "--corpus", store, "--model", model, "--out", tmp_path / "o", capsys=capsys)
    assert sorted(p for p in model.rglob("*")) == before


def test_a_mark_of_another_form_is_none_of_ours(store, capsys):
    (store / ".topicstream").write_text('{"kind": {"a": 1}, "id": "x"}')
    assert run(["compact", str(store), "-q"]) in (0, 3)
    assert "internal" not in capsys.readouterr().err


EDITS = [{"edit": "label", "topic": [0], "label": "x"}, {"edit": "merge", "topics": [{}, 1]}, {"edit": "drop"}, {"edit": "undo", "steps": "1"}, {"edit": "label", "topic": 0}]


@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_what_readers_take_them_for(model, capsys, edit):
    (model / LOG).write_text(sealed_line(edit))
    assert "an edit that cannot be read" in refused("show", "--model", model, capsys=capsys)


def test_a_list_of_chunks_is_a_text(model):
    reseal_model(model, {"chunks": 5})
    with pytest.raises(StoreError, match="list of chunks"):
        TopicModel.open(model)


DEEP = json.loads("[" * 400 + "]" * 400)


@pytest.mark.parametrize("value", [float("nan"), "\ud800", DEEP, {"\ud800": 1}], ids=["nan", "half", "deep", "key"])
def test_what_json_cannot_hold_is_not_written_on(store, made, tmp_path, capsys, value):
    before = read_json(store / "manifest.json")
    write_sealed(store / "manifest.json", before | {"more": value})
    write_jsonl(tmp_path / "n.jsonl", [{"id": "new", "text": "some more words"}])
    kept = sorted(p.relative_to(store) for p in store.rglob("*"))
    assert run(["ingest", str(tmp_path / "n.jsonl"), "--out", str(store), "--append", "-q"]) in (0, 3)
    said = capsys.readouterr().err
    assert len(said.splitlines()) <= 1 and "internal" not in said, said
    if said:
        assert sorted(p.relative_to(store) for p in store.rglob("*") if ".wip" not in str(p)) == kept


@pytest.mark.parametrize("value", ["NaN", "1e999", '"\\ud800"', "[" * 400 + "]" * 400, "[" * 100_000], ids=range(5))
def test_what_a_table_says_of_its_model_is_plain_or_refused(tmp_path, capsys, value):
    table = pa.table({"word": ["a", "b"], "topic_0": [1.0, 2.0], "topic_1": [3.0, 1.0]})
    for about in ('{"alpha":[1,1],"beta":0.1,"engine":%s}', '{"alpha":[1,1],"beta":0.1,"labels":{"0":%s}}', '{"alpha":[1,%s],"beta":0.1}'):
        pq.write_table(table.replace_schema_metadata({"topicstream": about % value}), tmp_path / "t.parquet")
        code = run(["import", str(tmp_path / "t.parquet"), "--model", str(tmp_path / "m"), "--force", "-q"])
        lines = capsys.readouterr().err.splitlines()
        assert code in (0, 3) and len(lines) == 1 and "internal" not in lines[0], lines
        assert (tmp_path / "m" / "manifest.json").exists() == (code == 0)
        if code == 0:
            assert run(["info", str(tmp_path / "m")]) == 0 and run(["show", "--model", str(tmp_path / "m")]) == 0
            shutil.rmtree(tmp_path / "m")
        capsys.readouterr()
