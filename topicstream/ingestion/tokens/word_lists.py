"""Lists of words that users give, as a corpus counts them.

A list has words as people write them: with capitals, hyphens, apostrophes, endings. The tokenizer
of the corpus says as which words each entry is counted. An entry that the corpus has as it stands
is that word; any other is the words that the tokenizer makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from topicstream.base.errors import InputError, UsageError, terminal_safe
from topicstream.base.records import Json
from topicstream.ingestion.tokens.characters import spell_sigmas
from topicstream.ingestion.tokens.normal import compose_strings
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer

AT_ONCE = 1 << 16
LISTED = 20
"""Entries that a summary names."""
TEXT = pa.large_string()

Occurs = Callable[[pa.Array], np.ndarray]
"""Function from words, large_string[n], to whether a corpus has them, bool[n]."""


@dataclass(frozen=True)
class WordList:
    """Entries of a list and the words that they are counted as.

    Attributes
    ----------
    entries
        Entries as the user wrote them, large_string[N].
    words
        Words of the entries, large_string[M].
    owners
        Entry of each word, int64[M].
    """

    entries: pa.Array
    words: pa.Array
    owners: np.ndarray

    @classmethod
    def tokenize(
        cls, entries: pa.Array, recipe: Recipe | None, tools: Collection[str] = ()
    ) -> WordList:
        """Tokenise the entries of a list.

        Parameters
        ----------
        entries
            Words as the user wrote them.
        recipe
            Recipe of the corpus, or None for a corpus of counts, whose words are not changed.
        tools
            Tools that the command names.
        """
        entries = compose_strings(entries)
        if recipe is None:
            return cls(entries, entries, np.arange(len(entries)))
        tokenizer = _make_tokenizer(recipe, tools)
        words = [pa.array([], TEXT)]
        owners = [np.zeros(0, np.int64)]
        for first in range(0, len(entries), AT_ONCE):
            piece = entries.slice(first, AT_ONCE)
            counted = tokenizer.count(pa.concat_arrays([piece, pa.array([], TEXT)]))
            parts = counted.types.take(pa.array(counted.words))
            owner = first + np.repeat(np.arange(len(piece)), np.diff(counted.indptr))
            if recipe.ngrams > 1 or recipe.phrases:
                longest = _are_longest(parts, owner)
                parts = parts.filter(pa.array(longest))
                owner = owner[longest]
            words.append(parts)
            owners.append(owner)
        return cls(entries, pa.concat_arrays(words), np.concatenate(owners))

    def as_in_corpus(self, occurs: Occurs) -> MatchedList:
        """Decide for each entry which words of a corpus it is.

        An entry that occurs as it is written, or that the tokenizer makes no word of, is itself
        the word; any other is its words.
        """
        words_of_entry = np.zeros(len(self.entries), np.int64)
        np.add.at(words_of_entry, self.owners, 1)
        unchanged = occurs(self.entries) | (words_of_entry == 0)
        parts = ~unchanged[self.owners]
        owners = np.concatenate((np.flatnonzero(unchanged), self.owners[parts]))
        order = np.argsort(owners, kind="stable")
        words = pa.concat_arrays(
            [self.entries.filter(pa.array(unchanged)), self.words.filter(pa.array(parts))]
        ).take(pa.array(order))
        return MatchedList(self.entries, words, owners[order], occurs(words))


def stop_words_with_parts(recipe: Recipe) -> tuple[str, ...]:
    """Add to the stop words of a recipe the parts in which the text has them (``dog's``: dog)."""
    entries = pa.array(sorted(recipe.stopwords), TEXT)
    listed = WordList.tokenize(entries, _before_stop_words(recipe))
    same = _are_as_written(listed, recipe)
    parts = listed.words.filter(pc.invert(same)).to_pylist()
    return tuple(sorted({*recipe.stopwords, *parts}))


def _are_as_written(listed: WordList, recipe: Recipe) -> pa.Array:
    """Mark the words that are an entry as it is written, but for capitals."""
    small = listed.entries
    if recipe.lowercase:
        small = pc.utf8_lower(small)
    if recipe.one_sigma:
        small = pa.array([spell_sigmas(word) for word in small.to_pylist()], TEXT)
    words = listed.words
    if recipe.one_sigma and not recipe.final_sigma:
        words = pa.array([spell_sigmas(word) for word in words.to_pylist()], TEXT)
    return pc.equal(small.take(pa.array(listed.owners)), words)


def describe_stop_words(recipe: Recipe, known: Collection[str]) -> dict[str, Json]:
    """Describe which stop words that are not ``known`` are several words, and which are none."""
    return _describe_unmatched(set(recipe.stopwords) - set(known), recipe)


def describe_replaced(recipe: Recipe) -> dict[str, Json]:
    """Describe which words to be replaced (``--replace``) the text never has as one word."""
    summary = _describe_unmatched({word for word, _ in recipe.replace}, recipe)
    entries = pa.array(sorted(word for word, _ in recipe.replace), TEXT)
    listed = WordList.tokenize(entries, _before_stop_words(recipe))
    same = _are_as_written(listed, recipe)
    parts: dict[str, list[str]] = {}
    for number in np.flatnonzero(~same.to_numpy(zero_copy_only=False)).tolist():
        entry = listed.entries[int(listed.owners[number])].as_py()
        parts.setdefault(entry, []).append(listed.words[number].as_py())
    return {**summary, "parted": dict(list(parts.items())[:LISTED])}


def _describe_unmatched(words: Collection[str], recipe: Recipe) -> dict[str, Json]:
    """Describe which words are several words of a text, and which are none."""
    entries = pa.array(sorted(words), TEXT)
    listed = WordList.tokenize(entries, _before_stop_words(recipe))
    summary = listed.as_in_corpus(lambda words: np.zeros(len(words), np.bool_)).summary()
    unusable = np.setdiff1d(np.arange(len(entries)), listed.owners)
    return {
        "words": len(entries),
        "parted": summary["parted"],
        "unusable": listed.entries.take(pa.array(unusable)).slice(0, LISTED).to_pylist(),
    }


def _before_stop_words(recipe: Recipe) -> Recipe:
    """Return the recipe without stems and the like.

    Stop words are compared before these.
    """
    return structs.replace(
        recipe,
        replace=(),
        lemmas=None,
        stem=None,
        segmenter=None,
        phrases=(),
        phrase_threshold=None,
        ngrams=1,
    )


@dataclass(frozen=True)
class MatchedList:
    """Entries of a list and the words of a corpus that they are.

    Attributes
    ----------
    entries
        Entries as the user wrote them, large_string[N].
    words
        Words that the entries are, large_string[M].
    owners
        Entry of each word, ascending, int64[M].
    known
        True for a word that the corpus has, bool[M].
    """

    entries: pa.Array
    words: pa.Array
    owners: np.ndarray
    known: np.ndarray

    def summary(self) -> dict[str, Any]:
        """Say how many entries occur, which do not, and which are counted as several words."""
        occurring = np.zeros(len(self.entries), np.bool_)
        occurring[self.owners[self.known]] = True
        missing = self.entries.filter(pa.array(~occurring))
        number = np.bincount(self.owners, minlength=len(self.entries))
        parted: dict[str, Json] = {}
        for entry in np.flatnonzero(number > 1)[:LISTED].tolist():
            parts = self.words.filter(pa.array(self.owners == entry))
            parted[self.entries[entry].as_py()] = parts.to_pylist()
        return {
            "words": len(self.entries),
            "occur": int(occurring.sum()),
            "missing": missing.slice(0, LISTED).to_pylist(),
            "parted": parted,
        }


def _make_tokenizer(recipe: Recipe, tools: Collection[str]) -> Tokenizer:
    """Make the tokenizer of entries: the recipe's without stop words.

    Lemmas and segmenter are left out where the store names a tool that the command does not.
    """
    plain = structs.replace(recipe, stopwords=(), stopwords_from="none")
    try:
        return Tokenizer(plain, tools)
    except (UsageError, InputError):
        return Tokenizer(structs.replace(plain, lemmas=None, segmenter=None))


def _are_longest(words: pa.Array, owners: np.ndarray) -> np.ndarray:
    """Mark the sequences of an entry that have the most words, not their parts."""
    joints = pc.count_substring(words, "_").to_numpy(zero_copy_only=False)
    most = np.zeros(int(owners.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, owners, joints)
    return np.asarray(joints == most[owners])


def describe_list(option: str, summary: dict[str, Any]) -> str:
    """Describe what a list matched, as in "3 of 4 words occur"."""
    total = int(summary["words"])
    text = f"{option}: {summary['occur']:,} of {total:,} {'words' if total != 1 else 'word'} "
    text += "occurs" if summary["occur"] == 1 else "occur"
    missing = summary["missing"]
    if missing:
        more = total - summary["occur"] - len(missing)
        text += f"; not in the corpus: {', '.join(map(terminal_safe, missing))}"
        text += f" and {more:,} more" if more else ""
    if summary["parted"]:
        text += f"; counted in parts: {describe_parts(summary['parted'])}"
    stored = summary.get("kept")
    if stored:
        names = ", ".join(map(terminal_safe, stored))
        text += f"; in the store's vocabulary, where they stay: {names}"
        text += " (topics edit --drop-words removes them)"
    return text


def describe_unmatched(option: str, summary: dict[str, Any]) -> str:
    """Describe which words of a list are several words of a text, and which are none."""
    clauses = []
    if summary["parted"]:
        clauses.append(f"counted in parts: {describe_parts(summary['parted'])}")
    if summary["unusable"]:
        clauses.append(f"no words of a text: {', '.join(map(terminal_safe, summary['unusable']))}")
    return f"{option}: {'; '.join(clauses)}"


def describe_parts(parted: Mapping[str, Sequence[str]]) -> str:
    """Describe as which words entries are counted."""
    counted = [f"{entry} as {' and '.join(words)}" for entry, words in parted.items()]
    return ", ".join(map(terminal_safe, counted))
