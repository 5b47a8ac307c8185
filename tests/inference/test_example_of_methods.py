"""The example that compares the methods of inference: its measures by hand, and its table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import topicstream
from tests.small_store import planted, store
from topicstream.evaluation.completion import score_model

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLES))
    yield pytest.importorskip("compare_methods")
    sys.path.remove(str(EXAMPLES))


def test_the_measures_by_hand(example):
    p = np.array([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]])
    q = np.array([[0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
    assert example.cosine(p, q) == pytest.approx([0.34 / 0.38, 0.21 / np.sqrt(0.82 * 0.38)])
    wanted = 0.5 * np.log(0.5 / 0.3) + 0.3 * np.log(0.3 / 0.5)
    assert example.divergence(p, q)[0] == pytest.approx(wanted)
    # while the sum stays within 0.8: {0, 1}; the first alone exceeds it: {0}
    assert example.topic_sets(p).tolist() == [[True, True, False], [True, False, False]]
    assert example.f1(p, q) == pytest.approx([1.0, 0.0]) and example.f1(p, p) == pytest.approx(1)


def test_the_table(example, tmp_path, monkeypatch, capsys):
    matrix, phi = planted(3, 300, 80, 5)
    corpus = store(tmp_path / "c.zarr", matrix[:250], matrix[250:], ids=True)
    words = [f"word{i}" for i in range(80)]
    model = topicstream.TopicModel.from_arrays(np.floor(phi * 3000), words, 0.2, 0.01)
    documents = example.known_counts(model, corpus.to_scipy(parts="heldout"), corpus.words, 1000)
    rows = example.compare_methods(model, documents, ["bp", "vb"], burn=20, sweeps=20)
    assert list(rows) == ["gibbs2", "gibbs2 again", "bp", "vb"]
    assert rows["gibbs2"]["cosine"] == pytest.approx(1) and rows["gibbs2"]["f1"] == 1
    assert 0.9 < rows["gibbs2 again"]["cosine"] < 1 and rows["bp"]["cosine"] > 0.9
    score = score_model(model, corpus).perplexity  # of another split of the same documents
    assert rows["bp"]["perplexity"] == pytest.approx(score, rel=0.1)
    model.save(tmp_path / "m")
    line = [str(tmp_path / "m"), "--corpus", str(corpus.path), "--methods", "bp", "--burn", "2"]
    monkeypatch.setattr(sys, "argv", ["compare_methods.py", *line, "--sweeps", "2"])
    example.main()
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()] == [
        "method",
        "gibbs2",
        "gibbs2",
        "bp",
    ]
