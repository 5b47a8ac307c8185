"""Accents are folded where the language allows it, and only on request."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest

import topicstream
from tests.reading import write
from topicstream.base.errors import UsageError
from topicstream.display.passages import DocumentTexts
from topicstream.ingestion.tokens.accents import RULES
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer

WORDS = {
    "french": ("Élève FRANÇAIS forêt naïf œuvre ñandú", "eleve francais foret naif œuvre ñandu"),
    "spanish": ("año está pingüino", "año esta pinguino"),
    "portuguese": ("ação está avô", "ação esta avo"),
    "english": ("café naïve façade mañana", "cafe naive facade manana"),
    "latin": ("ārma vĭrumque", "arma virumque"),
    "greek": ("ἄνθρωπος Ελλάδα ϊός", "ανθρωπος ελλαδα ιος"),
    "russian": ("ёлка мой за́мок", "елка мой замок"),
    "arabic": ("أَحمد إِلى", "احمد الى"),
    "hebrew": ("שָׁלוֹם", "שלום"),
    "all": ("Ångström schön über año", "angstrom schon uber ano"),
}


def _count(text: str, **options: object) -> list[str]:
    recipe = Recipe(stopwords=(), **options)  # type: ignore[arg-type]
    counted = Tokenizer(recipe).count(pa.array([text], pa.large_string()))
    return [str(counted.types[i]) for i in counted.words.tolist()]


@pytest.mark.parametrize("language", WORDS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("normalize", ["nfc", "nfkc"])
def test_words_lose_their_accents(language: str, form: str, normalize: str) -> None:
    text, expected = WORDS[language]
    written = unicodedata.normalize(form, text)
    folded = _count(written, fold_accents=language, normalize=normalize)
    assert sorted(folded) == sorted(expected.split())
    assert sorted(_count(written)) != sorted(expected.split())


def test_every_rule_is_tried() -> None:
    assert {*RULES} - {*WORDS} == {"italian", "catalan", "dutch"}  # these are as French


def test_languages_whose_letters_would_be_lost_are_refused(tmp_path: Path) -> None:
    for language, reason in (("german", "in german, ä, ö, ü are letters"), ("klingon", "no rule")):
        with pytest.raises(UsageError, match=reason):
            topicstream.ingest(["schön"], tmp_path / "c.zarr", fold_accents=language)


def test_stop_words_and_lists_follow(tmp_path: Path) -> None:
    texts = ["L'élève était à l'école", "l'eleve etait a l'ecole", "forêt"]
    options = {"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}
    drop = write(tmp_path / "drop.txt", "forêt\n")
    topicstream.ingest(
        texts,
        tmp_path / "c.zarr",
        stopwords="french",
        fold_accents="french",
        drop_words=drop,
        **options,
    )
    corpus = topicstream.Corpus.open(tmp_path / "c.zarr")
    assert sorted(map(str, corpus.words)) == ["ecole", "eleve"]
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", topics=2, passes=3, progress=False)
    model = topicstream.TopicModel.open(tmp_path / "m")
    shares = model.transform(["élève", "eleve"])
    assert (shares[0] == shares[1]).all()


def test_passages_mark_words_as_they_are_written(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "Un café noir, du cafe au lait."}\n')
    topicstream.ingest(
        path, tmp_path / "c.zarr", fold_accents="french", min_df=1, heldout=0, progress=False
    )
    passage = DocumentTexts(topicstream.Corpus.open(tmp_path / "c.zarr"), [0]).passage(0, ["cafe"])
    assert passage is not None
    assert [passage.text[a:b] for a, b in passage.marks] == ["café", "cafe"]
