"""A small store of made texts, and two models of it."""

from __future__ import annotations

import numpy as np
import pytest

import topicstream
from tests.ingestion.test_memory_inputs import ALL
from topicstream.base.progress import Shown as Progress

WORDS = 60
TOPICS = 5


def corpus_texts(n=400):
    rng = np.random.default_rng(4)
    phi = rng.dirichlet(np.full(WORDS, 0.1), TOPICS)
    theta = rng.dirichlet(np.full(TOPICS, 0.3), n)
    return [
        " ".join(
            f"w{chr(97 + w // 10)}{chr(97 + w % 10)}" for w in rng.choice(WORDS, 30, p=t @ phi)
        )
        for t in theta
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exchange")
    topicstream.ingest(corpus_texts(), folder / "c.zarr", **{**ALL, "heldout": "20%"})
    for algo in ("sparse-bp", "sparselda"):
        given = {"topics": TOPICS, "passes": 15, "tol": 0, "progress": Progress(-1)}
        topicstream.train(folder / "c.zarr", folder / algo, algo=algo, **given)
    return folder
