"""Likeness of documents, and of topics as a tree."""

from __future__ import annotations

import numpy as np
import pytest

import topicstream
from tests.report_store import made, planted_model
from tests.small_store import planted as planted_counts
from tests.small_store import store
from topicstream.addons.views.find import BY_WORDS, SMOOTHING, FindView, score_documents
from topicstream.addons.views.hierarchy import TreeView
from topicstream.addons.views.similar import SimilarView
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("similar")
    corpus, _ = made(folder, 300)
    return folder, corpus, planted_model(corpus, folder / "model")


def test_similar_documents(planted):
    folder, corpus, model = planted
    theta = np.concatenate([t for _, t, _ in document_shares(model, corpus)]).astype(np.float64)
    held = np.concatenate([t for _, t, _ in document_shares(model, corpus, heldout=True)]).astype(
        np.float64
    )
    ids = {}
    for heldout in (False, True):
        for numbers, batch in stream_documents(corpus, heldout, ["id"]):
            ids.update(
                {
                    (heldout, int(d)): i
                    for d, i in zip(numbers, batch.column("id").to_pylist(), strict=True)
                }
            )
    found = SimilarView(
        model=folder / "model", corpus=corpus, similar=ids[False, 5], words=8
    ).result()
    every = [
        (-np.sqrt(t) @ np.sqrt(theta[5]), h, d)
        for h, part in ((False, theta), (True, held))
        for d, t in enumerate(part)
    ]
    wanted = [(h, d) for _, h, d in sorted(every) if (h, d) != (False, 5)][:8]
    likeness = [d["likeness"] for d in found["similar"]]
    assert likeness == sorted(likeness, reverse=True)
    assert np.allclose(
        likeness,
        [min(1, np.sqrt(theta[5]) @ np.sqrt((held if h else theta)[d])) for h, d in wanted],
        atol=1e-5,
    )
    assert (
        len({d["id"] for d in found["similar"]} & {ids[w] for w in wanted}) >= 4
        and "title" in found["similar"][0]
    )
    with pytest.raises(InputError, match="no document"):
        SimilarView(model=folder / "model", corpus=corpus, similar="nobody").result()


def test_the_tree_in_words(planted, capsys):
    folder, _, _ = planted
    result = TreeView(folder / "model", reduce_to=2).result()
    assert (
        sorted(i for c in result["clusters"] for i in c) == [0, 1, 2, 3]
        and len(result["clusters"]) == 2
    )
    args = ["show", "--model", str(folder / "model")]
    assert run([*args, "--tree"]) == 0 and len(capsys.readouterr().out.splitlines()) == 7
    assert run([*args, "--reduce-to", "9"]) == 2


def test_numbers_and_groups_of_the_tree(tmp_path):
    """Topic 0 is dropped; 1 and 3 are alike, 4 is nearer to them than 2; sizes 30, 70, 40, 90."""
    columns = [[9, 9, 9, 9], [20, 10, 0, 0], [0, 0, 0, 70], [24, 16, 0, 0], [50, 0, 40, 0]]
    model = TopicModel.from_arrays(np.array(columns, float).T, list("abcd"), 0.1, 0.0)
    model.save(tmp_path / "m")
    topicstream.edit(tmp_path / "m", [{"edit": "drop", "topics": [0]}])
    result = TreeView(tmp_path / "m", reduce_to=2).result()
    assert result["ids"] == [1, 2, 3, 4] and result["first_merge"] == 5
    pairs = [(merge["left"], merge["right"]) for merge in result["merges"]]
    # the larger first: 40 and 30; 90 and 70; 160 and 70
    assert pairs == [(3, 1), (4, 5), (6, 2)]
    alike = np.sqrt(20 / 30 * 24 / 40) + np.sqrt(10 / 30 * 16 / 40)
    assert result["merges"][0]["height"] == pytest.approx(np.sqrt(1 - alike), abs=1e-4)
    assert result["topics"] == [4, 3, 1, 2]
    # the largest group first, and in it the largest topic
    assert result["clusters"] == [[4, 3, 1], [2]]
    three = TreeView(tmp_path / "m", reduce_to=3).result()["clusters"]
    assert three == [[4], [2], [3, 1]]  # 90, 70 and 70: by the number of the first topic


def test_documents_are_ranked_by_their_own_words_and_their_topics(tmp_path):
    """Seven tenths of a smoothed frequency and three tenths of p(w|d) (Wei & Croft 2006)."""
    counts, phi = planted_counts(8, 60, 30, 3)
    counts[5] = 0
    counts[5, 29] = 4  # of a word that the model does not have
    corpus = store(tmp_path / "c.zarr", counts, counts[:0])
    names = [f"word{i}" for i in range(29)]
    model = TopicModel.from_arrays((phi * 500)[:29], names, 0.1, 0.01)
    words = np.array([3, 11])
    found = np.concatenate([some for _, some in score_documents(model, corpus, words, False, 1)])
    theta = np.concatenate([block.shares for block in document_shares(model, corpus)])
    p = model.probabilities(words)
    overall = p @ model.shares
    scores = np.zeros(60)
    for i, word in enumerate(words):
        own = (counts[:, word] + SMOOTHING * overall[i]) / (counts.sum(axis=1) + SMOOTHING)
        scores += np.log(0.7 * own + 0.3 * (theta @ p[i]))
    scores[5] = -np.inf
    assert BY_WORDS == 0.7
    assert found == pytest.approx(scores / 2, rel=1e-5)


def test_topics_of_a_query_are_those_of_all_its_words(planted):
    folder, corpus, model = planted
    view = FindView(folder / "model", corpus, find="harbour crust", docs=2)
    result = view.result()
    words = model.vocabulary.find(["harbour", "crust"])
    p = model.probabilities(words).prod(axis=0) * model.shares
    found = {entry["topic"]: entry["p"] for entry in result["topics"]}
    assert [found[k] for k in range(4)] == pytest.approx(p / p.sum(), rel=1e-5)
    assert sorted(result["words"]) == ["crust", "harbour"] and len(result["documents"]) == 2
