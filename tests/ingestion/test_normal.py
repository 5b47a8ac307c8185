"""Text with one form of each letter, checked against ``unicodedata``."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.ingestion.tokens.normal import (
    compose_column,
    compose_strings,
    fold_with_places,
    folds,
    normalize_text,
    normalize_texts,
)
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.stopwords import LANGUAGES, stop_list
from topicstream.ingestion.tokens.tokenizer import Tokenizer

MARKS = "\u0301\u0308\u0323\u0327\u0338\u0345\u3099\u309a\u05bc\u093c\u1161\u11a8"
LETTERS = "aeoucJHSςΥΙ가ᄀかカ\uff76\uff9eﬁＡ한क\u0f71\u0f72Åﾞ😀 ́"
TEXTS = st.lists(st.one_of(st.text(st.sampled_from(MARKS + LETTERS)), st.text()), max_size=5)


def array_of(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


def words(*texts: str, **options: object) -> Counter[str]:
    recipe = Recipe(**{"stopwords": (), "stopwords_from": "none", "min_length": 1, **options})
    counted = Tokenizer(recipe).count(array_of(list(texts)))
    types = counted.types.to_pylist()
    return Counter({types[w]: int(n) for w, n in zip(counted.words, counted.counts, strict=True)})


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_composing_equals_unicodedata(texts):
    composed = compose_strings(array_of(texts)).to_pylist()
    assert composed == [unicodedata.normalize("NFC", text) for text in texts]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_a_column_a_string_and_its_places_are_normalised_alike(texts):
    column = normalize_texts(array_of(texts), "nfkc", lowercase=False).to_pylist()
    assert column == [normalize_text(text, "nfkc") for text in texts]
    for text in map(lambda t: unicodedata.normalize("NFC", t), texts):
        letters, places = fold_with_places(text, folds())
        assert len(letters) == len(places)
        assert all(0 <= start <= end <= len(text) for start, end in places)


def test_letters_are_folded_as_nfkc_folds_them():
    for c in range(0x80, sys.maxunicode + 1):
        letter = chr(c)
        if unicodedata.category(letter) not in ("Lu", "Ll", "Lt", "Lm", "Nd", "Nl"):
            continue
        assert normalize_text(letter, "nfkc") == unicodedata.normalize("NFKC", letter), hex(c)


@pytest.mark.parametrize("text", ["Windows™ Win™", "น้ำ", "ㅋㅋㅋ", "a… b\u00a0c ！"])
def test_what_would_change_words_stays(text):
    assert normalize_text(text, "nfkc") == text


def test_columns_of_any_kind():
    lists = pa.array([["Zoe\u0308", None], None, [], ["a"]], pa.list_(pa.large_string()))
    assert compose_column(lists).to_pylist() == [["Zoë", None], None, [], ["a"]]
    strings = pa.array(["e\u0301", None], pa.string())
    assert compose_column(strings).to_pylist() == ["é", None]
    numbers = pa.array([1, 2])
    ascii_only = array_of(["plain", "text"])
    assert compose_column(numbers) is numbers and compose_column(ascii_only) is ascii_only


def test_one_word_however_its_letters_are_written():
    text = "Übersetzung café Việt 한국어 ガラス"
    decomposed = unicodedata.normalize("NFD", text)
    assert text != decomposed
    assert words(text, unspaced="runs") == words(decomposed, unspaced="runs")
    assert words("oﬃce Ｔｏｐｉｃ ｶﾞﾗｽ", unspaced="runs") == {"office": 1, "topic": 1, "ガラス": 1}
    assert words("oﬃce", normalize="nfc") == {"oﬃce": 1}
    assert words("e\u0301", normalize="none") == {"e\u0301": 1}


@pytest.mark.parametrize("letter", ["ǰ", "ẖ", "ẗ", "ẘ", "ẙ", "ΐ", "ΰ", "ὒ"])
def test_letters_that_compose_only_as_small_ones(letter):
    assert len(letter) == 1 and len(letter.upper()) > 1
    assert words(letter.upper() + "a") == words(letter + "a") == {letter + "a": 1}


def test_the_sigma_at_the_end_of_a_word_is_any_sigma():
    assert words("ΝΟΜΟΣ νομος νομοσ") == {"νομος": 3}
    assert words("ΟΔΌΣ οδο\u0301σ ΟΔΟ\u0301Σ ὁδὸς") == {"οδός": 3, "ὁδὸς": 1}
    assert words("ΣΟΦΟΣ ςοφος ΣΟΦΟΣ-ΝΟΜΟΣ σισσας Σ ς 5σ", min_length=1) == {
        "σοφος": 3,
        "νομος": 1,
        "σισσας": 1,
        "σ": 2,
        "5σ": 1,
    }
    assert words("νομος", lowercase=False) == {"νομος": 1}
    assert words("νομος ΝΟΜΟΣ", normalize="none") == {"νομος": 1, "νομοσ": 1}
    for stop in ("της", "ΤΗΣ", "τησ"):
        assert words("ΤΗΣ της Της νόμος", stopwords=(stop,)) == {"νόμος": 1}
        assert words("της νόμος", stopwords=(stop,), pattern=r"[α-ωό]+") == {"νόμος": 1}
    assert words("ΝΟΜΟΣ νομος νομοσ", pattern=r"\w+") == {"νομος": 3}
    assert words("νομος\0ΝΟΜΟΣ", tokenized=True) == {"νομος": 2}


def test_words_made_of_words_end_in_the_final_sigma():
    greek = "ΝΕΟΣ ΝΟΜΟΣ νεος νομος"
    pairs = {"νεος": 2, "νομος": 2, "νεος_νομος": 2, "νομος_νεος": 1}
    assert words(greek, ngrams=2) == pairs
    assert words(greek, phrases=("νεος νομος",)) == {"νεος_νομος": 2}
    assert words(greek, replace=(("ΝΕΟΣ", "ΚΑΙΝΟΣ"),)) == {"καινος": 2, "νομος": 2}
    joined = {"joined_words": ("κοσμοσ",), "join_hyphens": True}
    assert words("ΚΟΣ-\nΜΟΣ κοσ-\nμος", **joined) == {"κοσμος": 2}


def test_a_store_that_does_not_say_keeps_the_sigma_that_it_has():
    older = Recipe(stopwords=("της",), stopwords_from="file").to_json()
    del older["final_sigma"]
    recipe = Recipe.from_json(older)
    assert not recipe.final_sigma
    counted = Tokenizer(recipe).count(array_of(["ΤΗΣ της ΝΟΜΟΣ νομος"]))
    assert counted.types.take(pa.array(counted.words)).to_pylist() == ["νομοσ"]
    assert Tokenizer(recipe).as_counted("ΝΟΜΟΣ") == "νομοσ"
    new = msgspec.structs.replace(recipe, final_sigma=True)
    assert new.hash() != recipe.hash() and Tokenizer(new).as_counted("ΝΟΜΟΣ") == "νομος"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("language", sorted(LANGUAGES.values()))
def test_stop_words_are_left_out_in_any_form(language, form):
    listed = [word for word in stop_list(language) if word.isalpha()]
    text = unicodedata.normalize(form, " ".join(listed))
    left = words(text, stopwords=stop_list(language), unspaced="runs")
    assert not left


# -- through the commands
# --------------------------------------------------------------------------------------------------


def stored(path: Path) -> list[str]:
    return sorted(Vocabulary.read(Corpus.open(path).file("vocab")).words.to_pylist())


def ingest(documents: object, out: Path, **options: object) -> dict[str, object]:
    return topicstream.ingest(
        documents,
        out=out,
        **{"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False, **options},
    )


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def test_ids_and_metadata_are_composed_in_every_format(tmp_path):
    rows = [("Grün", "für München"), (nfd("Grün"), nfd("für München"))]
    jsonl = tmp_path / "docs.jsonl"
    jsonl.write_text(
        "\n".join(json.dumps({"id": group, "group": group, "text": text}) for group, text in rows)
    )
    table = tmp_path / "docs.csv"
    table.write_text("id,group,text\n" + "\n".join(f"{g},{g},{t}" for g, t in rows))
    frame = pa.table(
        {"id": [g for g, _ in rows], "group": [g for g, _ in rows], "text": ["boats harbours"] * 2}
    )
    for number, documents in enumerate((jsonl, table, frame)):
        out = tmp_path / f"{number}.zarr"
        summary = ingest(documents, out, meta="group", on_duplicate="skip")
        assert (summary["documents"], summary["dropped_duplicates"]) == (1, 1)
        row = next(iter(Corpus.open(out).documents(["group"]))).to_pylist()[0]
        assert (row["id"], row["group"]) == ("Grün", "Grün")


def test_names_of_files_and_side_files(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / (nfd("für") + ".txt")).write_text("boats harbours")
    (folder / "other.txt").write_text("boats harbours")
    side = tmp_path / "side.csv"
    side.write_text(f"file,group\nfür.txt,{nfd('Grün')}\n")
    ingest(folder, tmp_path / "f.zarr", meta_files=[str(side)], key="file")
    rows = [
        row
        for batch in Corpus.open(tmp_path / "f.zarr").documents(["group"])
        for row in batch.to_pylist()
    ]
    assert {row["id"]: row["group"] for row in rows} == {"für.txt": "Grün", "other.txt": None}


def test_appends_and_inference_normalise_as_the_store_does(tmp_path):
    texts = ["für München können", "schöne Übersetzung über München"] * 6
    out = tmp_path / "c.zarr"
    ingest(texts, out, stopwords="none")
    ingest([nfd(text) for text in texts], out, append=True)
    assert stored(out) == sorted({w.lower() for text in texts for w in text.split()})
    corpus = Corpus.open(out)
    assert corpus.n_tokens == 12 / 2 * 2 * (3 + 4)
    topicstream.train(out, tmp_path / "m", topics=2, passes=5, seed=1, progress=False)
    model = tmp_path / "m"
    inferred = topicstream.infer(model, [texts[0], nfd(texts[0])])
    assert inferred["tokens"].to_pylist() == [3, 3]


def test_ids_are_forgotten_in_any_form(tmp_path):
    documents = [
        {"id": nfd("Grün"), "text": "boats harbours"},
        {"id": "b", "text": "boats anchors"},
    ]
    out = tmp_path / "c.zarr"
    ingest(documents, out)
    forgotten = topicstream.forget([nfd("Grün"), "c"], out, progress=False)
    assert forgotten["documents"] == 1 and forgotten["not_found"] == ["c"]
