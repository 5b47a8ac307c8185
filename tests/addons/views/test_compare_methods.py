"""Ways to infer topics, compared: the measures by hand, the table, the plot, the command."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import topicstream
from tests.small_store import planted, store
from topicstream.addons.views.comparing import (
    cosine,
    divergence,
    envelope,
    f1,
    plot_methods,
    topic_sets,
)
from topicstream.base.errors import InputError, TopicsError
from topicstream.cli.main import run
from topicstream.display.figures import Figure
from topicstream.evaluation.completion import score_model
from topicstream.model.topic_model import TopicModel

# tests of what the core and an add-on do together
train_classifier = pytest.importorskip("topicstream.addons.classifier.training").train_classifier


def test_the_measures_by_hand():
    p = np.array([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0]])
    q = np.array([[0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
    assert cosine(p, q) == pytest.approx([0.34 / 0.38, 0.21 / np.sqrt(0.82 * 0.38)])
    wanted = 0.5 * np.log(0.5 / 0.3) + 0.3 * np.log(0.3 / 0.5)
    assert divergence(p, q)[0] == pytest.approx(wanted) and divergence(p, p) == pytest.approx(
        [0, 0]
    )
    # while the sum stays within 0.8: {0, 1}; the first alone exceeds it: {0}
    assert topic_sets(p).tolist() == [[True, True, False], [True, False, False]]
    assert topic_sets(q).tolist() == [[True, True, False], [False, True, True]]
    assert f1(p, q) == pytest.approx([1.0, 0.0]) and f1(p, p) == pytest.approx([1, 1])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    matrix, phi = planted(3, 300, 80, 5)
    corpus = store(folder / "c.zarr", matrix[:250], matrix[250:], ids=True)
    TopicModel.from_arrays(np.floor(phi * 3000), [f"word{i}" for i in range(80)], 0.2, 0.01).save(
        folder / "m"
    )
    return folder, corpus


def test_every_method_has_its_row(made):
    folder, corpus = made
    few = topicstream.compare_methods(folder / "m", corpus, burn=10, sweeps=10)
    assert set(few["left_out"]) == {"gibbs1", "maxent", "hybrid"}
    assert "has no classifier" in few["left_out"]["maxent"]
    train_classifier(folder / "m", corpus)
    found = topicstream.compare_methods(folder / "m", corpus, burn=40, sweeps=40)
    assert set(found["left_out"]) == {"gibbs1"} and found["documents"] == 50
    rows = {r["name"]: r for r in found["methods"]}
    assert rows["gibbs2"]["cosine"] == pytest.approx(1) and rows["gibbs2"]["f1"] == 1
    assert 0.9 < found["ceiling"]["cosine"] < 1 and found["ceiling"]["divergence"] > 0
    assert rows["bp"]["cosine"] > rows["naive-bayes"]["cosine"]
    assert rows["gibbs3"]["cosine"] > rows["gibbs3.s"]["cosine"]
    # the same documents, split and scoring as eval
    score = score_model(TopicModel.open(folder / "m"), corpus)
    assert rows["bp"]["perplexity"] == pytest.approx(score.perplexity, rel=1e-5)
    for what in ("cosine", "f1"):
        names = found["envelope"][what]  # each is nearer than all that are faster
        assert rows[names[0]]["seconds"] == min(
            r["seconds"] for n, r in rows.items() if n != "gibbs2"
        )
        assert (
            sorted(names, key=lambda n: rows[n]["seconds"])
            == sorted(names, key=lambda n: rows[n][what])
            == names
        )
    assert all(r["seconds"] > 0 and r["perplexity"] > 1 for r in rows.values())
    again = topicstream.compare_methods(
        folder / "m", corpus, methods="hybrid,bp", burn=40, sweeps=40
    )
    assert [r["name"] for r in again["methods"]] == ["hybrid", "bp", "gibbs2"]
    assert again["methods"][0]["cosine"] == rows["hybrid"]["cosine"]


def test_what_cannot_be_meant(made, tmp_path):
    folder, corpus = made
    with pytest.raises(InputError, match="--methods mcmc: choose of bp"):
        topicstream.compare_methods(folder / "m", corpus, methods="mcmc")
    with pytest.raises(InputError, match="training run"):
        topicstream.compare_methods(folder / "m", corpus, methods="gibbs1", burn=1, sweeps=1)
    matrix, _ = planted(3, 20, 80, 5)
    bare = store(tmp_path / "bare.zarr", matrix, matrix[:0])
    with pytest.raises(InputError, match="no document with a word"):
        topicstream.compare_methods(folder / "m", bare)


def test_the_command_and_its_plot(made, tmp_path, capsys):
    folder, corpus = made
    words = tmp_path / "new.txt"
    common = [
        "compare",
        str(folder / "m"),
        "--corpus",
        str(corpus.path),
        "--burn",
        "2",
        "--sweeps",
        "2",
        "-q",
    ]
    picture = tmp_path / "p.svg"
    assert run([*common, "--methods", "bp,naive-bayes", "--svg", str(picture), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in result["methods"]] == ["bp", "naive-bayes", "gibbs2"]
    assert ET.fromstring(picture.read_text()).tag.endswith("svg")
    assert run([*common, "--methods", "bp", "--svg", str(picture)]) == 1
    assert "--force replaces it" in capsys.readouterr().err
    assert run([*common, "--methods", "bp"]) == 0
    assert "gibbs2 again" in (said := capsys.readouterr().out)
    assert "none is faster and nearer, by cosine: bp; by F1: bp" in said
    assert run(["compare", str(folder / "m")]) == 2
    assert run(["compare", str(folder / "m"), str(folder / "m"), "--methods", "all"]) == 2
    words.write_text("<svg/>")
    with pytest.raises(InputError):
        Figure(words, "--svg", force=False)
    other = tmp_path / "theirs.svg"
    other.write_text("<svg/>")
    with pytest.raises(TopicsError):
        Figure(other, "--svg", force=False)
    Figure(other, "--svg", force=True)
    assert other.read_text() == "<svg/>", "before anything is drawn"


def test_names_in_the_plot_are_escaped(tmp_path):
    row = {"name": "<b>", "seconds": 1.0, "f1": 0.5}
    result = {
        "methods": [row],
        "reference": "a&b",
        "documents": 3,
        "ceiling": None,
        "envelope": {"f1": ["<b>"]},
    }
    plot_methods(result, Figure(tmp_path / "p.svg", "--svg", force=False))
    drawn = (tmp_path / "p.svg").read_text()
    assert "&lt;b&gt;" in drawn and "a&amp;b" in drawn and ET.fromstring(drawn) is not None
    records = [
        {"name": n, "seconds": s, "f1": f}
        for n, s, f in (("a", 1, 0.5), ("b", 2, 0.9), ("c", 3, 0.8), ("d", 2, 0.4))
    ]
    assert envelope(records) == ["a", "b"] and envelope(records[::-1]) == ["a", "b"]
