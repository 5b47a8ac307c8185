"""Likelihood of documents and points under clusters, from what blocks report."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.base.errors import InputError
from topicstream.evaluation import likelihood


@pytest.fixture
def scored(monkeypatch):
    """Score parts whose blocks report (documents, tokens, unknown tokens, log p of the others)."""
    monkeypatch.setattr(likelihood, "make_block_method", lambda model: None)
    monkeypatch.setattr(likelihood, "match_words", lambda vocabulary, store: None)

    def run(reports, width=0, parts=("train", "heldout"), told=None):
        monkeypatch.setattr(
            likelihood, "visit_blocks", lambda visit, store, grid, *_: iter(reports[grid])
        )
        store = SimpleNamespace(
            width=width,
            path="c.zarr",
            part=lambda heldout: SimpleNamespace(
                docs=sum(r[0] for r in reports[("train", "heldout")[heldout]])
            ),
            grid=lambda cells, docs, heldout: ("train", "heldout")[heldout],
        )
        model = SimpleNamespace(n_topics=3, vocabulary=None)
        return likelihood.score_clusters(model, store, parts, 1, told)

    return run


REPORTS = {
    "train": [(3, 30.0, 4.0, np.array([-10.0, -20.0])), (1, 8.0, 8.0, np.zeros(0))],
    "heldout": [(2, 12.0, 1.0, np.array([-6.0, -9.0]))],
}


def test_documents_are_scored_by_their_known_tokens(scored):
    told = []
    score = scored(REPORTS, told=lambda *done: told.append(done))
    assert (score.docs, score.skipped) == (4, 2)
    assert score.tokens == 50 - 13 and score.oov_tokens == 13
    assert score.oov_rate == pytest.approx(13 / 50)
    assert score.nats_per_point == pytest.approx(45 / 4)
    assert score.nats_per_token == pytest.approx(45 / 37)
    assert score.perplexity == pytest.approx(np.exp(45 / 37))
    assert told == [(3, 6), (4, 6), (6, 6)]
    held = scored(REPORTS, parts=("heldout",))
    assert (held.docs, held.tokens) == (2, 11) and held.nats_per_point == 7.5


def test_points_have_nats_each(scored):
    score = scored(REPORTS, width=5)
    assert score.points == 4 and score.nats_per_point == pytest.approx(45 / 4)


def test_nothing_to_score_is_refused(scored):
    nothing = {"train": [], "heldout": [(2, 5.0, 5.0, np.zeros(0))]}
    with pytest.raises(InputError, match="no document contains a word"):
        scored(nothing)
