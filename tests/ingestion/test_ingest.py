"""The ingest as a whole: exact counts, held-out documents, duplicates, appends, any number of
workers.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr
from click.testing import CliRunner

import topicstream
from tests import DATA
from tests.ingest_tools import cells_by_id, digest, documents, training_counts, write_jsonl
from topicstream.base.errors import Busy, DoesNotFit, InputError, Interrupted, TopicsError
from topicstream.base.files import ownership as owned
from topicstream.base.progress import Progress
from topicstream.cli.main import run, topics
from topicstream.corpus.reader import Corpus
from topicstream.display.passages import snippets
from topicstream.ingestion.config import Stop
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary


def plain_counts(docs, store=None):
    """Words of each document; those of the store's vocabulary only (it comes from training
    documents).
    """
    known = (
        set(TokenVocabulary.read(Corpus.open(store).file("vocab")).words.to_pylist())
        if store is not None
        else None
    )
    return {
        d["id"]: Counter(w for w in d["text"].split() if known is None or w in known) for d in docs
    }


def ingest(path, out, **options):
    given = {
        "workers": 2,
        "min_df": 1,
        "max_df": 1.0,
        "stopwords": "none",
        "piece_bytes": 1 << 14,
    } | options
    return topicstream.ingest(path, out, **given)


def test_every_cell_is_what_plain_counting_finds(tmp_path):
    docs = documents(700)
    summary = ingest(
        write_jsonl(tmp_path / "a.jsonl", docs), tmp_path / "c.zarr", meta={"authors": "authors"}
    )
    found = cells_by_id(tmp_path / "c.zarr")
    expected = plain_counts(docs, tmp_path / "c.zarr")
    assert {k: v[1] for k, v in found.items()} == expected
    trained = [d for d in docs if found[d["id"]][0] == "train"]
    assert set(TokenVocabulary.read(tmp_path / "c.zarr" / "vocab.parquet").words.to_pylist()) == {
        w for d in trained for w in d["text"].split()
    }
    assert summary["documents"] == 700
    assert (
        summary["documents_heldout"] == 50 == sum(part == "heldout" for part, _ in found.values())
    )
    assert summary["documents_empty"] == 14
    assert summary["tokens"] == sum(sum(c.values()) for c in expected.values())
    vocabulary = TokenVocabulary.read(tmp_path / "c.zarr" / "vocab.parquet")
    counts, df = training_counts(tmp_path / "c.zarr")
    for word, n, d in zip(vocabulary.words.to_pylist(), vocabulary.counts, vocabulary.df):
        assert (counts[word], df[word]) == (n, d)
    assert (np.diff(vocabulary.counts) <= 0).all()


def test_held_out_words_do_not_enter_the_vocabulary(tmp_path):
    docs = documents(300, seed=5)
    for d in docs:
        d["text"] += f" own{d['id']}x"
    ingest(write_jsonl(tmp_path / "a.jsonl", docs), tmp_path / "c.zarr", heldout="40")
    vocabulary = set(TokenVocabulary.read(tmp_path / "c.zarr" / "vocab.parquet").words.to_pylist())
    found = cells_by_id(tmp_path / "c.zarr")
    assert sum(part == "heldout" for part, _ in found.values()) == 40
    for name, (part, _) in found.items():
        assert (f"own{name}x" in vocabulary) == (part == "train")


@pytest.mark.parametrize("asked, expected", [("0", 0), ("17", 17), (None, 20)])
def test_number_held_out(tmp_path, asked, expected):
    summary = ingest(
        write_jsonl(tmp_path / "a.jsonl", documents(200, length=8)),
        tmp_path / "c.zarr",
        heldout=asked,
    )
    assert summary["documents_heldout"] == expected


def test_same_bytes_for_any_workers_and_piece_size(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(500, seed=3))
    digests = set()
    for i, (workers, piece) in enumerate([(1, 1 << 14), (2, 1 << 14), (5, 1 << 13), (3, 1 << 20)]):
        ingest(source, tmp_path / f"{i}.zarr", workers=workers, piece_bytes=piece, min_df=2)
        digests.add(digest(tmp_path / f"{i}.zarr"))
    assert len(digests) == 1


def test_stock_zarr_and_pyarrow_read_it(tmp_path):
    ingest(write_jsonl(tmp_path / "a.jsonl", documents(200)), tmp_path / "c.zarr")
    corpus = Corpus.open(tmp_path / "c.zarr")
    group = zarr.open_group(str(tmp_path / "c.zarr"), mode="r")
    entry = corpus.part().blocks[0]
    assert int(np.asarray(group["train/lengths"][0])[: entry.docs].sum()) == entry.cells
    assert int(np.asarray(group["train/counts"][0], np.int64).sum()) == entry.tokens
    table = pq.read_table(tmp_path / "c.zarr" / "docs" / "part-00000.parquet")
    assert table.num_rows == 200 and table.column_names[:5] == [
        "id",
        "source",
        "part",
        "block",
        "row",
    ]


@pytest.mark.parametrize("rule, wins", [("skip", "first"), ("replace", "second"), (None, "first")])
def test_duplicates_in_one_ingest(tmp_path, rule, wins):
    docs = documents(300, seed=2)
    twice = [{**d, "text": d["text"] + " secondx"} for d in docs[40:80]]
    summary = ingest(
        write_jsonl(tmp_path / "a.jsonl", docs + twice), tmp_path / "c.zarr", on_duplicate=rule
    )
    expected = plain_counts(docs, tmp_path / "c.zarr")
    if wins == "second":
        expected |= plain_counts(twice, tmp_path / "c.zarr")
    assert {k: v[1] for k, v in cells_by_id(tmp_path / "c.zarr").items()} == expected
    assert summary["dropped_duplicates"] + summary["dropped_replaced"] == 40
    vocabulary = TokenVocabulary.read(tmp_path / "c.zarr" / "vocab.parquet")
    counts, _ = training_counts(tmp_path / "c.zarr")
    assert dict(zip(vocabulary.words.to_pylist(), vocabulary.counts.tolist())) == dict(counts)


def test_duplicates_refused_by_name(tmp_path):
    docs = documents(30)
    source = write_jsonl(tmp_path / "a.jsonl", [*docs, docs[7]])
    with pytest.raises(InputError, match=r"a\.jsonl:31.*'d7'.*same id as .*a\.jsonl:8"):
        ingest(source, tmp_path / "c.zarr", on_duplicate="fail")
    summary = ingest(source, tmp_path / "c.zarr", on_duplicate="skip")
    assert summary["documents"] == 30


def test_append_is_one_shot_with_the_same_vocabulary(tmp_path):
    one = documents(260, seed=1)
    two = documents(240, seed=2, prefix="e")
    words = sorted({w for d in one + two for w in d["text"].split()})
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    a = write_jsonl(tmp_path / "a.jsonl", one)
    b = write_jsonl(tmp_path / "b.jsonl", two)
    options = {"vocab": str(tmp_path / "vocab.txt"), "heldout": "10%"}
    ingest([a, b], tmp_path / "both.zarr", **options)
    ingest(a, tmp_path / "grown.zarr", **options)
    topicstream.ingest(b, tmp_path / "grown.zarr", append=True, piece_bytes=1 << 14)
    assert cells_by_id(tmp_path / "both.zarr") == cells_by_id(tmp_path / "grown.zarr")
    both, grown = (
        TokenVocabulary.read(Corpus.open(tmp_path / f"{n}.zarr").file("vocab"))
        for n in ("both", "grown")
    )
    assert both.words.equals(grown.words)
    np.testing.assert_array_equal(both.counts, grown.counts)
    np.testing.assert_array_equal(both.df, grown.df)
    assert (tmp_path / "grown.zarr" / "vocab.parquet").read_bytes() == Corpus.open(
        tmp_path / "grown.zarr"
    ).file("vocab").read_bytes()


def test_a_word_seen_four_and_four_times_comes_back(tmp_path):
    def part(prefix):
        return [
            {"id": f"{prefix}{i}", "text": "common words here" + (" rare" if i < 4 else "")}
            for i in range(60)
        ]

    a = write_jsonl(tmp_path / "a.jsonl", part("a"))
    b = write_jsonl(tmp_path / "b.jsonl", part("b"))
    ingest(a, tmp_path / "c.zarr", min_df=5, heldout="0")
    first = TokenVocabulary.read(tmp_path / "c.zarr" / "vocab.parquet").words.to_pylist()
    assert "rare" not in first
    ingest(b, tmp_path / "c.zarr", append=True, grow_vocab=True, min_df=5)
    vocabulary = TokenVocabulary.read(tmp_path / "c.zarr" / "vocab.parquet")
    assert vocabulary.words.to_pylist() == [*first, "rare"]
    assert (vocabulary.counts[-1], vocabulary.df[-1]) == (8, 8)
    assert Corpus.open(tmp_path / "c.zarr").n_words == len(first) + 1


def test_a_vocabulary_may_be_given_as_a_path_or_as_a_string(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(100, seed=4))
    ingest(source, tmp_path / "free.zarr", heldout="0")
    words = TokenVocabulary.read(tmp_path / "free.zarr" / "vocab.parquet").words.to_pylist()[:20]
    (tmp_path / "words.txt").write_text("".join(f"{w}\n" for w in words))
    for name, given in (("path", tmp_path / "words.txt"), ("string", str(tmp_path / "words.txt"))):
        ingest(source, tmp_path / f"{name}.zarr", vocab=given, heldout="0")
        assert (
            TokenVocabulary.read(tmp_path / f"{name}.zarr" / "vocab.parquet").words.to_pylist()
            == words
        )
    assert digest(tmp_path / "path.zarr") == digest(tmp_path / "string.zarr")


def test_append_replaces_documents_of_committed_blocks(tmp_path):
    docs = documents(300, seed=4)
    ingest(write_jsonl(tmp_path / "a.jsonl", docs), tmp_path / "c.zarr", heldout="10%")
    before = cells_by_id(tmp_path / "c.zarr")
    kept = plain_counts(
        docs, tmp_path / "c.zarr"
    )  # old cells are of the words that were known then
    new = [{**d, "text": d["text"] + " bakex bax"} for d in docs[100:130]] + documents(
        20, seed=9, prefix="n"
    )
    summary = ingest(
        write_jsonl(tmp_path / "b.jsonl", new),
        tmp_path / "c.zarr",
        append=True,
        grow_vocab=True,
        on_duplicate="replace",
    )
    assert summary["documents_removed"] == 30
    found = cells_by_id(tmp_path / "c.zarr")
    assert {k: v[1] for k, v in found.items()} == kept | plain_counts(new, tmp_path / "c.zarr")
    assert all(found[k][0] == before[k][0] for k in before)  # nobody crosses the line
    corpus = Corpus.open(tmp_path / "c.zarr")
    vocabulary = TokenVocabulary.read(corpus.file("vocab"))
    counts, df = training_counts(tmp_path / "c.zarr")
    words = vocabulary.words.to_pylist()
    assert dict(zip(words, vocabulary.counts.tolist())) == {w: counts[w] for w in words}
    assert dict(zip(words, vocabulary.df.tolist())) == {w: df[w] for w in words}
    assert [b.changed for b in corpus.part().blocks] == [2, None]
    assert (
        corpus.n_cells
        == sum(b.n_cells for b in corpus.blocks())
        == sum(len(c) for p, c in found.values() if p == "train")
    )
    # the same documents once more are skipped by default, and ids stay
    again = ingest(tmp_path / "b.jsonl", tmp_path / "c.zarr", append=True)
    assert again["dropped_duplicates"] == 50 and again["documents_added"] == 0
    assert cells_by_id(tmp_path / "c.zarr") == found


def test_append_sweeps_what_a_killed_one_left(tmp_path):
    ingest(write_jsonl(tmp_path / "a.jsonl", documents(120)), tmp_path / "c.zarr")
    stray = tmp_path / "c.zarr" / "train" / "words" / "c" / "1"
    stray.mkdir()
    owned.reserve(stray / "0")
    owned.reserve(tmp_path / "c.zarr" / "docs" / "part-00001.parquet")
    ingest(
        write_jsonl(tmp_path / "b.jsonl", documents(30, prefix="e")),
        tmp_path / "c.zarr",
        append=True,
    )
    assert len(cells_by_id(tmp_path / "c.zarr")) == 150


def test_weighted_cells(tmp_path):
    (tmp_path / "w.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n3 4 5\n1 1 0.5\n1 3 2.25\n2 2 1.5\n3 1 "
        "0.125\n3 4 7\n"
    )
    (tmp_path / "words.txt").write_text("alpha\nbeta\ngamma\ndelta\n")
    ingest(
        tmp_path / "w.mtx",
        tmp_path / "c.zarr",
        words=str(tmp_path / "words.txt"),
        heldout="0",
        weighted=True,
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert corpus.weighted and corpus.n_tokens == 11.375
    values = [cells for _, cells in cells_by_id(tmp_path / "c.zarr").values()]
    assert values == [{"alpha": 0.5, "gamma": 2.25}, {"beta": 1.5}, {"alpha": 0.125, "delta": 7.0}]


def test_a_finished_ingest_that_is_run_again_says_so(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(60))
    out = tmp_path / "c.zarr"
    command = ["ingest", str(source), "--out", str(out), "--min-df", "1"]
    assert CliRunner().invoke(topics, command).exit_code == 0
    before = digest(out)
    again = CliRunner().invoke(topics, [*command, "--workers", "1"])
    assert (
        again.exit_code == 0
        and again.stdout == f"{out}: finished before, from the same input: 60 documents\n"
    )
    assert digest(out) == before and not (tmp_path / "c.zarr.wip").exists()
    for other in (
        ["--min-df", "2"],
        ["--heldout", "5"],
        ["--on-error", "skip"],
        ["--stopwords", "none"],
    ):
        assert CliRunner().invoke(topics, [*command, *other]).exit_code == 1, other
    with open(source, "a") as f:
        f.write('{"id": "new", "text": "one more"}\n')
    assert CliRunner().invoke(topics, command).exit_code == 1
    assert digest(out) == before
    assert CliRunner().invoke(topics, [*command, "--append"]).exit_code == 0
    assert (
        CliRunner().invoke(topics, command).exit_code == 1
    )  # what is there is not of this input alone


def test_the_same_input_in_another_folder_gives_the_same_bytes(tmp_path):
    """A file, a folder, files of one name, a bad record, side files, a list of words: nothing
    stored says where they lay.
    """
    made = []
    for place in (tmp_path / "here", tmp_path / "there" / "deeper"):
        for sub in ("in", "a", "b", "texts/more"):
            (place / sub).mkdir(parents=True)
        write_jsonl(place / "in" / "x.jsonl", documents(30, prefix="x"))
        write_jsonl(place / "a" / "y.jsonl", documents(30, prefix="y"))
        write_jsonl(place / "b" / "y.jsonl", documents(30, prefix="z"))
        with open(place / "in" / "x.jsonl", "a") as f:
            f.write("{broken\n")
        for i, d in enumerate(documents(20, prefix="t")):
            (place / "texts" / ("more" if i % 2 else ".") / f"{i}.txt").write_text(d["text"])
        (place / "texts" / "bad.txt").write_bytes(b"a\xff\xfe b")
        (place / "side.tsv").write_text(
            f"file\ttitle\n{place}/texts/2.txt\tTwo\nmore/1.txt\tOne\n7.txt\tSeven\nno.txt\tNone\n"
        )
        (place / "words.txt").write_text(
            "\n".join({w for d in documents(30) for w in d["text"].split()})
        )
        stores = [place / f"{n}.zarr" for n in range(3)]
        ingest(
            [place / "in", place / "a" / "y.jsonl", place / "b" / "y.jsonl"],
            stores[0],
            on_error="skip",
        )
        ingest(
            place / "texts",
            stores[1],
            on_error="skip",
            meta_files=str(place / "side.tsv"),
            key="file",
        )
        ingest(place / "in", stores[2], on_error="skip", vocab=str(place / "words.txt"))
        made.append([digest(s) for s in stores])
        titles = {
            r["id"]: r["title"] for r in pq.read_table(stores[1] / "docs").to_pylist() if r["title"]
        }
        assert titles == {"2.txt": "Two", "more/1.txt": "One", "more/7.txt": "Seven"}
    assert made[0] == made[1]
    sources = set(pq.read_table(stores[0] / "docs")["source"].to_pylist())
    assert {"x.jsonl:1", "a/y.jsonl:1", "b/y.jsonl:30"} < sources
    wanted = {
        "x.jsonl:3": documents(30, prefix="x")[2],
        "b/y.jsonl:7": documents(30, prefix="z")[6],
    }
    opened = [Corpus.open(store) for store in stores]
    assert snippets(opened[0], [(s, 0) for s in wanted])[0] == {
        (s, 0): d["text"][:280].rsplit(" ", 1)[0] + " …" if len(d["text"]) > 280 else d["text"]
        for s, d in wanted.items()
    }
    files = [("more/1.txt", 0), ("2.txt", 0)]
    assert set(snippets(opened[1], files)[0]) == set(files)
    (place / "texts" / "new.txt").write_text("one more")
    changed = "the raw files are not as they were when the corpus was made; --text reads them"
    assert snippets(opened[1], files[:1]) == ({}, changed)
    assert set(snippets(opened[1], files[:1], any_file=True)[0]) == {files[0]}
    (place / "texts").rename(place / "gone")
    texts, missing = snippets(opened[1], files[:1])
    assert not texts and missing.startswith(
        "the raw files are not where they were when the corpus was made (ingest --keep-text"
    )


def test_a_store_is_never_overwritten_silently(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(60))
    ingest(source, tmp_path / "c.zarr")
    before = digest(tmp_path / "c.zarr")
    with pytest.raises(TopicsError, match="--append adds to it, --force replaces it"):
        ingest(source, tmp_path / "c.zarr", min_df=2)
    assert digest(tmp_path / "c.zarr") == before and not (tmp_path / "c.zarr.wip").exists()
    ingest(write_jsonl(tmp_path / "b.jsonl", documents(61)), tmp_path / "c.zarr", force=True)
    assert Corpus.open(tmp_path / "c.zarr").manifest.summary["documents"] == 61
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(TopicsError, match="no corpus store"):
        ingest(source, tmp_path / "other", force=True)


def stopped_while_reading():
    """Options of an ingest that a signal stops behind its first piece."""
    stop = Stop()

    class Signals(Progress):
        def step(self, *told, **more):
            if len(told) > 1 and not stop.signum:
                stop(15)

    return {"stop": stop, "progress": Signals()}


def test_force_with_append_gives_up_an_unfinished_append_and_keeps_the_store(tmp_path):
    """The advice of a refused append, taken as it stands, lost all documents of the store."""
    out = tmp_path / "c.zarr"
    ingest(write_jsonl(tmp_path / "a.jsonl", documents(60)), out)
    more = write_jsonl(tmp_path / "b.jsonl", documents(400, seed=2, prefix="b"))
    with pytest.raises(Interrupted):
        ingest(more, out, append=True, **stopped_while_reading())
    other = write_jsonl(tmp_path / "d.jsonl", documents(5, seed=3, prefix="x"))
    with pytest.raises(InputError, match="use --force to start over"):
        ingest(other, out, append=True)
    assert ingest(other, out, append=True, force=True)["documents"] == 65
    kinds = Counter(document.id[0] for document in Corpus.open(out))
    assert kinds == {"d": 60, "x": 5}
    assert not (tmp_path / "c.zarr.wip").exists()


def test_a_bad_record_stops_with_its_place_or_is_set_aside(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(60))
    with open(source, "a") as f:
        f.write('{"id": "broken", "text": \n{"id": "last", "text": "bax"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:61"):
        ingest(source, tmp_path / "c.zarr")
    summary = ingest(source, tmp_path / "c.zarr", on_error="skip")
    assert summary["rejected"] == 1 and summary["documents"] == 61
    assert (
        '"line": 61' in (tmp_path / "c.zarr" / summary["rejects"]).read_text()
        and "a.jsonl:61: " in summary["first_rejected"]
    )


def test_a_file_of_bad_records_says_why(tmp_path, capsys):
    """Nothing is stored of it, so the summary, or the error, has the reason."""
    ingest(write_jsonl(tmp_path / "a.jsonl", documents(60)), tmp_path / "c.zarr")
    (tmp_path / "b.jsonl").write_text('{"id": "x", "body": "bax"}\n' * 3)
    given = ["ingest", str(tmp_path / "b.jsonl"), "--on-error", "skip", "--out"]
    assert run([*given, str(tmp_path / "c.zarr"), "--append"]) == 0
    assert (
        "3 records rejected\n  first rejected: b.jsonl:1: no field 'text'"
        in (out := capsys.readouterr().out)
        and "(all" not in out
    )
    assert run([*given, str(tmp_path / "d.zarr")]) == 3
    assert (
        "no training documents were read, the first was rejected: b.jsonl:1: no field 'text'"
        in capsys.readouterr().err
    )


def test_a_signal_while_reading_commits_first(tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", documents(400))
    with pytest.raises(Interrupted) as caught:
        ingest(source, tmp_path / "c.zarr", **stopped_while_reading())
    assert caught.value.exit_code == 143
    state = json.loads((tmp_path / "c.zarr.wip" / "state.json").read_text())
    assert state["pieces"] >= 1 and not state["done"]
    ingest(source, tmp_path / "c.zarr")
    ingest(source, tmp_path / "d.zarr")
    assert digest(tmp_path / "c.zarr") == digest(tmp_path / "d.zarr")


def test_second_writer_and_memory_are_refused(tmp_path):
    from topicstream.base.files import durable

    source = write_jsonl(tmp_path / "a.jsonl", documents(20))
    with durable.lock(tmp_path / "c.zarr.wip", "testing", kind="ingest"), pytest.raises(Busy):
        ingest(source, tmp_path / "c.zarr")
    with pytest.raises(DoesNotFit, match="needs at least 512M"):
        ingest(source, tmp_path / "c.zarr", mem_limit="50M")


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the real corpora are not there")
@pytest.mark.parametrize(
    "name, expected",
    [("kos", (3430, 6906, 353160, 467714)), ("nips12", (1740, 13649, 933295, 2301375))],
)
def test_real_docwords_against_a_plain_reading(tmp_path, name, expected):
    topicstream.ingest(DATA / name / "docword.txt.gz", tmp_path / "c.zarr", heldout="0")
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert (corpus.n_docs, corpus.n_words, corpus.n_cells, corpus.n_tokens) == expected
    words = TokenVocabulary.read(corpus.file("vocab")).words.to_pylist()
    listed = (DATA / name / "vocab.txt").read_text().split()
    with gzip.open(DATA / name / "docword.txt.gz", "rt") as f:
        rows = np.loadtxt(f, np.int64, skiprows=3)
    sums = np.bincount(rows[:, 1] - 1, rows[:, 2], len(listed)).astype(np.int64)
    vocabulary = TokenVocabulary.read(corpus.file("vocab"))
    assert dict(zip(words, vocabulary.counts.tolist())) == dict(zip(listed, sums.tolist()))
    block = next(iter(corpus.blocks()))
    mine = {
        words[block.vocab[w]]: int(c) for w, c in zip(block.words[: block.indptr[1]], block.counts)
    }
    assert mine == {listed[w - 1]: int(c) for d, w, c in rows if d == 1}
