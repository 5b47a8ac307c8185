"""Intrusion sheets and their answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.report_fixtures import model_options
from topicstream.addons.views.intrusion import IntrusionView, split_key
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel


def test_intrusion_sheets(model_and_rows, tmp_path, monkeypatch):
    folder, rows = model_and_rows
    words = IntrusionView(folder / "model", intrusion="words", seed=3)
    table = words.table
    assert table.equals(replace(words).table) and len(table) == 4
    model = TopicModel.open(folder / "model")
    texts = model.vocabulary.texts(np.arange(model.n_words))
    for row in table.to_pylist():
        words = [row[f"word_{i}"] for i in range(1, 7)]
        assert words[row["place"] - 1] == row["intruder"] and len(set(words)) == 6
        p = model.probabilities([texts.index(w) for w in words])[:, row["topic"]]
        assert p.argmin() == row["place"] - 1
    monkeypatch.setattr("topicstream.addons.views.intrusion.QUESTIONS", 25)
    monkeypatch.setattr("topicstream.addons.views.intrusion.TOPICS", 2)
    topics = IntrusionView(
        TopicModel.open(folder / "model"), folder / "corpus.zarr", intrusion="topics"
    ).table
    assert len(topics) == 25 and all(
        r["document"] in rows and r["text"] for r in topics.to_pylist()
    )
    corpus = Corpus.open(folder / "corpus.zarr")
    shares = np.concatenate([block.shares for block in document_shares(model, corpus)])
    numbers = {}
    for some, batch in stream_documents(corpus, False, ["id"]):
        numbers.update(zip(batch.column("id").to_pylist(), some.tolist(), strict=True))
    for row in topics.to_pylist():  # an intruder is of the half of the topics with the least shares
        order = np.argsort(-shares[numbers[row["document"]]], kind="stable").tolist()
        assert order.index(row["intruder_topic"]) >= 2
    sheet, key = split_key(topics)
    assert (
        "intruder" not in sheet.column_names
        and "place" in key.column_names
        and sheet["answer"].null_count == 25
    )
    assert (
        run(
            [
                "show",
                *model_options(folder),
                "--intrusion",
                "words",
                "--out",
                str(tmp_path / "w.csv"),
            ]
        )
        == 0
    )
    assert (
        run(
            [
                "show",
                *model_options(folder),
                "--intrusion",
                "words",
                "--out",
                str(tmp_path / "h.html"),
            ]
        )
        == 0
    )
    assert (tmp_path / "h.html").read_text().count("<fieldset") == 4 and (
        tmp_path / "h.key.csv"
    ).exists()
    assert (tmp_path / "w.key.csv").exists() and run(
        ["show", *model_options(folder), "--intrusion", "words"]
    ) == 2
