"""``topics edit``: the log, the view it makes, and every command that honours it."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import sys
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

import topicstream
from tests import retrain_tools
from tests.report_store import made, planted_model
from topicstream import TopicModel
from topicstream.base.errors import InputError, StoreError, TopicsError
from topicstream.base.files import durable
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.display.doc_topics import ThetaView
from topicstream.display.show import show
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.visiting import document_shares
from topicstream.model.edits import (
    LOG,
    Drop,
    Label,
    Merge,
    apply_log,
    apply_view,
    copy_log,
    edit,
    read_log,
    view_of,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A store and a model, which nobody changes."""
    folder = tmp_path_factory.mktemp("edits")
    corpus, _ = made(folder, 300)
    planted_model(corpus, folder / "model")
    return folder


@pytest.fixture
def home(template, tmp_path):
    """A copy of them."""
    return Path(shutil.copytree(template, tmp_path / "home"))


def test_a_merged_topic_has_the_sums_of_its_members():
    """Counts, sizes and alpha of topics 1 and 3, topic 0 dropped."""
    rng = np.random.default_rng(1)
    phi = rng.random((6, 4)).astype(np.float32)
    alpha = np.array([0.1, 0.2, 0.3, 0.4])
    model = TopicModel.from_arrays(phi, list("abcdef"), alpha, 0.01)
    log = [Merge(topics=[1, 3], at=""), Drop(topics=[0], at="")]
    shown = apply_view(model, apply_log(log, range(4)))
    expected = np.stack([phi[:, 1] + phi[:, 3], phi[:, 2]], axis=1)
    assert shown.column_ids.tolist() == [1, 2]
    np.testing.assert_allclose(shown.rows(np.arange(6))[:, :2], expected, rtol=1e-6)
    assert shown.alpha == pytest.approx([0.6, 0.3])
    assert shown.totals == pytest.approx(expected.sum(axis=0), rel=1e-6)
    assert shown.sizes == pytest.approx(expected.sum(axis=0), rel=1e-6)
    assert shown.shares == pytest.approx(expected.sum(axis=0) / expected.sum(), rel=1e-6)
    p = (expected + 0.01) / (expected.sum(axis=0) + 0.06)
    np.testing.assert_allclose(shown.probabilities(np.arange(6)), p, rtol=1e-5)
    out = np.zeros((2, 16), np.float32)
    shown.rows(np.array([4, 0]), out)
    np.testing.assert_allclose(out[:, :2], expected[[4, 0]], rtol=1e-6)


def label(topic, text):
    return {"edit": "label", "topic": topic, "label": text}


def merge(*topics):
    return {"edit": "merge", "topics": list(topics)}


def drop(*topics):
    return {"edit": "drop", "topics": list(topics)}


def test_the_log_round_trips_and_undo_takes_back(home):
    model = home / "model"
    edit(model, [label(2, "  sky\n\u202e and stars ")])
    edit(TopicModel.open(model), [merge(0, 1), label(0, "pets")])
    assert view_of(TopicModel.open(model)).labels == {2: "sky and stars", 0: "pets"}
    view = edit(model, [drop(3)], undo=1)
    assert view.ids == [0, 2] and view.labels == {2: "sky and stars"} and view.dropped == [3]
    assert len(durable.read_log(model / LOG, "")) == 5 and len(read_log(model)) == 3
    assert edit(model, undo=3).plain and read_log(model) == []
    with pytest.raises(InputError, match="0 edits"):
        edit(model, undo=1)
    with pytest.raises(InputError, match="in memory keeps no edits"):
        edit(TopicModel.from_arrays(np.eye(2), ["a", "b"], 0.1, 0.1), [drop(1)])
    before = (model / LOG).read_bytes()
    assert (
        edit(model, [drop(1)], dry_run=True).ids == [0, 2, 3]
        and (model / LOG).read_bytes() == before
    )


def test_a_log_that_lost_any_byte_is_refused(home):
    model = home / "model"
    edit(model, [merge(0, 1), label(0, "pets")])
    edit(model, [drop(3)])
    whole = (model / LOG).read_bytes()
    for length in range(len(whole)):
        (model / LOG).write_bytes(whole[:length])
        with pytest.raises(StoreError, match=r"edits\.jsonl"):
            read_log(model)
        with pytest.raises(StoreError, match=r"edits\.jsonl"):
            edit(model, [label(2, "sky")])
        assert (model / LOG).read_bytes() == whole[:length]
    lines = whole.splitlines(keepends=True)
    for number in range(len(lines)):
        (model / LOG).write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
        with pytest.raises(StoreError, match=r"edits\.jsonl"):
            read_log(model)
    (model / LOG).write_bytes(whole)
    assert len(read_log(model)) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        [merge(1)],
        [merge(1, 1)],
        [merge(1, 7)],
        [drop(0, 1, 2, 3)],
        [drop(9)],
        [label(-1, "x")],
        [label(0, "x" * 300)],
        [merge(0, 1), label(1, "gone")],
        [label(0, "fine"), drop(8)],
    ],
)
def test_impossible_edits_change_nothing(home, wrong):
    with pytest.raises(InputError):
        edit(home / "model", wrong)
    assert not (home / "model" / LOG).exists()


def test_a_damaged_log_is_told_of(home):
    edit(home / "model", [label(0, "pets")])
    data = (home / "model" / LOG).read_bytes()
    (home / "model" / LOG).write_bytes(data.replace(b"pets", b"cats"))
    with pytest.raises(StoreError, match="checksum"):
        view_of(TopicModel.open(home / "model"))
    (home / "model" / LOG).write_bytes(data + b'{"edit": "label", "top')
    with pytest.raises(StoreError, match="not whole"):
        view_of(TopicModel.open(home / "model"))


def test_labels_follow_the_topic_not_the_column():
    log = [label(7, "seven"), label(3, "three"), merge(3, 4)]
    log = msgspec.convert(log, list[Label | Merge])
    view = apply_log(log, [4, 9, 7, 3])  # another version: the columns lie otherwise
    assert (
        view.ids == [3, 7, 9]
        and view.members == [[3, 0], [2], [1]]
        and view.labels == {7: "seven", 3: "three"}
    )
    assert apply_log(log, [9, 7]).labels == {7: "seven"}


def test_merge_and_drop_in_show_infer_theta_and_eval(home):
    corpus = Corpus.open(home / "corpus.zarr")
    model = TopicModel.open(home / "model")
    plain = np.concatenate([t for _, t, _ in document_shares(model, corpus)])
    perplexity = score_model(model, corpus).perplexity
    edit(home / "model", [merge(3, 1), drop(0), label(3, "bread and ships")])
    result = show(home / "model", corpus, words=25, docs=2)
    assert [t["topic"] for t in result["topics"]] == [3, 2]
    assert result["topics"][0]["label"] == "bread and ships"
    assert {"ships", "bread"} <= {w["word"] for w in result["topics"][0]["words"]}
    assert sum(t["share"] for t in result["topics"]) == pytest.approx(1)
    assert "title" in result["topics"][0]["documents"][0]
    with pytest.raises(InputError, match="no such topic"):
        show(home / "model", topics=[1])
    wanted = np.stack([plain[:, 2], plain[:, 3] + plain[:, 1]], 1)
    wanted /= wanted.sum(axis=1, keepdims=True)
    ThetaView(model, corpus, theta=str(home / "theta.parquet")).result()
    table = pq.read_table(home / "theta.parquet")
    got = np.array(table["shares"].to_pylist())
    assert table["topics"][0].as_py() == [2, 3] and np.allclose(got, wanted, atol=1e-5)
    answers = topicstream.infer(home / "model", corpus, parts=("train",))
    assert np.allclose(np.array(answers["shares"].to_pylist()), wanted, atol=1e-5)
    assert answers["topics"][0].as_py() == [2, 3]
    opened = topicstream.TopicModel.open(home / "model")
    assert np.allclose(opened.transform(corpus, parts=("train",)), wanted, atol=1e-5)
    assert opened.transform(corpus, edits=False).shape[1] == 4
    assert score_model(TopicModel.open(home / "model"), corpus).perplexity == perplexity
    assert TopicModel.open(home / "model").labels == {3: "bread and ships"}


@pytest.mark.parametrize("another", [copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_and_one_that_is_sent_show_the_same_edits(home, another):
    edit(home / "model", [merge(3, 1), drop(0)])
    trained = TopicModel.open(home / "model")
    for model in (trained, apply_view(trained, view_of(trained))):
        again = another(model)
        assert again is not model and again.manifest == model.manifest
        assert np.array_equal(again.rows(np.arange(20)), model.rows(np.arange(20)))


def test_order(home):
    edit(home / "model", [{"edit": "order", "topics": [2, 0]}])
    assert [t["topic"] for t in show(home / "model")["topics"]] == [2, 0, 1, 3]


def test_proposals(home):
    propose_labels = pytest.importorskip("topicstream.addons.views.naming").propose_labels
    model = TopicModel.open(home / "model")
    first = propose_labels(model)
    assert first == propose_labels(model) and len(set(first)) == 4
    assert first[1].split(", ")[0] in "ships harbour sails"
    phrases = TopicModel.from_arrays(
        np.eye(4)[:, :2] * 9 + 0.1, ["new_york", "york", "cat", "cats"], 0.1, 0.1
    )
    assert propose_labels(phrases)[0].startswith("new york")
    edit(home / "model", [label(1, "mine")])
    assert set(propose_labels(home / "model")) == {0, 2, 3}


def test_a_program_names_topics(home, tmp_path):
    propose_labels = pytest.importorskip("topicstream.addons.views.naming").propose_labels
    script = tmp_path / "name.py"
    script.write_text(
        "import sys\nprompt = sys.stdin.read()\nassert 'Typical documents' in prompt\n"
        "print('\"', 'boats' if 'harbour' in prompt.split('Typical')[0].split(', ')[:12] else "
        "'other', '\"')\n"
    )
    program = f"{sys.executable} {script}"
    args = [
        "edit",
        str(home / "model"),
        "--propose-labels",
        "--command",
        program,
        "--corpus",
        str(home / "corpus.zarr"),
    ]
    assert run(args) == 0
    labels = view_of(TopicModel.open(home / "model")).labels
    assert (
        set(labels) == {0, 1, 2, 3}
        and labels[1].strip() == "boats"
        and labels[0].strip() == "other"
    )
    edit(home / "model", undo=4)
    script.write_text("import sys\nsys.exit('no key')\n")
    with pytest.raises(TopicsError, match="no key"):
        propose_labels(home / "model", home / "corpus.zarr", program=program)
    with pytest.raises(InputError, match="no such program"):
        propose_labels(home / "model", home / "corpus.zarr", program="/nonexistent/namer")


def test_the_command_line(home, capsys):
    model = str(home / "model")
    assert run(["edit", model, "--label", "1=ships = sails", "--merge", "0,2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (
        said["topics"] == [0, 1, 3]
        and said["labels"] == {"1": "ships = sails"}
        and len(said["edits"]) == 2
    )
    assert run(["edit", model, "--label", "ships"]) == 2
    assert run(["edit", model, "--label", "\u00b2=x"]) == 2  # a digit that is no number
    assert run(["edit", model, "--merge", "0;1"]) == 2
    assert run(["edit", model, "--drop", "2"]) == 2
    assert run(["edit", model, "--undo"]) == 0 and run(["edit", model]) == 0
    assert "label 1=ships = sails" in capsys.readouterr().out


def test_update_keeps_labels(tmp_path):
    write = retrain_tools.write
    documents = retrain_tools.made
    write(tmp_path / "a.jsonl", documents(200, seed=1))
    store = tmp_path / "c.zarr"
    model = tmp_path / "m"
    quiet = Progress(-1)
    topicstream.ingest(tmp_path / "a.jsonl", store, stopwords="none", heldout="10%", min_df=2)
    topicstream.train(store, model, algo="atbp", topics=4, passes=4, tol=0.0, progress=quiet)
    edit(model, [label(2, "two"), merge(0, 3)])
    write(tmp_path / "b.jsonl", documents(50, seed=2, prefix="e"))
    topicstream.ingest(tmp_path / "b.jsonl", store, append=True, grow_vocab=True)
    topicstream.update(store, model, passes=2, progress=quiet)
    view = view_of(TopicModel.open(model))
    assert view.labels == {2: "two"} and view.ids == [0, 1, 2]
    assert not copy_log(tmp_path, model)  # no log there: what the model has stays
    assert view_of(TopicModel.open(model)).labels == {2: "two"}


def test_retrain_keeps_labels(tmp_path):
    config = retrain_tools.folder(tmp_path)
    topicstream.retrain(config)
    current = tmp_path / "current"
    edit(current, [label(1, "one")])
    retrain_tools.write(tmp_path / "raw" / "b.jsonl", retrain_tools.made(60, seed=3, prefix="n"))
    told = topicstream.retrain(config)
    assert told["published"] == 2
    assert view_of(TopicModel.open(current)).labels == {1: "one"}


def test_exports_and_coherence_are_as_edited(home):
    model = home / "model"
    corpus = home / "corpus.zarr"
    before = topicstream.evaluate(model, corpus, coherent=True, diverse=True)
    edit(
        model, [drop(0), merge(2, 1), {"edit": "order", "topics": [3, 2]}, label(2, "sea and sky")]
    )
    after = topicstream.evaluate(model, corpus, coherent=True, diverse=True)
    assert (
        len(before["coherence"]["npmi_by_topic"]) == 4
        and len(after["coherence"]["npmi_by_topic"]) == 2
    )
    counts = TopicModel.open(model).rows(np.arange(TopicModel.open(model).n_words))
    wanted = np.stack([counts[:, 1] + counts[:, 2], counts[:, 3]], 1)
    for name, place in (
        ("parquet", "p.parquet"),
        ("mallet", "m"),
    ):
        done = topicstream.export_model(model, home / place, format=name)
        assert done["edited"]
        topicstream.import_model(home / place, home / f"{name}.model", format=name)
        back = TopicModel.open(home / f"{name}.model")
        assert back.n_topics == 2 and (name != "parquet" or back.labels == {0: "sea and sky"})
        order = [back.words.index(w) for w in TopicModel.open(model).words]
        shares = back.rows(np.array(order))
        assert np.allclose(shares / shares.sum(axis=0), wanted / wanted.sum(axis=0), atol=1e-5), (
            name
        )
    topicstream.export_model(model, home / "t.parquet", edits=False)
    topicstream.import_model(home / "t.parquet", home / "t.model")
    assert TopicModel.open(home / "t.model").n_topics == 4


def test_doc_topics_for_mallet_count_as_the_topics_beside_them(home):
    edit(home / "model", [drop(0), merge(1, 2), {"edit": "order", "topics": [3]}])
    where = [
        "--model",
        str(home / "model"),
        "--corpus",
        str(home / "corpus.zarr"),
        "--format",
        "mallet-doc-topics",
    ]
    for out, more, columns in (("d.txt", [], 2), ("t.txt", ["--trained"], 4)):
        assert run(["export", *where, *more, "--out", str(home / out)]) == 0
        assert len((home / out).read_text().splitlines()[0].split("\t")) == 2 + columns
    assert run(["export", *where, "--out", str(home / "p.txt"), "--top", "1"]) == 0
    dense = [
        np.array(line.split("\t")[2:], float) for line in (home / "d.txt").read_text().splitlines()
    ]
    pairs = [line.split("\t")[2] for line in (home / "p.txt").read_text().splitlines()[1:]]
    assert [str(p.argmax()) for p in dense] == pairs


def texts_of(seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(["apple", "pear", "sun", "moon", "sky"], 12)) for _ in range(40)]


@pytest.fixture
def labelled(tmp_path):
    """A store, and a trained model of it whose first topic has a label."""
    given = {"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}
    topicstream.ingest(texts_of(1), tmp_path / "c.zarr", **given)
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", topics=2, **RUN)
    topicstream.edit(tmp_path / "m", [{"edit": "label", "topic": 0, "label": "mine"}])
    return tmp_path


RUN = {"passes": 2, "tol": 0, "progress": False, "algo": "bp"}


def labels_of(model):
    return [topic["label"] for topic in topicstream.show(model)["topics"] if topic.get("label")]


@pytest.mark.quick("changed0")
@pytest.mark.parametrize("changed", [{"seed": 2}, {"topics": 3}, {"algo": "vb"}, {"passes": 1}])
def test_a_model_that_replaces_another_has_none_of_its_edits(labelled, changed):
    given = {"topics": 2, **RUN, **changed}
    topicstream.train(labelled / "c.zarr", labelled / "m", **given, force=True)
    assert labels_of(labelled / "m") == []


def test_more_passes_keep_the_edits(labelled):
    topicstream.train(labelled / "c.zarr", labelled / "m", topics=2, **{**RUN, "passes": 4})
    assert labels_of(labelled / "m") == ["mine"]


def test_a_model_saved_over_another_has_none_of_its_edits(labelled):
    topicstream.train(labelled / "c.zarr", labelled / "n", topics=2, seed=5, **RUN)
    topicstream.TopicModel.open(labelled / "m").save(labelled / "m")
    assert labels_of(labelled / "m") == ["mine"]
    topicstream.TopicModel.open(labelled / "n").save(labelled / "m")
    assert labels_of(labelled / "m") == []


def test_an_update_over_an_earlier_one_has_the_edits_of_its_model_alone(labelled):
    topicstream.ingest(
        [{"id": "new", "text": "apple sun moon"}], labelled / "c.zarr", append=True, progress=False
    )
    given = {"out": labelled / "v2", "passes": 2, "progress": False}
    topicstream.update(labelled / "c.zarr", labelled / "m", **given)
    topicstream.edit(labelled / "v2", [{"edit": "label", "topic": 1, "label": "later"}])
    topicstream.update(labelled / "c.zarr", labelled / "m", **given, force=True)
    assert labels_of(labelled / "v2") == ["mine"]
