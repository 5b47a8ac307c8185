"""Text in, counts of words out: ``Tokenizer(recipe).count(texts)``.

Three ways to the same result: the kernel counts directly (the common case); the kernel lists the
words and stems, phrases and n-grams are made of the list; a regular expression of the user's own
runs in Python's ``re``. What they must yield is said in plain Python in
``tests/reference/tokens.py``.
"""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, UsageError
from topicstream.base.plugins import LEMMATIZERS, SEGMENTERS
from topicstream.base.text import compose_text
from topicstream.corpus.vocabulary import string_buffers
from topicstream.ingestion.tokens import characters
from topicstream.ingestion.tokens.accents import fold_accents, fold_word
from topicstream.ingestion.tokens.characters import FINAL_SIGMA, SIGMA, lower_words, spell_sigmas
from topicstream.ingestion.tokens.line_breaks import replace_breaks
from topicstream.ingestion.tokens.normal import normalize_text, normalize_texts
from topicstream.ingestion.tokens.recipe import SCIKIT_LEARN_PATTERN, Recipe
from topicstream.ingestion.tokens.scan import Counted, Rules, code_points, scan_run
from topicstream.ingestion.tokens.sequences import (
    WordSequence,
    add_ngrams,
    count_sequence,
    join_phrases,
)
from topicstream.ingestion.tokens.stopwords import LANGUAGES
from topicstream.ingestion.tokens.substrings import mark_texts_with
from topicstream.ingestion.tokens.tools import check_tools, tool

_STEMS_KEPT = 1 << 20

DROPPED = {
    "tags": r"(?is)<!--.*?-->|<(?:script|style)\b.*?</(?:script|style)\s*>|</?[a-z][^<>]*>",
    "urls": r"(?i)(?:https?://|www\.)[^\s<>\"']+|\b(?:[a-z0-9-]+\.)+[a-z]{2,}/[^\s<>\"']*",
    "mentions": r"(^|[^\w@])@\w[\w.]*",
}
"""Patterns (RE2) of what ``--drop-tags``, ``--drop-urls`` and ``--drop-mentions`` take out."""


class _ThreadTools(threading.local):
    """Lemmatizer, stemmer and segmenter of a recipe, made for each thread.

    They hold the word at work.
    """

    def __init__(self, recipe: Recipe) -> None:
        name, _, language = (recipe.lemmas or "").partition(":")
        self.lemma = tool(LEMMATIZERS, name)(language) if name else None
        self.stem = _stemmer(recipe.stem) if recipe.stem is not None else None
        self.segment = (
            tool(SEGMENTERS, recipe.segmenter)() if recipe.segmenter is not None else None
        )


class Tokenizer:
    """Count words as a recipe says.

    Threads may share one: the stems found so far are common to all.

    Parameters
    ----------
    recipe
        Rules by which text becomes words.
    tools
        Tools that the user's own command names: a recipe alone runs no code of its choice
        (``tokens.tools.check_tools``).
    joiner
        Character between the words of phrases and n-grams.

    Raises
    ------
    InputError
        For a tool that is not installed.
    UsageError
        For a tool or a language that is not known, and for a tool that the command does not name.
    """

    def __init__(self, recipe: Recipe, tools: Collection[str] = (), *, joiner: str = "_") -> None:
        check_tools(recipe, tools)
        self.recipe = recipe
        self._joiner = joiner
        self._tools = _ThreadTools(recipe)
        self._changing = bool(recipe.replace or recipe.lemmas or recipe.stem)
        self._replacements = {
            self.as_counted(old): self.as_counted(new) for old, new in recipe.replace
        }
        self._stems: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        if recipe.pattern is not None and recipe.pattern != SCIKIT_LEARN_PATTERN:
            self._pattern = re.compile(recipe.pattern)
        self._phrases = [
            (first, second) for first, second in (phrase.split(" ") for phrase in recipe.phrases)
        ]
        stop = {self.as_counted(word) for word in recipe.stopwords}
        if self._changing:  # stop words are left out before their accents are folded
            stop |= {fold_word(word, recipe.fold_accents) for word in stop}
        if not recipe.lowercase:
            stop |= {word.capitalize() for word in stop} | {word.upper() for word in stop}
        self._stop = frozenset(stop)
        self._listing = bool(recipe.ngrams > 1 or recipe.phrases or self._changing)
        if recipe.one_sigma:  # as the kernel cuts them
            stop = {word.replace(FINAL_SIGMA, SIGMA) for word in stop}
        self._rules = self._kernel_rules(sorted(word for word in stop if word))

    def as_counted(self, word: str) -> str:
        """Return a word of a list as the text has it, normalised and lower-cased."""
        normal = normalize_text(compose_text(word), self.recipe.normalize)
        if not self._changing:
            normal = fold_word(normal, self.recipe.fold_accents)
        if not self.recipe.lowercase:
            return normal
        return self._spell(lower_words(normal, self.recipe.one_sigma))

    def _spell(self, word: str) -> str:
        """Return a word with its sigmas as the corpus has them."""
        if not self.recipe.one_sigma:
            return word
        if self.recipe.final_sigma:
            return spell_sigmas(word)
        return word.replace(FINAL_SIGMA, SIGMA)

    def _spell_types(self, counted: Counted) -> Counted:
        """Give words that the kernel has cut the sigmas that the corpus has."""
        if not (self.recipe.one_sigma and self.recipe.final_sigma):
            return counted
        has_sigma = pc.match_substring(counted.types, SIGMA)
        if not pc.any(has_sigma).as_py():
            return counted
        spelt = [spell_sigmas(word) for word in counted.types.filter(has_sigma).to_pylist()]
        types = pc.replace_with_mask(counted.types, has_sigma, pa.array(spelt, pa.large_string()))
        return replace(counted, types=types)

    def _kernel_rules(self, stops: list[str]) -> Rules:
        """Make the rules of the kernel, which knows the default rule and two others."""
        r = self.recipe
        default = not r.tokenized and r.pattern is None
        min_length = r.min_length
        if r.tokenized:
            classes = characters.tokenized_classes()
            min_length = 1
        elif r.pattern is not None:
            classes = characters.pattern_classes()
            min_length = 2  # the pattern of scikit-learn: any other runs in Python's re
        else:
            classes = characters.word_classes("emoji" in r.keep, r.unspaced == "bigrams")
        ends, types = string_buffers(pa.array(stops, pa.large_string()))
        return Rules(
            classes=classes,
            lower_case=characters.lowered(r.one_sigma),
            lowercase=r.lowercase,
            min_length=min_length,
            numbers=r.numbers or not default,
            eight_bytes=not r.tokenized,
            underscore=r.pattern is not None,
            breaks=r.pattern is None,
            listing=self._listing,
            stop_types=types,
            stop_ends=ends,
        )

    def count(self, texts: pa.Array, ask: Callable[[int, int], None] | None = None) -> Counted:
        """Count the words of documents.

        The same texts give the same bytes, whatever was counted before. The GIL is released but
        for a pattern of the user's own and for stems not met before.

        Parameters
        ----------
        texts
            Documents, large_string[D].
        ask
            Function called before a table of very many different words grows, with the bytes that
            it takes then, and about at the end. It may raise.

        Returns
        -------
        Counted
            Distinct words and cells of the documents.
        """
        texts = prepared(texts, self.recipe, self._tools.segment)
        offsets, text = string_buffers(texts)
        text.flags.writeable = False  # whoever read it: compiled once
        if self._pattern is not None:
            return self._count_by_pattern(self._pattern, text, offsets)
        counted = self._spell_types(scan_run(text, offsets, self._rules, ask))
        if not self._listing:
            return counted
        cells = self._count_sequence(counted.types, counted.words, counted.indptr)
        return Counted(*cells, counted.characters, counted.discarded, counted.unspaced)

    def _count_sequence(
        self, types: pa.Array, sequence: np.ndarray, indptr: np.ndarray
    ) -> tuple[pa.Array, np.ndarray, np.ndarray, np.ndarray]:
        """Return types and cells of listed words.

        These are replaced, then become lemmas, stems, phrases and n-grams, in this order.
        """
        if self._changing:
            words = [self._changed(word) for word in types.to_pylist()]
            types = pa.array(words, pa.large_string())
            if self._stop and (self._replacements or self.recipe.lemmas):
                # a changed word may be a stop word now
                stop = np.array([word in self._stop for word in words] + [False])
                sequence = np.where(stop[sequence], -1, sequence).astype(np.int32)
        text = WordSequence.from_documents(types, sequence, indptr)
        if self._phrases:
            text = join_phrases(text, self._phrases, self._joiner)
        if self.recipe.ngrams > 1:
            text = add_ngrams(text, self.recipe.ngrams, self._joiner)
        return count_sequence(text, len(indptr) - 1)

    def _changed(self, word: str) -> str:
        """Return what a word is counted as.

        Threads share the words that are known.
        """
        if len(self._stems) > _STEMS_KEPT:
            self._stems = {}
        changed = self._stems.get(word)
        if changed is None:
            changed = self._replacements.get(word, word)
            if self._tools.lemma is not None:
                changed = self._lemma(self._tools.lemma, changed)
            if self._tools.stem is not None:
                changed = self._tools.stem(changed) or changed  # one that would be empty stays
            changed = self._spell(fold_word(changed, self.recipe.fold_accents) or changed)
            self._stems[word] = changed
        return changed

    def _lemma(self, find_lemma: Callable[[str], str], word: str) -> str:
        """Return the lemma of a word.

        Dictionaries have the sigma at its end as it is written.
        """
        written = spell_sigmas(word) if self.recipe.one_sigma else word
        return self._spell(find_lemma(written) or word)

    def _count_by_pattern(
        self, pattern: re.Pattern[str], text: np.ndarray, offsets: np.ndarray
    ) -> Counted:
        """Count the words that a pattern of the user's own finds with Python's ``re``."""
        number: dict[str, int] = {}
        sequence: list[int] = []
        indptr = np.zeros(offsets.size, np.int64)
        in_words = spaces = 0
        data = text.tobytes()
        # a pattern sees the sigmas that the corpus has
        one_sigma = self.recipe.one_sigma and not self.recipe.final_sigma
        for d in range(offsets.size - 1):
            document = data[offsets[d] : offsets[d + 1]].decode()
            spaces += sum(map(str.isspace, document))
            if self.recipe.lowercase:
                document = lower_words(document, one_sigma)
            for cut in pattern.findall(document):
                if not cut:
                    continue
                word = self._spell(cut)
                in_words += len(word) - sum(map(str.isspace, word))
                sequence.append(-1 if word in self._stop else number.setdefault(word, len(number)))
            indptr[d + 1] = len(sequence)
        cells = self._count_sequence(
            pa.array(list(number), pa.large_string()), np.array(sequence, np.int32), indptr
        )
        points = code_points(text)
        return Counted(*cells, points, points - spaces - in_words, 0)


def _stemmer(language: str) -> Callable[[str], str]:
    """Make a stemmer of snowballstemmer, or of PyStemmer, which that prefers."""
    try:
        import snowballstemmer
    except ImportError:
        raise InputError(
            "stemming needs the snowballstemmer package: pip install 'topicstream[stem]'"
        ) from None
    name = LANGUAGES.get(language.lower(), language.lower())  # it may be given by its ISO code
    if name not in snowballstemmer.algorithms():
        known = ", ".join(sorted(snowballstemmer.algorithms()))
        raise UsageError(f"--stem {language}: no such language; available: {known}")
    stem: Callable[[str], str] = snowballstemmer.stemmer(name).stemWord
    return stem


def prepared(
    documents: pa.Array, recipe: Recipe, segment: Callable[[str], list[str]] | None
) -> pa.Array:
    """Prepare the text of documents, large_string[D], as the recipe wants it.

    Parameters
    ----------
    documents
        Texts, large_string[D].
    recipe
        Rules by which text becomes words.
    segment
        Segmenter of this thread, text to words. None for none.
    """
    documents = prepared_text(documents, recipe)
    if recipe.join_hyphens:
        documents = _join_hyphens(documents, recipe)
    if recipe.fold_accents and not (recipe.replace or recipe.lemmas or recipe.stem):
        documents = fold_accents(documents, recipe.fold_accents)
    for kind in recipe.drop:
        documents = pc.replace_substring_regex(
            documents, DROPPED[kind], r"\1 " if kind == "mentions" else " "
        )
    if segment is not None:
        documents = pa.array(
            [" ".join(segment(t)) for t in documents.to_pylist()], pa.large_string()
        )
    return documents


def prepared_text(documents: pa.Array, recipe: Recipe) -> pa.Array:
    """Resolve entities and normalise letters of documents, large_string[D]."""
    if recipe.entities:
        has_some = mark_texts_with(documents, "&")
        if has_some.any():
            resolved = [html.unescape(t) for t in documents.filter(pa.array(has_some)).to_pylist()]
            documents = pc.replace_with_mask(
                documents, pa.array(has_some), pa.array(resolved, pa.large_string())
            )
    return normalize_texts(documents, recipe.normalize, lowercase=recipe.lowercase)


def _join_hyphens(documents: pa.Array, recipe: Recipe) -> pa.Array:
    """Join the words of a recipe that are broken at line ends."""
    joined_words = frozenset(recipe.joined_words)

    def join(first: str, mark: str, second: str) -> str | None:
        word = lower_words(first + second, recipe.one_sigma) if recipe.lowercase else first + second
        return first + second if word in joined_words else None

    return replace_breaks(documents, join)
