"""A forgotten document stays out of every later ingest into its store, until that is lifted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topicstream
from tests.ingest_options import records, write_records
from tests.ingest_tools import cells_by_id
from tests.retrain_tools import cycle, folder, made, write
from topicstream.base.errors import InputError, StoreError
from topicstream.cli.main import run
from topicstream.corpus.forgotten import NAME, ForgottenIds, read_forgotten

RULES = {"min_df": 1, "heldout": 0}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "a.jsonl", 0, 40)
    topicstream.ingest(Path("a.jsonl"), "s.zarr", **RULES)
    topicstream.forget(["d3", "d7", "never-met"], "s.zarr")
    return tmp_path / "s.zarr"


@pytest.mark.quick("fail")
@pytest.mark.parametrize("rule", ["skip", "replace", "fail"])
def test_an_append_leaves_forgotten_documents_out_and_says_how_many(store, rule):
    rows = [*records(3, 1), *records(7, 1), *records(7, 1), *records(90, 2)]
    write(Path("b.jsonl"), rows)
    done = topicstream.ingest(Path("b.jsonl"), "s.zarr", append=True, on_duplicate=rule)
    assert (done["documents_added"], done["dropped_forgotten"]) == (2, 3)
    have = set(cells_by_id(store))
    assert {"d90", "d91"} <= have
    assert not {"d3", "d7"} & have


def test_an_append_of_nothing_else_changes_nothing(store, capsys):
    write(Path("b.jsonl"), [*records(3, 1), {"id": "never-met", "text": "river stone"}])
    before = (store / "manifest.json").read_bytes()
    assert run(["ingest", "b.jsonl", "--out", "s.zarr", "--append"]) == 0
    assert (store / "manifest.json").read_bytes() == before
    assert "2 left out, forgotten by `topics forget`" in capsys.readouterr().out


def test_documents_in_memory_and_the_whole_input_again_are_no_way_back(store):
    topicstream.ingest(records(0, 8), "s.zarr", append=True)
    assert len(cells_by_id(store)) == 38
    done = topicstream.ingest(Path("a.jsonl"), "s.zarr", force=True, **RULES)
    assert (done["documents"], done["dropped_forgotten"]) == (38, 2)
    assert not {"d3", "d7"} & set(cells_by_id(store))
    again = topicstream.ingest(Path("a.jsonl"), "s.zarr", append=True)  # the list is there still
    assert again["dropped_forgotten"] == 2


def test_the_list_outlives_compaction_and_names_nobody(store):
    topicstream.compact("s.zarr")
    topicstream.ingest(records(3, 1), "s.zarr", append=True)
    assert "d3" not in cells_by_id(store)
    text = (store / NAME).read_text()
    assert "d3" not in json.loads(text)["hashes"]
    assert "never-met" not in text
    one = ForgottenIds().add(["d3"])
    other = ForgottenIds().add(["d3"])
    assert one.salt != other.salt
    assert one.hashes != other.hashes
    assert one.add(["d3"]) == one
    assert one.without(["d3"]).hashes == []


def test_lifting_lets_a_document_back_in(store, capsys):
    assert run(["forget", "--lift", "d3", "d99", "--corpus", "s.zarr"]) == 0
    assert "1 id taken off the list" in capsys.readouterr().out
    done = topicstream.ingest(records(0, 8), "s.zarr", append=True)
    assert (done["documents_added"], done["dropped_forgotten"]) == (1, 1)
    assert "d3" in cells_by_id(store)
    assert topicstream.forget("d7", "s.zarr", lift=True)["lifted"] == 1
    assert topicstream.forget("d7", "s.zarr", lift=True)["lifted"] == 0


def test_a_lift_is_no_finished_ingest(store):
    topicstream.ingest(Path("a.jsonl"), "s.zarr", force=True, **RULES)
    assert topicstream.ingest(Path("a.jsonl"), "s.zarr", **RULES)["finished_before"]
    topicstream.forget(["d3", "d7"], "s.zarr", lift=True)
    done = topicstream.ingest(Path("a.jsonl"), "s.zarr", force=True, **RULES)
    assert done["documents"] == 40


def test_a_damaged_list_is_refused_before_anything_is_stored(store):
    (store / NAME).write_text('{"salt": "x\' or 1=1 --", "hashes": ["a"]}')
    before = (store / "manifest.json").read_bytes()
    with pytest.raises(StoreError, match=r"\.forgotten\.json.*Restore it"):
        topicstream.ingest(records(90, 3), "s.zarr", append=True)
    assert (store / "manifest.json").read_bytes() == before


@pytest.mark.quick("full")
@pytest.mark.parametrize("command", ["update", "full"])
def test_a_raw_file_that_changes_does_not_bring_a_document_back(tmp_path, command):
    config = folder(tmp_path)
    cycle(config)
    store = tmp_path / "corpus.zarr"
    topicstream.forget(["d5"], store)
    documents = [*made(300, seed=1), *made(20, seed=2, prefix="e")]
    write(tmp_path / "raw" / "a.jsonl", documents)
    done = cycle(config, full=command == "full")
    assert done["documents_forgotten"] == 1
    have = set(cells_by_id(store))
    assert {"d4", "e5"} <= have
    assert "d5" not in have


@pytest.mark.product
def test_the_folder_of_a_retrain_remembers_when_its_store_is_made_anew(tmp_path):
    config = folder(tmp_path)
    cycle(config)
    store = tmp_path / "corpus.zarr"
    topicstream.forget(["d5"], store)
    topicstream.ingest(tmp_path / "raw", tmp_path / "other.zarr", min_df=1)
    assert "d5" in cells_by_id(tmp_path / "other.zarr")
    assert read_forgotten(tmp_path).hashes
    for path in sorted(store.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    store.rmdir()
    topicstream.ingest(tmp_path / "raw", store, min_df=1)
    assert "d5" not in cells_by_id(store)


def test_a_published_model_may_be_named_with_its_store(tmp_path, monkeypatch, capsys):
    config = folder(tmp_path)
    cycle(config)
    monkeypatch.chdir(tmp_path)
    assert run(["forget", "d5", "--model", "current"]) == 0
    assert "none of these ids is left" in capsys.readouterr().out
    (tmp_path / "beside").mkdir()
    topicstream.ingest(tmp_path / "raw", tmp_path / "beside" / "other.zarr", min_df=1)
    with pytest.raises(InputError, match=r"published version of .*name --corpus .*corpus\.zarr"):
        topicstream.forget("d6", tmp_path / "beside" / "other.zarr", models=["current"])
    assert "d6" in cells_by_id(tmp_path / "beside" / "other.zarr")
