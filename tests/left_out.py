"""A store of documents of which some have no known word, and a model of it: fixtures of the tests
that these are left out.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel

SAID = "50 documents without a known word are left out"
SHIPS = "captain cargo deck sail harbour"
BREAD = "crust baker dough oven flour"


@pytest.fixture(scope="session")
def half_known(tmp_path_factory):
    """Half of the 100 documents of X are empty; Y has 100, and Z five empty ones alone."""
    folder = tmp_path_factory.mktemp("left-out")
    rng = np.random.default_rng(1)
    rows = []
    for d in range(200):
        party = "XY"[d % 2]
        words = (SHIPS if party == "X" else BREAD).split() + ["crust"] * int(rng.integers(0, 2))
        text = "" if party == "X" and d % 4 == 0 else " ".join(rng.choice(words, 30))
        rows.append({"id": f"d{d}", "text": text, "party": party, "date": str(2000 + d % 5)})
    raw = folder / "raw.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}
    topicstream.ingest(raw, folder / "corpus.zarr", meta="party,date", **options)
    options = {"topics": 2, "passes": 400, "seed": 1, "progress": False}
    topicstream.train(folder / "corpus.zarr", folder / "model", **options)
    return folder, rows


@pytest.fixture
def half_shown(half_known, monkeypatch):
    folder, rows = half_known
    monkeypatch.setenv("TOPICS_MODEL", str(folder / "model"))
    monkeypatch.setenv("TOPICS_CORPUS", str(folder / "corpus.zarr"))
    corpus = Corpus.open(folder / "corpus.zarr")
    theta = np.concatenate([block[1] for block in document_shares(opened(folder), corpus)])
    known = np.array([bool(row["text"]) for row in rows])
    party = np.array([row["party"] for row in rows])
    return folder, theta.astype(np.float64), known, party


def opened(folder):
    return TopicModel.open(folder / "model")
