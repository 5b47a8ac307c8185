"""Documents without a known word in correlations, lists of likeness, drift and intrusion tests."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.left_out import SAID
from topicstream.addons.views.intrusion import IntrusionView
from topicstream.cli.main import run


def test_correlations(half_shown, tmp_path, capsys):
    _, theta, known, _ = half_shown
    assert run(["show", "--correlations", str(tmp_path / "c.parquet")]) == 0
    assert SAID in capsys.readouterr().out
    table = pq.read_table(tmp_path / "c.parquet")
    first, second = table["topic"].to_pylist()
    expected = np.corrcoef(theta[known].T)[0, 1]
    assert table[str(second)][0].as_py() == pytest.approx(expected, abs=1e-4)
    assert expected < -0.99 and first != second


def test_documents_like_a_text_or_like_another(half_shown, capsys):
    _, _, known, _ = half_shown
    empty = {f"d{d}" for d in np.flatnonzero(~known)}
    assert run(["show", "--similar", "d1", "-n", "200", "--json"]) == 0
    listed = {document["id"] for document in json.loads(capsys.readouterr().out)["similar"]}
    assert len(listed) == 149 and not listed & empty
    assert run(["show", "--find", "captain", "--docs", "200", "--json"]) == 0
    listed = {document["id"] for document in json.loads(capsys.readouterr().out)["documents"]}
    assert len(listed) == 150 and not listed & empty
    assert run(["show", "--similar", "d0"]) == 3
    assert "d0: this document has no word that the model knows" in capsys.readouterr().err


def test_drift_by_period(half_shown, tmp_path, capsys):
    rows = [{"id": f"n{i}", "text": "zebra quagga", "date": "2010"} for i in range(5)]
    rows += [{"id": f"k{i}", "text": "captain cargo crust", "date": "2011"} for i in range(5)]
    rows.append({"id": "e", "text": "", "date": "2011"})
    raw = tmp_path / "new.jsonl"
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = topicstream.drift(
        half_shown[0] / "model",
        raw,
        corpus=half_shown[0] / "corpus.zarr",
        by="date",
        progress=False,
    )
    strange, like = found["periods"]
    assert (strange["period"], strange["documents"], strange["usage"]) == ("2010", 5, None)
    assert (like["period"], like["documents"], like["unknown_tokens"]) == ("2011", 6, 0)
    assert like["usage"] is not None


def test_people_are_asked_about_documents_with_topics_alone(half_shown, tmp_path):
    folder, _, known, _ = half_shown
    topicstream.train(
        folder / "corpus.zarr", tmp_path / "five", topics=5, passes=3, seed=1, progress=False
    )
    view = IntrusionView(tmp_path / "five", folder / "corpus.zarr", intrusion="topics")
    asked = view.table["document"].to_pylist()
    assert len(asked) == len(set(asked)) == 50
    assert not set(asked) & {f"d{d}" for d in np.flatnonzero(~known)}
