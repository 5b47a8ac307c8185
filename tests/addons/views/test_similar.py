"""Likeness of documents, and of topics as a tree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report_store import made, planted_model
from topicstream.addons.views.hierarchy import TreeView
from topicstream.addons.views.similar import SimilarView
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.visiting import document_shares


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
