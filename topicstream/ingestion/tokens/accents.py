"""Folding of accents: ``café`` and ``cafe`` are one word.

Which marks are accents is a matter of the language. In French an accent is often left out,
in German ``ä`` is another letter than ``a`` (``schon``, ``schön``), so that language has no rule
here. Letters with a stroke (``ø``, ``ł``) are no accented letters and stay.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from topicstream.base.errors import UsageError
from topicstream.ingestion.tokens.normal import LetterTable, make_letter_table, replace_letters

_GRAVE = "\u0300"
_ACUTE = "\u0301"
_CIRCUMFLEX = "\u0302"
_TILDE = "\u0303"
_MACRON = "\u0304"
_BREVE = "\u0306"
_DIAERESIS = "\u0308"
_CEDILLA = "\u0327"
_GREEK_MARKS = _GRAVE + _ACUTE + _MACRON + _BREVE + _DIAERESIS + "\u0313\u0314\u0342\u0345"
_ROMANCE = _GRAVE + _ACUTE + _CIRCUMFLEX + _DIAERESIS
_ARABIC = {chr(c): "" for c in (*range(0x064B, 0x0653), 0x0640, 0x0670)} | {
    "أ": "ا",
    "إ": "ا",
    "آ": "ا",
    "ٱ": "ا",
}
_HEBREW = {chr(c): "" for c in range(0x0591, 0x05C8) if unicodedata.combining(chr(c))}


class Rule(NamedTuple):
    """Marks that are accents in a script, and further characters with what stands for them."""

    script: str
    marks: str
    further: Mapping[str, str] = MappingProxyType({})


RULES = {
    "english": Rule("LATIN", _ROMANCE + _TILDE + _CEDILLA + _MACRON),
    "french": Rule("LATIN", _ROMANCE + _CEDILLA),
    "italian": Rule("LATIN", _ROMANCE),
    "spanish": Rule("LATIN", _ROMANCE),  # ñ is a letter of its own
    "portuguese": Rule("LATIN", _ROMANCE),  # ã, õ and ç stay
    "catalan": Rule("LATIN", _ROMANCE),
    "dutch": Rule("LATIN", _ROMANCE),
    "latin": Rule("LATIN", _ROMANCE + _MACRON + _BREVE),
    "greek": Rule("GREEK", _GREEK_MARKS),
    "russian": Rule("CYRILLIC", _ACUTE, {"ё": "е", "Ё": "Е"}),
    "arabic": Rule("ARABIC", "", _ARABIC),
    "hebrew": Rule("HEBREW", "", _HEBREW),
}
"""Languages in which words with and without accents are the same for a reader."""
ALL = "all"
"""Every mark on Latin and Greek letters, and the rules of the other scripts."""
LETTERS_OF_THEIR_OWN = {
    "german": "ä, ö, ü",
    "swedish": "å, ä, ö",
    "danish": "å",
    "norwegian": "å",
    "finnish": "ä, ö",
    "turkish": "ç, ğ, ö, ş, ü",
    "hungarian": "á, é, ö, ü",
    "czech": "á, č, ř, š",
    "slovak": "á, č, š, ž",
    "polish": "ą, ć, ę, ó",
    "romanian": "ă, â, î, ș, ț",
    "vietnamese": "ă, â, ê and the tones",
}


def check_language(language: str) -> str:
    """Return the name of the rule that ``--fold-accents`` names.

    Raises
    ------
    UsageError
        If the language has no rule.
    """
    name = language.strip().lower()
    if name in RULES or name == ALL:
        return name
    known = f"choose one of {', '.join(RULES)}, or {ALL} for every mark"
    letters = LETTERS_OF_THEIR_OWN.get(name)
    if letters:
        raise UsageError(
            f"in {language}, {letters} are letters of their own, and words differ by them alone; "
            f"{known}"
        )
    raise UsageError(f"{language}: no rule for that language; {known}")


@lru_cache
def find_accent_folds(language: str) -> Mapping[int, str]:
    """Return the characters that a rule replaces, each with the letters in its place."""
    if language == ALL:
        marks = "".join(map(chr, range(0x0300, 0x0370)))
        folds = _marked_letters("LATIN", marks) | _marked_letters("GREEK", marks)
        for rule in RULES.values():
            folds |= {ord(c): letters for c, letters in rule.further.items()}
        return MappingProxyType(folds)
    rule = RULES[language]
    folds = _marked_letters(rule.script, rule.marks)
    return MappingProxyType(folds | {ord(c): letters for c, letters in rule.further.items()})


def _marked_letters(script: str, marks: str) -> dict[int, str]:
    """Return the letters of a script with one of the marks, without it, and the marks alone."""
    folds = {ord(mark): "" for mark in marks}
    for c in range(0x00C0, 0x2000):
        letter = chr(c)
        parts = unicodedata.normalize("NFD", letter)
        if len(parts) < 2 or not unicodedata.name(letter, "").startswith(script):
            continue
        plain = unicodedata.normalize("NFC", "".join(p for p in parts if p not in marks))
        if plain != letter:
            folds[c] = plain
    return folds


@lru_cache
def _accent_table(language: str) -> LetterTable:
    return make_letter_table(find_accent_folds(language))


def fold_accents(texts: pa.Array, language: str) -> pa.Array:
    """Replace accented letters of texts, large_string[D], as a rule says."""
    return replace_letters(texts, _accent_table(language))


def fold_word(word: str, language: str | None) -> str:
    """Replace the accented letters of one word."""
    if language is None or word.isascii():
        return word
    return word.translate(find_accent_folds(language))
