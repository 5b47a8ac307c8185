"""``topics forget``: nothing of a document is left in what this program keeps, wherever it is
killed.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import topicstream
from tests.ingest_tools import cells_by_id, digest, documents, training_counts, write_jsonl
from tests.killing import Killable
from tests.retrain_tools import folder, made, write
from topicstream.base.errors import Busy, InputError, StoreError, TopicsError
from topicstream.cli.main import run, topics
from topicstream.corpus.info import verify
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import outdated_files
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary
from topicstream.retraining.forget import forget

ONLY = "quuxword"
META = {"authors": "authors", "labels": "labels", "links": "links"}


def corpus(n: int = 240, seed: int = 1, prefix: str = "doc-number-") -> list[dict]:
    """Documents with authors, one label each and links to the next three; the secret ones have a
    word and an author alone.
    """
    made_ = documents(n, seed=seed, prefix=prefix)
    for i, d in enumerate(made_):
        d["labels"] = ["red", "green"][i % 2]
        d["links"] = [f"{prefix}{(i + k) % n}" for k in (1, 2, 3)]
        if i in (3, 7) and prefix.startswith("doc"):
            d["text"] += f" {ONLY}{i}x"
            d["authors"] = [f"Secret Author {i}"]
    return made_


def store_of(place: Path, nights: int = 2) -> Path:
    store = place / "c.zarr"
    source = place / "in.jsonl"
    topicstream.ingest(
        write_jsonl(source, corpus()),
        store,
        stopwords="none",
        min_df=2,
        heldout="10%",
        meta=META,
        keep_text=True,
    )
    for night in range(nights):
        changed = [
            {**d, "text": "changed " + d["text"]} for d in corpus()[night * 10 : night * 10 + 5]
        ]
        more = corpus(60, seed=night + 9, prefix=f"night-{night}-doc-") + changed
        topicstream.ingest(
            write_jsonl(source, more),
            store,
            append=True,
            grow_vocab=True,
            on_duplicate="replace",
            meta=META,
        )
    source.unlink()
    return store


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return store_of(tmp_path_factory.mktemp("stored"))


def names_of(store: Path, axis: str) -> dict[str, set[str]]:
    """id -> the names that the axis gives it, through the ragged arrays."""
    opened = Corpus.open(store)
    names = opened.axes[axis].names().to_pylist()
    rows: dict[tuple[str, int, int], set[str]] = {}
    for part, heldout in (("train", False), ("heldout", True)):
        for b, _ in enumerate(opened.part(heldout).blocks):
            lengths, ids = opened.lists(axis, b, heldout)
            at = 0
            for row, n in enumerate(lengths.tolist()):
                rows[part, b, row] = {names[i] for i in ids[at : at + n].tolist()}
                at += n
    gone = set(opened.removed()[:, 0].tolist())
    number = 0
    found = {}
    for entry in opened.manifest.docs:
        for d in pq.read_table(
            store / entry.file, columns=["id", "part", "block", "row"]
        ).to_pylist():
            if number not in gone:
                found[d["id"]] = rows[d["part"], d["block"], d["row"]]
            number += 1
    return found


def everything(store: Path) -> bytes:
    """What the tables say, decompressed, and all other files as they are."""
    out = b""
    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        out += (
            repr(pq.read_table(path).to_pydict()).encode()
            if path.suffix == ".parquet"
            else path.read_bytes()
        )
    return out


def test_a_forget_that_a_damaged_store_refuses_has_removed_nothing(stored, tmp_path):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    model = tmp_path / "m"
    topicstream.train(store, model, algo="bp", topics=3, passes=1, progress=False)
    for path in store.glob("train/counts/c/*/0"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    before = digest(store), digest(model)
    with pytest.raises(StoreError):
        forget(["doc-number-3"], store, models=[model], progress=False)
    assert (digest(store), digest(model)) == before


def test_axes_follow_a_compaction(stored, tmp_path):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    before = {axis: names_of(store, axis) for axis in ("authors", "labels", "links")}
    ids = Corpus.open(store).axes["authors"].names().to_pylist()
    topicstream.compact(store)
    assert Corpus.open(store).axes["authors"].names().to_pylist() == ids
    assert {axis: names_of(store, axis) for axis in before} == before
    assert not list(verify(Corpus.open(store)))


def test_nothing_is_left(stored, tmp_path):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    before = cells_by_id(store)
    links = names_of(store, "links")
    heldout = next(i for i, (part, _) in before.items() if part == "heldout")
    ids = [
        "doc-number-3",
        "doc-number-7",
        "night-1-doc-5",
        heldout,
    ]  # 3 is there twice: it was replaced
    assert b"'doc-number-7'" in everything(store) and ONLY.encode() in everything(store)
    told = topicstream.forget([*ids, "nobody-at-all"], store)
    assert told["left"] == [] and told["not_found"] == ["nobody-at-all"]
    assert (
        told["documents"] == 4
        and told["rows"] == 5
        and told["cells"] == sum(len(before[i][1]) for i in ids)
    )
    rest = {k: v for k, v in before.items() if k not in ids}
    assert cells_by_id(store) == rest and not list(verify(Corpus.open(store)))
    said = everything(store)
    for gone in (ONLY, "Secret Author 3", "Secret Author 7", *(f"'{i}'" for i in ids)):
        assert gone.encode() not in said, gone
    tables = [pq.read_table(p) for p in store.glob("docs/*.parquet")]
    stay = {x for t in tables for x in t["id"].to_pylist()}
    linked = {x for t in tables for row in t["links"].to_pylist() for x in row or ()}
    assert not (stay | linked) & set(ids) and stay == set(rest)
    assert names_of(store, "links") == {k: v - set(ids) for k, v in links.items() if k not in ids}
    vocabulary = TokenVocabulary.read(Corpus.open(store).file("vocab"))
    counts, df = training_counts(store)
    first = TokenVocabulary.read(Corpus.open(stored).file("vocab"))
    changed = [
        a
        for a, b in zip(first.words.to_pylist(), vocabulary.words.to_pylist(), strict=True)
        if a != b
    ]
    assert f"{ONLY}3x" in changed and all(
        not any(w in cells for _, cells in rest.values()) for w in changed
    )
    had, had_df = training_counts(stored)
    for word, n, m, a, b in zip(
        first.words.to_pylist(),
        vocabulary.counts,
        vocabulary.df,
        first.counts,
        first.df,
        strict=True,
    ):
        assert word in changed or (a - n, b - m) == (
            had[word] - counts[word],
            had_df[word] - df[word],
        )
    # and an append goes on, without a memory of them
    source = write_jsonl(tmp_path / "more.jsonl", corpus(20, seed=77, prefix="more-"))
    topicstream.ingest(source, store, append=True, grow_vocab=True, meta=META)
    assert len(cells_by_id(store)) == len(rest) + 20


def test_a_list_of_ids_is_text(stored, tmp_path, capsys):
    (tmp_path / "ids").write_bytes(b"\x93NUMPY")
    assert run(["forget", "--corpus", str(stored), "--ids", str(tmp_path / "ids")]) == 3
    assert "is not a list of ids in UTF-8" in capsys.readouterr().err


def test_a_second_time_is_no_failure(stored, tmp_path):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    topicstream.forget("doc-number-3", store)
    once = digest(store)
    told = topicstream.forget("doc-number-3", store)
    assert told["not_found"] == ["doc-number-3"] and told["documents"] == 0 and told["left"] == []
    assert digest(store) == once


def test_the_state_of_runs_goes_and_the_model_stays(stored, tmp_path):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    model = tmp_path / "m"
    topicstream.train(store, model, algo="sparse-bp", topics=3, passes=2)
    words = topicstream.TopicModel.open(model).content_hash()
    told = topicstream.forget("doc-number-3", store, models=[model])
    assert told["runs"] == [str(model)] and told["left"] == []
    assert not (model / "work").exists() and not (model / "checkpoints").exists()
    assert topicstream.TopicModel.open(model).content_hash() == words
    assert any(str(model) in text and "train again" in text for text in told["elsewhere"])
    done = topicstream.update(store, model, passes=1)
    assert done.how == "warm"
    assert (
        topicstream.forget("doc-number-3", store, models=[model])["runs"] == []
    )  # it has not seen the document
    topicstream.train(store, model, algo="sparse-bp", topics=3, passes=2, force=True)


def test_vectors(tmp_path):
    x = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    store = tmp_path / "v.zarr"
    topicstream.ingest(
        x, store, ids=[f"point-{i}-" for i in range(200)], heldout="0", progress=False
    )
    topicstream.train(store, tmp_path / "m", algo="gmm", topics=3, passes=2)
    told = forget(["point-7-", "point-9-"], store, models=[tmp_path / "m"])
    assert told["left"] == [] and told["documents"] == 2 and told["runs"] == [str(tmp_path / "m")]
    opened = Corpus.open(store, dense=True)
    left = np.concatenate(
        [opened.decode(b).counts.reshape(-1, 6) for b in range(len(opened.part().blocks))]
    )
    np.testing.assert_array_equal(left, np.delete(x, [7, 9], axis=0))
    assert not list(verify(opened))


def test_a_model_of_another_corpus_keeps_its_state(stored, tmp_path, monkeypatch):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    other = tmp_path / "o.zarr"
    model = tmp_path / "model"
    topicstream.ingest(
        [" ".join(f"alien{(7 * i + j) % 30}" for j in range(9)) for i in range(60)], other, min_df=1
    )
    topicstream.train(other, model, algo="bp", topics=2, passes=1)
    before = digest(model)
    with pytest.raises(InputError, match="has another vocabulary than"):
        forget("doc-number-3", store, models=[model])
    monkeypatch.chdir(tmp_path)  # where the model is the one that is meant if none is named
    done = CliRunner().invoke(topics, ["forget", "doc-number-3", "--corpus", str(store)])
    assert done.exit_code == 0 and "1 document forgotten" in done.output
    assert digest(model) == before


def test_rows_that_are_left_end_the_command_with_1(stored, tmp_path, monkeypatch):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    manifest = Corpus.open(store).manifest
    monkeypatch.setattr("topicstream.retraining.forget._rewrite_store", lambda *_: (manifest, 0))
    done = CliRunner().invoke(topics, ["forget", "doc-number-3", "--corpus", str(store), "--json"])
    assert [entry["what"] for entry in json.loads(done.stdout.splitlines()[0])["left"]] == [
        "2 rows"
    ]
    assert done.exit_code == 1 or isinstance(done.exception, TopicsError)


def test_files_of_every_earlier_state_go_at_once(stored, tmp_path, capsys):
    """Also those that a reader has open, and those that a compaction has just left."""
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    assert topicstream.compact(store)["waiting"] and (store / ".replaced.json").exists()
    reader = Corpus.open(store)
    assert topicstream.forget("doc-number-3", store)["left"] == []
    manifest = Corpus.open(store).manifest
    assert list(outdated_files(store, manifest)) == []
    assert not (store / ".replaced.json").exists()
    with pytest.raises(Busy, match="the store was rewritten while it was read"):
        list(reader.blocks())


def test_what_is_refused(stored, tmp_path):
    with pytest.raises(InputError):
        forget([], stored)
    with pytest.raises(InputError):
        forget(["a", ""], stored)
    with pytest.raises(InputError):
        forget("a", stored, models=[tmp_path / "none"])
    from topicstream.base.files.durable import lock

    with lock(stored, "writing to"), pytest.raises(Busy):
        forget("a", stored)
    assert CliRunner().invoke(topics, ["forget", "--corpus", str(stored)]).exit_code == 2


def test_the_command_with_a_file_of_ids(stored, tmp_path):
    store = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    (tmp_path / "ids.txt").write_text("doc-number-10\n\ndoc-number-11\n")
    given = ["forget", "--ids", str(tmp_path / "ids.txt"), "doc-number-12", "--corpus", str(store)]
    done = CliRunner().invoke(topics, given)
    assert (
        done.exit_code == 0
        and "3 documents forgotten" in done.output
        and "none of these ids is left" in done.output
    )
    assert "not reached:" in done.output


def test_a_retrain_folder(tmp_path):
    """Versions, runs, state and store of a nightly folder; the next night trains without the
    document.
    """
    config = folder(tmp_path)
    topicstream.retrain(config, stream=io.StringIO())
    write(tmp_path / "raw" / "b.jsonl", made(60, seed=2, prefix="evening-"))
    topicstream.retrain(config, stream=io.StringIO())
    told = forget(["evening-7"], tmp_path / "corpus.zarr")
    assert told["documents"] == 1 and told["left"] == [] and told["runs"] == []
    assert any(str(tmp_path / "raw" / "b.jsonl") in text for text in told["elsewhere"])
    done = topicstream.retrain(config, stream=io.StringIO())
    assert (done["decision"], done["training"]) == ("update", "warm")
    assert "evening-7" not in cells_by_id(tmp_path / "corpus.zarr")
    (tmp_path / "journal.json").write_text("{}")
    with pytest.raises(TopicsError, match="unfinished"):
        forget("a", tmp_path / "corpus.zarr")


def test_a_raw_file_that_is_a_document(tmp_path):
    config = folder(tmp_path)
    for d in made(30, seed=3, prefix="letter-"):
        (tmp_path / "raw" / f"{d['id']}.txt").write_text(d["text"])
    (tmp_path / "raw" / "a.jsonl").unlink()
    topicstream.retrain(config, stream=io.StringIO())
    told = forget("letter-4.txt", tmp_path / "corpus.zarr")
    assert told["left"] == [] and any("still there" in text for text in told["elsewhere"])
    assert topicstream.retrain(config, stream=io.StringIO())["documents_added"] == 0
    (tmp_path / "raw" / "letter-4.txt").unlink()
    told = forget("letter-4.txt", tmp_path / "corpus.zarr")
    assert "letter-4.txt" not in (tmp_path / "state.json").read_text() and told["left"] == []


WORK = """
import topicstream
def work(ids, store, models):
    return topicstream.forget(ids, store, models=models)["left"]
"""


@pytest.mark.slow
def test_killed_at_random_instants(stored, tmp_path):
    place = Path(shutil.copytree(stored, tmp_path / "c.zarr"))
    model = tmp_path / "m"
    topicstream.train(place, model, algo="sparse-bp", topics=3, passes=2)
    before = cells_by_id(place)
    ids = ["doc-number-3", "doc-number-50", "night-0-doc-7"]
    after = {k: v for k, v in before.items() if k not in ids}

    def copies(n: str) -> dict:
        (tmp_path / n).mkdir()
        one, two = (shutil.copytree(p, tmp_path / n / p.name) for p in (place, model))
        return {"ids": ids, "store": str(one), "models": [str(two)]}

    with Killable(WORK, copies("warm")) as work:
        whole = copies("whole")
        _, count, _ = work(**whole)
        expected = digest(Path(whole["store"]))
        rng = random.Random(4)
        seen = set()
        kills = 0
        for k, kill_at in enumerate([*rng.sample(range(1, count + 1), 12), count]):
            given = copies(str(k))
            killed, _, _ = work(kill_at=kill_at, **given)
            kills += killed
            store = Path(given["store"])
            now = cells_by_id(store)
            assert now in (before, after) and not list(verify(Corpus.open(store)))
            seen.add(now == after)
            assert topicstream.TopicModel.open(given["models"][0]).n_topics == 3
            assert work(**given)[2] == []
            assert digest(store) == expected and not (Path(given["models"][0]) / "work").exists()
            shutil.rmtree(tmp_path / str(k))
        assert (
            seen == {True, False} and kills > 8
        )  # the last instants of a run may be fewer in the next one
