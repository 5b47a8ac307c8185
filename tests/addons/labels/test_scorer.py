"""F1 of predicted labels: counted as by hand, the threshold chosen on training, from the command
line and on raw files.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.ingest_tools import write_jsonl
from topicstream import TopicModel
from topicstream.addons.labels import agreement as agreements
from topicstream.addons.labels import scorer
from topicstream.addons.labels.agreement import measure_agreement
from topicstream.addons.labels.prediction import (
    Predicted,
    measure_losses,
    precision_recall_f1,
    predict,
)
from topicstream.addons.labels.scorer import THRESHOLDS, score_labels
from topicstream.base.errors import InputError, StoreError, TopicsError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.evaluate import evaluate
from topicstream.evaluation.visiting import BlockShares
from topicstream.inference.documents import select_ragged
from topicstream.retraining.config import load_config
from topicstream.training.loop import train


def by_hand(shares, true, threshold, at_least_one):
    said = shares >= threshold
    if at_least_one:
        none = ~said.any(1)
        said[none, shares[none].argmax(1)] = True
    return (said & true).sum(0), said.sum(0)


def test_counts_of_every_threshold_are_those_by_hand():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(6, 0.3), 80).astype(np.float32)
    true = rng.random((80, 6)) < 0.3
    true[:9] = False
    thresholds = np.array([0.05, 0.2, 0.5, 0.8], np.float32)
    found = Predicted(6, thresholds)
    for a, b in ((0, 30), (30, 31), (31, 80)):
        d = np.nonzero(true[a:b])[0]
        lengths = (
            np.bincount(d, minlength=b - a) + 1
        )  # and one label more, which the model does not know
        lengths[true[a:b].sum(1) == 0] = 0
        labels = []
        for row in true[a:b]:
            labels += [*np.flatnonzero(row).tolist(), -1] if row.any() else []
        found.add(
            shares[a:b], np.concatenate(([0], np.cumsum(lengths))), np.array(labels, np.int64)
        )
    given = true.any(1)
    assert (found.docs, found.unlabelled, found.unknown) == (
        given.sum(),
        (~given).sum(),
        given.sum(),
    )
    best = []
    for t, threshold in enumerate(thresholds):
        for one in (False, True):
            right, said = by_hand(shares[given], true[given], threshold, one)
            got = found.counts(t, one)
            np.testing.assert_array_equal(got[0], right)
            np.testing.assert_array_equal(got[1], said)
            best.append((2 * right.sum() / (said.sum() + true.sum()), (t, one)))
    assert max(best)[0] == pytest.approx(dict((rule, f) for f, rule in best)[found.choose_rule()])


def test_a_score_that_equals_a_threshold_reaches_it():
    thresholds = np.array([0.25, 0.5], np.float32)
    scores = np.array([[0.5, 0.25, 0.125], [0.5, 0.5, 0.0], [0.25, 0.125, 0.0]], np.float32)
    found = Predicted(3, thresholds)
    found.add(scores, np.arange(4), np.array([0, 1, 2]))
    for t, threshold in enumerate(thresholds):
        for one in (False, True):
            right, said = by_hand(scores, np.eye(3, dtype=bool), threshold, one)
            np.testing.assert_array_equal(found.counts(t, one)[0], right)
            np.testing.assert_array_equal(found.counts(t, one)[1], said)
    assert found.counts(0, False)[1].tolist() == [3, 2, 0]
    assert found.counts(1, False)[1].tolist() == [2, 1, 0]


def test_what_a_document_loses_without_a_label_is_that_by_hand():
    rng = np.random.default_rng(2)
    counts = rng.random((9, 5)).astype(np.float32)
    theta = rng.dirichlet(np.ones(5), 3).astype(np.float32)
    theta[2] = [0.0, 0.0, 0.0, 1.0, 0.0]  # nothing is left in its place: finite all the same
    inverse = (1 / (counts.sum(0) + 0.9)).astype(np.float32)
    indptr = np.array([0, 4, 9, 9])
    rows = rng.integers(9, size=9)
    x = rng.integers(1, 4, 9).astype(np.float32)
    lost = np.empty((3, 3), np.float32)
    measure_losses(indptr, rows, x, counts, 0.1, inverse, theta, lost)
    phi = (counts + 0.1) * inverse
    for d, cells in enumerate((slice(0, 4), slice(4, 9))):
        for j, k in enumerate((2, 3, 4)):
            others = np.where(np.arange(5) == k, 0, theta[d])
            with_it = phi[rows[cells]] @ theta[d]
            without = phi[rows[cells]] @ (others / others.sum())
            assert lost[d, j] == pytest.approx(x[cells] @ np.log(with_it / without), abs=2e-4)
    assert np.isfinite(lost).all()


def test_precision_and_recall_by_hand():
    """Three of four predictions are right, of six labels."""
    found = precision_recall_f1(np.array([2, 1]), np.array([3, 1]), 6)
    assert found == pytest.approx((0.75, 0.5, 0.6))
    assert precision_recall_f1(np.zeros(2, int), np.zeros(2, int), 0) == (0.0, 0.0, 0.0)
    assert precision_recall_f1(np.zeros(2, int), np.zeros(2, int), 5) == (0.0, 0.0, 0.0)
    assert len(THRESHOLDS) == 120 and THRESHOLDS[:2].tolist() == [0, 0.25]
    assert THRESHOLDS[-1] == 4096


def test_figures_of_labels_by_hand(monkeypatch):
    """Four documents and a label that no training document had; a threshold that one equals."""
    scores = np.array(
        [[5.0, 1.0, 0.0], [3.0, 4.0, 0.0], [2.0, 1.0, 0.5], [9.0, 0.0, 3.0]], np.float32
    )
    labels = np.array([0, 1, -1, 2, 0])  # of documents 0, 1 (and one unknown), 2, 3
    found = Predicted(3, np.array([3.0], np.float32))
    found.add(scores, np.array([0, 1, 3, 4, 5]), labels)
    monkeypatch.setattr(scorer, "predict", lambda *_, **__: found)
    names = {"grain": 0, "oil": 1, "trade": 2}
    monkeypatch.setattr(scorer, "map_labels", lambda model: names)
    manifest = SimpleNamespace(label_docs=[7, 9, 0])
    run = SimpleNamespace(
        model=SimpleNamespace(manifest=manifest), threads=1, step=lambda name: None
    )
    score = score_labels(run, None, ("heldout",), 3.0)
    # said: grain of 0, 1, 3; oil of 1; trade of 3. right: grain of 0 and 3, oil of 1
    assert (score.precision, score.recall) == (pytest.approx(3 / 5), pytest.approx(3 / 5))
    assert score.micro_f1 == pytest.approx(2 * 3 / (5 + 5))
    # grain 2 right, 3 said, 2 true; oil 1, 1, 1; trade is not judged
    assert score.macro_f1 == pytest.approx((4 / 5 + 1) / 2)
    assert score.accuracy == pytest.approx(2 / 3)  # of documents 0, 2, 3, whose best is grain
    assert (score.docs, score.unlabelled, score.labels, score.unknown_labels) == (4, 0, 2, 1)
    assert [(e["label"], e["docs"], e["predicted"], e["right"]) for e in score.each] == [
        ("grain", 2, 3, 2),
        ("oil", 1, 1, 1),
        ("trade", 1, 1, 0),
    ]
    assert score.threshold == 3.0 and not score.at_least_one


def test_agreement_of_partitions_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(4)
    label = rng.integers(0, 4, 200)
    cluster = np.where(rng.random(200) < 0.6, label, rng.integers(0, 5, 200))
    table = np.zeros((4, 5))
    np.add.at(table, (label, cluster), 1)
    nmi, ari = measure_agreement(table)
    assert nmi == pytest.approx(metrics.normalized_mutual_info_score(label, cluster))
    assert ari == pytest.approx(metrics.adjusted_rand_score(label, cluster))


def test_agreement_by_hand():
    """Classes of 3 and 1, clusters of 2 and 2: two in common, one, one."""
    nmi, ari = measure_agreement(np.array([[2.0, 1.0], [0.0, 1.0]]))
    h = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    both = -(0.5 * np.log(0.5) + 2 * 0.25 * np.log(0.25))
    assert nmi == pytest.approx((h + np.log(2) - both) / (0.5 * (h + np.log(2))))
    # pairs: 1 in common, 3 of classes, 2 of clusters, 6 in all
    assert ari == pytest.approx((1 - 3 * 2 / 6) / (0.5 * (3 + 2) - 1), abs=1e-12)
    assert measure_agreement(np.diag([3.0, 4.0])) == pytest.approx((1.0, 1.0))
    assert measure_agreement(np.array([[5.0]])) == (1.0, 1.0)


def test_rows_of_a_ragged_array():
    own, at = select_ragged(np.array([0, 2, 2, 5, 6]), np.array([0, 2]))
    assert own.tolist() == [0, 2, 5]
    assert at.tolist() == [0, 1, 2, 3, 4]


NAMES = ["grain", "oil", "trade"]


def texts(n, seed, first=0):
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        own = rng.choice(3, 1 + (i % 3 == 0), replace=False)
        words = [f"{NAMES[rng.choice(own)]}word{rng.integers(12)}" for _ in range(40)]
        labels = [NAMES[k] for k in own] if i % 7 else []
        found.append(
            {"id": f"d{first + i}", "text": " ".join(words), "topics": labels, "group": f"p{i % 5}"}
        )
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    given = {
        "meta": {"labels": "topics", "group": "group"},
        "min_df": 1,
        "stopwords": "none",
        "workers": 1,
    }
    topicstream.ingest(
        str(write_jsonl(folder / "a.jsonl", texts(300, 1))),
        folder / "c.zarr",
        heldout="group=p0",
        **given,
    )
    train(folder / "c.zarr", folder / "m", algo="llda", passes=10, threads=1, progress=False)
    return folder


def test_held_out_documents_of_a_store_and_a_file(trained, capsys):
    result = evaluate(trained / "m", trained / "c.zarr", labels=True, threads=1)["labels"]
    assert result["micro_f1"] > 0.95 and result["macro_f1"] > 0.95 and result["accuracy"] > 0.95
    assert (result["labels"], result["unknown_labels"]) == (3, 0)
    assert result["docs"] + result["unlabelled"] == Corpus.open(trained / "c.zarr").part(True).docs
    assert {e["label"] for e in result["each"]} == set(NAMES)
    assert result == evaluate(trained / "m", trained / "c.zarr", labels=True, threads=3)["labels"]
    other = [{**d, "topics": [*d["topics"], "unheard of"]} for d in texts(60, 9, first=1000)]
    file = write_jsonl(trained / "b.jsonl", other)
    args = [
        "eval",
        "--model",
        f"{trained}/m",
        "--corpus",
        f"{trained}/c.zarr",
        "--labels",
        "--label-field",
        "topics",
    ]
    assert run([*args, "--heldout", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["heldout"]["docs"] + found["heldout"]["skipped"] == 60
    assert found["labels"]["docs"] == found["labels"]["unknown_labels"] == 60
    assert 0.5 < found["labels"]["micro_f1"] < 0.9  # the unknown label is missed each time
    assert run([*args, "--threshold", "3"]) == 0
    shown = capsys.readouterr().out
    assert (
        "F1 of labels" in shown
        and "over 3 labels" in shown
        and "without which a document loses 3 nats" in shown
    )


def test_what_cannot_be_scored_is_told(trained, tmp_path):
    train(
        trained / "c.zarr",
        tmp_path / "plain",
        algo="atbp",
        topics=3,
        passes=2,
        threads=1,
        progress=False,
    )
    with pytest.raises(InputError, match="its topics are not labels"):
        evaluate(tmp_path / "plain", trained / "c.zarr", labels=True)
    none = write_jsonl(
        tmp_path / "none.jsonl", [{"id": d["id"], "text": d["text"]} for d in texts(9, 3)]
    )
    with pytest.raises(InputError, match="none of these documents has a label; name their field"):
        evaluate(trained / "m", trained / "c.zarr", labels=True, heldout=none)
    assert run(["eval", "--model", f"{trained}/m", "--labels", "--threshold", "-2"]) == 2


def test_without_held_out_documents_it_says_so(trained, tmp_path):
    """It said that none of them has a label."""
    file = write_jsonl(tmp_path / "a.jsonl", texts(30, 1))
    topicstream.ingest(file, tmp_path / "c.zarr", meta={"labels": "topics"}, heldout=0, min_df=1)
    with pytest.raises(InputError, match=r"c\.zarr: no documents set aside; ingest again with"):
        evaluate(trained / "m", tmp_path / "c.zarr", labels=True, threshold=1.0)


def test_the_name_stands_beside_the_topic(trained, tmp_path, capsys):
    model = trained / "m"
    text = ["grainword1 grainword2 grainword3", "oilword1 oilword4"]
    table = topicstream.infer(model, text, top=1)
    assert table["names"].to_pylist() == [["grain"], ["oil"]]
    file = write_jsonl(
        tmp_path / "d.jsonl", [{"id": str(i), "text": t} for i, t in enumerate(text)]
    )
    for out in ("o.jsonl", "o.parquet"):
        topicstream.infer(model, file, out=tmp_path / out, top=2)
    first = json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])
    assert (first["names"][0], len(first["topics"])) == ("grain", 2)
    assert pq.read_table(tmp_path / "o.parquet")["names"].to_pylist()[1][0] == "oil"
    assert run(["show", "--model", str(model), "--corpus", str(trained / "c.zarr")]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name}: " in shown for name in NAMES)


def test_names_go_with_an_export_and_damaged_ones_are_told(trained, tmp_path):
    topicstream.export_model(trained / "m", tmp_path / "m.parquet", format="parquet")
    topicstream.import_model(tmp_path / "m.parquet", tmp_path / "again")
    assert TopicModel.open(tmp_path / "again").labels == TopicModel.open(trained / "m").labels
    given = {"labels": True, "threshold": 3.0, "threads": 1}
    both = [
        evaluate(m, trained / "c.zarr", **given)["labels"]
        for m in (trained / "m", tmp_path / "again")
    ]
    assert both[0] == both[1]
    for wrong in ({"topic_names": {"0": "grain"}}, {"label_docs": [1] * 9}):
        model = TopicModel.open(tmp_path / "again")
        model.manifest = msgspec.structs.replace(model.manifest, **wrong)
        with pytest.raises(StoreError, match="names of its topics are damaged"):
            evaluate(model, trained / "c.zarr", **given)


def test_retrain_refuses_it(tmp_path):
    config = tmp_path / "retrain.toml"
    config.write_text('[train]\nalgo = "llda"\n')
    with pytest.raises(TopicsError, match="its topics are the labels"):
        load_config(config)


def test_an_update_gives_new_labels_topics_and_old_ones_keep_theirs(trained, tmp_path):
    given = {"meta": {"labels": "topics"}, "min_df": 1, "stopwords": "none", "workers": 1}
    corpus = tmp_path / "c.zarr"
    model = tmp_path / "m"
    topicstream.ingest(
        str(write_jsonl(tmp_path / "a.jsonl", texts(120, 1))), corpus, heldout=0, **given
    )
    train(corpus, model, algo="llda", passes=5, threads=1, progress=False, options={"free": 1})
    before = TopicModel.open(model).labels
    more = texts(60, 2, first=500)
    for i, d in enumerate(more):
        if i % 2:
            d["topics"], d["text"] = ["wool"], " ".join(f"woolword{(i + j) % 9}" for j in range(30))
    append = {k: v for k, v in given.items() if k in ("meta", "workers")}
    topicstream.ingest(
        str(write_jsonl(tmp_path / "b.jsonl", more)), corpus, append=True, grow_vocab=True, **append
    )
    done = topicstream.update(corpus, model, threads=1, progress=False)
    after = TopicModel.open(model)
    assert done.how == "warm"
    assert after.labels == {**before, 4: "wool"}
    words = after.words
    top = after.probabilities(np.arange(len(words)))
    for k, name in after.labels.items():
        assert words[int(top[:, k].argmax())].startswith(name)
    again = topicstream.ingest(
        str(write_jsonl(tmp_path / "d.jsonl", texts(20, 5, first=900))),
        corpus,
        append=True,
        **append,
    )
    assert again["documents_added"] == 20
    topicstream.update(corpus, model, threads=1, progress=False)  # no new label
    assert TopicModel.open(model).labels == after.labels


def test_a_training_document_is_judged_without_what_it_put_in(tmp_path):
    alone = [{"id": f"d{i}", "text": f"word{i}x " * 5, "topics": [f"l{i}"]} for i in range(40)]
    given = {
        "meta": {"labels": "topics"},
        "min_df": 1,
        "max_df": 1.0,
        "stopwords": "none",
        "workers": 1,
    }
    topicstream.ingest(
        str(write_jsonl(tmp_path / "a.jsonl", alone)), tmp_path / "c.zarr", heldout=0, **given
    )
    train(tmp_path / "c.zarr", tmp_path / "m", algo="llda", passes=2, threads=1, progress=False)
    model = TopicModel.open(tmp_path / "m")
    corpus = Corpus.open(tmp_path / "c.zarr")
    first = predict(model, corpus, ("train",), np.zeros(1, np.float32)).first
    assert first.tolist() == [40, 40]  # words of one document each: known by heart
    docs, right = predict(model, corpus, ("train",), np.zeros(1, np.float32), tenth=True).first
    assert docs > 0 and right == 0


def test_purity_is_of_the_largest_class_of_each_cluster(monkeypatch):
    """Six documents in clusters 0, 0, 0, 1, 1, 2: two, two and one are of the largest class."""
    shares = np.eye(3)[[0, 0, 0, 1, 1, 2]]
    rows = pa.record_batch({"genre": ["a", "a", "b", "b", "b", "a"]})
    block = BlockShares(0, shares, np.ones(6))
    monkeypatch.setattr(agreements, "document_shares", lambda *_, **__: [block])
    monkeypatch.setattr(agreements, "stream_documents", lambda *_: [(np.arange(6), rows)])
    store = SimpleNamespace(
        manifest=SimpleNamespace(columns=["genre"]), part=lambda heldout: SimpleNamespace(docs=6)
    )
    score = agreements.score_agreement(
        SimpleNamespace(n_topics=3), store, ("train",), "genre", threads=1
    )
    assert score.purity == pytest.approx(5 / 6)
    assert (score.docs, score.left_out, score.classes, score.clusters) == (6, 0, 2, 3)
