"""Text in, counts of words out: ``Tokenizer(recipe).count(run)``.

Three ways to the same result: the kernel counts directly (the common case); the kernel lists the words and stems, phrases
and n-grams are made of the list; a regular expression of the user's own runs in Python's ``re``.  ``Tokenizer.tokens`` is
the plain-Python statement of what they must yield.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from topicstream.errors import InputError, UsageError
from topicstream.kernels.arrays import Array, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.tokens import characters
from topicstream.tokens.characters import lower
from topicstream.tokens.documents import TextRun
from topicstream.tokens.plain import plain_tokens
from topicstream.tokens.recipe import SCIKIT_LEARN_PATTERN, Recipe
from topicstream.tokens.scan import Rules, scan_run
from topicstream.tokens.sequences import count_sequence, packed
from topicstream.tokens.stopwords import LANGUAGES
from topicstream.tokens.utf8 import code_points

_STEMS_KEPT = 1 << 20


@dataclass(frozen=True)
class Counted:
    """The words of one run of documents.

    types, type_offsets  uint8[B], int64[T+1]: the distinct words (UTF-8) in the order they were first seen
    indptr, words, counts  int64[D+1], int32[nnz], int32[nnz]: document d has the cells ``indptr[d]:indptr[d+1]``; ``words``
        are indices into the types, unique within a document, in the order first seen there
    tokens      int64[D]  sum of a document's counts
    characters  code points read
    discarded   code points that are neither white space nor part of a word: punctuation, symbols, emoji unless kept, and
                words left out as too short or numbers.  Stop words are words
    unspaced    code points of scripts without spaces that went into overlapping pairs (see ``Recipe.unspaced``)
    """

    types: np.ndarray
    type_offsets: np.ndarray
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    tokens: np.ndarray
    characters: int
    discarded: int
    unspaced: int

    def totals(self, training: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(counts, document frequencies) int64[T] of the types, over all documents or those of the mask bool[D]."""
        words, counts = self.words, self.counts
        if training is not None:
            chosen = np.repeat(training, np.diff(self.indptr))
            words, counts = words[chosen], counts[chosen]
        sums = np.zeros(self.type_offsets.size - 1, np.int64)
        df = np.zeros_like(sums)
        _sum_up(words, counts, sums, df)
        return sums, df

    def type_list(self) -> list[str]:
        """The types as Python strings (for tests and small things)."""
        data, ends = self.types.tobytes(), self.type_offsets
        return [data[ends[t] : ends[t + 1]].decode() for t in range(ends.size - 1)]


@kernel
def _sum_up(words: Ints, counts: Ints, sums: Longs, df: Longs) -> None:
    for i in range(words.size):
        sums[words[i]] += counts[i]
        df[words[i]] += 1


class Tokenizer:
    """Counts words as its recipe says.  Threads may share one: the stems found so far are common to all, while the stemmer,
    which holds the word at work, is each thread's own.

    InputError when the recipe asks for a stemmer that is not installed or a language it does not know.
    """

    def __init__(self, recipe: Recipe, *, joiner: str = "_") -> None:
        self.recipe = recipe
        self._joiner = joiner
        self._new_stemmer = _stemmer_factory(recipe.stem)
        self._own = threading.local()
        self._stems: dict[bytes, bytes] = {}
        own = recipe.pattern if recipe.pattern != SCIKIT_LEARN_PATTERN else None
        self._pattern = re.compile(own) if own is not None else None
        self._phrases = [(a.encode(), b.encode()) for a, b in (phrase.split(" ") for phrase in recipe.phrases)]
        stop = set(recipe.stopwords)
        if recipe.lowercase:
            stop = {lower(word) for word in stop}
        else:
            stop |= {word.capitalize() for word in stop} | {word.upper() for word in stop}
        self._stop = frozenset(stop)
        self._listing = bool(recipe.ngrams > 1 or recipe.phrases or recipe.stem)
        self._rules = self._kernel_rules(sorted(word.encode() for word in stop if word))

    @property
    def matches(self) -> bool:
        """Whether words are what a pattern of the user's own matches (parallel/order.py, Here)."""
        return self._pattern is not None

    def _kernel_rules(self, stops: list[bytes]) -> Rules:
        r = self.recipe
        if r.tokenized:
            classes = characters.tokenized_classes()
        elif r.pattern is not None:
            classes = characters.pattern_classes()
        else:
            classes = characters.word_classes("emoji" in r.keep, r.unspaced == "bigrams")
        default = not r.tokenized and r.pattern is None
        types, ends = packed(stops)
        return Rules(
            classes=classes,
            lowercase=r.lowercase,
            min_length=r.min_length if default else 1 if r.tokenized else 2,
            numbers=r.numbers or not default,
            eight_bytes=not r.tokenized,
            underscore=r.pattern is not None,
            breaks=r.pattern is None,
            listing=self._listing,
            stop_types=types,
            stop_ends=ends,
        )

    def count(self, run: TextRun, ask: Callable[[int, int], None] | None = None) -> Counted:
        """The counts of a run.  Pure: the same run gives the same bytes, whatever was counted before.  Releases the GIL
        but for a pattern of the user's own and for stems not met before.  ``ask``: called before a table of very many
        different words grows, with the bytes that all takes then, and about at the end; may raise."""
        text, offsets = np.ascontiguousarray(run.text).view(), np.ascontiguousarray(run.offsets, np.int64)
        text.flags.writeable = False  # whoever read it: compiled once
        points = int(code_points(text, offsets[0], offsets[-1]))
        if self._pattern is not None:
            return self._count_by_pattern(self._pattern, text, offsets, points)
        found = scan_run(text, offsets, self._rules, ask)
        discarded = points - found.spaces - found.kept
        if self._listing:
            types, ends, indptr, words, counts = self._from_sequence(
                found.types, found.offsets, found.words, found.indptr
            )
        else:
            types, ends, indptr, words, counts = found.types, found.offsets, found.indptr, found.words, found.counts
        return _counted(types, ends, indptr, words, counts, points, discarded, found.unspaced)

    def tokens(self, text: str) -> list[str]:
        """The words of one document, by plain Python: slow, and the yardstick of the kernel."""
        return plain_tokens(text, self.recipe, self._stop, self._stem_word if self._new_stemmer else None, self._joiner)

    def _from_sequence(
        self, types: Array, ends: Array, sequence: Array, indptr: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        if self._new_stemmer is not None:
            types, ends = self._stemmed(types, ends)
        return count_sequence(
            types,
            ends,
            sequence,
            indptr,
            phrases=self._phrases,
            longest=self.recipe.ngrams,
            joiner=ord(self._joiner),
        )

    def _stemmed(self, types: Array, ends: Array) -> tuple[Array, Array]:
        """The stems of the distinct words, one for one (so with repeats)."""
        data = types.tobytes()
        cache = self._stems
        if len(cache) > _STEMS_KEPT:
            self._stems = cache = {}
        stems = []
        for t in range(ends.size - 1):
            word = data[ends[t] : ends[t + 1]]
            stem = cache.get(word)
            if stem is None:
                stem = cache[word] = self._stem_word(word.decode()).encode()
            stems.append(stem)
        return packed(stems)

    def _stem_word(self, word: str) -> str:
        """The stem; a word whose stem would be empty stays."""
        stem: Callable[[str], str] | None = getattr(self._own, "stem", None)
        if stem is None:
            assert self._new_stemmer is not None
            stem = self._own.stem = self._new_stemmer()
        return stem(word) or word

    def _count_by_pattern(self, pattern: re.Pattern[str], text: Array, offsets: Array, points: int) -> Counted:
        """Python's ``re`` over each document."""
        number: dict[str, int] = {}
        sequence: list[int] = []
        indptr = np.zeros(offsets.size, np.int64)
        kept = spaces = 0
        data = text.tobytes()
        for d in range(offsets.size - 1):
            document = data[offsets[d] : offsets[d + 1]].decode()
            spaces += sum(map(str.isspace, document))
            if self.recipe.lowercase:
                document = lower(document)
            for word in pattern.findall(document):
                if not word:
                    continue
                kept += len(word) - sum(map(str.isspace, word))
                sequence.append(-1 if word in self._stop else number.setdefault(word, len(number)))
            indptr[d + 1] = len(sequence)
        types, ends = packed([word.encode() for word in number])
        types, ends, indptr, words, counts = self._from_sequence(types, ends, np.array(sequence, np.int32), indptr)
        return _counted(types, ends, indptr, words, counts, points, points - spaces - kept, 0)


def _counted(
    types: Array, ends: Array, indptr: Array, words: Array, counts: Array, points: int, discarded: int, unspaced: int
) -> Counted:
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
    tokens = sums[indptr[1:]] - sums[indptr[:-1]]
    return Counted(types, ends, indptr, words, counts, tokens, points, discarded, unspaced)


def _stemmer_factory(language: str | None) -> Callable[[], Callable[[str], str]] | None:
    """Makes a stemmer for one thread: those of snowballstemmer and of PyStemmer, which it prefers, are not to be shared."""
    if language is None:
        return None
    try:
        import snowballstemmer
    except ImportError:
        raise InputError("stemming needs the snowballstemmer package: pip install 'topicstream[stem]'") from None
    name = stemmer_named(language)
    if name not in snowballstemmer.algorithms():
        known = ", ".join(sorted(snowballstemmer.algorithms()))
        raise UsageError(f"--stem {language}: no such language; there are {known}")
    return lambda: snowballstemmer.stemmer(name).stemWord


def stemmer_named(language: str) -> str:
    """The stemmer's name of a language, which may be given by its ISO code, too."""
    return LANGUAGES.get(language.lower(), language.lower())
