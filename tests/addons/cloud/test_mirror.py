"""Stores and models at addresses: as from disk, through a cache of bounded size."""

from __future__ import annotations

import functools
import http.server
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.refusing import topics
from tests.s3 import SECRET, Put, put_folder
from topicstream import Corpus, TopicModel, evaluate, infer, ingest, train
from topicstream.addons.cloud import mirror
from topicstream.addons.cloud.remote import traffic
from topicstream.base.errors import StoreError, UsageError

TEXTS = [
    f"stars galaxy telescope orbit{n % 5}" if n % 2 else f"bread butter flour oven{n % 7}"
    for n in range(300)
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and a model."""
    folder = tmp_path_factory.mktemp("here")
    ingest(TEXTS, folder / "c.zarr", progress=False)
    train(folder / "c.zarr", folder / "m", topics=2, passes=3, algo="atbp", progress=False)
    return folder


@pytest.mark.product
def test_a_store_in_a_bucket_trains_the_model_that_its_folder_trains(
    put: Put, here: Path, tmp_path: Path
) -> None:
    address = put_folder(put, here / "c.zarr", "c.zarr")
    traffic()
    code, said = topics(
        "train",
        "--corpus",
        address,
        "--model",
        tmp_path / "m",
        "-K",
        2,
        "--passes",
        3,
        "--algo",
        "atbp",
    )
    assert code == 0, said
    assert "requests for" in said
    trained = TopicModel.open(tmp_path / "m")
    assert trained.content_hash() == TopicModel.open(here / "m").content_hash()
    fetched = [record["fetched"]["requests"] for record in trained.history if "fetched" in record]
    assert fetched and fetched[0] <= 8 and len(fetched) == 1, "blocks of a pass come from the cache"
    traffic()
    assert [d.id for d in Corpus.open(address)] == [d.id for d in Corpus.open(here / "c.zarr")]
    assert topics("info", "--verify", address)[0] == 0


@pytest.mark.product
def test_a_store_larger_than_the_cache_is_read_all_the_same(
    put: Put, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = put_folder(put, here / "c.zarr", "c.zarr")
    monkeypatch.setenv("TOPICS_CACHE_SIZE", "20K")
    corpus = Corpus.open(address)
    first = corpus.decode(0)
    traffic()
    again = corpus.decode(0)
    assert (first.words == again.words).all() and 0 < traffic()["requests"] < 3, (
        "some chunks stayed, some did not"
    )
    assert sum(size for _, size in mirror._chunks(corpus.path)) <= 20480
    stranger = mirror.cache_folder() / "letters"
    (stranger / "c" / "0").mkdir(parents=True)
    (stranger / ".address").write_text("12 Elm Street")
    (stranger / "c" / "0" / "0").write_text("not a chunk of ours")
    monkeypatch.setattr(mirror, "_ROOM", mirror._Room())
    other = Corpus.open(put_folder(put, here / "c.zarr", "other.zarr"))
    other.decode(0)
    assert not list(mirror._chunks(corpus.path)), "the store opened longest ago makes room"
    assert (stranger / "c" / "0" / "0").exists(), "what is no mirror stays"
    assert sum(size for _, size in mirror._chunks(other.path)) <= 20480
    assert (corpus.decode(0).words == first.words).all(), "who still reads it fetches it again"


@pytest.mark.product
def test_a_model_in_a_bucket(put: Put, here: Path, tmp_path: Path) -> None:
    store = put_folder(put, here / "c.zarr", "c.zarr")
    model = put_folder(put, here / "m", "runs/m")
    infer(model, Path(store), out=tmp_path / "there.jsonl", progress=False)
    infer(here / "m", here / "c.zarr", out=tmp_path / "here.jsonl", progress=False)
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    of_bucket = evaluate(model, store, progress=False)
    of_disk = evaluate(here / "m", here / "c.zarr", progress=False)
    assert of_bucket["heldout"] == of_disk["heldout"]
    code, said = topics("show", "--model", model, "--corpus", store)
    assert code == 0 and "stars" in said
    assert (of_bucket["model"], of_bucket["corpus"]) == (model, store) and repr(model) in repr(
        TopicModel.open(model)
    )
    for code, *command in (
        (0, "eval", "--model", model, "--corpus", store, "--json"),
        (0, "compare", model, model),
        (0, "eval", "--model", model, "--heldout", store),
        (
            0,
            "eval",
            "--model",
            model,
            "--heldout",
            put("new.jsonl", b'{"text": "stars galaxy orbit1 bread butter flour oven2"}\n'),
        ),
        (0, "infer", Path(store), "--model", model, "--out", tmp_path / "a.jsonl", "--json"),
        (3, "eval", "--model", model, "--corpus", store, "--labels"),
        (
            0,
            "train",
            "--corpus",
            store,
            "--model",
            tmp_path / "w",
            "--warm",
            model,
            "--start",
            "warm",
            "-K",
            2,
            "--passes",
            1,
            "--algo",
            "atbp",
        ),
        (0, "report", "--model", model, "--corpus", store, "--out", tmp_path / "r.html"),
        (2, "classifier", "--model", model, "--corpus", store),
    ):
        ended, said = topics(*command)
        assert ended == code and str(mirror.cache_folder()) not in said, said
    page = (tmp_path / "r.html").read_text()
    assert "<title>c</title>" in page and str(mirror.cache_folder()) not in page


def test_what_cannot_be_meant_is_one_line(put: Put, here: Path, tmp_path: Path) -> None:
    store = put_folder(put, here / "c.zarr", "c.zarr")
    model = put_folder(put, here / "m", "m")
    for command in (
        ("train", "--corpus", store, "--model", "s3://corpora/new"),
        ("compact", store),
        ("edit", "--model", model, "--drop", 0),
        ("update", "--corpus", store, "--model", model),
        ("classifier", "--model", model, "--corpus", store),
    ):
        code, said = topics(*command)
        assert (
            code == 2 and "addresses are read only" in said.splitlines()[-1] and SECRET not in said
        ), said
    code, said = topics("export", "--model", here / "m", "--out", "s3://corpora/x.json")
    assert code == 2 and "files are written to this machine only" in said
    code, said = topics("info", "s3://corpora/nothing")
    assert code == 3 and said.count("\n") == 1 and "neither a corpus store nor a model" in said
    put("odd/manifest.json", b"[1]")
    with pytest.raises(StoreError, match="manifest of neither"):
        Corpus.open("s3://corpora/odd")
    damaged = put_folder(put, here / "c.zarr", "damaged.zarr")
    chunk = here / "c.zarr" / "train" / "words" / "c" / "0" / "0"
    put("damaged.zarr/train/words/c/0/0", bytes(chunk.stat().st_size))
    with pytest.raises(StoreError, match="does not match its checksum"):
        Corpus.open(damaged).decode(0)
    with pytest.raises(UsageError, match="read only"):
        train(here / "c.zarr", mirror.resolve_mirror(model), topics=2, progress=False)


def test_a_store_on_a_web_server(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("TOPICS_CACHE", str(tmp_path / "cache"))
    handler = functools.partial(_Quiet, directory=str(here))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        web = f"http://127.0.0.1:{server.server_address[1]}"
        code, said = topics("ingest", f"{web}/m/vocab.parquet", "--out", tmp_path / "x.zarr")
        assert code == 3 and "not in parts" in said, said
        corpus = Corpus.open(f"{web}/c.zarr")
        assert len(corpus) == len(TEXTS) and corpus.decode(0).words.size
        server.shutdown()
    assert os.listdir(tmp_path / "cache") == ["http"]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass
