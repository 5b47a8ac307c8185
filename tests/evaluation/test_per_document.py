"""Scores one row a document, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from topicstream.evaluation import held_out


def test_a_document_of_one_scored_token_has_a_perplexity(monkeypatch):
    def score(model, corpus, *, on_block, **given):
        # one token, and too short to be split
        on_block(np.array([-2.0, 0.0]), np.array([1.0, 0.0]))
        on_block(np.array([-12.0, -9.0]), np.array([6.0, 3.0]))
        return "score"

    ids = pa.record_batch({"id": ["11", "12", "14"]})  # the third one is removed
    monkeypatch.setattr(held_out, "score_model", score)
    monkeypatch.setattr(held_out, "stream_documents", lambda *given: [(np.array([0, 1, 3]), ids)])
    corpus = SimpleNamespace(manifest=SimpleNamespace(ids="integer"))
    found, table = held_out.score_documents(None, corpus)
    assert found == "score"
    assert table["id"].to_pylist() == [11, 12, 14]
    assert table["tokens"].to_pylist() == [1.0, 0.0, 3.0]
    assert table["loglik"].to_pylist() == [-2.0, None, -9.0]
    assert table["perplexity"].to_pylist() == [pytest.approx(np.e**2), None, pytest.approx(np.e**3)]
