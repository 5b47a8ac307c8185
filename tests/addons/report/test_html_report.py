"""``topics report``: the numbers in the page, and the page in a browser (where Playwright and
Chromium are installed).
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.report_store import data_of, unpack
from topicstream.addons.report.page import format_page, pack, report
from topicstream.base.errors import InputError, TopicsError
from topicstream.cli.main import run
from topicstream.display import geometry
from topicstream.evaluation.visiting import document_shares
from topicstream.model.edits import edit
from topicstream.model.top import top_words, words_by_relevance
from topicstream.model.topic_model import TopicModel

pytestmark = pytest.mark.slow


# -- numbers
# --------------------------------------------------------------------------------------------------
def test_shares_in_the_page_are_those_of_the_documents(stored, written):
    _folder, corpus, rows = stored
    _path, done, values, arrays = written
    model = TopicModel.open(corpus.path.parent / "model")
    theta = np.concatenate([t for _, t, _ in document_shares(model, corpus)]).astype(np.float64)
    assert values["docs"] == corpus.n_docs == done["documents"]
    assert np.allclose(arrays["share"], theta.mean(axis=0), atol=1e-6)
    assert (arrays["first"] == np.bincount(theta.argmax(axis=1), minlength=5)).all()
    names = {}
    from topicstream.evaluation.keys import stream_documents

    for numbers, batch in stream_documents(corpus, False, ["id"]):
        names.update(zip(numbers.tolist(), batch.column("id").to_pylist(), strict=True))
    by_id = {r["id"]: r for r in rows}
    year = np.array([int(by_id[names[d]]["date"][:4]) for d in range(corpus.n_docs)])
    assert values["grain"] == "year" and values["periods"] == [str(y) for y in range(2000, 2010)]
    over = arrays["over"] * arrays["overScale"].astype(np.float64)
    for i in range(10):
        assert np.allclose(over[i], theta[year == 2000 + i].mean(axis=0), atol=2e-5)
    assert arrays["slope"][1] > 3 * arrays["slopeError"][1] > 0
    column = [c["name"] for c in values["columns"]].index("labels")
    kitchen = values["columns"][column]["values"].index("kitchen")
    mine = np.array(["kitchen" in by_id[names[d]]["labels"] for d in range(corpus.n_docs)])
    share = (arrays[f"by{column}"] * arrays[f"by{column}Scale"].astype(np.float64))[kitchen]
    assert np.allclose(share, theta[mine].mean(axis=0), atol=2e-5)
    assert arrays[f"by{column}Docs"][kitchen] == mine.sum()
    first = values["documents"][arrays["typical"][1, 0]]
    assert first["id"] == names[int(theta[:, 1].argmax())]
    assert first["meta"]["title"] == by_id[first["id"]]["title"].replace("\n", " ")
    passage = values["passages"][1][0][0].strip("… ")
    assert passage in " ".join(by_id[first["id"]]["text"].split()) and first["source"].startswith(
        "docs.jsonl:"
    )
    product = np.corrcoef(theta.T)
    assert np.allclose(arrays["linkValue"][0, 0], np.sort(product[0][1:])[-1], atol=1e-4)


def test_relevance_candidates_are_those_of_top_words(stored):
    folder, _, _ = stored
    model = TopicModel.open(folder / "model")
    offsets, ids, log_p, marginal = words_by_relevance(model, 7)
    for step in (0, 3, 10):
        wanted, score = top_words(model, 7, step / 10)
        for k in range(model.n_topics):
            mine = slice(offsets[k], offsets[k + 1])
            value = log_p[mine] - (1 - step / 10) * marginal[ids[mine]]
            best = np.lexsort((ids[mine], -np.round(value, 9)))[:7]
            assert np.allclose(np.sort(value)[::-1][:7], score[:, k], atol=1e-6)
            if k < 4:
                assert set(ids[mine][best]) == set(wanted[:, k])


def test_gram_layout_and_tree(stored):
    folder, _, _ = stored
    model = TopicModel.open(folder / "model")
    p = model.probabilities(np.arange(model.n_words))
    similar = geometry.gram(model)
    assert np.allclose(similar, np.sqrt(p).T @ np.sqrt(p), atol=1e-5)
    place = geometry.layout(similar)
    full = geometry.layout(similar)
    assert (place == full).all() and place.shape == (5, 2)
    rng = np.random.default_rng(3)
    points = rng.normal(size=(30, 6))
    points[:15] += 6
    close = 1 - 0.001 * ((points[:, None] - points[None]) ** 2).sum(axis=2)
    tree = geometry.tree(close, np.ones(30))
    assert sorted(tree.order) == list(range(30)) and (np.diff(tree.height) >= -1e-12).all()
    assert sorted(map(tuple, tree.cut(2))) == [tuple(range(15)), tuple(range(15, 30))]
    assert len(tree.cut(7)) == 7 and tree.cut(1) == [list(range(30))]
    scipy = pytest.importorskip("scipy.cluster.hierarchy")
    pairs = np.sqrt(np.maximum(0, 1 - close))[np.triu_indices(30, 1)]
    assert np.allclose(scipy.linkage(pairs, "ward")[:, 2], tree.height, rtol=1e-6)


def test_pack_round_trip_and_same_bytes():
    arrays = {
        "a": np.arange(5, dtype=np.uint16),
        "b": np.ones((2, 3), np.float32),
        "c": np.zeros(0, np.uint8),
    }
    values = {"text": "</script>\u202e", "n": 1}
    data = pack(values, arrays)
    assert data == pack(values, arrays)
    back, found = unpack(data)
    assert back == values and all(
        (found[n] == arrays[n]).all() and found[n].shape == arrays[n].shape for n in arrays
    )
    text = format_page("t </title><script>", data)
    assert data_of(text) == data and text.count("</script>") == 2 and "t </title>" not in text


def test_refusals(stored, tmp_path):
    folder, _, _ = stored
    out = tmp_path / "r.html"
    out.write_text("mine")
    with pytest.raises(TopicsError, match="--force"):
        report(folder / "model", folder / "corpus.zarr", out=out)
    assert out.read_text() == "mine"
    with pytest.raises(InputError, match="no such column"):
        report(folder / "model", folder / "corpus.zarr", out=tmp_path / "b.html", by=["venue"])
    with pytest.raises(InputError, match=r"\.html"):
        report(folder / "model", folder / "corpus.zarr", out=tmp_path / "b.txt")
    assert (
        run(
            [
                "report",
                str(folder / "model"),
                "--corpus",
                str(folder / "corpus.zarr"),
                "--out",
                str(out),
            ]
        )
        == 1
    )


def test_edits_show_in_the_report(stored, tmp_path):
    folder, corpus, _ = stored
    shutil.copytree(folder / "model", tmp_path / "model")
    edit(
        tmp_path / "model",
        [
            {"edit": "label", "topic": 3, "label": "Baking <b>"},
            {"edit": "merge", "topics": [0, 2]},
            {"edit": "drop", "topics": [4]},
        ],
    )
    report(tmp_path / "model", corpus, out=tmp_path / "r.html", scores=False)
    values, arrays = unpack(data_of((tmp_path / "r.html").read_text()))
    assert (
        values["ids"] == [0, 1, 3]
        and values["names"][2] == "Baking <b>"
        and values["members"] == [2, 1, 1]
    )
    theta = np.concatenate(
        [t for _, t, _ in document_shares(TopicModel.open(folder / "model"), corpus)]
    ).astype(np.float64)
    merged = np.stack([theta[:, 0] + theta[:, 2], theta[:, 1], theta[:, 3]], 1)
    merged /= merged.sum(axis=1, keepdims=True)
    assert np.allclose(arrays["share"], merged.mean(axis=0), atol=1e-6)


def test_a_model_alone(tmp_path):
    rng = np.random.default_rng(0)
    model = TopicModel.from_arrays(rng.random((40, 1)), [f"w{i}" for i in range(40)], 0.1, 0.01)
    done = report(model, None, out=tmp_path / "r.html")
    values, arrays = unpack(data_of((tmp_path / "r.html").read_text()))
    assert (
        done["documents"] == 0
        and values["periods"] == []
        and "over" not in arrays
        and len(arrays["order"]) == 1
    )


def test_the_page_is_called_as_the_corpus(stored, tmp_path):
    folder, _, _ = stored
    report(folder / "model", folder / "corpus.zarr", out=tmp_path / "r.html", scores=False)
    assert (
        unpack(data_of((tmp_path / "r.html").read_text()))[0]["title"] == "docs"
    )  # the file that corpus.zarr was read from
    shutil.copytree(folder / "corpus.zarr", tmp_path / "tweets.zarr")
    report(folder / "model", tmp_path / "tweets.zarr", out=tmp_path / "t.html", scores=False)
    assert unpack(data_of((tmp_path / "t.html").read_text()))[0]["title"] == "tweets"
