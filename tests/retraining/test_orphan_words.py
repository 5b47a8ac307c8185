"""Words that only forgotten documents have, over blocks that are made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topicstream.retraining import forget, orphan_words
from topicstream.retraining.orphan_words import find_orphan_words, read_common_words

HELD_OUT = [[[4, 5]]]
TRAINING = [[[0, 1], [1, 2], [3]], [[2, 4], [6]]]
"""Words of the documents of each block."""


@pytest.fixture
def base(monkeypatch):
    parts = {True: HELD_OUT, False: TRAINING}
    manifest = SimpleNamespace(files={})
    corpus = SimpleNamespace(
        n_words=7,
        manifest=manifest,
        path="store",
        part=lambda heldout: SimpleNamespace(
            blocks=[SimpleNamespace(docs=len(block)) for block in parts[heldout]]
        ),
    )

    def words_of(corpus, part, block, gone):
        words = np.zeros(7, bool)
        for row, document in enumerate(parts[bool(part)][block]):
            if row not in gone.tolist():
                words[document] = True
        return words

    monkeypatch.setattr(orphan_words, "_mark_words", words_of)
    monkeypatch.setattr(orphan_words, "Corpus", lambda path, manifest: corpus)
    monkeypatch.setattr(orphan_words.msgspec.structs, "replace", lambda manifest, **_: manifest)
    return corpus


def find(base, *forgotten, df=0):
    """Orphans of documents (part, block, row); df: of each word, as it is kept."""
    places = np.array([[number, *place] for number, place in enumerate(forgotten)], np.int64)
    return np.flatnonzero(find_orphan_words(base, places, places, np.full(7, df))).tolist()


def test_a_word_is_an_orphan_once_no_other_document_has_it(base):
    assert find(base, (0, 0, 0)) == [0]  # the second document has word 1
    assert find(base, (0, 0, 0), (0, 0, 1)) == [0, 1]  # word 2 is in the second block
    assert find(base, (0, 0, 1), (0, 1, 0)) == [2]  # word 4 is set aside
    assert find(base, (1, 0, 0), (0, 1, 0)) == [4, 5]
    assert find(base, (0, 1, 1)) == [6]


def test_words_of_more_documents_than_are_forgotten_are_not_looked_for(base):
    assert find(base, (0, 0, 0), df=1) == [0]  # withdrawn while the word was left out
    assert find(base, (0, 0, 0), df=2) == []


def test_words_of_as_many_documents_may_be_theirs_alone(tmp_path):
    path = tmp_path / "pruned.parquet"
    pq.write_table(pa.table({"word": ["a", "b", "c"], "count": [9, 9, 9], "df": [1, 2, 3]}), path)
    assert [t["word"].to_pylist() for t in read_common_words(path, 2)] == [["c"]]


@pytest.mark.parametrize(
    "ids, fits",
    [
        ([0, 3, -1, -1], True),  # half of the model's words
        ([0, -1, -1, -1], False),
        ([0, 3, 5, 6], True),
        ([0, 5, 3, 6], False),  # in another order
        ([2, 2, 3, 4], False),
    ],
)
def test_a_model_is_of_a_store_that_has_half_of_its_words_in_order(
    ids, fits, tmp_path, monkeypatch
):
    opened = SimpleNamespace(n_words=4, vocabulary=SimpleNamespace(words=None))
    found = SimpleNamespace(find=lambda words: np.array(ids))
    store = SimpleNamespace(file=lambda name: name)
    monkeypatch.setattr(forget.Corpus, "open", lambda *given, **more: store)
    monkeypatch.setattr(forget.TopicModel, "open", lambda *given, **more: opened)
    monkeypatch.setattr(forget.Vocabulary, "read", lambda path: found)
    assert forget.trained_on(tmp_path, "store")  # no model is there
    (tmp_path / "manifest.json").write_text("{}")
    assert forget.trained_on(tmp_path, "store") == fits
