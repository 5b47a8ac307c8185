"""Stores and models of a stranger who knows the format: checksums fit, values and files do not.  One line, code 3, nothing
outside the folder touched, no memory beyond what the files pay for."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "campaigns"))
from fuzz_values import chunks_of, reseal_block, reseal_file, reseal_model, write_sealed

import topicstream
from tests.ingest_tools import documents, write_jsonl
from tests.refusing import refused
from topicstream.cli.main import run
from topicstream.corpus.documents import read_documents
from topicstream.corpus.reader import Corpus
from topicstream.errors import StoreError
from topicstream.evaluation.keys import document_keys
from topicstream.files.durable import read_json, read_sealed, sealed_line
from topicstream.files.plain import load_array, load_arrays, refuse_links
from topicstream.model.edits import LOG
from topicstream.model.topic_model import TopicModel
from topicstream.progress import Shown as Progress
from topicstream.training.loop import train


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    write_jsonl(place / "a.jsonl", documents(80))
    topicstream.ingest(place / "a.jsonl", place / "c.zarr", min_df=1, max_df=1.0)
    write_jsonl(place / "b.jsonl", documents(20))
    topicstream.ingest(place / "b.jsonl", place / "c.zarr", append=True, on_duplicate="replace")
    train(place / "c.zarr", place / "m", algo="gs", topics=3, passes=1, tol=0.0, threads=1, progress=Progress(-1))
    return place


@pytest.fixture
def store(made, tmp_path):
    shutil.copytree(made / "c.zarr", tmp_path / "c.zarr")
    return tmp_path / "c.zarr"


@pytest.fixture
def model(made, tmp_path):
    shutil.copytree(made / "m", tmp_path / "m")
    return tmp_path / "m"


# -- values -----------------------------------------------------------------------------------------------------------
VALUES = {
    "a negative count": ("counts", lambda a: a.__setitem__(3, 2**32 - 1)),
    "no count": ("counts", lambda a: a.__setitem__(3, 0)),
    "a word past the vocabulary": ("words", lambda a: a.__setitem__(0, 10**6)),
    "a word twice": ("words", lambda a: a.__setitem__(1, 0)),
    "a document of more cells than there are": ("lengths", lambda a: a.__setitem__(0, 2**20)),
}


@pytest.mark.parametrize("algo", ["gs", "sparselda"])
@pytest.mark.parametrize("kind", VALUES)
def test_cells_that_kernels_would_index_by_are_refused(store, tmp_path, kind, algo, capsys):
    name, change = VALUES[kind]
    arrays = chunks_of(store, "train", 0)
    change(arrays[name])
    reseal_block(store, "train", 0, arrays, totals=name == "counts")
    line = refused(
        "train", "--corpus", store, "--model", tmp_path / "new", "--algo", algo, "-K", 3, "--passes", 1, capsys=capsys
    )
    assert str(store) in line


def test_totals_that_are_not_those_of_the_blocks_are_refused(store):
    arrays = chunks_of(store, "train", 0)
    arrays["counts"][0] += 5
    reseal_block(store, "train", 0, arrays, totals=False)
    with pytest.raises(StoreError, match="add up"):
        Corpus.open(store).decode(0)


@pytest.mark.parametrize("value", [[0, 0, 99, 0], [0, 0, 0, 10**6], [0, 7, 0, 0], [0, 0, -1, 0], [-1, 0, 0, 0]])
def test_removed_documents_lie_in_the_store(store, value):
    name = read_json(store / "manifest.json")["files"]["removed"]["file"]
    out = io.BytesIO()
    np.save(out, np.array([value], np.int64))
    reseal_file(store, name, out.getvalue())
    with pytest.raises(StoreError, match="names a document"):
        Corpus.open(store).decode(0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
@pytest.mark.parametrize("name", ["alpha", "beta", "totals"])
def test_priors_that_cannot_be_are_refused(model, made, name, value, capsys):
    reseal_model(model, {name: value if name == "beta" else [0.1, value, 0.1]})
    assert "zarr.json" in refused("infer", made / "a.jsonl", "--model", model, capsys=capsys)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_counts_of_topics_that_cannot_be_are_refused(model, value):
    meta = json.loads((model / "topics" / "zarr.json").read_text())
    rows = np.ones(meta["chunk_grid"]["configuration"]["chunk_shape"], np.float32)
    rows[1, 1] = value
    reseal_model(model, {}, rows)
    with pytest.raises(StoreError, match="negative, infinite or no number"):
        TopicModel.open(model)


# -- sizes ------------------------------------------------------------------------------------------------------------
CHILD = """
import resource, sys
from topicstream.errors import StoreError
from topicstream.model.vocabulary import Vocabulary
from topicstream.tokens.vocabulary import TokenVocabulary as Words
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for read in (Vocabulary.read, Words.load):
    try:
        read(sys.argv[1])
    except StoreError as e:
        print("refused:", e)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_small_file_of_words_does_not_take_gigabytes(tmp_path):
    n, path = 300_000, tmp_path / "vocab.parquet"
    word = pa.array(["x" * 600_000], pa.large_string())
    ones = np.ones(n, np.int64)
    table = pa.table(
        {"word": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), word), "count": ones, "df": ones}
    )
    pq.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1 << 20  # 180 GB of text
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.count("refused:") == 2 and int(done.stdout.split()[-1]) < 150


def test_a_page_of_zeros_is_weighed_before_it_is_decoded(tmp_path):
    path = tmp_path / "vocab.parquet"
    table = pa.table({"word": pa.array(["\0" * (200 << 20)], pa.large_string()), "count": [1], "df": [1]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match="cannot be"):
        topicstream.model.vocabulary.Vocabulary.read(path)


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
    "axes": {"authors": {"folder": "axes/authors"}},
}


@pytest.mark.parametrize("name", OF_STORES)
def test_members_of_the_manifest_of_a_store_are_what_readers_take_them_for(store, capsys, name):
    write_sealed(store / "manifest.json", read_json(store / "manifest.json") | {name: OF_STORES[name]})
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


LONG = "x" * 900_000
ONCE = pa.DictionaryArray.from_arrays(pa.array(np.zeros(60_000, np.int32)), pa.array([LONG], pa.large_string()))
BOMBS = {
    "a text meant 60,000 times": {"id": ONCE},
    "a list's text": {"id": pa.ListArray.from_arrays(pa.array(np.arange(60_001), pa.int32()), ONCE)},
    "a page of zeros": {"id": pa.array(["\0" * (300 << 20)], pa.large_string())},
    "a billion nulls": {"id": pa.ListArray.from_arrays(pa.array([0, 40_000_000], pa.int32()), pa.nulls(40_000_000, pa.string()))},
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_documents_are_weighed_before_they_are_decoded(tmp_path, bomb):
    path, table = tmp_path / "part-00000.parquet", pa.table(BOMBS[bomb])
    pq.write_table(table, path, compression="zstd", store_schema=False, use_dictionary="page" not in bomb)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match="group of rows"):
        list(read_documents(tmp_path, [{"file": path.name}]))


def test_one_long_text_among_short_ones_is_no_bomb(tmp_path):
    texts = ["s"] * 60_000
    texts[7] = LONG
    table = pa.table({"id": pa.array(texts, pa.large_string()), "labels": pa.array([[t, "b"] for t in texts], pa.list_(pa.large_string()))})
    pq.write_table(table, tmp_path / "part.parquet", compression="zstd")
    assert pa.Table.from_batches(read_documents(tmp_path, [{"file": "part.parquet"}])).equals(table)


def test_a_vocabulary_that_the_file_cannot_hold_is_refused_before_anything_is_allocated(store):
    manifest = read_json(store / "manifest.json")
    write_sealed(store / "manifest.json", manifest | {"n_words": (1 << 31) - 1})
    with pytest.raises(StoreError, match="n_words"):
        Corpus.open(store)


def test_arrays_are_as_large_as_their_files(tmp_path):
    out = io.BytesIO()
    np.save(out, np.arange(5))
    data = out.getvalue()
    assert load_array(data, "x").tolist() == [0, 1, 2, 3, 4]
    for bad in (
        data[:-1],
        data + b"\0",
        data.replace(b"(5,)", b"(9999999999,)"),
        b"",
        data[:6],
        data.replace(b"<i8", b"|O8"),
    ):
        with pytest.raises(StoreError):
            load_array(bad, "x")
    np.savez(tmp_path / "a.npz", a=np.eye(3), b=np.zeros(0))
    assert load_arrays(tmp_path / "a.npz")["a"].trace() == 3
    np.savez_compressed(tmp_path / "z.npz", a=np.zeros(10**7))
    with pytest.raises(StoreError, match="compressed"):
        load_arrays(tmp_path / "z.npz")


def test_a_sparse_file_of_text_is_not_read_whole(tmp_path):
    for name, read in (("m.json", read_json), ("h.jsonl", read_sealed)):
        with open(tmp_path / name, "wb") as f:
            f.truncate(1 << 40)
        with pytest.raises(StoreError, match=name):
            read(tmp_path / name)


# -- links and special files ------------------------------------------------------------------------------------------
def special(path: Path, how: str, outside: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    {
        "link": lambda: path.symlink_to(outside),
        "fifo": lambda: os.mkfifo(path),
        "zero": lambda: path.symlink_to("/dev/zero"),
    }[how]()


@pytest.mark.parametrize("how", ["fifo", "link", "zero"])
@pytest.mark.parametrize("name", ["manifest.json", "vocab.parquet", "train/words/c/0/0", "docs/part-00000.parquet"])
def test_a_special_file_in_a_store_neither_hangs_nor_is_followed(store, tmp_path, name, how):
    place = (
        store / read_json(store / "manifest.json")["files"]["vocab"]["file"]
        if name == "vocab.parquet"
        else store / name
    )
    (tmp_path / "outside").write_bytes(place.read_bytes())
    special(place, how, tmp_path / "outside")
    with pytest.raises(StoreError, match="plain file"):
        corpus = Corpus.open(store)
        corpus.file("vocab")
        corpus.decode(0)
        from topicstream.corpus.documents import read_documents

        list(read_documents(corpus.path, corpus.manifest["docs"]))


@pytest.mark.parametrize("how", ["fifo", "link", "zero"])
@pytest.mark.parametrize("name", ["manifest.json", "vocab.parquet", "topics/zarr.json", "topics/c/0/0"])
def test_a_special_file_in_a_model_neither_hangs_nor_is_followed(model, tmp_path, name, how):
    (tmp_path / "outside").write_bytes((model / name).read_bytes())
    special(model / name, how, tmp_path / "outside")
    with pytest.raises(StoreError, match="plain file"):
        TopicModel.open(model)


@pytest.mark.parametrize("name", ["train/words", "train/counts/c", "docs", "extra", "train/words/c/9"])
def test_a_linked_folder_in_a_store_is_not_written_or_removed_through(store, tmp_path, name, capsys):
    outside = tmp_path / "outside"
    if (store / name).is_dir():
        shutil.copytree(store / name, outside)
    for inner in (outside / "c" / "9", outside / "9"):
        inner.mkdir(parents=True)
        (inner / "mine").write_text("precious")
    special(store / name, "link", outside)
    before = sorted(map(str, outside.rglob("*")))
    write_jsonl(tmp_path / "more.jsonl", documents(30, seed=3, prefix="more"))
    for command in (
        ("ingest", tmp_path / "more.jsonl", "--out", store, "--append"),
        ("compact", store),
        ("forget", "0", "--corpus", store),
    ):
        line = refused(*command, capsys=capsys)
        assert name in line and "a link" in line
    assert sorted(map(str, outside.rglob("*"))) == before


@pytest.mark.parametrize("name", ["work", "checkpoints", "topics"])
def test_a_linked_folder_in_a_model_is_not_written_through(made, model, tmp_path, name, capsys):
    shutil.move(model / name, tmp_path / "outside")
    (model / name).symlink_to(tmp_path / "outside")
    before = sorted(map(str, (tmp_path / "outside").rglob("*")))
    line = refused(
        "train", "--corpus", made / "c.zarr", "--model", model, "--algo", "gs", "-K", 3, "--passes", 4, capsys=capsys
    )
    assert name in line
    assert sorted(map(str, (tmp_path / "outside").rglob("*"))) == before


def test_a_linked_log_of_edits_is_not_followed(model, tmp_path, capsys):
    (tmp_path / "outside").write_text("precious")
    (model / LOG).symlink_to(tmp_path / "outside")
    assert LOG in refused("edit", model, "--drop", "0", capsys=capsys)
    assert (tmp_path / "outside").read_text() == "precious"


def test_what_is_no_plain_file_is_found_anywhere(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("")
    refuse_links(tmp_path)
    os.mkfifo(tmp_path / "a" / "b" / "d")
    with pytest.raises(StoreError, match="fifo"):
        refuse_links(tmp_path)


# -- the state of a run -----------------------------------------------------------------------------------------------
def test_topics_of_tokens_past_k_are_refused_when_a_run_goes_on(made, model, capsys):
    import google_crc32c

    from topicstream.training.state.checkpoint import checkpoints

    last = checkpoints(model / "checkpoints")[-1]
    state = read_json(last / "state.json")
    (which,) = state["facts"]["memory"]
    memory = model / "work" / state["facts"]["memory"][which]
    arrays = load_arrays(last / "arrays.npz")
    index = arrays[f"memory.{which}"]
    offset, size, _ = index[0, 0]
    data = bytearray(memory.read_bytes())
    data[offset] = 200  # of three topics
    memory.write_bytes(data)
    index[0, 0, 2] = google_crc32c.value(bytes(data[offset : offset + size]))
    out = io.BytesIO()
    np.savez(out, **arrays)
    (last / "arrays.npz").write_bytes(out.getvalue())
    state["files"]["arrays.npz"] = [len(out.getvalue()), google_crc32c.value(out.getvalue())]
    write_sealed(last / "state.json", state)
    line = refused(
        "train", "--corpus", made / "c.zarr", "--model", model, "--algo", "gs", "-K", 3, "--passes", 3, capsys=capsys
    )
    assert "what cannot be" in line


def test_block_memory_stays_in_its_folder(model):
    from topicstream.training.state.checkpoint import checkpoints, read_checkpoint

    last = checkpoints(model / "checkpoints")[-1]
    state = read_json(last / "state.json")
    state["facts"]["memory"] = {"new": "../../elsewhere"}
    write_sealed(last / "state.json", state)
    with pytest.raises(StoreError, match=r"facts\.memory"):
        read_checkpoint(last)


def test_blocks_that_are_only_declared_are_missed_before_anything_is_allocated(store):
    manifest = json.loads((store / "manifest.json").read_text())
    manifest.pop("checksum")
    part = manifest["parts"]["train"]
    block = json.loads(json.dumps(part["blocks"][-1]))
    for _ in range(200):  # a few hundred bytes of text each
        first = part["rows"]
        part["blocks"].append({**block, "rows": [first, first + 1], "docs": 1 << 10, "removed": {}})
        part["rows"] += 1
    for total in ("docs", "cells", "tokens"):
        part[total] = sum(b[total] - b.get("removed", {}).get(total, 0) * (total != "docs") for b in part["blocks"])
    (store / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="as the manifest declares it"):
        document_keys(Corpus.open(store), False)
