"""Texts that a store keeps: of the same documents as its table, whatever happens to the store."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import topicstream
from topicstream.base.errors import InputError, StoreError, UsageError
from topicstream.cli.main import run
from topicstream.corpus import documents as table
from topicstream.corpus import texts as kept_texts
from topicstream.corpus.info import verify
from topicstream.corpus.reader import Corpus
from topicstream.ingestion import settings
from topicstream.retraining.forget import forget

WORDS = ["river", "mountain", "village", "water", "stone", "tree", "night", "bread", "butter"]
OPTIONS = {"min_df": 1, "max_df": 1.0, "progress": False, "stopwords": "none"}


def records(first: int, last: int, seed: int = 1) -> list[dict[str, str]]:
    draw = random.Random(seed)
    return [
        {"id": f"d{n}", "text": f"Word{n}:\n" + " ".join(draw.choices(WORDS, k=12))}
        for n in range(first, last)
    ]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts_by_id(store: Path) -> dict[str, str | None]:
    corpus = Corpus.open(store)
    assert list(verify(corpus)) == []
    return dict(zip(corpus.ids.to_pylist(), corpus.texts(), strict=True))


def of(rows: list[dict[str, str]]) -> dict[str, str]:
    return {row["id"]: row["text"] for row in rows}


@pytest.fixture
def small_files(monkeypatch):
    """Files of a few texts each."""
    monkeypatch.setattr(kept_texts, "BYTES_OF_PART", 1000)
    monkeypatch.setattr(table, "BYTES_OF_GROUP", 400)


def test_every_change_of_a_store_is_one_of_its_texts(tmp_path, small_files):
    store = tmp_path / "c.zarr"
    rows = records(0, 60)
    source = write(tmp_path / "a.jsonl", rows)
    summary = topicstream.ingest(source, store, keep_text=True, heldout=12, **OPTIONS)
    assert texts_by_id(store) == of(rows)
    assert summary["text_bytes"] == sum(f.stat().st_size for f in (store / "texts").iterdir()) > 0
    # an append follows its store, and takes the place of documents
    changed = records(5, 9, seed=2) + records(60, 80)
    source = write(tmp_path / "b.jsonl", changed)
    topicstream.ingest(source, store, append=True, on_duplicate="replace", progress=False)
    expected = of(rows) | of(changed)
    assert texts_by_id(store) == expected
    # whatever is removed is written anew without it, the other files stay
    before = {f.name for f in (store / "texts").iterdir()}
    assert len(before) > 4
    forget(["d30", "d62"], store, progress=False)
    del expected["d30"], expected["d62"]
    assert texts_by_id(store) == expected
    after = {f.name for f in (store / "texts").iterdir()}
    assert before & after and before - after
    written = "".join(str(pq.read_table(f).to_pydict()) for f in (store / "texts").iterdir())
    assert "Word62" not in written and "Word30" not in written and "d30'" not in written
    assert written.count("Word5:") == 1  # the replaced ones went, too
    assert topicstream.compact(store, progress=False)["compacted"] is False
    size = Corpus.open(store).manifest.summary["text_bytes"]
    assert size == sum(f.stat().st_size for f in (store / "texts").iterdir())


def test_a_compaction_drops_the_texts_of_replaced_documents(tmp_path):
    store = tmp_path / "c.zarr"
    topicstream.ingest(records(0, 30), store, heldout=3, **OPTIONS)
    topicstream.ingest(
        records(0, 4, seed=3), store, append=True, on_duplicate="replace", progress=False
    )
    assert topicstream.compact(store, progress=False)["documents_purged"] == 4
    assert texts_by_id(store) == of(records(0, 30)) | of(records(0, 4, seed=3))
    assert sum(entry.rows for entry in Corpus.open(store).manifest.texts or []) == 30


def test_parts_have_the_text_of_their_part(tmp_path):
    store = tmp_path / "c.zarr"
    rows = [{"id": "book", "text": "ships and sails\n\nbread with butter\n\nnight and stars"}]
    topicstream.ingest(
        write(tmp_path / "a.jsonl", rows), store, split="paragraph", keep_text=True, **OPTIONS
    )
    texts = {name: text.split() for name, text in texts_by_id(store).items()}
    assert texts == {
        "book#1": ["ships", "and", "sails"],
        "book#2": ["bread", "with", "butter"],
        "book#3": ["night", "and", "stars"],
    }


def test_only_short_texts_in_memory_are_kept_unasked(tmp_path, monkeypatch):
    rows = records(0, 20)
    source = write(tmp_path / "a.jsonl", rows)
    size = sum(len(row["text"]) for row in rows)

    def keeps(documents, **options) -> bool:
        topicstream.ingest(documents, tmp_path / "c.zarr", force=True, **options, **OPTIONS)
        texts = Corpus.open(tmp_path / "c.zarr").manifest.texts
        assert (texts is not None) == (tmp_path / "c.zarr" / "texts").exists()
        return texts is not None

    assert keeps(rows) and keeps(iter(rows)) and not keeps(source)
    assert not keeps(rows, keep_text=False) and keeps(source, keep_text=True)
    monkeypatch.setattr(settings, "KEPT_BY_DEFAULT", size)
    assert keeps(rows, piece_bytes=256)
    monkeypatch.setattr(settings, "KEPT_BY_DEFAULT", size - 1)
    assert not keeps(rows, piece_bytes=256) and keeps(rows, keep_text=True)
    with pytest.raises(UsageError, match="keep_text=True"):
        keeps(rows)
        Corpus.open(tmp_path / "c.zarr").texts()


def test_what_contradicts_the_store_or_has_no_text_is_refused(tmp_path, capsys):
    source = str(write(tmp_path / "a.jsonl", records(0, 20)))
    more = str(write(tmp_path / "b.jsonl", records(20, 30)))
    with_texts = str(tmp_path / "with.zarr")
    without = str(tmp_path / "without.zarr")
    assert run(["ingest", source, "--out", with_texts, "--keep-text", "-q"]) == 0
    assert "texts: kept in the store, " in capsys.readouterr().out
    assert run(["ingest", source, "--out", without]) == 0
    assert "texts" not in capsys.readouterr().out
    assert run(["ingest", more, "--out", without, "--append", "--keep-text"]) == 2
    assert "--keep-text: requires a new store" in capsys.readouterr().err
    assert run(["ingest", more, "--out", with_texts, "--append", "--no-keep-text"]) == 2
    assert "--no-keep-text: requires a new store" in capsys.readouterr().err
    assert run(["ingest", more, "--out", with_texts, "--append", "--keep-text"]) == 0
    assert len(texts_by_id(Path(with_texts))) == 30
    with pytest.raises(InputError, match="holds counts, no text that could be kept"):
        topicstream.ingest(
            np.eye(4, dtype=np.int64), tmp_path / "n.zarr", keep_text=True, progress=False
        )
    assert not (tmp_path / "n.zarr").exists() and not (tmp_path / "n.zarr.wip").exists()


def test_a_damaged_text_is_named(tmp_path, capsys):
    store = tmp_path / "c.zarr"
    topicstream.ingest(records(0, 20), store, **OPTIONS)
    (file,) = (store / "texts").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert run(["info", str(store), "--verify"]) == 3
    assert "texts/part-00000.parquet" in capsys.readouterr().err
    with pytest.raises(StoreError, match=r"texts/part-00000\.parquet"):
        Corpus.open(store).texts([0])


def test_a_data_frame_names_its_documents_by_its_index(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [row["text"] for row in records(0, 20)]})

    def ids(of_frame) -> list[str]:
        topicstream.ingest(of_frame, tmp_path / "c.zarr", force=True, **OPTIONS)
        return Corpus.open(tmp_path / "c.zarr").ids.to_pylist()

    assert ids(frame) == [str(n) for n in range(20)]
    some = frame.iloc[5:15:2]  # rows that were selected keep their numbers
    assert ids(some) == ids(some["text"]) == ["5", "7", "9", "11", "13"]
    named = frame.set_axis([f"speech {n}" for n in range(20)])
    assert ids(named)[3] == ids(named["text"])[3] == "speech 3"
    assert ids(frame.rename_axis("speech"))[3] == "3"
    twice = pandas.concat([frame[:10], frame[10:].set_axis(range(10))])
    assert ids(twice) == [str(n) for n in range(20)]  # neither named nor distinct
