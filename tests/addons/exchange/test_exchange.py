"""Models out and in again: the same model under the one evaluator; files as other programs write
them; damaged files.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.addons.exchange.conftest import TOPICS, WORDS
from tests.ingestion.test_memory_inputs import ALL
from topicstream import TopicModel
from topicstream.addons.exchange import formats as formats_module
from topicstream.addons.exchange.formats import formats
from topicstream.base import system
from topicstream.base.errors import InputError, NotOurs, TopicsError
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus


def perplexity(model, corpus):
    return topicstream.evaluate(model, corpus, heldout=True)["heldout"]["perplexity"]


OUT = {
    "parquet": "x.parquet",
    "pyldavis": "x.json",
    "mallet": "x",
    "mallet-state": "x.gz",
}


@pytest.mark.parametrize("name", OUT)
def test_a_model_comes_back_as_it_went(made, tmp_path, name):
    corpus = Corpus.open(made / "c.zarr")
    algo = "sparselda" if name == "mallet-state" else "sparse-bp"
    model = TopicModel.open(made / algo)
    options = {"words": WORDS} if name == "pyldavis" else {}
    summary = topicstream.export_model(
        model, tmp_path / OUT[name], format=name, corpus=corpus, **options
    )
    assert summary["bytes"] > 0
    # what the format does not hold, the caller says: pyLDAvis no prior
    more = {"alpha": model.alpha} if name == "pyldavis" else {}
    topicstream.import_model(tmp_path / OUT[name], tmp_path / "model", format=name, **more)
    back = TopicModel.open(tmp_path / "model")
    assert back.words == model.words if name != "pyldavis" else back.n_words == model.n_words
    assert perplexity(back, corpus) == pytest.approx(perplexity(model, corpus), rel=1e-6)
    found = topicstream.compare(model, back)
    assert [m["a"] for m in found["matched"]] == [m["b"] for m in found["matched"]]
    assert found["mean_distance"] < 1e-5
    shown = topicstream.show(back, corpus, words=3)["topics"]
    assert {t["topic"] for t in shown} == set(range(TOPICS))
    theta = back.transform(["waa wab wac", "wbb"])
    assert theta.shape == (2, TOPICS)
    assert TopicModel.open(tmp_path / "model").manifest.imported["format"] == name


def test_topics_of_lda_c_are_read(tmp_path):
    (tmp_path / "vocab.txt").write_text("cat\ndog\ncow\n")
    p = np.array([[0.5, 0.25, 0.25], [0.125, 0.875, 0.0]])
    lines = [" ".join(f"{np.log(v) if v else -100:.10f}" for v in row) for row in p]
    (tmp_path / "final.beta").write_text("\n".join(lines) + "\n")
    (tmp_path / "final.other").write_text("num_topics 2\nnum_terms 3\nalpha 0.7\n")
    topicstream.import_model(tmp_path, tmp_path / "m")
    model = TopicModel.open(tmp_path / "m")
    assert model.words == ["cat", "dog", "cow"] and model.alpha.tolist() == [0.7, 0.7]
    np.testing.assert_allclose(model.topic_word, p, atol=1e-6)


@pytest.mark.parametrize("name", ["parquet-long", "safetensors", "pycistopic", "ldac-beta"])
def test_withdrawn_formats_are_no_formats_of_export(made, tmp_path, name, capsys):
    line = ["export", "--model", str(made / "sparse-bp"), "--format", name]
    assert run([*line, "--out", str(tmp_path / "x")]) == 2
    said = capsys.readouterr().err
    assert f"--format {name}: " in said and " parquet, csv, " in said
    assert said.count("\n") == 1 and not (tmp_path / "x").exists()


def test_edited_topics_keep_their_numbers(made, tmp_path, capsys):
    """A column of the table is joined with documents' topics by its number, which after a merge and
    a drop has gaps.
    """
    shutil.copytree(made / "sparse-bp", tmp_path / "m")
    topicstream.edit(
        tmp_path / "m",
        [
            {"edit": "merge", "topics": [0, 3]},
            {"edit": "drop", "topics": [1]},
            {"edit": "order", "topics": [4]},
        ],
    )
    first = {
        t["topic"]: [w["word"] for w in t["words"]]
        for t in topicstream.show(tmp_path / "m", words=5)["topics"]
    }
    assert list(first) == [4, 0, 2]
    for name, out in (
        ("csv", "x.csv"),
        ("parquet", "x.parquet"),
        ("mallet", "x"),
    ):
        assert (
            run(
                [
                    "export",
                    "--model",
                    str(tmp_path / "m"),
                    "--out",
                    str(tmp_path / out),
                    "--format",
                    name,
                ]
            )
            == 0
        )
        assert ("topics counted from 0" in capsys.readouterr().out) == (name == "mallet")
    with (tmp_path / "x.csv").open() as file:
        rows = list(csv.DictReader(file))
    for topic, words in first.items():
        assert [
            r["word"] for r in sorted(rows, key=lambda r: -float(r[f"topic_{topic}"]))[:5]
        ] == words
    topicstream.import_model(tmp_path / "x.parquet", tmp_path / "again")
    again = topicstream.show(tmp_path / "again", words=5)["topics"]
    assert {tuple(w["word"] for w in t["words"]) for t in again} == set(map(tuple, first.values()))


def test_an_imported_model_is_a_start(made, tmp_path):
    topicstream.export_model(made / "sparse-bp", tmp_path / "x", format="mallet")
    topicstream.import_model(tmp_path / "x", tmp_path / "model")
    run_ = topicstream.train(
        made / "c.zarr",
        tmp_path / "next",
        algo="sparse-bp",
        topics=TOPICS,
        passes=2,
        warm=tmp_path / "model",
        start="warm",
        progress=Progress(-1),
    )
    found = topicstream.compare(tmp_path / "model", run_.model)
    assert [m["a"] for m in found["matched"]] == [m["b"] for m in found["matched"]]


@pytest.mark.parametrize("name", ["ldac", "uci", "mtx"])
def test_a_corpus_comes_back_as_it_went(made, tmp_path, name):
    summary = topicstream.export_model(None, tmp_path / "x", format=name, corpus=made / "c.zarr")
    assert summary["documents"] == 400
    file = next(
        p for p in (tmp_path / "x").iterdir() if p.name not in ("vocab.txt", ".topicstream")
    )
    topicstream.ingest(file, tmp_path / "d.zarr", **ALL)
    one = Corpus.open(made / "c.zarr")
    two = Corpus.open(tmp_path / "d.zarr")
    assert len(one) == len(two)
    for a, b in zip(one, two):
        assert dict(zip(a.words, a.counts.tolist())) == dict(zip(b.words, b.counts.tolist()))


@pytest.mark.parametrize("top", [None, 2])
def test_topics_of_documents(made, tmp_path, top):
    given = {"corpus": made / "c.zarr", "top": top}
    topicstream.export_model(
        made / "sparse-bp", tmp_path / "d.txt", format="mallet-doc-topics", **given
    )
    topicstream.export_model(
        made / "sparse-bp", tmp_path / "t.parquet", format="parquet-theta", **given
    )
    first = (tmp_path / "d.txt").read_text().splitlines()[0]
    assert first.startswith("#doc") == (top is not None)
    topicstream.import_model(
        tmp_path / "d.txt", tmp_path / "back.parquet", format="mallet-doc-topics"
    )
    one = pq.read_table(tmp_path / "t.parquet")
    two = pq.read_table(tmp_path / "back.parquet")
    assert len(one) == 400 and one["id"].equals(two["id"]) and one["topics"].equals(two["topics"])
    assert one["shares"].equals(two["shares"])


def test_topics_of_documents_of_a_model_of_labels(tmp_path):
    lines = [{"id": f"d{i}", "text": "wa wb wc " * 3, "labels": [f"l{i % 2}"]} for i in range(20)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = {"meta": {"labels": "labels"}, "min_df": 1, "max_df": 1.0, "heldout": 0}
    topicstream.ingest(tmp_path / "a.jsonl", tmp_path / "c.zarr", **given)
    topicstream.train(
        tmp_path / "c.zarr", tmp_path / "m", algo="llda", passes=2, threads=1, progress=False
    )
    for name in ("parquet-theta", "mallet-doc-topics"):
        topicstream.export_model(
            tmp_path / "m", tmp_path / name, format=name, corpus=tmp_path / "c.zarr"
        )
    table = pq.read_table(tmp_path / "parquet-theta")
    assert table["names"].to_pylist()[0] == [f"l{k}" for k in table["topics"].to_pylist()[0]]
    assert len((tmp_path / "mallet-doc-topics").read_text().splitlines()) == 20


def test_the_state_holds_every_token(made, tmp_path):
    corpus = Corpus.open(made / "c.zarr")
    summary = topicstream.export_model(made / "sparselda", tmp_path / "x.gz", corpus=corpus)
    lines = gzip.decompress((tmp_path / "x.gz").read_bytes()).decode().splitlines()
    assert lines[0] == "#doc source pos typeindex type topic" and lines[1].startswith("#alpha : ")
    assert len(lines) == 3 + corpus.n_tokens == 3 + summary["tokens"]
    model = TopicModel.open(made / "sparselda")
    words = corpus.words.to_pylist()
    counts = np.zeros((len(words), TOPICS))
    docs = {}
    for line in lines[3:]:
        doc, _, pos, number, word, topic = line.split(" ")
        assert words[int(number)] == word
        docs.setdefault(doc, []).append(int(pos))
        counts[int(number), int(topic)] += 1
    assert np.array_equal(counts, model.phi)
    assert all(p == list(range(len(p))) for p in docs.values())
    with pytest.raises(InputError, match="does not assign topics to tokens"):
        topicstream.export_model(made / "sparse-bp", tmp_path / "y.gz", corpus=corpus)


def test_files_as_mallet_writes_them(tmp_path):
    """By hand, from MALLET's formats: words go by their alphabet, weights hold beta."""
    (tmp_path / "w.txt").write_text("0\tcat\t3.01\n0\tdog\t0.01\n1\tcat\t0.01\n1\tdog\t2.01\n")
    (tmp_path / "topic-keys.txt").write_text("0\t0.5\tcat \n1\t0.25\tdog cat \n")
    summary = topicstream.import_model(tmp_path / "w.txt", tmp_path / "m", format="mallet")
    model = TopicModel.open(tmp_path / "m")
    assert np.allclose(model.phi, [[3, 0], [0, 2]]) and model.alpha.tolist() == [0.5, 0.25]
    assert model.beta == pytest.approx(0.01) and "beta 0.01" in " ".join(summary["notes"])
    state = "#doc source pos typeindex type topic\n#alpha : 0.5 0.25 \n#beta : 0.01\n"
    state += (
        "0 NA 0 0 cat 0\n0 NA 1 0 cat 0\n0 NA 2 1 dog 1\n1 a.txt 0 1 dog 1\n1 a.txt 1 0 cat 0\n"
    )
    (tmp_path / "s.gz").write_bytes(gzip.compress(state.encode()))
    topicstream.import_model(tmp_path / "s.gz", tmp_path / "n")
    model = TopicModel.open(tmp_path / "n")
    assert np.array_equal(model.phi, [[3, 0], [0, 2]]) and model.alpha.tolist() == [0.5, 0.25]
    spaced = state.replace("0 NA", "0 file:/C:/My Documents/a b.txt")
    (tmp_path / "spaced.txt").write_text(spaced.replace("\n", "\r\n"))
    topicstream.import_model(tmp_path / "spaced.txt", tmp_path / "o", format="mallet-state")
    assert np.array_equal(TopicModel.open(tmp_path / "o").phi, model.phi)
    (tmp_path / "old.txt").write_text(
        "#doc name topic proportion ...\n0 file:/a 1 0.75 0 0.25 \n1 file:/b 0 1.0 \n"
    )
    topicstream.import_model(
        tmp_path / "old.txt", tmp_path / "t.parquet", format="mallet-doc-topics"
    )
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == [
        {"id": "file:/a", "topics": [1, 0], "shares": [0.75, 0.25]},
        {"id": "file:/b", "topics": [0], "shares": [1.0]},
    ]
    (tmp_path / "new.txt").write_text("0\tfile:/a\t0.75\t0.25\n1\tfile:/b\t0.5\t0.5\n")
    topicstream.import_model(tmp_path / "new.txt", tmp_path / "u.jsonl", format="mallet-doc-topics")
    assert json.loads((tmp_path / "u.jsonl").read_text().splitlines()[0])["shares"] == [0.75, 0.25]


@pytest.mark.parametrize(
    ("text", "layout", "wanted"),
    [
        # infer-topics puts the head of the pairs above proportions in the order of the topics
        (
            "#doc name topic proportion ...\n0\tdoc1\t0.1\t0.2\t0.7\n1\tdoc2\t0.3\t0.4\t0.3\n",
            "dense",
            [("doc1", {0: 0.1, 1: 0.2, 2: 0.7}), ("doc2", {0: 0.3, 1: 0.4, 2: 0.3})],
        ),
        (
            "#doc name topic proportion ...\n0\td\t0.25\t0.75\n",
            "dense",
            [("d", {0: 0.25, 1: 0.75})],
        ),
        (
            "#doc name topic proportion ...\n0\td\t1\t0.6\n1\te\n2\tf\t0\t0.5\t1\t0.2\n",
            "pairs",
            [("d", {1: 0.6}), ("e", {}), ("f", {0: 0.5, 1: 0.2})],
        ),
        ("0\td\t1\t0\n1\te\t0.5\t0.5\n", "dense", [("d", {0: 1, 1: 0}), ("e", {0: 0.5, 1: 0.5})]),
        (
            "0 C:/My Documents/a b.txt 0.25 0.75\n1 c.txt 0.5 0.5\n",
            "dense",
            [("C:/My Documents/a b.txt", {0: 0.25, 1: 0.75}), ("c.txt", {0: 0.5, 1: 0.5})],
        ),
    ],
)
def test_layouts_of_the_topics_of_documents(tmp_path, text, layout, wanted):
    (tmp_path / "d.txt").write_text(text)
    out = tmp_path / "t.parquet"
    summary = topicstream.import_model(tmp_path / "d.txt", out, format="mallet-doc-topics")
    assert summary["layout"] == layout
    rows = pq.read_table(out).to_pylist()
    got = [(row["id"], dict(zip(row["topics"], row["shares"], strict=True))) for row in rows]
    assert [name for name, _ in got] == [name for name, _ in wanted]
    for (_, shares), (_, right) in zip(got, wanted, strict=True):
        assert shares == pytest.approx(right)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ("0\t0.5\tcat\n1\tmuch\tdog\n", "column #1: Row #2: .* invalid value 'much'"),
        ("0\t0.5\tcat\n1 0.5 dog\n", "Row #2: Expected 3 columns, got 1"),
        ("0\t0.5\tcat\n", "1 lines; expected topics 0 to 1 in order"),
        ("1\t0.5\tcat\n0\t0.5\tdog\n", "2 lines; expected topics 0 to 1 in order"),
    ],
)
def test_what_is_wrong_with_the_keys_of_mallet_is_said_with_its_line(tmp_path, keys, what):
    (tmp_path / "w.txt").write_text("0\tcat\t3.01\n0\tdog\t0.01\n1\tcat\t0.01\n1\tdog\t2.01\n")
    (tmp_path / "topic-keys.txt").write_text(keys)
    with pytest.raises(InputError, match=f"topic-keys.txt: .*{what}"):
        topicstream.import_model(tmp_path / "w.txt", tmp_path / "m", format="mallet")


def test_files_as_ldac_writes_them(tmp_path):
    (tmp_path / "final.beta").write_text(
        "  -0.6931471806 -0.6931471806 -100.0000000000\n -100 -100 0.0\n"
    )
    (tmp_path / "final.other").write_text("num_topics 2\nnum_terms 3\nalpha 0.7\n")
    (tmp_path / "vocab.txt").write_text("a\nb\nc\n")
    topicstream.import_model(tmp_path, tmp_path / "m")
    model = TopicModel.open(tmp_path / "m")
    assert np.allclose(
        model.topic_word, [[0.5, 0.5, 0], [0, 0, 1]], atol=1e-6
    ) and model.alpha.tolist() == [0.7, 0.7]


GOOD = "0\tcat\t3.01\n0\tdog\t0.01\n1\tcat\t0.01\n1\tdog\t2.01\n"


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("mallet", "0\tcat\t3.01\n0\tdog\t0.01\n1\tcat\t0.01\n", "1 words, expected 2"),
        ("mallet", "0\tcat\t3.01\n0\tdog\t0.01\n1\tcat", "[Ee]xpected 3 columns"),
        ("mallet", GOOD.replace("2.01", "nan"), "negative or not finite"),
        ("mallet", GOOD.replace("2.01", "-1"), "negative or not finite"),
        ("mallet", GOOD.replace("2.01", "two"), "two"),
        ("mallet", GOOD.replace("1\tdog", "1\tcow"), "unknown word 'cow'"),
        ("mallet", GOOD.replace("1\tdog", "1\tcat"), "a word twice"),
        ("mallet", GOOD.replace("1\t", "3\t"), "topic 1 has 0 words, expected 2"),
        ("mallet", "", "Empty"),
        ("mallet-state", "#alpha : x\n", "prior is not a number"),
        ("mallet-state", "0 NA 0 0 cat 0\n0 NA 1 0 dog 0\n", "two words"),
        ("mallet-state", "0 NA 0 0 cat -1\n", "negative word or topic number"),
        ("mallet-state", "0 NA 0 0 cat\n", "bad:1: expected 'doc source pos"),
        ("mallet-state", "#alpha : 0.1 0.1 0.1\n0 NA 0 0 cat 7\n", "give one number or 8"),
        ("mallet-doc-topics", "0\ta\t0.5\t0.5\n1\tb\t1.0\n", "1 topics, but earlier lines have 2"),
        ("mallet-doc-topics", "0\ta\tnan\t0.5\n", "not finite"),
        ("mallet-doc-topics", "0\ta\tx\n", "expected 'number, name, proportions'"),
        ("mallet-doc-topics", "", "contains no document"),
        ("pyldavis", "{}", "not the JSON of pyLDAvis"),
        pytest.param("pyldavis", "[" * 100_000, "not the JSON of pyLDAvis", id="a deep one"),
        ("parquet", "PAR1", "not a whole Parquet file"),
        ("ldac-beta", "-1 -2\n", "give --words"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, name, content, match):
    (tmp_path / "bad").write_text(content)
    target = tmp_path / ("t.parquet" if name == "mallet-doc-topics" else "m")
    with pytest.raises(InputError, match=match) as told:
        topicstream.import_model(tmp_path / "bad", target, format=name)
    assert "\n" not in str(told.value) and len(str(told.value)) < 500
    assert [p.name for p in tmp_path.iterdir()] == ["bad"]


def test_damaged_tables(tmp_path):
    table = pa.table({"word": ["a", "b"], "topic_0": [1.0, float("nan")]})
    pq.write_table(table, tmp_path / "nan.parquet")
    with pytest.raises(InputError, match="not finite"):
        topicstream.import_model(tmp_path / "nan.parquet", tmp_path / "m")
    pq.write_table(
        pa.table({"word": ["a", "a"], "topic_0": [1.0, 2.0]}), tmp_path / "twice.parquet"
    )
    with pytest.raises(InputError, match="'a' stands twice"):
        topicstream.import_model(tmp_path / "twice.parquet", tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_what_is_not_offered_is_refused_with_the_reason(made, tmp_path):
    for name in ("m.pkl", "m.gensim", "m.bin", "m.mallet", "m.onnx"):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(InputError, match=r"pickle|C\+\+|Java|operator"):
            topicstream.import_model(tmp_path / name, tmp_path / "m")
        with pytest.raises(InputError) as refused:
            topicstream.export_model(made / "sparse-bp", tmp_path / f"out-{name}")
        # advice to load a file is for those who import one
        assert "from_" not in str(refused.value) and "run cc.mallet" not in str(refused.value)
    with pytest.raises(InputError, match=r"TopicModel\.open\(model\)\.to_gensim\(\) is the object"):
        topicstream.export_model(made / "sparse-bp", tmp_path / "g", format="gensim")
    with pytest.raises(InputError, match="cannot detect the format"):
        topicstream.export_model(made / "sparse-bp", tmp_path / "x.txt")
    with pytest.raises(InputError, match="is not supported in this direction"):
        topicstream.import_model(tmp_path / "m.bin", tmp_path / "m", format="uci")
    with pytest.raises(InputError, match="has no option 'top'"):
        topicstream.export_model(made / "sparse-bp", tmp_path / "x.parquet", top=3)


def test_nothing_is_overwritten_unasked(made, tmp_path):
    (tmp_path / "x.parquet").write_text("mine")
    with pytest.raises(TopicsError, match="--force"):
        topicstream.export_model(made / "sparse-bp", tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").read_text() == "mine"
    for _ in range(2):
        topicstream.export_model(made / "sparse-bp", tmp_path / "x.parquet", force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "topic-keys.txt").write_text("x")
    with pytest.raises(NotOurs, match=r"topic-keys\.txt: is not of an export of ours"):
        topicstream.export_model(
            made / "sparse-bp", tmp_path / "other", format="mallet", force=True
        )
    with pytest.raises(TopicsError, match="no model"):
        topicstream.import_model(tmp_path / "x.parquet", tmp_path / "other", force=True)


def test_the_commands(made, tmp_path, capsys):
    assert (
        run(["export", "--model", str(made / "sparse-bp"), "--out", str(tmp_path / "x.parquet")])
        == 0
    )
    assert "5 topics" in capsys.readouterr().out
    assert (
        run(["import", str(tmp_path / "x.parquet"), "--model", str(tmp_path / "m"), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["topics"] == TOPICS
    assert run(["info", str(tmp_path / "m"), "--verify"]) == 0
    assert run(["import", str(tmp_path / "nowhere.parquet"), "--model", str(tmp_path / "n")]) == 3
    assert "no such file" in capsys.readouterr().err
    for command, way in (("export", "write"), ("import", "read")):
        assert run([command, "--help"]) == 0
        text = capsys.readouterr().out
        assert all(f.name in text for f in formats().values() if getattr(f, way))


@pytest.mark.parametrize("name", ["ldac", "mallet", "mtx", "uci"])
def test_files_of_one_export_are_all_old_or_all_new(made, tmp_path, name, monkeypatch):
    """A run that ends at any flush to the disk mixes no old file with a new one."""
    topicstream.ingest(["other words here", "words there"], tmp_path / "o.zarr", **ALL)
    topicstream.train(tmp_path / "o.zarr", tmp_path / "o", topics=2, passes=2, progress=False)
    out = tmp_path / "x"

    def export(model, corpus, **more):
        topicstream.export_model(model, out, format=name, corpus=corpus, **more)
        return {path.name: path.read_bytes() for path in out.iterdir() if path.name[0] != "."}

    old = export(made / "sparse-bp", made / "c.zarr")
    assert len(old) == 2
    flush = system.flush
    left = []
    for fails_at in range(1, 20):
        flushed = []

        def fail(descriptor, flushed=flushed, fails_at=fails_at):
            flushed.append(descriptor)
            if len(flushed) == fails_at:
                raise OSError(28, "No space left on device")
            flush(descriptor)

        monkeypatch.setattr(system, "flush", fail)
        try:
            new = export(tmp_path / "o", tmp_path / "o.zarr", force=True)
            break
        except OSError:
            paths = [path for path in out.iterdir() if path.name[0] != "."]
            left.append({path.name: path.read_bytes() for path in paths})
    assert len(left) >= 2
    assert all(old[file] != new[file] for file in old)
    assert all(files in (old, new) for files in left)


@pytest.mark.product
def test_exported_topics_of_documents_say_how_many_have_the_prior(half_shown, tmp_path, capsys):
    for name in ("mallet-doc-topics", "parquet-theta"):
        out = tmp_path / f"{name}.out"
        assert run(["export", "--format", name, "--out", str(out), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["without_known_word"] == 50


def test_the_longer_of_two_suffixes_decides(monkeypatch, tmp_path):
    known = formats_module.formats()
    longer = dataclasses.replace(known["pyldavis"], name="top-json", suffix=".top.json")
    monkeypatch.setattr(formats_module, "formats", lambda: {**known, "top-json": longer})
    assert formats_module.find_format(None, tmp_path / "a.top.json", "write").name == "top-json"
    assert formats_module.find_format(None, tmp_path / "a.json", "write").name == "pyldavis"


def test_weights_of_mallet_without_keys_have_its_default_alpha(tmp_path):
    """Five over all topics; the smallest weight is beta, and what is above it counts."""
    weights = [
        ("0", "sea", "7.25"),
        ("0", "sky", "0.25"),
        ("1", "sea", "0.25"),
        ("1", "sky", "3.5"),
    ]
    text = "".join("\t".join(row) + "\n" for row in weights)
    (tmp_path / "w.txt").write_text(text)
    topicstream.import_model(tmp_path / "w.txt", tmp_path / "m", format="mallet")
    model = TopicModel.open(tmp_path / "m")
    assert model.alpha.tolist() == [2.5, 2.5] and model.beta == 0.25
    assert model.rows(np.arange(2))[:, :2].tolist() == [[7.0, 0.0], [0.0, 3.25]]
    topicstream.import_model(
        tmp_path / "w.txt", tmp_path / "n", format="mallet", alpha=0.3, beta=0.125
    )
    model = TopicModel.open(tmp_path / "n")
    assert model.alpha.tolist() == [0.3, 0.3] and model.beta == 0.125
    assert model.rows(np.arange(2))[0, :2].tolist() == [7.125, 0.125]
