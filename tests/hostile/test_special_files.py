"""Links, fifos and devices in stores and models: nothing outside the folder is read, touched or
waited for.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.hostile.resealing import write_sealed
from tests.ingest_tools import documents, write_jsonl
from tests.refusing import refused
from topicstream.base.errors import StoreError
from topicstream.base.files.durable import read_json
from topicstream.base.files.plain import refuse_links
from topicstream.corpus.reader import Corpus
from topicstream.display.passages import snippets
from topicstream.ingestion.open.inputs_record import NAME
from topicstream.model.edits import LOG
from topicstream.model.topic_model import TopicModel


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
@pytest.mark.parametrize(
    "name", ["manifest.json", "vocab.parquet", "train/words/c/0/0", "docs/part-00000.parquet"]
)
def test_a_special_file_in_a_store_neither_hangs_nor_is_followed(store, tmp_path, name, how):
    place = (
        store / read_json(store / "manifest.json")["files"]["vocab"]["file"]
        if name == "vocab.parquet"
        else store / name
    )
    (tmp_path / "outside").write_bytes(place.read_bytes())
    special(place, how, tmp_path / "outside")
    with pytest.raises(StoreError, match="regular file"):
        corpus = Corpus.open(store)
        corpus.file("vocab")
        corpus.decode(0)
        from topicstream.corpus.documents import read_documents

        list(read_documents(corpus.path, corpus.manifest.docs))


@pytest.mark.parametrize("how", ["fifo", "link", "zero"])
@pytest.mark.parametrize(
    "name", ["manifest.json", "vocab.parquet", "topics/zarr.json", "topics/c/0/0"]
)
def test_a_special_file_in_a_model_neither_hangs_nor_is_followed(model, tmp_path, name, how):
    (tmp_path / "outside").write_bytes((model / name).read_bytes())
    special(model / name, how, tmp_path / "outside")
    with pytest.raises(StoreError, match="regular file"):
        TopicModel.open(model)


@pytest.mark.parametrize(
    "name", ["train/words", "train/counts/c", "docs", "extra", "train/words/c/9"]
)
def test_a_linked_folder_in_a_store_is_not_written_or_removed_through(
    store, tmp_path, name, capsys
):
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
        "train",
        "--corpus",
        made / "c.zarr",
        "--model",
        model,
        "--algo",
        "gs",
        "-K",
        3,
        "--passes",
        4,
        capsys=capsys,
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


@pytest.mark.parametrize("how", ["record", "folder", "linked", "none"])
def test_no_file_outside_is_quoted_for_a_store_that_names_it(store, tmp_path, how):
    outside = tmp_path / "home"
    (outside / "keys").mkdir(parents=True)
    (outside / "keys" / "id.txt").write_text("a secret of many words")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "keys").symlink_to(outside / "keys")
    path = outside / "keys" / "id.txt"
    place, name = {
        "record": (path, "id.txt"),
        "folder": (outside, "keys/id.txt"),
        "linked": (
            tmp_path / "link",
            "keys/id.txt",
        ),  # a folder of nothing but links has the stamp of an empty one
        "none": (None, str(path)),
    }[how]
    record = read_json(store / NAME)
    about = path.stat()
    guess = [
        [1, about.st_size, 32 * "0"],
        [0, 0, hashlib.sha256().hexdigest()[:32]],
        None,
        [1],
        "x",
        {},
    ]
    for stamp in guess:
        inputs = [{"place": str(place), "folder": place != path, "stamp": stamp}] if place else []
        write_sealed(store / NAME, {**record, "inputs": inputs})
        found, why = snippets(Corpus.open(store), [(f"{name}:1", 0), (name, 0)])
        assert not found and "--text reads them" in why
    assert snippets(Corpus.open(store), [(name, 0)], any_file=True)[0]
