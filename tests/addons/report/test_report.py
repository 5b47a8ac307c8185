"""What show and info print: words, sizes, documents, theta to files, history curves."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.left_out import SAID
from tests.small_store import planted, store, with_documents
from topicstream.base.errors import InputError, StoreError, UsageError
from topicstream.base.text import sparkline
from topicstream.display.doc_topics import ThetaView, typical_documents
from topicstream.display.gather import describe_documents
from topicstream.display.model_info import describe, history_lines
from topicstream.display.model_info import lines as info_lines
from topicstream.display.show import show, topic_lines
from topicstream.evaluation.visiting import document_shares
from topicstream.model.edits import view_of
from topicstream.model.topic_model import TopicModel

W = 60
K = 4
D = 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    counts, phi = planted(8, D, W, K, length=30)
    counts[17] = 0
    corpus = store(
        tmp_path_factory.mktemp("c") / "corpus.zarr", counts, counts[:9], blocks=3, ids=True
    )
    sizes = np.array([400.0, 900.0, 100.0, 600.0])
    return (
        counts,
        corpus,
        TopicModel.from_arrays(phi * sizes, [f"word{i}" for i in range(W)], 0.25, 0.01),
    )


def em(counts, model):
    """theta by plain EM, run far past convergence."""
    p = model.probabilities(np.arange(W))
    theta = np.full((len(counts), K), counts.sum(axis=1, keepdims=True) / K)
    for _ in range(100):
        r = p[None] * (theta + model.alpha)[:, None, :]
        theta = np.einsum("dw,dwk->dk", counts, r / r.sum(axis=2, keepdims=True))
    return (theta + model.alpha) / (counts.sum(axis=1, keepdims=True) + model.alpha.sum())


def test_shares_are_the_fixed_point(made, monkeypatch):
    counts, corpus, model = made
    whole = np.concatenate([theta for _, theta, _ in document_shares(model, corpus)])
    assert whole.shape == (D, K) and np.allclose(whole.sum(axis=1), 1, atol=1e-5)
    assert np.abs(whole - em(counts, model)).max() < 0.02
    assert np.allclose(whole[17], 0.25)
    monkeypatch.setattr("topicstream.evaluation.visiting.block_cells", lambda topics: 100)
    pieces = list(document_shares(model, corpus, threads=3))
    assert len(pieces) > 10 and (np.concatenate([theta for _, theta, _ in pieces]) == whole).all()
    assert [first for first, _, _ in pieces] == np.cumsum(
        [0, *(len(t) for _, t, _ in pieces[:-1])]
    ).tolist()


def test_typical_documents(made):
    _, corpus, model = made
    whole = np.concatenate([theta for _, theta, _ in document_shares(model, corpus)])
    numbers, values = typical_documents(model, corpus, 3, 1, view_of(model))
    names = describe_documents(corpus, numbers, [])
    assert (numbers == np.argsort(-whole, axis=0, kind="stable")[:3]).all()
    assert np.allclose(values, -np.sort(-whole, axis=0)[:3])
    assert all(names[int(d)]["id"] == f"train-{d}" for d in numbers.ravel())


def test_show(made):
    _, corpus, model = made
    result = show(model, corpus, words=3, docs=2)
    assert [t["topic"] for t in result["topics"]] == [1, 3, 0, 2]
    assert sum(t["share"] for t in result["topics"]) == pytest.approx(1)
    top = result["topics"][0]
    p = model.probabilities(np.arange(W))[:, 1]
    assert top["words"][0] == {"word": f"word{p.argmax()}", "p": pytest.approx(p.max())}
    assert len(top["documents"]) == 2 and top["documents"][0]["id"].startswith("train-")
    text = topic_lines(result["topics"], None)
    assert (
        len(text) == 4 * 3
        and text[0].startswith("1  45.0 %  ")
        and text[0].endswith(top["words"][2]["word"])
    )
    assert json.loads(json.dumps(result)) == result
    assert [t["topic"] for t in show(model, topics=[2, 0])["topics"]] == [2, 0]
    assert show(model, relevance=0.0)["topics"][0]["words"] != show(model)["topics"][0]["words"]
    for wrong in ({"topics": [4]}, {"topics": [-1]}, {"relevance": 1.1}):
        with pytest.raises(InputError):
            show(model, **wrong)


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    rows: dict[str, dict] = {}
    with open(path, newline="") as f:
        for r in csv.DictReader(f):
            row = rows.setdefault(r["id"], {"id": r["id"], "topics": [], "shares": []})
            row["topics"].append(int(r["topic"]))
            row["shares"].append(float(r["share"]))
    return list(rows.values())


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
@pytest.mark.parametrize("top", [None, 2])
def test_theta_files(made, tmp_path, suffix, top):
    _, corpus, model = made
    whole = np.concatenate([theta for _, theta, _ in document_shares(model, corpus)])
    seen: list[tuple[str, int, int]] = []

    def progress(*said):
        seen.append(said)

    path = tmp_path / f"theta{suffix}"
    assert (
        ThetaView(model, corpus, theta=str(path), top=top, threads=2, progress=progress).result()[
            "documents"
        ]
        == D
    )
    assert seen[-1] == ("topics of documents", D, D)
    rows = read(path)
    assert [r["id"] for r in rows] == [f"train-{d}" for d in range(D)]
    order = (
        np.argsort(-whole, axis=1, kind="stable")[:, :top] if top else np.tile(np.arange(K), (D, 1))
    )
    assert [r["topics"] for r in rows] == order.tolist()
    values = np.array([r["shares"] for r in rows], np.float32)
    assert (values == np.take_along_axis(whole, order, axis=1)).all()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_theta_of_a_store_without_documents_and_of_replaced_ones(made, tmp_path):
    counts, _, model = made
    plain = store(tmp_path / "plain.zarr", counts, counts[:3])
    ThetaView(model, plain, theta=str(tmp_path / "t.jsonl")).result()
    assert [r["id"] for r in read(tmp_path / "t.jsonl")] == [str(d) for d in range(D)]
    part = store(tmp_path / "part.zarr", counts, counts[:3], blocks=2, ids=True)
    table = pq.read_table(part.path / "docs" / "part-00000.parquet")
    keep = [i for i in range(len(table)) if i not in (5, 120)]
    part = with_documents(part, table.take(keep))
    assert ThetaView(model, part, theta=str(tmp_path / "u.jsonl")).result()["documents"] == D - 2
    assert [r["id"] for r in read(tmp_path / "u.jsonl")] == [
        f"train-{d}" for d in range(D) if d not in (5, 120)
    ]


def test_a_damaged_documents_table_leaves_no_file(made, tmp_path):
    counts, _, model = made
    corpus = store(tmp_path / "c.zarr", counts, counts[:3], ids=True)
    path = corpus.path / "docs" / "part-00000.parquet"
    table = pq.read_table(path)
    table = table.set_column(
        table.column_names.index("row"), "row", pa.array([10**6] * len(table), pa.int32())
    )
    corpus = with_documents(corpus, table)
    with pytest.raises(StoreError, match="past its block"):
        ThetaView(model, corpus, theta=str(tmp_path / "t.csv")).result()
    path.write_bytes(b"no parquet")
    with pytest.raises(StoreError, match="part-00000"):
        ThetaView(model, corpus, theta=str(tmp_path / "t.csv")).result()
    with pytest.raises(UsageError, match=r"must end in \.parquet"):
        ThetaView(model, corpus, theta=str(tmp_path / "t.txt")).result()
    assert [p.name for p in tmp_path.iterdir()] == ["c.zarr"]


def test_describe(made, tmp_path):
    _, _, model = made
    history = [
        {
            "pass": i + 1,
            "seconds": 2.0,
            "running_perplexity": 900.0 / (i + 1),
            "rss_peak_bytes": 3 << 20,
        }
        for i in range(5)
    ]
    TopicModel.from_arrays(
        np.append(model.phi[:, :3], np.zeros((W, 1)), axis=1),
        model.vocabulary,
        0.2,
        0.01,
        engine="atbp",
        cites="paper, Fig. 3",
        options={"tol": 1.0, "learn_priors": False, "other": None},
        corpus={"docs": 200, "fingerprint": "ab"},
        passes=5,
    ).save(tmp_path / "m")
    (tmp_path / "m" / "history.jsonl").write_text("".join(json.dumps(r) + "\n" for r in history))
    kept = (tmp_path / "m" / "history.jsonl").read_text()
    (tmp_path / "m" / "history.jsonl").write_text(kept[: kept.rindex("\n", 0, -1) + 1])
    with pytest.raises(
        StoreError, match=r"history\.jsonl: cut short: its last pass is 4, the model made 5"
    ):
        describe(tmp_path / "m", verify=True)
    (tmp_path / "m" / "history.jsonl").write_text(kept)
    info = describe(tmp_path / "m", verify=True)
    assert info["engine"] == "atbp" and info["passes"] == 5 and info["history"] == history
    assert (
        info["empty_topics"] == [3]
        and info["content_hash"] == TopicModel.open(tmp_path / "m").content_hash()
    )
    text = "\n".join(info_lines(info))
    for part in (
        "atbp (paper, Fig. 3)",
        "tol 1.0",
        "200 documents, generation 1, fingerprint ab",
        "900.0 -> 180.0",
        "█▄▂▁▁",
        "5 passes in 10.0 s",
        "verified",
    ):
        assert part in text, part
    chunk = tmp_path / "m" / "topics" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    describe(tmp_path / "m")
    with pytest.raises(StoreError, match="topics/c/0/0"):
        describe(tmp_path / "m", verify=True)


def test_history_of_nothing_and_of_one_pass():
    assert history_lines([]) == []
    assert history_lines([{"pass": 1, "running_perplexity": None, "seconds": 1.0}]) == [
        "  1 pass in 1.0 s"
    ]
    assert history_lines([{"running_perplexity": 5.0}]) == ["  running perplexity   5.0"]


def test_history_of_an_engine_with_another_objective():
    passes = [
        {"pass": n, "running_perplexity": None, "objective": {"nats a point": -14.0 + n / 2}}
        for n in (1, 2)
    ]
    passes[1]["heldout"] = {"nats a point": -13.25}
    lines = history_lines(passes)
    assert lines[0].split()[:3] == ["nats", "a", "point"] and lines[0].endswith(
        "-13.5000 -> -13.0000"
    )
    assert lines[1].split() == ["held-out", "nats", "a", "point", "-13.2500"]


def test_sparkline():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert (
        sparkline([3, 3]) == "▁▁"
        and sparkline([]) == ""
        and sparkline([1, float("nan"), 2]) == "▁ █"
    )
    assert len(sparkline(list(range(1000)), 40)) == 40
    assert (
        sparkline(list(range(1000)), 40)[0] == "▁" and sparkline(list(range(1000)), 40)[-1] == "█"
    )


def test_documents_without_a_known_word_are_left_out(half_shown, tmp_path):
    folder, _, _, _ = half_shown
    made = topicstream.report(
        folder / "model", folder / "corpus.zarr", out=tmp_path / "r.html", progress=False
    )
    assert made["documents"] == 150 and made["left_out"] == 50
    assert f"{SAID}." in made["notes"]
