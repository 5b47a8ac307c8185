"""Documents without a known word have the prior as their topics: they count in no mean and in no
ranking, and every output says how many there are.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import topicstream
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.display.gather import survey
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.drift import DocumentGroups, mean_shares

# tests of what the core and an add-on do together
IntrusionView = pytest.importorskip("topicstream.addons.views.intrusion").IntrusionView

SAID = "50 documents without a known word are left out"
SHIPS = "captain cargo deck sail harbour"
BREAD = "crust baker dough oven flour"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Half of the 100 documents of X are empty; Y has 100, and Z five empty ones alone."""
    folder = tmp_path_factory.mktemp("left-out")
    rng = np.random.default_rng(1)
    rows = []
    for d in range(200):
        party = "XY"[d % 2]
        words = (SHIPS if party == "X" else BREAD).split() + ["crust"] * int(rng.integers(0, 2))
        text = "" if party == "X" and d % 4 == 0 else " ".join(rng.choice(words, 12))
        rows.append({"id": f"d{d}", "text": text, "party": party, "date": str(2000 + d % 5)})
    raw = folder / "raw.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}
    topicstream.ingest(raw, folder / "corpus.zarr", meta="party,date", **options)
    topicstream.train(folder / "corpus.zarr", folder / "model", topics=2, seed=1, progress=False)
    return folder, rows


@pytest.fixture
def shown(stored, monkeypatch):
    folder, rows = stored
    monkeypatch.setenv("TOPICS_MODEL", str(folder / "model"))
    monkeypatch.setenv("TOPICS_CORPUS", str(folder / "corpus.zarr"))
    corpus = Corpus.open(folder / "corpus.zarr")
    theta = np.concatenate([block[1] for block in document_shares(_model(folder), corpus)])
    known = np.array([bool(row["text"]) for row in rows])
    party = np.array([row["party"] for row in rows])
    return folder, theta.astype(np.float64), known, party


def _model(folder):
    return TopicModel.open(folder / "model")


def test_shares_by_group_and_over_time(shown, capsys):
    _, theta, known, party = shown
    assert run(["show", "--by", "party"]) == 0
    assert SAID in capsys.readouterr().out
    assert run(["show", "--by", "party", "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        mine = (party == row["group"]) & known
        assert row["share"] == pytest.approx(theta[mine, row["topic"]].mean(), abs=1e-6)
        assert (row["documents"], row["left_out"]) == (
            (50, 50) if row["group"] == "X" else (100, 0)
        )
    assert run(["show", "--over-time", "--by", "party", "--period", "year"]) == 0
    assert SAID in capsys.readouterr().out
    year = np.array([2000 + d % 5 for d in range(200)])
    assert run(["show", "--over-time", "--period", "year", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 10 and sum(row["left_out"] for row in rows[::2]) == 50
    for row in rows:
        mine = (year == int(row["period"])) & known
        assert row["share"] == pytest.approx(theta[mine, row["topic"]].mean(), abs=1e-6)
        assert row["documents"] == mine.sum()


def test_correlations(shown, tmp_path, capsys):
    _, theta, known, _ = shown
    assert run(["show", "--correlations", str(tmp_path / "c.parquet")]) == 0
    assert SAID in capsys.readouterr().out
    table = pq.read_table(tmp_path / "c.parquet")
    first, second = table["topic"].to_pylist()
    expected = np.corrcoef(theta[known].T)[0, 1]
    assert table[str(second)][0].as_py() == pytest.approx(expected, abs=1e-4)
    assert expected < -0.99 and first != second


def test_report(shown, tmp_path):
    folder, _, _, _ = shown
    made = topicstream.report(
        folder / "model", folder / "corpus.zarr", out=tmp_path / "r.html", progress=False
    )
    assert made["documents"] == 150 and made["left_out"] == 50
    assert f"{SAID}." in made["notes"]


def test_typical_documents_and_the_others_of_a_list(shown, capsys):
    _, _, known, _ = shown
    empty = {f"d{d}" for d in np.flatnonzero(~known)}
    assert run(["show", "--docs", "200", "--json"]) == 0
    for topic in json.loads(capsys.readouterr().out)["topics"]:
        listed = {document["id"] for document in topic["documents"]}
        assert len(listed) == 150 and not listed & empty
    assert run(["show", "--similar", "d1", "-n", "200", "--json"]) == 0
    listed = {document["id"] for document in json.loads(capsys.readouterr().out)["similar"]}
    assert len(listed) == 149 and not listed & empty
    assert run(["show", "--find", "captain", "--docs", "200", "--json"]) == 0
    listed = {document["id"] for document in json.loads(capsys.readouterr().out)["documents"]}
    assert len(listed) == 150 and not listed & empty
    assert run(["show", "--similar", "d0"]) == 3
    assert "d0: this document has no word that the model knows" in capsys.readouterr().err


def test_a_dropped_topics_documents_have_no_topics_of_the_others(shown):
    """Who has words of the dropped topic alone has the prior of the others."""
    folder, theta, known, party = shown
    ships = int(theta[(party == "X") & known].mean(axis=0).argmax())
    view = _dropping(ships)
    corpus = Corpus.open(folder / "corpus.zarr")
    blocks = list(document_shares(_model(folder), corpus, view=view))
    counted = np.concatenate([block.counted for block in blocks])
    assert not counted[~known].any() and counted[party == "Y"].all()
    ships_alone = (party == "X") & known & (theta[:, ships] > 0.97)
    assert ships_alone.any() and not counted[ships_alone].any()


def _dropping(topic):
    from topicstream.model.edits import View

    rest = 1 - topic
    return View([rest], [[rest]], dropped=[topic])


def test_usage_that_drift_is_judged_by(shown):
    folder, theta, known, _ = shown
    corpus = Corpus.open(folder / "corpus.zarr")
    groups = DocumentGroups.of_training(corpus)
    (mean,) = mean_shares(_model(folder), groups, 1)
    assert np.allclose(mean, theta[known].mean(axis=0), atol=1e-6)
    assert survey(corpus, by=["party"]).columns[0].values == ["X", "Y"]


def test_files_of_topics_say_how_many_have_the_prior(shown, tmp_path, capsys):
    assert run(["show", "--theta", str(tmp_path / "t.parquet")]) == 0
    said = capsys.readouterr().out
    assert "200 documents; the prior stands for 50 documents without a known word" in said
    assert run(["show", "--theta", str(tmp_path / "u.parquet"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["without_known_word"] == 50


def test_exported_topics_of_documents_say_it_too(shown, tmp_path, capsys):
    for name in ("mallet-doc-topics", "parquet-theta"):
        out = tmp_path / f"{name}.out"
        assert run(["export", "--format", name, "--out", str(out), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["without_known_word"] == 50


def test_drift_by_period(shown, tmp_path, capsys):
    rows = [{"id": f"n{i}", "text": "zebra quagga", "date": "2010"} for i in range(5)]
    rows += [{"id": f"k{i}", "text": "captain cargo crust", "date": "2011"} for i in range(5)]
    rows.append({"id": "e", "text": "", "date": "2011"})
    raw = tmp_path / "new.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = topicstream.drift(
        shown[0] / "model", raw, corpus=shown[0] / "corpus.zarr", by="date", progress=False
    )
    strange, like = found["periods"]
    assert (strange["period"], strange["documents"], strange["usage"]) == ("2010", 5, None)
    assert (like["period"], like["documents"], like["unknown_tokens"]) == ("2011", 6, 0)
    assert like["usage"] is not None


def test_people_are_asked_about_documents_with_topics_alone(shown, tmp_path):
    folder, _, known, _ = shown
    topicstream.train(
        folder / "corpus.zarr", tmp_path / "five", topics=5, passes=3, seed=1, progress=False
    )
    view = IntrusionView(tmp_path / "five", folder / "corpus.zarr", intrusion="topics")
    asked = view.table["document"].to_pylist()
    assert len(asked) == len(set(asked)) == 50
    assert not set(asked) & {f"d{d}" for d in np.flatnonzero(~known)}
