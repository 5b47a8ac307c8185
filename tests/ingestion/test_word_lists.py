"""Lists of words as the text has them: capitals, hyphens, apostrophes, endings, n-grams."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest

import topicstream
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.word_lists import WordList

TEXTS = [
    "Apple banana covid-19 don't new york running für",
    "apple Cherry COVID-19 New York runs für",
]
PLAIN = {"min_df": 1, "max_df": 1.0, "heldout": 0, "stopwords": "none", "progress": False}


def words_of(store: str | Path) -> set[str]:
    return set(Vocabulary.read(Corpus.open(Path(store)).file("vocab")).words.to_pylist())


def write_list(path: Path, *entries: str) -> Path:
    path.write_text("\n".join(entries) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def every_word(**options: object) -> set[str]:
    """What the tokenizer counts in the texts, without a list."""
    recipe = Recipe(stopwords=(), stopwords_from="none", **options)
    return set(Tokenizer(recipe).count(pa.array(TEXTS, pa.large_string())).types.to_pylist())


def test_comments_and_empty_lines_of_a_list_are_no_words(place):
    path = write_list(place / "drop.txt", "# New apples", "#", "", "  banana ", "banana")
    summary = topicstream.ingest(TEXTS, out="c.zarr", drop_words=path, **PLAIN)
    assert words_of("c.zarr") == every_word() - {"banana"}
    assert summary["word_lists"]["drop_words"]["words"] == 1


@pytest.mark.parametrize(
    ("entries", "gone"),
    [
        (["Apple", "covid-19"], {"apple", "covid"}),
        (["New-York", "don't"], {"new", "york", "don"}),
        ([unicodedata.normalize("NFD", "Für"), "ＢＡＮＡＮＡ"], {"für", "banana"}),
        (["zebra"], set()),
    ],
)
def test_words_are_dropped_however_they_are_written(place, entries, gone):
    path = write_list(place / "drop.txt", *entries)
    summary = topicstream.ingest(TEXTS, out="c.zarr", drop_words=path, **PLAIN)
    assert words_of("c.zarr") == every_word() - gone
    told = summary["word_lists"]["drop_words"]
    known = [e for e in entries if e != "zebra"]
    assert (told["words"], told["occur"]) == (len(entries), len(known))
    assert told["missing"] == [e for e in entries if e == "zebra"]
    topicstream.ingest(TEXTS, out="plain.zarr", **PLAIN)
    edited = topicstream.drop_words(entries, "plain.zarr", progress=False)
    assert words_of("plain.zarr") == every_word() - gone
    assert (edited["dropped"], edited["not_found"]) == (len(gone), len(entries) - len(known))


def test_lines_of_a_list_may_end_in_several_ways(place):
    path = place / "drop.txt"
    path.write_bytes("apple\rbanana\r\ncherry\nfür\r".encode())
    summary = topicstream.ingest(TEXTS, out="c.zarr", drop_words=path, **PLAIN)
    assert words_of("c.zarr") == every_word() - {"apple", "banana", "cherry", "für"}
    told = summary["word_lists"]["drop_words"]
    assert (told["words"], told["occur"]) == (4, 4)


def test_words_are_stemmed_and_joined_as_the_text_is(place):
    stemmed = write_list(place / "stem.txt", "Running")
    topicstream.ingest(TEXTS, out="s.zarr", stem="english", drop_words=stemmed, **PLAIN)
    assert words_of("s.zarr") == every_word(stem="english") - {"run"}
    pairs = write_list(place / "pairs.txt", "New York", "apple_banana")
    topicstream.ingest(TEXTS, out="n.zarr", ngrams=2, drop_words=pairs, **PLAIN)
    assert words_of("n.zarr") == every_word(ngrams=2) - {"new_york", "apple_banana"}


def test_a_vocabulary_of_words_as_people_write_them(place, capsys):
    write_list(place / "words.txt", "Cherry", "New-York", "zebra", "CHERRY", "Für")
    Path("docs.jsonl").write_text("\n".join(json.dumps({"text": t, "id": t}) for t in TEXTS))
    line = "ingest docs.jsonl --out c.zarr --vocab words.txt --stopwords none --heldout 0"
    assert run(line.split()) == 0
    said = capsys.readouterr().out
    assert "--vocab: 4 of 5 words occur; not in the corpus: zebra" in said
    assert "New-York as new and york" in said
    listed = Vocabulary.read(Corpus.open(Path("c.zarr")).file("vocab")).words.to_pylist()
    assert listed == ["cherry", "new", "york", "zebra", "für"]
    topicstream.ingest(TEXTS, out="again.zarr", vocab="c.zarr/vocab.parquet", **PLAIN)
    assert words_of("again.zarr") == set(listed)


def test_the_words_of_a_stored_vocabulary_are_taken_as_they_are(place):
    topicstream.ingest(TEXTS, out="c.zarr", ngrams=2, **PLAIN)
    vocabulary = "c.zarr/vocab.parquet"
    topicstream.ingest(TEXTS, out="d.zarr", ngrams=2, vocab=vocabulary, **PLAIN)
    assert words_of("d.zarr") == words_of("c.zarr")


def test_stop_words_leave_no_halves(place, capsys):
    write_list(place / "stop.txt", "Don't", "New-York COVID-19", "--")
    Path("docs.jsonl").write_text("\n".join(json.dumps({"text": t, "id": t}) for t in TEXTS))
    line = "ingest docs.jsonl --out c.zarr --stopwords stop.txt --min-df 1 --max-df 1.0 --heldout 0"
    assert run(line.split()) == 0
    assert words_of("c.zarr") == every_word() - {"don", "new", "york", "covid"}
    said = capsys.readouterr().out
    assert "New-York as new and york" in said and "no words of a text: --" in said
    given = {**PLAIN, "stopwords": ["Don't", "new-york"]}
    topicstream.ingest(TEXTS, out="p.zarr", **given)
    assert words_of("p.zarr") == every_word() - {"don", "new", "york"}


def test_an_append_says_which_words_stay(place):
    topicstream.ingest(TEXTS[:1], out="c.zarr", **PLAIN)
    path = write_list(place / "drop.txt", "Banana", "Cherry")
    options = {"heldout": 0, "progress": False, "grow_vocab": True, "append": True}
    summary = topicstream.ingest(TEXTS[1:], out="c.zarr", drop_words=path, min_df=1, **options)
    assert summary["word_lists"]["drop_words"]["kept"] == ["banana"]
    assert "banana" in words_of("c.zarr") and "cherry" not in words_of("c.zarr")


def test_words_of_counts_are_compared_as_they_are():
    entries = pa.array(["Dog", "dog's"], pa.large_string())
    listed = WordList.tokenize(entries, None)
    assert listed.words.to_pylist() == ["Dog", "dog's"]


def test_seed_words_are_tokenised(place):
    topicstream.ingest(TEXTS * 5, out="c.zarr", **PLAIN)
    seeds = {"city": ["New-York", unicodedata.normalize("NFD", "Für")], "fruit": ["BANANA"]}
    topicstream.train("c.zarr", "m", topics=2, passes=2, seed_words=seeds, progress=False)
    model = topicstream.TopicModel.open("m")
    entries = model.manifest.seed_words
    assert [entry.words for entry in entries] == [("new", "york", "Für"), ("BANANA",)]
    assert [entry.weights for entry in entries] == [[10.0, 10.0, 10.0], [5.0]]


def test_words_to_be_replaced_that_no_text_has_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("Colour of an e-mail\nCOLOUR apple\n")
    Path("same.tsv").write_text("Colour\tcolor\ne-mail\tmail\n!\tapple\n")
    options = ["--min-df", "1", "--replace", "same.tsv", "--out", "c.zarr"]
    assert run(["ingest", "in.txt", *options, "-q"]) == 0
    said = capsys.readouterr().out
    assert "--replace: counted in parts: e-mail as mail; no words of a text: !" in said
    assert "color" in Corpus.open("c.zarr").words.to_pylist()
    Path("same.tsv").write_text("colour\tcolor\n")
    assert run(["ingest", "in.txt", *options, "-q", "--force"]) == 0
    assert "--replace" not in capsys.readouterr().out
