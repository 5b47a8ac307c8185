"""Words that groups use more than others within a topic (``show --by --contrast``)."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

import topicstream
from tests.reference import contrast as twin
from tests.report_store import made, planted_model
from topicstream.base.errors import DoesNotFit, InputError, UsageError
from topicstream.base.memory import MemoryLimit
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.display.contrast import check_room, count_words, log_odds
from topicstream.display.gather import Column
from topicstream.display.view import open_shown
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.visiting import document_shares
from topicstream.model.edits import edit
from topicstream.model.topic_model import TopicModel


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contrast")
    corpus, rows = made(folder, 300)
    planted_model(corpus, folder / "model")
    return folder, corpus, {row["id"]: row for row in rows}


def test_a_value_by_hand():
    """6 of 100 tokens against 2 of 300, with a prior of 2 among 500."""
    here = np.array([[6.0]])
    there = np.array([[2.0]])
    difference, z = log_odds(
        (here, np.array([100.0])), (there, np.array([300.0])), np.array([[2.0]])
    )
    expected = math.log(8 / 592) - math.log(4 / 796)
    assert difference[0, 0] == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(0.98924, abs=1e-5)
    assert z[0, 0] == pytest.approx(0.98924 / math.sqrt(1 / 8 + 1 / 4), abs=1e-4)


def documents_of(corpus):
    """The words of each training document by model's id, and the ids of the documents."""
    words = []
    for block in corpus.blocks():
        for d in range(block.n_docs):
            cells = slice(block.indptr[d], block.indptr[d + 1])
            ids = block.vocab[block.words[cells]].tolist()
            words.append(dict(zip(ids, block.counts[cells].tolist(), strict=True)))
    ids = [name for _, b in stream_documents(corpus, False, ["id"]) for name in b[0].to_pylist()]
    return words, ids


@pytest.mark.parametrize("column", ["party", "labels"])
def test_counts_are_those_of_single_documents(stored, column):
    folder, corpus, rows = stored
    model = TopicModel.open(folder / "model")
    shown = open_shown(model, None, 2)
    values = {"party": ["red", "blue"], "labels": ["all", "kitchen"]}[column]
    counted = count_words(shown, corpus, Column(column, values, 2), range(4))
    words, ids = documents_of(corpus)
    theta = np.concatenate([block.shares for block in document_shares(model, corpus)])
    p = model.topic_word.T.astype(np.float64)
    listed = [rows[name][column] for name in ids]
    codes = [
        [values.index(v) for v in (value if isinstance(value, list) else [value] if value else [])]
        for value in listed
    ]
    expected = twin.count_words(words, theta.astype(np.float64), p, codes)
    assert np.allclose(counted.tokens, expected, rtol=1e-5, atol=1e-6)
    assert counted.documents.tolist() == [
        *(sum(code in c for c in codes) for code in range(2)),
        sum(map(bool, codes)),
    ]
    one = count_words(open_shown(model, None, 1), corpus, Column(column, values, 2), range(4))
    assert (one.tokens == counted.tokens).all()


def test_the_rows_are_the_twins(stored):
    folder, corpus, rows = stored
    shown = topicstream.show(
        folder / "model", corpus.path, by="party", contrast=True, words=4, topics=[1]
    )
    model = TopicModel.open(folder / "model")
    words, ids = documents_of(corpus)
    theta = np.concatenate([block.shares for block in document_shares(model, corpus)])
    p = model.topic_word.T.astype(np.float64)
    codes = [[["red", "blue"].index(v)] if (v := rows[name]["party"]) else [] for name in ids]
    counts = twin.count_words(words, theta.astype(np.float64), p, codes)[:, :, 1]
    assert {row["topic"] for row in shown} == {1}
    for code, group in enumerate(("red", "blue")):
        z = twin.z_of(counts[code], counts[2] - counts[code], 500 * p[:, 1])
        best = np.argsort(-z, kind="stable")[:4]
        mine = [row for row in shown if row["group"] == group]
        assert [row["word"] for row in mine] == model.vocabulary.texts(best)
        assert [row["z"] for row in mine] == pytest.approx(z[best].tolist(), rel=1e-4)
        assert [row["rank"] for row in mine] == [1, 2, 3, 4]
        assert mine[0]["tokens"] == pytest.approx(counts[code][best[0]], rel=1e-5)


def test_groups_with_other_words_within_a_topic(tmp_path):
    """Both write about one thing; the word of each comes first, whatever is common."""
    common = "law bill vote house speech paper member reading"
    rows = [
        {"id": str(d), "party": "lr"[d % 2], "text": f"{common} {('labour', 'tory')[d % 2]} vote"}
        for d in range(60)
    ]
    topicstream.ingest(rows, tmp_path / "c", meta={"party": "party"}, stopwords=(), min_df=1)
    planted_model(Corpus.open(tmp_path / "c"), tmp_path / "m", topics=1)
    shown = topicstream.show(tmp_path / "m", tmp_path / "c", by="party", contrast=True, words=1)
    assert len(shown) == 2
    for row in shown:
        assert row["word"] == {"l": "labour", "r": "tory"}[row["group"]]
        assert row["log_odds"] > 0 and row["tokens"] > row["tokens_of_others"] == 0


def test_merged_and_dropped_topics(stored, tmp_path):
    _, corpus, _ = stored
    model = planted_model(corpus, tmp_path / "model")
    column = Column("party", ["red", "blue"], 2)
    plain = count_words(open_shown(model, None, 1), corpus, column, range(4)).tokens
    edit(
        tmp_path / "model",
        [{"edit": "merge", "topics": [0, 1]}, {"edit": "drop", "topics": [3]}],
    )
    shown = open_shown(tmp_path / "model", None, 1)
    merged = count_words(shown, corpus, column, range(2)).tokens
    assert np.allclose(merged[:, :, 0], plain[:, :, 0] + plain[:, :, 1])
    assert np.allclose(merged[:, :, 1], plain[:, :, 2])


def test_files_and_lines(stored, tmp_path, capsys):
    folder, corpus, _ = stored
    line = ["show", "--model", str(folder / "model"), "--corpus", str(corpus.path), "--by", "party"]
    assert run([*line, "--contrast", "-n", "3"]) == 0
    out = capsys.readouterr().out
    assert "groups of party use more" in out and "test nothing" in out and " red " in out
    assert run([*line, "--contrast", "--json", "-k", "2"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {"topic", "group", "word", "z", "log_odds", "tokens"} <= set(shown[0])
    for name in ("words.csv", "words.tex", "words.md", "words.jsonl", "words.parquet"):
        assert run([*line, "--contrast", "--out", str(tmp_path / name)]) == 0
    with open(tmp_path / "words.csv") as file:
        assert [row["word"] for row in csv.DictReader(file) if row["topic"] == "2"] == [
            row["word"] for row in shown
        ]
    assert r"\toprule" in (tmp_path / "words.tex").read_text()
    printed = [line.split(" & ") for line in (tmp_path / "words.tex").read_text().splitlines()]
    topics = [cells[0] for cells in printed if len(cells) == 5][1:]
    assert len(topics) == 8 and topics[::2] == topics[1::2]  # both groups of each topic
    assert run([*line, "--contrast", "--out", str(tmp_path / "words.csv")]) == 1


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (dict(contrast=True), UsageError, "needs --by"),
        (dict(contrast=True, by="party", over_time=True), UsageError, "--over-time does not apply"),
        (dict(contrast=True, by="party", plot="a.svg"), UsageError, "--plot does not apply"),
        (dict(contrast=True, by="date"), UsageError, "--by date"),
        (dict(contrast=True, by="nothing"), InputError, "no such column"),
        (dict(contrast=True, by="party", min_docs=10_000), InputError, "10,000 documents each"),
        (dict(by="party", words=3), UsageError, "-n lists words"),
    ],
)
def test_refusals(stored, options, error, said):
    folder, corpus, _ = stored
    with pytest.raises(error, match=said):
        topicstream.show(folder / "model", corpus.path, **options)


def test_one_group_has_nothing_to_be_compared_with(tmp_path):
    rows = [{"id": str(d), "party": "red", "text": "cats chase mice at home"} for d in range(12)]
    topicstream.ingest(rows, tmp_path / "c", meta={"party": "party"}, stopwords=(), min_df=1)
    planted_model(Corpus.open(tmp_path / "c"), tmp_path / "m")
    with pytest.raises(InputError, match=r"no two groups of party to compare \(its values: red"):
        topicstream.show(tmp_path / "m", tmp_path / "c", by="party", contrast=True)


def test_too_many_counts_are_refused_with_what_would_do(stored):
    folder, _, _ = stored
    shown = open_shown(folder / "model", None, 1)
    column = Column("party", [str(i) for i in range(4_000_000)], 1)
    with pytest.raises(DoesNotFit, match=r"\d+M would do") as caught:
        check_room(shown, MemoryLimit.parse("512M"), column, range(4))
    # 4,000,001 groups of float64 by words and topics
    needed = 8 * 4_000_001 * shown.trained.n_words * 4 >> 20
    assert needed < caught.value.least < needed + 1024
