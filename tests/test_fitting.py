"""``topicstream.fit``: from documents in memory to topics with quotes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import topicstream
from topicstream.errors import UsageError

THEMES = [
    "cats fur paws whiskers milk mice purring tail claws kitten",
    "ships harbour sails anchor captain deck crew cargo tide ocean",
    "stars galaxy telescope orbit comet planet nebula lunar solar moon",
]


def texts(n: int = 120) -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(THEMES[d % 3].split(), k=20)) for d in range(n)]


OPTIONS = {"min_df": 1, "max_df": 1.0, "progress": False, "seed": 1}


@pytest.fixture(scope="module")
def fitted():
    return topicstream.fit(texts(), 3, **OPTIONS)


def theme_of(words: tuple[str, ...]) -> int:
    """The theme that all the words come from."""
    (theme,) = [i for i, theme in enumerate(THEMES) if set(words) <= set(theme.split())]
    return theme


def test_topics_are_those_of_the_texts(fitted):
    topics = fitted.topics
    assert sorted(theme_of(topic.words) for topic in topics) == [0, 1, 2]
    assert [topic.id for topic in topics] == fitted.model.topic_ids.tolist() == [0, 1, 2]
    npmi = fitted.model.topics.score(fitted.corpus)
    scored = topicstream.evaluate(fitted.model, fitted.corpus, coherent=True)
    assert [topic.npmi for topic in npmi] == scored.coherence["npmi_by_topic"]
    assert np.isclose(sum(topic.share for topic in topics), 1)


def test_quotes_come_from_the_documents_of_the_topic(fitted):
    given = texts()
    for topic in fitted.topics:
        quotes = fitted.quotes(topic.id, 2)  # texts of ten words are soon near-duplicates
        assert 1 <= len(quotes) <= 2 and quotes.column_names == ["id", "share", "text"]
        for quote in quotes:
            assert int(quote["id"]) % 3 == theme_of(topic.words)
            assert given[int(quote["id"])].startswith(quote["text"].split(" …")[0][:40])
    with pytest.raises(UsageError, match="there is no topic 7"):
        fitted.quotes(7)


@pytest.mark.parametrize(
    "of",
    [
        lambda rows: rows,
        pa.Table.from_pylist,
        lambda rows: pytest.importorskip("pandas").DataFrame(rows),
        lambda rows: pytest.importorskip("polars").DataFrame(rows),
    ],
    ids=["dicts", "arrow", "pandas", "polars"],
)
def test_documents_of_every_kind_are_quoted(of):
    rows = [{"name": f"d{i}", "abstract": text} for i, text in enumerate(texts(60))]
    done = topicstream.fit(of(rows), 3, text_field="abstract", id_field="name", passes=5, **OPTIONS)
    (quote,) = done.quotes(done.topics[0].id, 1).to_pylist()
    row = next(row for row in rows if row["name"] == quote["id"])
    assert quote["text"].removesuffix(" …") in row["abstract"]


def test_tables_of_documents_and_shares(fitted):
    pytest.importorskip("pandas")
    theta = fitted.theta
    assert theta.shape == (120, 3) and np.allclose(theta.sum(axis=1), 1, atol=1e-5)
    documents = fitted.documents
    assert documents.index.tolist() == theta.index.tolist()
    assert documents["text"].tolist() == texts()
    assert (documents["topic"].to_numpy() == theta.to_numpy().argmax(axis=1)).all()


def test_a_folder_keeps_the_store_and_the_model_and_else_nothing_is_left(tmp_path):
    kept = topicstream.fit(texts(60), 2, folder=tmp_path / "kept", passes=2, **OPTIONS)
    del kept
    assert topicstream.TopicModel.open(tmp_path / "kept" / "model").n_topics == 2
    gone = topicstream.fit(texts(60), 2, passes=2, **OPTIONS)
    folder = Path(gone.folder)
    assert folder.is_dir()
    model = gone.model
    del gone
    assert folder.is_dir() and topicstream.show(model)["topics"]
    del model
    assert not folder.exists()


def test_quotes_are_of_the_texts_that_the_store_keeps(tmp_path):
    given = texts(60)
    done = topicstream.fit(iter(given), 2, passes=2, heldout=10, **OPTIONS)
    for quote in done.quotes(0):  # documents set aside count, too
        assert quote["text"].split(" …")[0] in given[int(quote["id"])]
    (tmp_path / "a.txt").write_text("\n".join(given))
    done = topicstream.fit(tmp_path / "a.txt", 2, passes=2, **OPTIONS)
    (tmp_path / "a.txt").unlink()
    assert done.quotes(1)["text"][0].as_py().split(" …")[0] in "\n".join(given)
    bare = topicstream.fit(given, 2, passes=2, keep_text=False, **OPTIONS)
    with pytest.raises(UsageError, match="texts were not kept"):
        bare.quotes(0)


def test_wrong_options_are_refused_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(UsageError, match="pases"):
        topicstream.fit(texts(60), 2, pases=3)
    with pytest.raises(UsageError, match="give folder="):
        topicstream.fit(texts(60), 2, model="here")
    assert list(tmp_path.iterdir()) == []


def test_what_is_printed_is_for_people(fitted):
    lines = repr(fitted).splitlines()
    assert lines[0].startswith("Corpus(")
    assert lines[1].split() == ["topic", "share", "NPMI", "words"]
    words = lines[2].split()
    assert words[0] == "0" and set(words[-5:]) <= set(" ".join(THEMES).split())
    assert str(fitted.model).splitlines()[0] == repr(fitted.model)
    assert len(str(fitted.model).splitlines()) == 4
    assert fitted._repr_html_().count("<tr>") == 4
    assert repr(fitted.model.top_words(2)).splitlines()[0].split() == ["topic", "share", "words"]
