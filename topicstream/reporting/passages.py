"""Passages of documents: where a text has most of some words, those words marked, near-duplicates
left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import structs

from topicstream.corpus.reader import Corpus
from topicstream.errors import UsageError
from topicstream.reporting.gather import describe_documents
from topicstream.reporting.snippets import passage_of, snippets
from topicstream.tokens.normal import fold_with_places, normalize_text
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.tokenizer import Tokenizer, prepared

MARKED = 30
"""Words of a topic that are marked."""
SAME = 0.7
"""Jaccard index of two texts' words from which one is a near-duplicate of the other."""
CHARACTERS = 20_000
"""Read of a document at most, in which its passage is chosen."""
ALL_CHARACTERS = 40_000_000
"""Read of all documents together at most."""
AT_ONCE = 1000
"""Texts without their markup made at a time."""
WORD = re.compile(r"[^\W_]+")
SENTENCE_END = re.compile("[.!?] |[。！？] ?")
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class Passage:
    """Part of a text; marks: (start, end) of the marked words, in characters of ``text``."""

    text: str
    marks: list[tuple[int, int]]


class DocumentTexts:
    """Texts of some documents, read from the raw files.

    Parameters
    ----------
    corpus
        The store of the documents.
    numbers
        Their global numbers, in the training part or (``heldout``) among those set aside.
    text_field
        Field of the text, where it is not that of the ingest.
    asked
        Read files of any size that may have changed since the ingest (``snippets``).

    Attributes
    ----------
    missing
        Why there are no texts, or "".
    """

    def __init__(
        self,
        corpus: Corpus,
        numbers: Any,
        *,
        heldout: bool = False,
        text_field: str | None = None,
        asked: bool = True,
    ) -> None:
        rows = describe_documents(
            corpus, np.unique(np.asarray(numbers, np.int64)), ["source"], heldout
        )
        places = {
            number: place
            for number, row in rows.items()
            if (place := passage_of(corpus, row)) is not None
        }
        characters = min(CHARACTERS, max(1000, ALL_CHARACTERS // max(1, len(places))))
        texts, self.missing = snippets(
            corpus, places.values(), characters=characters, text_field=text_field, asked=asked
        )
        self._recipe = (
            Recipe.from_json(corpus.manifest.tokenizer) if corpus.manifest.tokenizer else Recipe()
        )
        markup = structs.replace(
            self._recipe,
            drop=tuple(kind for kind in self._recipe.drop if kind == "tags"),
            normalize="nfc",  # ligatures are shown as they are written
            lowercase=False,
        )
        passages = list(texts)
        for first in range(0, len(passages), AT_ONCE):  # a second copy of them all would not fit
            some = passages[first : first + AT_ONCE]
            plain = prepared(
                pa.array([texts[place] for place in some], pa.large_string()), markup, None
            )
            texts |= {
                place: " ".join(text.split())
                for place, text in zip(some, plain.to_pylist(), strict=True)
            }
        self._texts = {number: texts[place] for number, place in places.items() if place in texts}

    @cached_property
    def _forms(self) -> dict[str, list[str]]:
        """Words of a vocabulary that was stemmed, lemmatized or replaced -> as they are written in
        the texts.
        """
        if not (self._recipe.stem or self._recipe.lemmas or self._recipe.replace):
            return {}
        plain = structs.replace(
            self._recipe, phrases=(), ngrams=1, drop=(), segmenter=None, stopwords=()
        )
        try:
            tokenizer = Tokenizer(plain)
        except UsageError:  # a tool that the store names and no command: its words as they are
            tokenizer = Tokenizer(structs.replace(plain, lemmas=None))
        written = sorted({word for text in self._texts.values() for word in WORD.findall(text)})
        counted = tokenizer.count(pa.array(written, pa.large_string()))
        forms: dict[str, list[str]] = {}
        for word, number in zip(
            np.repeat(written, np.diff(counted.indptr)).tolist(),
            counted.words.tolist(),
            strict=True,
        ):
            forms.setdefault(counted.types[number].as_py(), []).append(word)
        return forms

    def _pattern(self, words: Iterable[str]) -> re.Pattern[str]:
        """Matches any of the words as it is written in the texts; ``a_b`` matches the two one after
        the other.
        """
        parts = [
            [part for part in word.split("_") if part]
            for word in sorted(words, key=len, reverse=True)
        ]
        forms = [
            r"[\W_]+".join(
                "(?:" + "|".join(map(re.escape, [part, *self._forms.get(part, ())])) + ")"
                for part in word
            )
            for word in parts
            if word
        ]
        whole_words = [
            form if UNSPACED.search(form) else rf"(?<![^\W_]){form}(?![^\W_])" for form in forms
        ]
        return re.compile("|".join(whole_words) or r"(?!)", re.IGNORECASE)

    def passage(self, number: int, words: Iterable[str], characters: int = 400) -> Passage | None:
        """The part of a document with most of the words; None where its text was not found."""
        text = self._texts.get(number)
        if text is None:
            return None
        hits = places_of(self._pattern(words), text, folded=self._recipe.normalize == "nfkc")
        return best_passage(text, hits, characters)

    def words(self, number: int) -> set[str]:
        """The different words of a document's text, lower-cased."""
        return set(WORD.findall(self._texts.get(number, "").lower()))


def distinct(texts: Sequence[set[str]]) -> list[int]:
    """Positions of the texts, given by their words, that are no near-duplicates of one before."""
    chosen: list[int] = []
    for i, words in enumerate(texts):
        if not words or all(len(words & texts[j]) < SAME * len(words | texts[j]) for j in chosen):
            chosen.append(i)
    return chosen


def places_of(pattern: re.Pattern[str], text: str, *, folded: bool) -> list[tuple[int, int]]:
    """Find where a pattern matches; ``folded``: it is of words without ligatures and their like."""
    if not folded or normalize_text(text, "nfkc") == text:
        return [match.span() for match in pattern.finditer(text)]
    letters, places = fold_with_places(text)
    return [
        (places[match.start()][0], places[match.end() - 1][1])
        for match in pattern.finditer(letters)
    ]


def best_passage(text: str, hits: Sequence[tuple[int, int]], characters: int) -> Passage:
    """Cut out the part of a text, of so many characters, with most different marked words.

    Parameters
    ----------
    hits
        Places of the words in ``text``.  Of parts with as many, the first is taken.
    """
    margin, best, most = characters // 6, 0, 0
    for begin in [0, *(max(0, start - margin) for start, _ in hits)]:
        inside = {text[a:b].lower() for a, b in hits if begin <= a and b <= begin + characters}
        if len(inside) > most:
            best, most = begin, len(inside)
    if best:  # from the beginning of a sentence, or of a word, where one is near
        first, behind = min(a for a, _ in hits if a >= best), max(0, best - margin)
        ends = [match.end() for match in SENTENCE_END.finditer(text, behind, first)]
        space = text.rfind(" ", behind, best + 1)
        best = ends[-1] if ends else space + 1 if space >= 0 else best
    end = best + characters
    end = len(text) if end >= len(text) else max(text.rfind(" ", best, end), end - margin)
    head, tail = "… " * (best > 0), " …" * (end < len(text))
    shift = len(head) - best
    return Passage(
        head + text[best:end] + tail,
        [(a + shift, b + shift) for a, b in hits if best <= a and b <= end],
    )


def candidates(n: int) -> int:
    """How many documents to rank, that n of them differ."""
    return 10 * n + 20
