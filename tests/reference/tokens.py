"""The tokenizer said in plain Python, character by character from ``unicodedata``: slow, and what
the kernels are tested against.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterator
from itertools import pairwise

from topicstream.ingestion.tokens import characters
from topicstream.ingestion.tokens.characters import lower as lower_simply
from topicstream.ingestion.tokens.normal import AS_WRITTEN
from topicstream.ingestion.tokens.recipe import Recipe


def plain_tokens(
    text: str, recipe: Recipe, stop: Container[str], stem: Callable[[str], str] | None, joiner: str
) -> list[str]:
    """The words of ``text``; ``stop`` are the stop words as compared.

    Phrases and n-grams follow the word they end in.
    """
    cut = [
        None if word is None else _spell(word, recipe)
        for word in _words(plain_normal(text, recipe), recipe)
    ]
    sequence = [
        None if word is None or word in stop else (stem(word) if stem else word) for word in cut
    ]
    sequence = _with_phrases(
        sequence, {tuple(phrase.split(" ")) for phrase in recipe.phrases}, joiner
    )
    found: list[str] = []
    for i, word in enumerate(sequence):
        if word is None:
            continue
        found.append(word)
        for n in range(2, recipe.ngrams + 1):
            last = sequence[max(0, i + 1 - n) : i + 1]
            if len(last) == n and None not in last:
                found.append(joiner.join(w for w in last if w is not None))
    return found


def _with_phrases(
    words: list[str | None], phrases: set[tuple[str, ...]], joiner: str
) -> list[str | None]:
    joined: list[str | None] = []
    i = 0
    while i < len(words):
        first = words[i]
        second = words[i + 1] if i + 1 < len(words) else None
        if first is not None and second is not None and (first, second) in phrases:
            joined.append(first + joiner + second)
            i += 2
        else:
            joined.append(first)
            i += 1
    return joined


def plain_normal(text: str, recipe: Recipe) -> str:
    """Text with one form of each letter, as the recipe normalises it."""
    if recipe.normalize == "none":
        return text
    if recipe.normalize == "nfkc":
        text = "".join(unicodedata.normalize("NFKC", c) if _is_folded(c) else c for c in text)
    text = unicodedata.normalize("NFC", text)
    small = lower_simply(text)
    if recipe.lowercase and not unicodedata.is_normalized("NFC", small):
        return unicodedata.normalize("NFC", small)
    return text


def _is_folded(c: str) -> bool:
    if _within(c, AS_WRITTEN):
        return False
    return unicodedata.category(c)[0] in "LMN" or any(
        x.isalnum() for x in unicodedata.normalize("NFKC", c)
    )


def _lower(text: str, recipe: Recipe) -> str:
    if not recipe.lowercase:
        return text
    small = lower_simply(text)
    return small if recipe.normalize == "none" else small.replace("\u03c2", "\u03c3")


def _spell(word: str, recipe: Recipe) -> str:
    """The word with the sigma that Unicode has at its end: letters with cases stand before it,
    none behind it, whatever has no case aside.
    """
    if not (recipe.lowercase and recipe.normalize != "none" and recipe.final_sigma):
        return word
    seen = [i for i, c in enumerate(word) if not _has_no_say(c)]
    spelt = list(word)
    for i, c in enumerate(word):
        before = [k for k in seen if k < i][-1:]
        behind = [k for k in seen if k > i][:1]
        cased = [bool(side) and word[side[0]].islower() for side in (before, behind)]
        if c == "\u03c3" and cased == [True, False]:
            spelt[i] = "\u03c2"
    return "".join(spelt)


def _has_no_say(c: str) -> bool:
    return unicodedata.category(c) in ("Mn", "Me", "Cf", "Lm", "Sk") or c in "':.\u2019\u00b7"


def _words(text: str, recipe: Recipe) -> Iterator[str | None]:
    """Words in order, None where one was left out as too short or a number."""
    if recipe.pattern is not None:
        yield from filter(None, re.findall(recipe.pattern, _lower(text, recipe)))
    elif recipe.tokenized:
        yield from _lower(text, recipe).replace("\0", " ").split()
    else:
        yield from _unicode_words(text, recipe)


def _within(c: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= ord(c) <= last for first, last in ranges)


def _kind(c: str, recipe: Recipe) -> str:
    """letter, mark, digit, unspaced, emoji, flag (half of one), ignored or other (white space
    included).
    """
    if c in "\u00ad\ufeff\u2060":
        return "ignored"
    if c in "\u200c\u200d":
        return "mark"
    if "\U0001f1e6" <= c <= "\U0001f1ff":
        return "flag" if "emoji" in recipe.keep else "other"
    category = unicodedata.category(c)
    if (
        recipe.unspaced == "bigrams"
        and (category[0] == "L" or c == "\u3007")
        and _within(c, characters._UNSPACED)
    ):
        return "unspaced"
    kind = {"L": "letter", "M": "mark", "N": "digit"}.get(category[0], "other")
    if (
        kind == "other"
        and category[0] != "Z"
        and category != "Cc"
        and _within(c, characters.EMOJI_RANGES)
    ):
        return "emoji" if "emoji" in recipe.keep else "other"
    return kind


def _unicode_words(text: str, recipe: Recipe) -> Iterator[str | None]:
    kinds = [_kind(c, recipe) for c in text]
    i = 0
    while i < len(text):
        start = i
        if kinds[i] in ("letter", "digit"):
            while i < len(text) and kinds[i] in ("letter", "digit", "mark", "ignored"):
                i += 1
            parts = range(start, i)
            length = sum(kinds[k] in ("letter", "digit") for k in parts)
            lettered = any(kinds[k] == "letter" for k in parts)
            word = "".join(text[k] for k in parts if kinds[k] != "ignored")
            if length < recipe.min_length or not (lettered or recipe.numbers):
                yield None
            else:
                yield _lower(word, recipe)
        elif kinds[i] == "unspaced":
            units = []
            while i < len(text) and kinds[i] == "unspaced":
                first = i
                i += 1
                while i < len(text) and kinds[i] == "mark":
                    i += 1
                units.append(text[first:i])
            yield from (a + b for a, b in pairwise(units)) if len(units) > 1 else units
        elif kinds[i] in ("emoji", "flag"):
            i = _emoji_end(text, kinds, i)
            yield text[start:i]
        else:
            i += 1


def _emoji_end(text: str, kinds: list[str], i: int) -> int:
    if kinds[i] == "flag":
        return i + 2 if kinds[i + 1 : i + 2] == ["flag"] else i + 1
    i += 1
    while i < len(text):
        if (
            text[i] in "\ufe0f\u20e3"
            or "\U0001f3fb" <= text[i] <= "\U0001f3ff"
            or "\U000e0020" <= text[i] <= "\U000e007f"
        ):
            i += 1
        elif text[i] == "\u200d" and kinds[i + 1 : i + 2] == ["emoji"]:
            i += 2
        else:
            break
    return i
